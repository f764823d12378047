"""Pass (part of normalise): scales that a graph computes from its values, as arithmetic in float32.

Dynamic quantisation chooses a scale and a zero point when a tensor is there. Its operators give them in float64 and
int64, which no card holds, but they compute them in float32: here this arithmetic stands in the graph, and whoever
quantises or dequantises reads its float32 and int32. The numbers are the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import aten, value
from fpga_dynamo.ir.quantised import DEQUANTIZE_DYNAMIC, QUANTIZE_DYNAMIC
from fpga_dynamo.ir.sizes.tensor import dense_like
from fpga_dynamo.torch_internals.quantized import decomposed


def open_choices(module: GraphModule) -> None:
    """Rewrites the graph in place; one without dynamic quantisation stays as it is."""
    for node in list(module.graph.nodes):
        if node.target in (*QUANTIZE_DYNAMIC, *DEQUANTIZE_DYNAMIC):
            _read_as_float32(module, node)
        choose = _CHOICES.get(node.target) if node.op == "call_function" else None
        if choose is None or value(operand := node.args[0]).dtype is not torch.float32 or not _for_quantising(node):
            continue
        with module.graph.inserting_before(node):
            scale, zero = choose(_Arithmetic(module, node), operand, node.args[1:])
        for item in list(node.users):
            item.replace_all_uses_with((scale, zero)[item.args[1]])
            module.graph.erase_node(item)
        module.graph.erase_node(node)


_TYPED = (aten._to_copy.default, aten.full.default)
"""Operators that are told the type of their result."""


def _read_as_float32(module: GraphModule, node: Node) -> None:
    """A scale that is a float64 copy of a float32 is read in front of that copy."""
    scale = node.args[1]
    if not isinstance(scale, Node) or scale.target is not aten._to_copy.default:
        return
    source = scale.all_input_nodes[0]
    if value(scale).dtype is torch.float64 and value(source).dtype is torch.float32:
        node.replace_input_with(scale, source)
        if not scale.users:
            module.graph.erase_node(scale)


def _for_quantising(node: Node) -> bool:
    """Whether all that is asked for are scales and zero points of nodes that read them from tensors."""
    items = list(node.users)
    return all(
        item.target is operator.getitem
        and all(user.target in (*QUANTIZE_DYNAMIC, *DEQUANTIZE_DYNAMIC) for user in item.users)
        for item in items
    )


@dataclass(frozen=True)
class _Arithmetic:
    """New nodes in front of `like`, each with the sizes of its first operand unless others are given."""

    module: GraphModule
    like: Node

    def __call__(
        self, target: Any, *args: Any, size: Sequence[Any] | None = None, dtype: torch.dtype = torch.float32
    ) -> Node:
        first = next((arg for arg in args if isinstance(arg, Node)), None)
        if size is None:
            assert first is not None
            size = value(first).shape
        made = self.module.graph.call_function(target, args, {"dtype": dtype} if target in _TYPED else {})
        made.meta = {**self.like.meta, "val": dense_like(value(self.like.all_input_nodes[0]), size, dtype)}
        return made

    def range_of(self, x: Node, by_row: bool) -> tuple[Node, Node]:
        """The least and the greatest element of all or of each row, or 0 if that lies beyond."""
        size = (*value(x).shape[:-1], 1) if by_row else ()
        dims = ([-1], True) if by_row else ([], False)
        low, high = (self(target, x, *dims, size=size) for target in (aten.amin.default, aten.amax.default))
        return self(aten.clamp_max.default, low, 0.0), self(aten.clamp_min.default, high, 0.0)

    def scale(self, span: Node, steps: float, least: float) -> Node:
        return self(aten.clamp_min.default, self(aten.div.Tensor, span, steps), least)


def _affine(at: _Arithmetic, x: Node, rest: Sequence[Any]) -> tuple[Node, Node]:
    """choose_qparams.tensor: the range becomes all of the integers."""
    least, most, eps = rest[:3]
    low, high = at.range_of(x, by_row=False)
    scale = at.scale(at(aten.sub.Tensor, high, low), float(most - least), eps)
    steps = at(aten.round.default, at(aten.div.Tensor, low, scale))
    zero = _int32(at, at(aten.add.Tensor, at(aten.neg.default, steps), float(least)), least, most)
    return _one(at, scale), _one(at, zero)


def _symmetric(at: _Arithmetic, x: Node, rest: Sequence[Any]) -> tuple[Node, Node]:
    """choose_qparams_symmetric.tensor: 0 is in the middle of the integers."""
    least, most, eps, dtype = rest[:4]
    low, high = at.range_of(x, by_row=False)
    farthest = at(aten.maximum.default, at(aten.neg.default, low), high)
    scale = at.scale(farthest, float(most - least) / 2, eps)
    return _one(at, scale), _constant(at, (1,), 128 if dtype is torch.uint8 else 0)


def _rows_symmetric(at: _Arithmetic, x: Node, rest: Sequence[Any]) -> tuple[Node, Node]:
    """choose_qparams_per_token."""
    size = (*value(x).shape[:-1], 1)
    farthest = at(aten.amax.default, at(aten.abs.default, x), [-1], True, size=size)
    scale = at(aten.div.Tensor, at(aten.clamp_min.default, farthest, 1e-5), 127.0)
    return scale, _constant(at, size, 0)


def _rows_affine(at: _Arithmetic, x: Node, rest: Sequence[Any]) -> tuple[Node, Node]:
    """choose_qparams_per_token_asymmetric: the zero point is that of the end whose own error is the smaller."""
    least, most = -128, 127
    low, high = at.range_of(x, by_row=True)
    scale = at.scale(at(aten.sub.Tensor, high, low), float(most - least), torch.finfo(torch.float32).eps)
    from_low, from_high = at(aten.div.Tensor, low, scale), at(aten.div.Tensor, high, scale)
    errors = (at(aten.add.Tensor, end, float(limit)) for end, limit in ((from_low, least), (from_high, most)))
    low_is_nearer = at(aten.gt.Scalar, at(aten.add.Tensor, *errors), 0, dtype=torch.bool)
    zeros = [
        at(aten.add.Tensor, at(aten.neg.default, end), float(limit))
        for end, limit in ((from_low, least), (from_high, most))
    ]
    zero = at(aten.where.self, low_is_nearer, *zeros)
    limited = at(aten.clamp.default, zero, float(least), float(most))
    return scale, at(aten._to_copy.default, at(aten.round.default, limited), dtype=torch.int32)


def _int32(at: _Arithmetic, zero: Node, low: int, high: int) -> Node:
    return at(aten._to_copy.default, at(aten.clamp.default, zero, float(low), float(high)), dtype=torch.int32)


def _one(at: _Arithmetic, scalar: Node) -> Node:
    return at(aten.view.default, scalar, [1], size=(1,), dtype=value(scalar).dtype)


def _constant(at: _Arithmetic, size: Sequence[Any], number: int) -> Node:
    return at(aten.full.default, list(size), number, size=size, dtype=torch.int32)


_CHOICES: dict[Any, Callable[[_Arithmetic, Node, Sequence[Any]], tuple[Node, Node]]] = {
    decomposed.choose_qparams.tensor: _affine,
    decomposed.choose_qparams_symmetric.tensor: _symmetric,
    decomposed.choose_qparams_per_token.default: _rows_symmetric,
    decomposed.choose_qparams_per_token_asymmetric.default: _rows_affine,
    decomposed._choose_qparams_per_token_asymmetric_impl.default: _rows_affine,
}
