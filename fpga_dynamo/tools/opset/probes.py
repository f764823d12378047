"""Typical calls of ops: what a graph of one node looks like, so that lowering can be asked whether it takes it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_map

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.graph import GraphInfo, aten
from fpga_dynamo.ir.target import Target


class Tensors(Protocol):
    """Makes an operand of the dtype in question, or of a given one; a parameter counts as constant."""

    def __call__(self, *size: int, dtype: torch.dtype | None = None, parameter: bool = False) -> torch.Tensor: ...


Arguments = tuple[Sequence[Any], dict[str, Any]]


def _image(t: Tensors, *args: Any) -> Arguments:
    return (t(1, 16, 8, 8), *args), {}


def _volume(t: Tensors, *args: Any) -> Arguments:
    return (t(1, 16, 4, 8, 8), *args), {}


def _images(t: Tensors, *args: Any) -> Arguments:
    return _image(t, t(1, 16, 8, 8), *args)


def _per_channel(t: Tensors, count: int) -> list[torch.Tensor]:
    return [t(16) for _ in range(count)]


def _resize(t: Tensors, *args: Any) -> Arguments:
    return _image(t, [16, 16], *args)


def _rows(t: Tensors, *args: Any) -> Arguments:
    return (t(4, 16), *args), {}


def _indexed(t: Tensors, *size: int) -> torch.Tensor:
    return t(*size, dtype=torch.int64)


PROBES: dict[OpOverload, Callable[[Tensors], Arguments]] = {
    aten.convolution.default: lambda t: _image(
        t, t(16, 16, 3, 3, parameter=True), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1
    ),
    aten.embedding.default: lambda t: ((t(16, 8, parameter=True), _indexed(t, 4)), {}),
    aten.index_select.default: lambda t: _rows(t, 0, _indexed(t, 4)),
    aten.gather.default: lambda t: _rows(t, 1, _indexed(t, 4, 4)),
    aten.index.Tensor: lambda t: _rows(t, [_indexed(t, 4)]),
    aten._unsafe_index.Tensor: lambda t: _rows(t, [_indexed(t, 4)]),
    aten.index_copy.default: lambda t: _rows(t, 0, _indexed(t, 1), t(1, 16)),
    aten.index_put.default: lambda t: _rows(t, [_indexed(t, 1)], t(16)),
    aten.bmm.default: lambda t: ((t(2, 4, 8), t(2, 8, 4)), {}),
    aten.baddbmm.default: lambda t: ((t(2, 4, 4), t(2, 4, 8), t(2, 8, 4)), {}),
    aten.cat.default: lambda t: (([t(4, 16), t(4, 16)],), {}),
    aten.stack.default: lambda t: (([t(4, 16), t(4, 16)],), {}),
    aten.constant_pad_nd.default: lambda t: _rows(t, [1, 1]),
    **dict.fromkeys((aten.reflection_pad1d.default, aten.replication_pad1d.default), lambda t: _rows(t, [1, 1])),
    **dict.fromkeys((aten.reflection_pad2d.default, aten.replication_pad2d.default), lambda t: _image(t, [1] * 4)),
    **dict.fromkeys((aten.reflection_pad3d.default, aten.replication_pad3d.default), lambda t: _volume(t, [1] * 6)),
    aten.roll.default: lambda t: _rows(t, [1], [0]),
    aten.pixel_shuffle.default: lambda t: _image(t, 2),
    aten.pixel_unshuffle.default: lambda t: _image(t, 2),
    aten.channel_shuffle.default: lambda t: _image(t, 2),
    aten.im2col.default: lambda t: _image(t, [3, 3], [1, 1], [0, 0], [1, 1]),
    aten.flip.default: lambda t: _rows(t, [0]),
    aten.repeat.default: lambda t: _rows(t, [2, 2]),
    aten.slice_scatter.default: lambda t: _rows(t, t(2, 16), 0, 0, 2),
    aten.select_scatter.default: lambda t: _rows(t, t(16), 0, 0),
    aten.sum.dim_IntList: lambda t: _rows(t, [1]),
    aten.mean.dim: lambda t: _rows(t, [1]),
    aten.prod.dim_int: lambda t: _rows(t, 1),
    aten.var.correction: lambda t: _rows(t, [1]),
    aten.std.correction: lambda t: _rows(t, [1]),
    aten.var_mean.correction: lambda t: _rows(t, [1]),
    aten.std_mean.correction: lambda t: _rows(t, [1]),
    aten.linalg_vector_norm.default: lambda t: _rows(t, 2, [1]),
    aten.logsumexp.default: lambda t: _rows(t, [1]),
    **dict.fromkeys((aten.any.dim, aten.all.dim), lambda t: _rows(t, 1)),
    **dict.fromkeys((aten.any.dims, aten.all.dims), lambda t: _rows(t, [1])),
    aten.max.dim: lambda t: _rows(t, 1),
    aten.min.dim: lambda t: _rows(t, 1),
    aten._softmax.default: lambda t: _rows(t, 1, False),
    aten._log_softmax.default: lambda t: _rows(t, 1, False),
    aten.native_layer_norm.default: lambda t: _rows(t, [16], t(16, parameter=True), t(16, parameter=True), 1e-5),
    aten.native_group_norm.default: lambda t: _image(
        t, t(16, parameter=True), t(16, parameter=True), 1, 16, 64, 4, 1e-5
    ),
    aten._native_batch_norm_legit.no_stats: lambda t: _image(
        t, t(16, parameter=True), t(16, parameter=True), True, 0.1, 1e-5
    ),
    aten._native_batch_norm_legit_no_training.default: lambda t: _image(
        t, *(t(16, parameter=True) for _ in range(4)), 0.1, 1e-5
    ),
    aten._native_batch_norm_legit_functional.default: lambda t: _image(t, *_per_channel(t, 4), True, 0.1, 1e-5),
    aten.native_batch_norm_backward.default: lambda t: _images(t, *_per_channel(t, 5), True, 1e-5, [True, True, True]),
    aten.native_layer_norm_backward.default: lambda t: (
        (t(4, 16), t(4, 16), [16], t(4, 1), t(4, 1), *_per_channel(t, 2), [True, True, True]),
        {},
    ),
    aten.native_group_norm_backward.default: lambda t: _images(
        t, t(1, 4), t(1, 4), t(16), 1, 16, 64, 4, [True, True, True]
    ),
    aten.convolution_backward.default: lambda t: _images(
        t, t(16, 16, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False]
    ),
    aten._softmax_backward_data.default: lambda t: _rows(t, t(4, 16), 1, t().dtype),
    aten._log_softmax_backward_data.default: lambda t: _rows(t, t(4, 16), 1, t().dtype),
    aten.leaky_relu_backward.default: lambda t: _rows(t, t(4, 16), 0.1, False),
    aten.elu_backward.default: lambda t: _rows(t, 1.0, 1.0, 1.0, False, t(4, 16)),
    aten.max_pool2d_with_indices.default: lambda t: _image(t, [2, 2]),
    aten.adaptive_max_pool2d.default: lambda t: _image(t, [2, 2]),
    aten.avg_pool2d.default: lambda t: _image(t, [2, 2]),
    aten._adaptive_avg_pool2d.default: lambda t: _image(t, [2, 2]),
    aten.max_pool3d_with_indices.default: lambda t: _volume(t, [2, 2, 2]),
    aten.adaptive_max_pool3d.default: lambda t: _volume(t, [2, 2, 2]),
    aten.avg_pool3d.default: lambda t: _volume(t, [2, 2, 2]),
    aten._adaptive_avg_pool3d.default: lambda t: _volume(t, [2, 2, 2]),
    aten.upsample_nearest2d.default: _resize,
    aten.upsample_nearest2d.vec: lambda t: _resize(t, None),
    aten.upsample_bilinear2d.default: lambda t: _resize(t, False),
    aten.upsample_bilinear2d.vec: lambda t: _resize(t, False, None),
    aten.where.self: lambda t: ((t(4, 16, dtype=torch.bool), t(4, 16), t(4, 16)), {}),
    aten.masked_fill.Scalar: lambda t: _rows(t, t(4, 16, dtype=torch.bool), 1),
    aten.masked_fill.Tensor: lambda t: _rows(t, t(4, 16, dtype=torch.bool), t()),
    aten.threshold.default: lambda t: _rows(t, 0, 0),
    aten.clamp.default: lambda t: _rows(t, 0, 1),
    aten.floor_divide.default: lambda t: _rows(t, 2),
    aten.div.Tensor_mode: lambda t: ((t(4, 16), 2), {"rounding_mode": "floor"}),
    aten.div.Scalar_mode: lambda t: ((t(4, 16), 2), {"rounding_mode": "floor"}),
    aten.any.dims: lambda t: _rows(t, [1]),
    aten.all.dims: lambda t: _rows(t, [1]),
    aten.clamp.Tensor: lambda t: _rows(t, t(4, 16), t(4, 16)),
    aten._to_copy.default: lambda t: ((t(4, 16),), {"dtype": torch.float32}),
    aten.copy.default: lambda t: ((t(4, 16, dtype=torch.float32), t(4, 16)), {}),
}
"""Arguments of ops whose schema does not say what a call looks like; all others are called with square matrices."""


def _from_schema(op: OpOverload, t: Tensors) -> Arguments:
    """Square matrices for tensors, ones for numbers, and what has a default is left out."""
    args: list[Any] = []
    for parameter in op._schema.arguments:
        if parameter.has_default_value():
            break
        kind = str(parameter.type)
        if kind not in ("Tensor", "number", "int", "float"):
            raise FpgaError(f"what a call of {op} looks like is not known; add it to fpga_dynamo/tools/opset/probes.py")
        args.append(t(16, 16) if kind == "Tensor" else 1)
    return args, {}


@dataclass
class Probe:
    """A graph of one call of an op, `node`, for operands of one dtype."""

    graph: GraphInfo
    node: Node


@dataclass
class _Builder:
    dtype: torch.dtype
    graph: Graph = field(default_factory=Graph)
    placeholders: dict[int, Node] = field(default_factory=dict)
    static: list[int] = field(default_factory=list)
    kept: list[torch.Tensor] = field(default_factory=list)

    def tensor(self, *size: int, dtype: torch.dtype | None = None, parameter: bool = False) -> torch.Tensor:
        made = torch.zeros(size, dtype=dtype or self.dtype)
        node = self.graph.placeholder(f"operand{len(self.kept)}")
        node.meta["val"] = made
        if parameter:
            self.static.append(len(self.kept))
        self.kept.append(made)
        self.placeholders[id(made)] = node
        return made

    def node_of(self, leaf: Any) -> Any:
        return self.placeholders[id(leaf)] if isinstance(leaf, torch.Tensor) else leaf


def probe(op: OpOverload, dtype: torch.dtype, target: Target) -> Probe | None:
    """A graph with a typical call of `op`; None if PyTorch has no such op for `dtype`."""
    builder = _Builder(dtype)
    args, kwargs = PROBES.get(op, lambda t: _from_schema(op, t))(builder.tensor)
    try:
        result = op(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None
    used = node = builder.graph.call_function(op, tuple(tree_map(builder.node_of, args)), kwargs)
    node.meta["val"] = result
    if isinstance(result, (tuple, list)):
        index = next(i for i, item in enumerate(result) if item is not None)
        used = builder.graph.call_function(operator.getitem, (node, index))
        used.meta["val"] = result[index]
    builder.graph.output((used,))
    return Probe(GraphInfo(GraphModule({}, builder.graph), target, builder.static), node)
