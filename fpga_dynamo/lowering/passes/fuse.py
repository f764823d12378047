"""Pass: groups of element-wise nodes that become one micro-program.

Nodes are taken in reverse order. A node joins the group of its users if all of them are in one group, shapes agree and
the micro-program still fits registers, constants and streams. A group so has one result and cannot be part of a cycle.
"""

from __future__ import annotations

import operator

from torch.fx import Node

from fpga_dynamo.ir.graph import BATCH_NORM, GraphInfo, shape, value
from fpga_dynamo.lowering.ops.elementwise.pointwise import (
    POINTWISE,
    GroupProgram,
    batch_norm_of,
    refuse_pointwise,
    refuse_program,
)
from fpga_dynamo.lowering.passes.constants import refuse_constants
from fpga_dynamo.lowering.patterns import Match

GROUP_NODES = 48
"""Largest group: bounds the time that trying another member takes."""


def fuse_elementwise(graph: GraphInfo, reasons: dict[Node, str]) -> list[Match]:
    """Matches of pattern ``pointwise`` for the nodes that no pattern has claimed; refusals go into `reasons`."""
    eligible = _eligible(graph, reasons)
    group_of: dict[Node, list[Node]] = {}
    groups: list[list[Node]] = []
    for node in reversed(list(graph.module.graph.nodes)):
        if node not in eligible:
            continue
        group = _joinable(node, group_of)
        if group is None:
            group = [node]
            groups.append(group)
        else:
            group.insert(0, node)
        group_of[node] = group
    return [_match(group) for group in reversed(groups)]


def _eligible(graph: GraphInfo, reasons: dict[Node, str]) -> set[Node]:
    """Value nodes (for a batch norm, its item 0) that the pointwise core can compute alone."""
    found: set[Node] = set()
    for node in graph.module.graph.nodes:
        if node in graph.claimed or node.op != "call_function" or node in graph.static:
            continue
        if node.target not in POINTWISE.anchors or node in reasons:
            continue
        if why := refuse_pointwise(node, graph) or refuse_constants([node], graph):
            reasons[node] = why
            continue
        result = node
        if node.target is BATCH_NORM:
            items = [u for u in node.users if u.target is operator.getitem and u.args[1] == 0]
            if len(items) != 1:
                reasons[node] = "its value is not used"
                continue
            result = items[0]
        if why := refuse_program(result, graph):
            reasons[node] = why
            continue
        found.add(result)
    return found


def _joinable(node: Node, group_of: dict[Node, list[Node]]) -> list[Node] | None:
    users = [_value_node(user) for user in node.users]
    if not users or any(user not in group_of for user in users):
        return None
    group = group_of[users[0]]
    if any(group_of[user] is not group for user in users) or len(group) >= GROUP_NODES:
        return None
    if shape(node) != shape(group[-1]) or value(node).dim() == 0:
        return None
    if GroupProgram([node, *group]).assembly is None:
        return None
    return group


def _value_node(user: Node) -> Node:
    """The node whose value a user computes: of a batch norm, its item 0."""
    if user.target is BATCH_NORM:
        return next((item for item in user.users if item.args[1] == 0), user)
    return user


def _match(group: list[Node]) -> Match:
    nodes: list[Node] = []
    for node in group:
        norm = batch_norm_of(node)
        nodes += [node] if norm is None else [norm, node]
    return Match(POINTWISE, tuple(nodes), (group[-1],))
