"""A plain kernel as an operator: its schema, what runs it, its fake implementation and its gradient."""

from __future__ import annotations

import contextlib
import itertools
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fpga_dynamo.errors import ArgumentError, DeviceError, FpgaError, OptionError, XclbinError
from fpga_dynamo.frontend.plain_kernels.hardware import Hardware
from fpga_dynamo.frontend.plain_kernels.parameters import Parameter
from fpga_dynamo.frontend.plain_kernels.rules import OutputRules, Rule
from fpga_dynamo.ir.plain_kernels import register
from fpga_dynamo.ir.target import Target
from fpga_dynamo.runtime.cards.plain_units import Argument, Call, Pointer, Units, chosen_place, placed

NAMESPACE = "fpga_kernel"
"""Of the operators of kernels that were given no name."""

_names: set[str] = set()
_lock = threading.Lock()


def free_name(wanted: str | None, top: str) -> str:
    """The name of a new operator: the wanted one, else that of the kernel, with a number if there is one already.

    Raises OptionError for a wanted name that is taken or has no namespace.
    """
    with _lock:
        if wanted is None:
            names = (f"{NAMESPACE}::{top}{'' if number == 1 else f'_{number}'}" for number in itertools.count(1))
            wanted = next(name for name in names if name not in _names)
        namespace, _, rest = wanted.partition("::")
        if not (namespace.isidentifier() and rest.isidentifier()):
            raise OptionError(f"kernel '{top}': name= must be 'namespace::name', not {wanted!r}")
        if wanted in _names:
            raise OptionError(f"kernel '{top}': operator {wanted} is defined already; choose another name=")
        _names.add(wanted)
        return wanted


class Kernel:
    """A plain kernel as a function of tensors; made by :func:`fpga_dynamo.kernel`.

    op: the operator (an OpOverload), as it stands in graphs. It makes new tensors for what the kernel writes.
    """

    def __init__(
        self,
        name: str,
        top: str,
        parameters: Sequence[Parameter],
        hardware: Hardware,
        outputs: OutputRules,
        sizes: Mapping[str, Rule],
        cpu: Callable[..., Any] | None,
        timeout: float,
    ) -> None:
        self.name = top
        self.has_cpu = cpu is not None
        self._parameters = tuple(parameters)
        self._given = tuple(p for p in parameters if p.is_given)
        self._names = tuple(p.name for p in self._given)
        self._mutated = tuple(i for i, p in enumerate(self._given) if p.role == "mutated")
        self._outputs = tuple(p for p in parameters if p.role == "output")
        self._hardware = hardware
        self._output_rules = outputs
        self._sizes = sizes
        self._cpu = cpu
        self._timeout_ms = int(timeout * 1000)
        self._warned = False
        results = ", ".join(["Tensor"] * (len(self._outputs) + len(self._mutated)))
        schema = f"({', '.join(p.schema for p in self._given)}) -> ({results})"
        self._definition = torch.library.custom_op(name, self._run, mutates_args=(), schema=schema)
        self._definition.register_fake(self._fake)
        namespace, _, rest = name.partition("::")
        self.op = getattr(getattr(torch.ops, namespace), rest).default
        register(self.op, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The kernel's outputs, in C's order: a tensor, or a tuple of several. Arguments in `mutates_args` are written.

        NumPy arrays in the place of all tensors give NumPy arrays. Raises ArgumentError for a wrong argument, and
        DeviceError if the run of the kernel failed.
        """
        given = self._bound(args, kwargs)
        arrays = [isinstance(value, np.ndarray) for value in given]
        if any(arrays):
            given = [self._from_numpy(p, value) for p, value in zip(self._given, given, strict=True)]
        self._check(given)
        results = self.op(*given)
        results = (results,) if isinstance(results, torch.Tensor) else tuple(results)
        for i, result in zip(self._mutated, results[len(self._outputs) :], strict=True):
            given[i].copy_(result)
        made = results[: len(self._outputs)]
        if any(arrays):
            made = tuple(result.numpy() for result in made)
        return made[0] if len(made) == 1 else (made or None)

    @property
    def xclbin(self) -> Path:
        """The xclbin that the kernel has for itself, built first if need be. Raises XclbinError if it cannot be."""
        return self._hardware.path()

    def __repr__(self) -> str:
        given = ", ".join(f"{p.declared} {p.name}" for p in self._given)
        return f"<kernel {self.name}({given}) as {self.op}>"

    def __deepcopy__(self, memo: Any) -> Kernel:
        """Itself, as of a function."""
        return self

    # --- what lowering and the run time ask (ir/plain_kernels.py) -----------------------------------------------------

    def is_in(self, target: Target) -> bool:
        """Whether the xclbin of a target has the kernel."""
        return self._hardware.is_in(target)

    def why_not(self, target: Target) -> str | None:
        """Why a program for `target` cannot start the kernel, one sentence, or None."""
        return self._hardware.why_not(target)

    def open(self, card: Any) -> Units:
        """The compute units for programs on a card."""
        return self._hardware.open(card)

    # --- a call -------------------------------------------------------------------------------------------------------

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments in order. Raises ArgumentError for too many, an unknown and a missing one."""
        if len(args) > len(self._names):
            raise ArgumentError(
                f"kernel '{self.name}' takes {len(self._names)} arguments ({', '.join(self._names)}), not {len(args)}"
            )
        values = dict(zip(self._names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self._names:
                raise ArgumentError(
                    f"kernel '{self.name}' has no argument '{name}' that a call gives; its arguments are "
                    f"{', '.join(self._names)}"
                )
            if name in values:
                raise ArgumentError(f"kernel '{self.name}': argument '{name}' is given twice")
            values[name] = value
        for parameter in self._given:
            if parameter.name not in values:
                size = next((f"'{p.identifier}.numel()'" for p in self._given if p.is_tensor), "1")
                rule = f", or give a rule, such as sizes={{'{parameter.name}': {1.0 if parameter.is_float else size}}}"
                raise ArgumentError(
                    f"kernel '{self.name}': argument '{parameter.name}' ({parameter.declared}) is missing; pass it in "
                    f"the call{'' if parameter.is_tensor else rule}"
                )
        return [values[name] for name in self._names]

    def _from_numpy(self, parameter: Parameter, value: Any) -> Any:
        """An array as a tensor, which shares its memory if the kernel writes to it."""
        if not isinstance(value, np.ndarray):
            return value
        if parameter.role == "mutated" or torch.compiler.is_compiling():  # Dynamo knows no flags of arrays
            return torch.from_numpy(value)
        return torch.from_numpy(np.ascontiguousarray(value) if value.flags.writeable else value.copy())

    def _check(self, given: Sequence[Any]) -> None:
        """Raises ArgumentError for a value of the wrong type, dtype or device."""
        abstract = all(value.device.type == "meta" for value in given if isinstance(value, torch.Tensor))
        for parameter, value in zip(self._given, given, strict=True):
            where = f"kernel '{self.name}': argument '{parameter.name}'"
            if not parameter.is_tensor:
                if not isinstance(value, (int, float, torch.SymInt, np.integer, np.floating)) or (
                    not parameter.is_float and isinstance(value, (float, np.floating))
                ):
                    kind = "a number" if parameter.is_float else "an integer"
                    raise ArgumentError(f"{where} must be {kind} ({parameter.type}), not {value!r}")
                continue
            if not isinstance(value, torch.Tensor):
                raise ArgumentError(
                    f"{where} must be a tensor ({parameter.declared}), not a value of type {type(value).__name__}"
                )
            if parameter.dtype is not None and value.dtype is not parameter.dtype:
                raise ArgumentError(
                    f"{where} is a tensor of {_short(value.dtype)}, but the source declares {parameter.declared}: pass "
                    f"a tensor of {_short(parameter.dtype)}"
                )
            if (value.device.type != "cpu" and not abstract) or value.layout is not torch.strided:
                raise ArgumentError(
                    f"{where} is on {value.device} ({value.layout}): pass a strided tensor in host memory, such as "
                    f"{parameter.name}.cpu()"
                )

    # --- the operator -------------------------------------------------------------------------------------------------

    def _fake(self, *given: Any) -> Any:
        self._check(given)
        return self._returned(*self._allocated(given))

    def _allocated(self, given: Sequence[Any]) -> tuple[list[tuple[torch.Tensor, bool]], list[torch.Tensor]]:
        """The outputs, and new tensors with the content of the arguments that the kernel writes to."""
        outputs = self._output_rules(self._values(given))
        return outputs, [given[i].clone(memory_format=torch.contiguous_format) for i in self._mutated]

    def _values(self, given: Sequence[Any]) -> dict[str, Any]:
        return {p.identifier: value for p, value in zip(self._given, given, strict=True)}

    @staticmethod
    def _returned(outputs: Sequence[tuple[torch.Tensor, bool]], mutated: Sequence[torch.Tensor]) -> Any:
        results = (*(tensor for tensor, _ in outputs), *mutated)
        return results[0] if len(results) == 1 else results

    def _run(self, *given: Any) -> Any:
        self._check(given)
        place = chosen_place()
        if place is not None and place.units is None and self._cpu is not None:
            return self._on_host(given)
        units = None if place is None else place.units
        if units is None:
            try:
                units = self._hardware.units()
            except (XclbinError, DeviceError, OptionError) as error:
                if self._cpu is None:
                    raise
                self._warn(error)
                return self._on_host(given)
        outputs, mutated = self._allocated(given)
        arguments = self._arguments(given, outputs, mutated)
        if any(pointer.nbytes for pointer in arguments if isinstance(pointer, Pointer) and pointer.written):
            if place is None or place.units is None:
                units.execute(Call(arguments, self._timeout_ms))
            else:
                units.launch(place.unit, Call(arguments, place.timeout_ms))
        return self._returned(outputs, mutated)

    def _warn(self, error: FpgaError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"kernel '{self.name}' runs by its function cpu=...: {error}", RuntimeWarning, stacklevel=3)

    def _on_host(self, given: Sequence[Any]) -> Any:
        assert self._cpu is not None, "a caller that chooses the host checks has_cpu first"
        values = list(given)
        for i in self._mutated:
            values[i] = values[i].clone(memory_format=torch.contiguous_format)
        with placed(None), torch.no_grad():
            made = self._cpu(*values)
        made = (made,) if isinstance(made, torch.Tensor) else tuple(made or ())
        if len(made) != len(self._outputs):
            raise ArgumentError(
                f"kernel '{self.name}': cpu= must return {len(self._outputs)} tensor(s), not {len(made)}"
            )
        expected = self._output_rules(self._values(given))
        for parameter, result, (like, _) in zip(self._outputs, made, expected, strict=True):
            if result.shape != like.shape or result.dtype is not like.dtype:
                raise ArgumentError(
                    f"kernel '{self.name}': cpu= returns a {_short(result.dtype)} tensor of {tuple(result.shape)} for "
                    f"output '{parameter.name}'; outputs= says {_short(like.dtype)} of {tuple(like.shape)}"
                )
        copies = [result.clone(memory_format=torch.contiguous_format) for result in made]  # it may be an argument
        return self._returned([(result, False) for result in copies], [values[i] for i in self._mutated])

    def _arguments(
        self, given: Sequence[Any], outputs: Sequence[tuple[torch.Tensor, bool]], mutated: Sequence[torch.Tensor]
    ) -> list[Argument]:
        """The arguments in C's order."""
        values = self._values(given)
        values |= {p.identifier: tensor for p, (tensor, _) in zip(self._outputs, outputs, strict=True)}
        content = {p.name: filled for p, (_, filled) in zip(self._outputs, outputs, strict=True)}
        copies = {self._given[i].name: tensor for i, tensor in zip(self._mutated, mutated, strict=True)}
        arguments: list[Argument] = []
        for parameter in self._parameters:
            value = values.get(parameter.identifier)
            wide = parameter.dtype is None
            if parameter.role == "size":
                arguments.append(self._number(parameter, self._sizes[parameter.name](values)))
            elif parameter.role == "value":
                arguments.append(self._number(parameter, value))
            elif parameter.role == "input":
                assert isinstance(value, torch.Tensor)
                arguments.append(Pointer(value.resolve_conj().resolve_neg().contiguous(), True, False, wide))
            elif parameter.role == "output":
                assert isinstance(value, torch.Tensor)
                arguments.append(Pointer(value, content[parameter.name], True, wide))
            else:
                arguments.append(Pointer(copies[parameter.name], True, True, wide))
        return arguments

    def _number(self, parameter: Parameter, value: Any) -> int | float:
        """A number as the driver takes it. Raises ArgumentError for one that the C type does not hold."""
        where = f"kernel '{self.name}': argument '{parameter.name}' ({parameter.type})"
        if parameter.is_float:
            with contextlib.suppress(TypeError, ValueError):
                number = float(value)
                if parameter.bytes == 2:  # the driver knows no such floats
                    return int(torch.tensor(number, dtype=parameter.dtype).view(torch.int16).item()) & 0xFFFF
                return number
            raise ArgumentError(f"{where} must be a number, not {value!r}")
        if isinstance(value, (float, np.floating)) or not hasattr(value, "__index__"):
            raise ArgumentError(f"{where} must be an integer, not {value!r}")
        number = int(value)
        least, most = _range(parameter)
        if not least <= number <= most:
            raise ArgumentError(f"{where} must be from {least} to {most}, not {number}")
        return number

    # --- the gradient -------------------------------------------------------------------------------------------------

    def register_backward(self, backward: Callable[..., Any] | None) -> None:
        """Has `backward(*gradients, *arguments)` compute the gradients of the arguments that are tensors."""
        if backward is None:
            self._definition.register_autograd(self._refuse_gradient)
            return
        tensors = [i for i, p in enumerate(self._given) if p.is_tensor]

        def setup_context(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
            # A call writes to some of them before the gradient is computed.
            ctx.save_for_backward(*(inputs[i].clone() if i in self._mutated else inputs[i] for i in tensors))
            ctx.numbers = [None if i in tensors else value for i, value in enumerate(inputs)]

        def run(ctx: Any, *gradients: Any) -> Any:
            values = list(ctx.numbers)
            for i, tensor in zip(tensors, ctx.saved_tensors, strict=True):
                values[i] = tensor
            found = backward(*gradients, *values)
            found = (found,) if isinstance(found, torch.Tensor) or found is None else tuple(found)
            if len(found) != len(tensors):
                names = ", ".join(self._names[i] for i in tensors)
                raise ArgumentError(
                    f"kernel '{self.name}': backward= must return {len(tensors)} gradient(s), one for each of {names} "
                    f"(None without one), not {len(found)}"
                )
            results: list[Any] = [None] * len(values)
            for i, gradient in zip(tensors, found, strict=True):
                results[i] = gradient
            return tuple(results) if len(results) > 1 else results[0]

        self._definition.register_autograd(run, setup_context=setup_context)

    def _refuse_gradient(self, ctx: Any, *gradients: Any) -> Any:
        raise FpgaError(f"kernel '{self.name}' has no gradient: give it backward=..., or detach its arguments")


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _range(parameter: Parameter) -> tuple[int, int]:
    """What an integer argument may be; bits of another type are either signed or not."""
    if parameter.dtype is torch.bool:
        return 0, 1
    if parameter.dtype is not None:
        limits = torch.iinfo(parameter.dtype)
        return limits.min, limits.max
    return -(1 << (8 * parameter.bytes - 1)), (1 << (8 * parameter.bytes)) - 1
