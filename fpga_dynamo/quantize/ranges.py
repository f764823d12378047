"""Joins (cat, stack) whose parts have ranges that no single scale suits, found by running the float graph."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from fpga_dynamo.quantize.capture import LayerWatch
from fpga_dynamo.quantize.join_readers import are_coarse, sums_behind
from fpga_dynamo.quantize.operators import CONCATENATIONS, MOVES, is_float, is_parameter
from fpga_dynamo.quantize.part_scales import scale_parts
from fpga_dynamo.torch_internals.pytree import tree_leaves

LARGEST_RATIO = 8.0
"""Between the ranges of parts that share a scale: the smallest then has 32 of 256 levels, 18 dB less than by itself."""


def separate_cats(graph: GraphModule, calls: Iterable[list[Any]]) -> list[str]:
    """Names of the joins whose parts should not share a scale, by the ranges in `calls` (flat inputs); warns of each.

    Parts of joins that read each other share one scale altogether, so their ranges are compared altogether. A join
    whose readers are as coarse may have one scale. Where only layers read a join, its parts are scaled, in place.
    """
    joins = [node for node in graph.graph.nodes if node.target in CONCATENATIONS and is_float(node)]
    joins = [node for node in joins if len(_parts(node)) > 1]
    if not joins:
        return []
    sums = {node for join in joins for node in sums_behind(join)}
    parts = {part for join in joins for part in _parts(join)}
    ranges = _ranges(graph, parts | sums, calls)
    groups: dict[Node, set[Node]] = {}

    def members(node: Node) -> set[Node]:
        """Parts whose scale a value has."""
        while node.target in MOVES and isinstance(node.args[0], Node) and node not in groups:
            node = node.args[0]
        return groups.setdefault(node, {node})

    found = []
    for join in joins:
        together = set().union(*(members(part) | {part} for part in _parts(join)))
        known = {node: ranges[node] for node in together & parts if ranges.get(node, 0.0) > 0}
        least, most = (choose(known, key=known.__getitem__, default=None) for choose in (min, max))
        far_apart = least is not None and most is not None and known[most] > LARGEST_RATIO * known[least]
        if far_apart and not are_coarse(graph, join, known, ranges):
            assert least is not None
            assert most is not None
            if not scale_parts(graph, join, known):
                found.append(join.name)
                _warn(join, least, most, known)
            continue
        together.add(join)
        for node in list(together):
            groups[node] = together
    return found


def has_cats(graph: GraphModule) -> bool:
    """Whether a graph has a join of several parts."""
    return any(node.target in CONCATENATIONS and len(_parts(node)) > 1 for node in graph.graph.nodes)


def _parts(join: Node) -> list[Node]:
    parts = join.args[0] if isinstance(join.args[0], (list, tuple)) else ()
    return [part for part in dict.fromkeys(parts) if isinstance(part, Node) and is_float(part)]


def _ranges(graph: GraphModule, parts: set[Node], calls: Iterable[list[Any]]) -> dict[Node, float]:
    """What an affine scale of each part has to span, zero included."""
    low, high = dict.fromkeys(parts, 0.0), dict.fromkeys(parts, 0.0)

    def see(node: Node, value: Any) -> Any:
        if node in parts and isinstance(value, Tensor) and value.numel():
            finite = value.detach()[value.isfinite()]
            if finite.numel():
                low[node] = min(low[node], float(finite.min()))
                high[node] = max(high[node], float(finite.max()))
        return value

    with torch.no_grad():
        for flat in calls:
            watch = LayerWatch(graph, see)
            for node, value in zip((n for n in graph.graph.nodes if n.op == "placeholder"), flat, strict=False):
                see(node, value)
            watch.run(*flat, enable_io_processing=False)
    for node in parts:
        if is_parameter(node) and node.op == "get_attr":
            value = graph.get_parameter(str(node.target)) if node.target in dict(graph.named_parameters()) else None
            if value is not None:
                see(node, value)
    return {node: high[node] - low[node] for node in parts}


def _warn(join: Node, least: Node, most: Node, ranges: dict[Node, float]) -> None:
    ratio = ranges[most] / ranges[least]
    levels, loss = max(1, math.floor(256 / ratio)), 20 * math.log10(ratio)
    warnings.warn(
        f"{join.name} stays in float32, and so do products that read it: its parts have ranges from "
        f"{ranges[least]:.3g} ({least.name}) to {ranges[most]:.3g} ({most.name}). With one scale "
        f"for all, {least.name} would have {levels} of 256 levels, and lose {loss:.0f} dB",
        RuntimeWarning,
        stacklevel=4,
    )


def flat_inputs(graph: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """A call's inputs, one for each placeholder."""
    flat = [*args, *kwargs.values()]
    count = sum(node.op == "placeholder" for node in graph.graph.nodes)
    return flat if len(flat) == count else tree_leaves((args, kwargs))
