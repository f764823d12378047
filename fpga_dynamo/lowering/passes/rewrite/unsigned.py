"""Passes: bytes between two operators become unsigned, or for an engine signed.

A CPU's int8 product has one unsigned operand. For signed bytes the cores add 128 to each, while they fill a local
array, and subtract 128 times the sums of the weights. Some integers are written by the graph itself and read only as
dequantised values. They can be 128 greater from the start, with a zero point that is 128 greater too. Each then stands
for the same number as before, and maps are read in place. A hardware engine multiplies signed bytes, so there it is the
other way round, as for models of onnxruntime, whose activations are unsigned.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import arguments, made_of, value
from fpga_dynamo.ir.quantised import QUANTIZE, dequantized, quantizes, scale_of
from fpga_dynamo.ir.sizes.tensor import of_dtype


def without_signs(module: GraphModule, static_inputs: Collection[int] = ()) -> None:
    """Rewrites the graph in place; one without quantised values stays as it is.

    static_inputs: positions of parameters and buffers among the placeholders. What is made of these alone is weights,
    whose signs the products want.
    """
    _shift_all(module, static_inputs, torch.int8, torch.uint8)


def with_signs(module: GraphModule, static_inputs: Collection[int] = ()) -> None:
    """The reverse of :func:`without_signs`."""
    _shift_all(module, static_inputs, torch.uint8, torch.int8)


def _shift_all(module: GraphModule, static_inputs: Collection[int], old: torch.dtype, new: torch.dtype) -> None:
    quantising = module.graph.find_nodes(op="call_function", target=QUANTIZE)
    if not quantising:
        return
    placeholders = list(module.graph.find_nodes(op="placeholder"))
    static = made_of([placeholders[i] for i in static_inputs if i < len(placeholders)], module)
    for node in quantising:
        if _only_real(node, old) and node not in static:
            _shift(node, new)
            node.meta["val"] = of_dtype(value(node), new)
            for reader in list(node.users):
                _shift(reader, new)


def _only_real(node: Node, dtype: torch.dtype) -> bool:
    """Whether all bytes of the type occur, and whoever reads them reads the numbers that they stand for."""
    scale, limits = quantizes(node), torch.iinfo(dtype)
    if scale is None or (scale.low, scale.high, scale.dtype) != (limits.min, limits.max, dtype):
        return False
    return bool(node.users) and all(dequantized(user) is not None and scale_of(user) == scale for user in node.users)


def _shift(node: Node, dtype: torch.dtype) -> None:
    integers, scale, zero, low, high, _, *rest = arguments(node)
    by = torch.iinfo(dtype).min - low
    node.args = (integers, scale, zero + by, low + by, high + by, dtype, *rest)
