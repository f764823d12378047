"""What operators of ONNX are translated with: a graph that grows, and values that are constants or nodes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.torch_internals.tracing import FakeTensorMode

Value = Tensor | Node
"""A constant, or what the graph computes."""


class OnnxError(FpgaError):
    """An ONNX file that cannot be read, or that has something that is not supported."""


class Builder:
    """Adds operators to `graph`; `module` has the constants that it reads, as parameters and buffers."""

    def __init__(self) -> None:
        self.graph, self.module = Graph(), nn.Module()
        self._fakes = FakeTensorMode()
        self._kept: dict[int, Node] = {}

    def placeholder(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Node:
        node = self.graph.placeholder(name)
        with self._fakes:
            node.meta["val"] = torch.empty(tuple(shape), dtype=dtype)
        return node

    def __call__(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The result of a function of torch: a constant if all operands are constants."""
        if not any(isinstance(arg, Node) for arg in _leaves((args, kwargs))):
            return target(*args, **kwargs)
        return self.node(target, *args, **kwargs)

    def node(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        """The same as a node of the graph, whatever the operands are."""
        args, kwargs = _mapped((args, kwargs), self.kept)
        made = self.graph.call_function(target, args, kwargs)
        with self._fakes:
            fakes: Any = map_arg((args, kwargs), lambda node: node.meta["val"])
            made.meta["val"] = target(*fakes[0], **fakes[1])
        return made

    def kept(self, constant: Tensor) -> Node:
        """A node that reads a constant, which the module has from now on."""
        if id(constant) not in self._kept:
            name = f"constant_{len(self._kept)}"
            constant = constant.detach()
            if constant.is_floating_point():
                self.module.register_parameter(name, nn.Parameter(constant, requires_grad=False))
            else:
                self.module.register_buffer(name, constant)
            node = self.graph.get_attr(name)
            node.meta["val"] = self._fakes.from_tensor(constant)
            node.meta["constant"] = constant  # keeps its id
            self._kept[id(constant)] = node
        return self._kept[id(constant)]


def _mapped(value: Any, kept: Callable[[Tensor], Node]) -> Any:
    if isinstance(value, Tensor):
        return kept(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, kept) for item in value)
    if isinstance(value, dict):
        return {key: _mapped(item, kept) for key, item in value.items()}
    return value


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _leaves(item)]
    if isinstance(value, dict):
        return _leaves(list(value.values()))
    return [value]


def shape_of(value: Value) -> tuple[int, ...]:
    fake = value.meta["val"] if isinstance(value, Node) else value
    return tuple(fake.shape)


def dtype_of(value: Value) -> torch.dtype:
    fake = value.meta["val"] if isinstance(value, Node) else value
    dtype: torch.dtype = fake.dtype
    return dtype


@dataclass(frozen=True)
class Call:
    """A node of ONNX. inputs: None for an optional one that is left out. opset: the version of its domain."""

    name: str
    operator: str
    inputs: tuple[Value | None, ...]
    attributes: dict[str, Any]
    opset: int
    outputs: int
    add: Builder

    def __getitem__(self, position: int) -> Value:
        """An input that the operator must have."""
        found = self.get(position)
        if found is None:
            raise OnnxError(f"{self}: input {position} is missing")
        return found

    def get(self, position: int) -> Value | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def constant(self, position: int) -> Tensor | None:
        """An input that has to be known now; None if it is left out."""
        found = self.get(position)
        if isinstance(found, Node):
            raise OnnxError(f"{self}: input {position} must be a constant, and the graph computes it")
        return found

    def integers(self, position: int, name: str) -> list[int] | None:
        """Integers that older versions have as the attribute `name`, newer ones as an input."""
        if name in self.attributes:
            return list(self.attributes[name])
        found = self.constant(position)
        return None if found is None else [int(n) for n in found.reshape(-1)]

    def refuse(self, what: str) -> OnnxError:
        return OnnxError(f"{self}: {what}")

    def __str__(self) -> str:
        return f"{self.operator} '{self.name}'"


Translation = Callable[[Call], "Value | Sequence[Value]"]
"""The result of a node of ONNX, or its results."""
