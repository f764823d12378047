"""Pass: what the hardware engine's patterns match, and why each other node stays on the host.

An engine of bfloat16 or float32 takes graphs of that type.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.target import EngineTarget
from fpga_dynamo.ir.graph import GraphInfo, computes, is_view, refuse_sizes, value
from fpga_dynamo.ir.quantised import DEQUANTIZE, QUANTIZE
from fpga_dynamo.lowering.engine_patterns import Emit
from fpga_dynamo.lowering.order import engine_patterns
from fpga_dynamo.lowering.passes.select.claim import Claims, why_none
from fpga_dynamo.lowering.patterns import Match, Pattern

Refusals = dict[tuple[str, Node], str]
"""Why the engine does not take what a pattern matches, by the pattern's name and the node that it starts from."""


def claim_for_engine(
    graph: GraphInfo, engine: EngineTarget, refused: Refusals, disabled: Collection[str] = ()
) -> Claims:
    """The matches of patterns that are not `disabled`, without what is refused; reasons in the graph's order."""
    graph.claimed.clear()
    none = why_none(graph)
    matches = [] if none is not None else _matches(graph, engine, refused, disabled)
    if engine.sizes.casts and none is None:
        matches += _casts(graph, engine, refused, disabled, {node for match in matches for node in match.outputs})
    nodes = [node for node in graph.module.graph.nodes if computes(node) and node not in graph.static]
    left = (node for node in nodes if node not in graph.claimed)
    return Claims(matches, {node: none or _reason(node, engine, refused) for node in left})


def _casts(
    graph: GraphInfo, engine: EngineTarget, refused: Refusals, disabled: Collection[str], made: Collection[Node]
) -> list[Match]:
    """Those between the host and matches, which make the values `made`. Others would be launches of their own."""
    table, matches = _by_anchor(engine, disabled, last=True), []
    for node in graph.module.graph.nodes:
        if node in graph.claimed or node in graph.static or node.target not in table or refuse_sizes(node):
            continue
        (pattern,) = table[node.target]
        beside = _read_by_matches(node, graph) if node.target is QUANTIZE else _base(node.all_input_nodes[0]) in made
        match = pattern.match(pattern, node, graph) if beside and (pattern.name, node) not in refused else None
        if match is not None:
            match.anchor = node
            matches.append(match)
    graph.claimed.update(node for match in matches for node in match.nodes)
    return matches


def _read_by_matches(node: Node, graph: GraphInfo) -> bool:
    waiting = list(node.users)
    while waiting:
        user = waiting.pop()
        if user in graph.claimed:
            return True
        if is_view(user):
            waiting += user.users
    return False


def _base(node: Node) -> Node:
    """The value that a view shows."""
    while is_view(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def _matches(graph: GraphInfo, engine: EngineTarget, refused: Refusals, disabled: Collection[str]) -> list[Match]:
    table = _by_anchor(engine, disabled)
    matches = []
    for node in graph.module.graph.nodes:
        if node.op != "call_function" or node in graph.claimed or node in graph.static or refuse_sizes(node):
            continue
        for pattern in table.get(node.target, ()):
            if (pattern.name, node) in refused:
                continue
            match = pattern.match(pattern, node, graph)
            if match is not None and graph.claimed.isdisjoint(match.nodes):
                match.anchor = node
                graph.claimed.update(match.nodes)
                matches.append(match)
                break
    return matches


def _by_anchor(engine: EngineTarget, disabled: Collection[str], *, last: bool = False) -> dict[object, list[Pattern]]:
    table: dict[object, list[Pattern]] = {}
    for row in engine_patterns(floats=engine.sizes.is_float):
        if row.pattern.name not in disabled and row.last == last:
            for anchor in row.pattern.anchors:
                table.setdefault(anchor, []).append(row.pattern)
    return table


def emit_of(match: Match, engine: EngineTarget) -> Emit:
    """What the engine does with a match."""
    rows = engine_patterns(floats=engine.sizes.is_float)
    return next(row.emit for row in rows if row.pattern is match.pattern)


def anchor_of(match: Match) -> Node:
    """The node that the match's pattern started from."""
    assert match.anchor is not None
    return match.anchor


def _reason(node: Node, engine: EngineTarget, refused: Refusals) -> str:
    why = next((why for (_, anchor), why in refused.items() if anchor is node), None)
    if why is not None:
        return why
    if node.target is QUANTIZE:
        return "the host rounds its input before the transfer"
    if node.target is DEQUANTIZE:
        return "the host scales the result after the transfer"
    fakes = [value(arg) for arg in node.all_input_nodes]
    if not engine.sizes.is_float and any(
        isinstance(fake, torch.Tensor) and fake.dtype is torch.float32 for fake in fakes
    ):
        return f"{node.target} is in float32 here, or has no engine command"
    return f"{node.target} has no engine command"
