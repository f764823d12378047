"""Fused attention of an exported graph as products and a softmax, which can be annotated one by one."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.quantize.builder import Builder
from fpga_dynamo.quantize.parameters import buffer, evaluated

aten = torch.ops.aten
_FUSED = aten.scaled_dot_product_attention.default


def is_fused(model: GraphModule) -> bool:
    """Whether a graph has a ``scaled_dot_product_attention``."""
    return any(node.target is _FUSED for node in model.graph.nodes)


def take_apart(model: GraphModule) -> None:
    """Replaces each ``scaled_dot_product_attention`` without dropout and nested tensors, in place.

    softmax(query keys^T * scale + mask) values, as the operator's documentation defines it.
    """
    changed = False
    for node in list(model.graph.nodes):
        if node.op == "call_function" and node.target is _FUSED:
            changed = _replace(model, node) or changed
    if changed:
        model.graph.eliminate_dead_code()
        model.recompile()


def _replace(model: GraphModule, node: Node) -> bool:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given: dict[str, Any] = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    query, key, value, mask = given["query"], given["key"], given["value"], given.get("attn_mask")
    if given.get("dropout_p"):
        return False
    shapes = [operand.meta["val"].shape for operand in (query, key, value)]
    rows, columns = shapes[0][-2], shapes[1][-2]
    if given.get("is_causal") and not (isinstance(rows, int) and isinstance(columns, int)):
        return False  # its mask is no constant
    scale = given.get("scale") or 1 / math.sqrt(int(shapes[0][-1]))
    add = Builder(model, node)

    def repeated(heads: Node) -> Node:
        """Keys or values of grouped heads, once for each head of the queries."""
        *batch, count, length, features = heads.meta["val"].shape
        times = shapes[0][-3] // count
        if not given.get("enable_gqa") or times == 1:
            return heads
        each = add(aten.expand.default, add(aten.unsqueeze.default, heads, -3), [*batch, count, times, -1, -1])
        return add(aten.reshape.default, each, [*batch, count * times, length, features])

    key, value = repeated(key), repeated(value)
    scores = add(aten.matmul.default, query, add.transposed(key))
    scores = add(aten.mul.Tensor, scores, scale)

    def added(name: str, numbers: torch.Tensor) -> Node:
        with model.graph.inserting_before(node):
            return buffer(model, name, numbers, query.meta["val"].new_empty(numbers.shape))

    if given.get("is_causal"):
        mask = added(f"_causal_mask_{rows}_{columns}", torch.full((rows, columns), -math.inf).triu(1))
    if mask is not None:
        known = evaluated(model, mask, {}) if mask.meta["val"].dtype == torch.bool else None
        if known is not None:
            mask = added(f"_mask_{mask.name}", torch.where(known, 0.0, -math.inf))
        if mask.meta["val"].dtype == torch.bool:
            scores = add(aten.masked_fill.Scalar, scores, add(aten.logical_not.default, mask), -math.inf)
        else:
            scores = add(aten.add.Tensor, scores, mask)
    weights = add(aten.softmax.int, scores, -1)
    result = add(aten.matmul.default, weights, value)
    node.replace_all_uses_with(result)
    model.graph.erase_node(node)
    return True
