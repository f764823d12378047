"""Rules for the outputs and sizes of a plain kernel: expressions of its arguments, or functions of them."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fpga_dynamo.errors import ArgumentError, OptionError
from fpga_dynamo.frontend.plain_kernels.parameters import Parameter
from xclbin_build.errors import did_you_mean

_MODULES = {"torch": torch, "math": math}
_KNOWN = (*_MODULES, "abs", "float", "int", "len", "max", "min", "range", "sum", "tuple")
"""What expressions may use besides the arguments."""

_LIKE = re.compile(r"\s*like\s+([A-Za-z_]\w*)\s*")

Values = Mapping[str, Any]
"""Arguments by their identifiers."""

Rule = Callable[[Values], Any]


def rule(given: Any, where: str, names: Sequence[str]) -> Rule:
    """What computes a value from the arguments called `names`: an expression, a function of some of them, a constant.

    Raises OptionError for what is not an expression, and for another name in it.
    """
    if isinstance(given, str):
        return _expression(given, where, names)
    if callable(given):
        return function_of(given, where, names)
    if isinstance(given, (bool, int, float)):
        return lambda values: given
    raise OptionError(f"{where} must be an expression, a function or a number, not {given!r}")


def function_of(given: Callable[..., Any], where: str, names: Sequence[str]) -> Rule:
    """`given`, which gets the arguments that its parameters name."""
    wanted = list(inspect.signature(given).parameters)
    for name in wanted:
        if name not in names:
            raise OptionError(f"{where} has a parameter '{name}'; {did_you_mean(name, names)}")
    return _located(lambda values: given(**{name: values[name] for name in wanted}), where)


def _located(rule: Rule, where: str) -> Rule:
    """`rule`, whose mistakes are errors that name it."""

    def run(values: Values) -> Any:
        try:
            return rule(values)
        except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError) as error:
            raise ArgumentError(f"{where} raised {type(error).__name__} for these arguments: {error}") from error

    return run


def _expression(text: str, where: str, names: Sequence[str]) -> Rule:
    try:
        tree = ast.parse(text.strip(), mode="eval")
        code = compile(tree, where, "eval")
    except (SyntaxError, ValueError) as error:
        raise OptionError(f"{where} is not a Python expression: {text!r}") from error
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in (*names, *_KNOWN, *own):
            raise OptionError(f"{where} uses '{node.id}' in {text!r}; {did_you_mean(node.id, names)}")
    # The user's own text, as a lambda in its place would be.
    return _located(lambda values: eval(code, {**_MODULES, **values}), f"{where} ({text!r})")


class OutputRules:
    """Makes the tensors that a kernel writes. `like NAME`, a shape, a tensor, or a function of all of them."""

    def __init__(self, given: Any, top: str, outputs: Sequence[Parameter], arguments: Sequence[Parameter]) -> None:
        names = [parameter.identifier for parameter in arguments]
        tensors = [parameter.identifier for parameter in arguments if parameter.is_tensor]
        self._top = top
        self._outputs = outputs
        self._all: Rule | None = None
        self._each: dict[str, tuple[Rule | None, str]] = {}
        if callable(given):
            self._all = function_of(given, f"kernel '{top}': outputs=", names)
            return
        for parameter in outputs:
            text, where = given[parameter.name], f"kernel '{top}': outputs={{'{parameter.name}': ...}}"
            if isinstance(text, str) and (like := _LIKE.fullmatch(text)):
                if like[1] not in tensors:
                    raise OptionError(f"{where} is like '{like[1]}', not a tensor; {did_you_mean(like[1], tensors)}")
                self._each[parameter.name] = None, like[1]
            else:
                self._each[parameter.name] = rule(text, where, names), ""

    def __call__(self, values: Values) -> list[tuple[torch.Tensor, bool]]:
        """A contiguous tensor for each output, and whether its content is for the kernel to find.

        Raises ArgumentError for what is no tensor of the kernel's element type, and no shape.
        """
        made = None if self._all is None else self._all(values)
        if made is not None and (not isinstance(made, Mapping) or set(made) != {p.name for p in self._outputs}):
            names = ", ".join(f"'{p.name}'" for p in self._outputs)
            raise ArgumentError(f"kernel '{self._top}': outputs= must return a dictionary with {names}, not {made!r}")
        results = []
        for parameter in self._outputs:
            if made is not None:
                results.append(self._made(parameter, made[parameter.name], values))
                continue
            compute, like = self._each[parameter.name]
            if compute is not None:
                results.append(self._made(parameter, compute(values), values))
            else:
                source = values[like]
                results.append((_empty(source.shape, parameter.dtype or source.dtype, source.device), False))
        return results

    def _made(self, parameter: Parameter, found: Any, values: Values) -> tuple[torch.Tensor, bool]:
        where = f"kernel '{self._top}': output '{parameter.name}'"
        if isinstance(found, torch.Tensor):
            if parameter.dtype is not None and found.dtype is not parameter.dtype:
                raise ArgumentError(
                    f"{where} is a tensor of {_name(found.dtype)}, but the source declares {parameter.declared}: "
                    f"make it of {_name(parameter.dtype)}"
                )
            shared = any(found is value for value in values.values())
            return (found.clone(memory_format=torch.contiguous_format) if shared else found.contiguous()), True
        shape = found if isinstance(found, (tuple, list)) else (found,)
        if not all(isinstance(size, (int, torch.SymInt)) for size in shape):
            raise ArgumentError(f"{where} must be a tensor or a shape, and its rule gives {found!r}")
        if parameter.dtype is None:
            raise ArgumentError(
                f"{where} has elements of type {parameter.type}, for which PyTorch has no dtype: its rule must give a "
                "tensor, such as 'a.new_empty(a.shape)', not a shape"
            )
        device = next((v.device for v in values.values() if isinstance(v, torch.Tensor)), torch.device("cpu"))
        return _empty(shape, parameter.dtype, device), False


def _empty(shape: Sequence[Any], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device=device)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
