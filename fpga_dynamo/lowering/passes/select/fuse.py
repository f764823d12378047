"""Pass: matches of patterns that merge, such as element-wise ops, grow into groups that become one command.

Matches of single nodes are taken in reverse order. One joins the group of its users if all of them are in one group and
the pattern says that both are one match. A group so has one result and cannot be part of a cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch.fx import Node

from fpga_dynamo.ir.graph import GraphInfo
from fpga_dynamo.lowering.patterns import Match

MOST_MERGED = 48
"""Matches of the largest group: bounds the time that trying another one takes."""


@dataclass
class _Group:
    match: Match
    size: int = 1


def fuse(matches: Iterable[Match], graph: GraphInfo, merge: Callable[[Match, Match], Match | None]) -> list[Match]:
    """`matches` of one pattern in groups; merge(match, group of its users) gives one match of both, or None."""
    group_of: dict[Node, _Group] = {}
    groups: list[_Group] = []
    for match in sorted(matches, key=lambda match: graph.position[match.root], reverse=True):
        group = _group_of_users(match, group_of)
        merged = None if group is None else merge(match, group.match)
        if group is None or merged is None:
            group = _Group(match)
            groups.append(group)
        else:
            group.match, group.size = merged, group.size + 1
        group_of.update(dict.fromkeys(match.nodes, group))
    return [group.match for group in reversed(groups)]


def _group_of_users(match: Match, group_of: dict[Node, _Group]) -> _Group | None:
    """The group that all users of a match are in, if it may still grow."""
    users = list(match.root.users)
    if len(match.outputs) != 1 or not users or any(user not in group_of for user in users):
        return None
    group = group_of[users[0]]
    return group if group.size < MOST_MERGED and all(group_of[user] is group for user in users) else None
