"""FX graphs as Python classes that can be run by themselves."""

from __future__ import annotations

import builtins
import math
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch.fx import GraphModule

from fpga_dynamo.torch_internals.dispatch import without_modes

SMALL = 64
"""Constants of at most so many elements are written with their values; others get random ones."""


def header(module: GraphModule) -> list[str]:
    """The imports and definitions that :func:`class_source` needs."""
    lines = {"import torch": None}
    for part in _graphs(module):
        for name, value in part.graph.python_code("self").globals.items():
            if (line := _definition(name, value)) is not None:
                lines[line] = None
    return sorted(lines, key=lambda line: (not line.startswith("import"), line))


def _graphs(module: torch.nn.Module) -> Iterator[GraphModule]:
    return (part for part in module.modules() if isinstance(part, GraphModule))


def _definition(name: str, value: Any) -> str | None:
    """The line that gives `value` the name `name` at the head of a script; None if it has that name already."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__}" if name == value.__name__ else f"import {value.__name__} as {name}"
    if isinstance(value, float):
        return f"{name} = float({str(value)!r})" if not math.isfinite(value) else f"{name} = {value!r}"
    if value is type(None):
        return f"{name} = type(None)"
    origin, called = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if origin is None or called is None or "." in called or getattr(builtins, name, None) is value:
        return None
    return f"from {origin} import {called}" + ("" if called == name else f" as {name}")


def class_source(name: str, module: GraphModule) -> str:
    """The source of a class `name` whose ``forward`` is the module's graph; constants and parts are attributes."""
    attributes = []
    parts = []
    for key, part in module.named_children():
        if isinstance(part, GraphModule) and _is_used(module, key):
            parts.append(class_source(f"{name}_{key}", part))
            attributes.append(f"self.{key} = {name}_{key}()")
    for node in module.graph.nodes:
        target = str(node.target)
        if node.op == "get_attr" and "." not in target:
            found = getattr(module, target, None)
            if isinstance(found, torch.Tensor):
                attributes.append(f"self.{target} = {_constant(found)}")
    code = module.graph.python_code("self", verbose=True).src.strip()
    init = textwrap.indent("\n".join(["super().__init__()", *dict.fromkeys(attributes)]), " " * 8)
    body = f"class {name}(torch.nn.Module):\n    def __init__(self):\n{init}\n\n{textwrap.indent(code, ' ' * 4)}\n"
    return "\n\n".join([*parts, body])


def _is_used(module: GraphModule, key: str) -> bool:
    return any(node.op in ("get_attr", "call_module") and str(node.target) == key for node in module.graph.nodes)


def _constant(tensor: torch.Tensor) -> str:
    with without_modes():
        if tensor.numel() <= SMALL and type(tensor) in (torch.Tensor, torch.nn.Parameter):
            return f"torch.tensor({tensor.tolist()!r}, dtype={tensor.dtype})".replace("nan", "float('nan')").replace(
                "inf", "float('inf')"
            )
    random = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    made = f"torch.randn({tuple(tensor.shape)})" if random else f"torch.randint(0, 2, {tuple(tensor.shape)})"
    return f"{made}.to({tensor.dtype})"
