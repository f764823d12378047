"""What products of a quantised graph are computed in, and why not in integers."""

from __future__ import annotations

import torch
from torch.fx import Node

from fpga_dynamo.ir.graph import GraphInfo, aten, operand, value
from fpga_dynamo.ir.quantised import DEQUANTIZE, DEQUANTIZE_DYNAMIC, QUANTIZE, QUANTIZE_DYNAMIC
from fpga_dynamo.lowering.patterns import TABLE

_SUFFIX = "_int8"
_SIGNS = frozenset({QUANTIZE, DEQUANTIZE, *QUANTIZE_DYNAMIC, *DEQUANTIZE_DYNAMIC, aten._int_mm.default})


def is_quantised(graph: GraphInfo) -> bool:
    """Whether a graph has values of eight bits that stand for floating-point values, be they weights alone."""
    return any(node.target in _SIGNS or _is_weight(node, graph) for node in graph.module.graph.nodes)


def _is_weight(node: Node, graph: GraphInfo) -> bool:
    """Whether static bytes become floating-point values, as those of torchao's Int8WeightOnlyConfig."""
    if node.target is not aten._to_copy.default or not graph.from_inputs(operand(node, 0)):
        return False
    return value(operand(node, 0)).dtype is torch.int8 and value(node).dtype.is_floating_point


def arithmetic(node: Node, pattern: str, graph: GraphInfo) -> str:
    """``int8``, or ``float32, because ...``, for a node that multiplies. pattern: which matched it, or ""."""
    if pattern.endswith(_SUFFIX):
        return "int8"
    return f"float32, because {_why_not(node, graph)}"


def _why_not(node: Node, graph: GraphInfo) -> str:
    able = [p for p in TABLE.by_anchor().get(node.target, ()) if p.name.endswith(_SUFFIX)]
    if not able:
        return f"{node.target} has no int8 core"
    for pattern in able:
        match = pattern.match(pattern, node, graph)
        if match is None:
            continue
        if (why := pattern.check(match, graph)) is not None:
            return why
        if not graph.target.kernels_for(match.opcodes):
            return f"no kernel of the xclbin has {', '.join(sorted(pattern.opcodes))}"
        return "the partition falls back to eager mode, or the pattern is disabled"
    return "an operand of the product is not int8 or uint8"
