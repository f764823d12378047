"""Pass: other spellings of 8 bits become the operators that quantised graphs are made of.

- ``aten.fake_quantize_*``, of a model whose quantization-aware training was not converted: rounding and scaling in one;
- an 8-bit weight times a scale, ``w.float() * scale``, as NNCF and others store weights.

Tests: tests/lowering/test_fake_quantised.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.dtypes import BYTES
from fpga_dynamo.ir.graph import argument, aten, made_of, shape, value
from fpga_dynamo.ir.quantised import DEQUANTIZE, DEQUANTIZE_CHANNELS, DEQUANTIZE_DYNAMIC, QUANTIZE, QUANTIZE_DYNAMIC
from fpga_dynamo.ir.sizes.tensor import of_dtype
from fpga_dynamo.lowering.passes.rewrite.embeddings import make_node
from fpga_dynamo.torch_internals.quantized import decomposed


def name_fake_quantization(module: GraphModule, static_inputs: Collection[int] = ()) -> None:
    """Rewrites the graph in place. static_inputs: positions of parameters and buffers among the placeholders."""
    fakes = [node for node in module.graph.nodes if node.target in _FAKE]
    scaled = [node for node in module.graph.nodes if node.target is aten.mul.Tensor and _is_float32(node)]
    if not fakes and not scaled:
        return
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    static = made_of([placeholders[i] for i in static_inputs if i < len(placeholders)], module)
    for node in fakes:
        _name_fake(module, node, static)
    for node in scaled:
        if node in static:
            _name_weight(module, node)


Pair = tuple[Any, Any, tuple[Any, ...]]
"""A quantising and a dequantising operator, and the arguments of both between their operand and the dtype."""


def _by_tensor(node: Node, _: Collection[Node]) -> Pair:
    return QUANTIZE, DEQUANTIZE, node.args[1:5]


def _by_tensor_of_tensors(node: Node, _: Collection[Node]) -> Pair | None:
    """A scale that is a buffer, and a switch that has to be on."""
    scale, zero, enabled, low, high = node.args[1:6]
    on = isinstance(enabled, Node) and enabled.target in (aten.ones.default, aten.full.default)
    if not on or (enabled.target is aten.full.default and enabled.args[1] != 1):  # type: ignore[union-attr]
        return None
    return QUANTIZE_DYNAMIC[0], DEQUANTIZE_DYNAMIC[0], (scale, zero, low, high)


def _by_channel(node: Node, static: Collection[Node]) -> Pair | None:
    """Of weights; no core multiplies activations that have a scale for each channel."""
    return (decomposed.quantize_per_channel.default, DEQUANTIZE_CHANNELS, node.args[1:6]) if node in static else None


_FAKE: dict[object, Callable[[Node, Collection[Node]], Pair | None]] = {
    aten.fake_quantize_per_tensor_affine_cachemask.default: _by_tensor,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _by_tensor_of_tensors,
    aten.fake_quantize_per_channel_affine_cachemask.default: _by_channel,
}


def _name_fake(module: GraphModule, node: Node, static: Collection[Node]) -> None:
    """A fake quantization whose mask, which gradients need, nobody reads."""
    items = [item for item in node.users if item.users]
    pair, x = _FAKE[node.target](node, static), node.args[0]
    if pair is None or not isinstance(x, Node) or value(x).dtype is not torch.float32:
        return
    if any(item.target is not operator.getitem or item.args[1] != 0 for item in items):
        return
    quantize, dequantize, settings = pair
    dtype = _integers(*settings[-2:])
    if dtype is None:
        return
    with module.graph.inserting_before(node):
        rounded = make_node(module, node, quantize, (x, *settings, dtype), of_dtype(value(x), dtype))
        scaled = make_node(module, node, dequantize, (rounded, *settings, dtype), value(x))
    for item in list(node.users):
        item.replace_all_uses_with(scaled)
        module.graph.erase_node(item)
    module.graph.erase_node(node)


def _integers(low: Any, high: Any) -> torch.dtype | None:
    """The 8-bit type that has all integers of a range, or None."""
    if not isinstance(low, int) or not isinstance(high, int):
        return None
    fitting = (dtype for dtype in BYTES if torch.iinfo(dtype).min <= low and high <= torch.iinfo(dtype).max)
    return next(fitting, None)


def _is_float32(node: Node) -> bool:
    fake = value(node)
    return isinstance(fake, torch.Tensor) and fake.dtype is torch.float32


def _name_weight(module: GraphModule, node: Node) -> None:
    """8-bit weights times a scale for each channel of one dimension."""
    for left, scale in (node.args[:2], node.args[1::-1]):
        integers = _integers_behind(left)
        if integers is None or not isinstance(scale, Node) or not _is_float32(scale):
            continue
        weight, offset = integers
        size, own = shape(weight), shape(scale)
        own = (*(1,) * (len(size) - len(own)), *own)
        axes = [d for d, count in enumerate(own) if count != 1]
        if not size or len(own) != len(size) or len(axes) > 1 or shape(node) != size:
            continue
        axis = axes[0] if axes else 0
        with module.graph.inserting_before(node):
            if offset:
                weight = _shifted(module, node, weight, offset)
            made = _dequantized(module, node, weight, scale, axis)
        node.replace_all_uses_with(made)
        module.graph.erase_node(node)
        return


def _integers_behind(node: Any) -> tuple[Node, int] | None:
    """The int8 values that `node` is as float32; or unsigned ones, minus the 128 that makes them int8."""
    offset = 0
    if isinstance(node, Node) and node.target is aten.sub.Tensor and argument(node, "alpha", 2, 1) == 1:
        node, number = node.args[:2]
        if not isinstance(number, (int, float)) or number != 128:
            return None
        offset = 128
    if not isinstance(node, Node) or node.target is not aten._to_copy.default or not _is_float32(node):
        return None
    source = node.all_input_nodes[0]
    wanted = torch.uint8 if offset else torch.int8
    return (source, offset) if value(source).dtype is wanted else None


def _shifted(module: GraphModule, like: Node, weight: Node, offset: int) -> Node:
    """Unsigned integers minus 128, as int8."""
    wide = of_dtype(value(weight), torch.int16)
    cast = make_node(module, like, aten._to_copy.default, (weight,), wide, {"dtype": torch.int16})
    moved = make_node(module, like, aten.sub.Tensor, (cast, offset), wide)
    narrow = of_dtype(value(weight), torch.int8)
    return make_node(module, like, aten._to_copy.default, (moved,), narrow, {"dtype": torch.int8})


def _dequantized(module: GraphModule, like: Node, weight: Node, scale: Node, axis: int) -> Node:
    count = shape(weight)[axis]
    fake = value(scale)
    own = make_node(module, like, aten.reshape.default, (scale, [-1]), fake.reshape(-1))
    if shape(own) != (count,):
        own = make_node(module, like, aten.expand.default, (own, [count]), value(own).expand(count))
    zeros = {"dtype": torch.int64, "device": fake.device}
    zero = make_node(module, like, aten.zeros.default, ([count],), of_dtype(value(own), torch.int64), zeros)
    limits = torch.iinfo(torch.int8)
    arguments = (weight, own, zero, axis, limits.min, limits.max, torch.int8)
    return make_node(module, like, DEQUANTIZE_CHANNELS, arguments, value(like))
