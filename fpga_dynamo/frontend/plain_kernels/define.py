"""``fpga_dynamo.kernel``: an operator of PyTorch from the source of a plain kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fpga_dynamo.errors import OptionError
from fpga_dynamo.frontend.plain_kernels.hardware import Hardware
from fpga_dynamo.frontend.plain_kernels.operator import Kernel, free_name
from fpga_dynamo.frontend.plain_kernels.parameters import parameters, read_arguments
from fpga_dynamo.frontend.plain_kernels.rules import OutputRules, Rule, rule


def kernel(
    source: str | Path,
    top: str | None = None,
    *,
    outputs: Mapping[str, Any] | Callable[..., Mapping[str, torch.Tensor]] | None = None,
    sizes: Mapping[str, Any] | None = None,
    mutates_args: Sequence[str] = (),
    inputs: Sequence[str] = (),
    cpu: Callable[..., Any] | None = None,
    backward: Callable[..., Any] | None = None,
    name: str | None = None,
    cu: int = 1,
    memory: Mapping[str, str] | None = None,
    xclbin: str | Path | None = None,
    driver: str | None = None,
    device: int | str = 0,
    timeout: float = 60.0,
) -> Kernel:
    """A plain HLS kernel as a function of tensors, in eager mode and in ``torch.compile(backend="fpga")``.

    source, top: the file that defines ``extern "C" void TOP(...)``; `top` is the file's name without its ending if left
        out. Pointers to const are inputs. The call has the inputs and numbers that no rule computes, in C's order.
    outputs: a rule for each pointer that the kernel only writes. ``"like a"`` is the shape of `a`, with the elements
        of the C type. An expression or a function of the arguments gives a shape, or a tensor, whose content the kernel
        finds. One function can give the dictionary of all.
    sizes: for numbers that calls do not give the rule: an expression such as ``"a.numel()"``, a function, a constant.
    mutates_args: pointers that the kernel reads and writes; the call writes to these tensors.
    inputs: pointers that are not const, but are only read.
    cpu: a function of the call's arguments that computes the same on tensors. It runs where no xclbin can be built or
        loaded, after a fault in a compiled graph, and on PEs of the host if a `granularity` lets the policy choose.
    backward: ``backward(*gradients of results, *arguments)`` gives the gradient of each tensor argument, or None.
    name: of the operator, ``"namespace::name"``; by default that of the kernel, in the namespace ``fpga_kernel``.
    cu, memory: compute units, and bank of each pointer, of the xclbin that is built for the emulator.
    xclbin: a file that has the kernel, for a card. driver, device: as in the options of torch.compile.
    timeout: seconds that a run in eager mode may take; compiled graphs have their own option.

    Raises OptionError for a source without such a kernel, and for a rule that does not fit its arguments.
    """
    path = Path(source).absolute()
    top = path.stem if top is None else top
    arguments = read_arguments(path, top)
    named = {
        "inputs": tuple(inputs),
        "mutates_args": tuple(mutates_args),
        "outputs": _output_names(outputs, arguments, inputs, mutates_args),
        "sizes": tuple(sizes or ()),
    }
    found = parameters(path, top, arguments, named)
    given = [p for p in found if p.is_given]
    written = [p for p in found if p.role == "output"]
    if not written and not mutates_args:
        raise OptionError(f"kernel '{top}' writes no argument: name one in outputs={{...}} or in mutates_args=(...)")
    if not timeout > 0:
        raise OptionError(f"kernel '{top}': timeout= must be a positive number of seconds, not {timeout!r}")
    where = Hardware(
        path,
        top,
        arguments,
        xclbin=None if xclbin is None else Path(xclbin),
        driver=driver,
        device=device,
        cu=cu,
        memory=memory or {},
    )
    output_rules = OutputRules(outputs or {}, top, written, given)
    size_rules = _size_rules(sizes or {}, top, [p.identifier for p in (*given, *written)])
    if cpu is not None and not callable(cpu):
        raise OptionError(f"kernel '{top}': cpu= must be a function of its arguments, not {cpu!r}")
    made = Kernel(free_name(name, top), top, found, where, output_rules, size_rules, cpu, timeout)
    made.register_backward(backward)
    return made


def _output_names(
    outputs: Any, arguments: Sequence[Any], inputs: Sequence[str], mutates_args: Sequence[str]
) -> Sequence[str]:
    """The names in `outputs`; of a function all pointers that may be written and have no other role."""
    if not callable(outputs):
        return tuple(outputs or ())
    others = (*inputs, *mutates_args)
    return tuple(a.name for a in arguments if a.kind == "global" and not a.const and a.name not in others)


def _size_rules(sizes: Mapping[str, Any], top: str, names: Sequence[str]) -> dict[str, Rule]:
    return {key: rule(given, f"kernel '{top}': sizes={{'{key}': ...}}", names) for key, given in sizes.items()}
