"""Pass: which pattern matches which nodes, and the reason why each other node falls back to eager mode."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from torch.fx import Node

from fpga_dynamo.errors import PatternError
from fpga_dynamo.ir.graph import GraphInfo, computes, is_effectful, is_view, mutates, refuse_sizes
from fpga_dynamo.lowering.ops.host import REASONS, short
from fpga_dynamo.lowering.passes.select.constants import refuse_constants
from fpga_dynamo.lowering.passes.select.fuse import fuse
from fpga_dynamo.lowering.passes.select.legality import refuse_illegal
from fpga_dynamo.lowering.patterns import TABLE, Match, Pattern
from fpga_dynamo.lowering.user_patterns import Mistakes, call_check, call_match, call_merge
from fpga_dynamo.torch_internals.dispatch import OpOverload


@dataclass
class Claims:
    """matches: groups that the card can run, in no particular order; reasons: why a node is in none."""

    matches: list[Match] = field(default_factory=list)
    reasons: dict[Node, str] = field(default_factory=dict)

    @property
    def pattern_of(self) -> dict[Node, str]:
        """The name of the pattern that has each node of a match."""
        return {node: match.pattern.name for match in self.matches for node in match.nodes}


@dataclass(frozen=True)
class _Checks:
    """What a match is checked by. illegal: eager mode's error for a node, or None; fits_int32: of constants."""

    graph: GraphInfo
    mistakes: Mistakes
    illegal: dict[Node, str | None] = field(default_factory=dict)
    fits_int32: dict[Node, bool] = field(default_factory=dict)

    def refuse(self, match: Match) -> str | None:
        """Why the card cannot run a match, or None."""
        if not self.graph.target.kernels_for(match.opcodes):
            kernels = self.graph.target.kernels
            lacking = [f"{kernel.name} lacks {', '.join(sorted(match.opcodes - kernel.opcodes))}" for kernel in kernels]
            return f"no kernel of the xclbin has all its opcodes: {'; '.join(lacking) or 'the xclbin has no sequencer'}"
        illegal = refuse_illegal(match.nodes, self.illegal)
        return illegal or refuse_constants(match.nodes, self.graph, self.fits_int32)


def why_none(graph: GraphInfo) -> str | None:
    """Why eager has to run all of a graph; None if it has not."""
    mutating = next(filter(mutates, graph.module.graph.nodes), None)
    if mutating is None:
        return None
    return f"{mutating.target} in the graph writes to memory that other nodes read; such graphs run in eager mode only"


def claim(graph: GraphInfo, disabled: Iterable[str] = (), mistakes: Mistakes | None = None) -> Claims:
    """Tries the patterns on every node in topological order, then groups what is element-wise.

    mistakes: what users' patterns have done wrong already; gets what they do wrong here.
    """
    checks = _Checks(graph, Mistakes() if mistakes is None else mistakes)
    if (none := why_none(graph)) is not None:
        return Claims(reasons={node: none for node in graph.module.graph.nodes if computes(node)})
    disabled = tuple(disabled)
    table = TABLE.by_anchor(disabled)
    claims = Claims()
    for node in graph.module.graph.nodes:
        if node.op != "call_function" or node in graph.claimed or node in graph.static:
            continue
        if (unknown := refuse_sizes(node)) is not None:
            if computes(node):
                claims.reasons[node] = unknown
            continue
        for pattern in table.get(node.target, ()):
            match, refused = _try_pattern(pattern, node, checks)
            if match is None:
                if refused is not None:
                    claims.reasons.setdefault(node, refused)
                continue
            if refused is None:
                graph.claimed.update(match.nodes)
                claims.matches.append(match)
                claims.reasons.pop(node, None)
                break
            claims.reasons.setdefault(node, refused)
    for pattern in TABLE.merging(disabled):
        alone = _alone(pattern, claims.reasons, checks)
        for match in fuse(alone, graph, partial(_try_merge, checks=checks)):
            if (why := checks.refuse(match)) is None:
                graph.claimed.update(match.nodes)
                claims.matches.append(match)
                for node in match.nodes:
                    claims.reasons.pop(node, None)
            else:
                claims.reasons.update({node: why for node in match.nodes if node.target is not operator.getitem})
    for node in graph.module.graph.nodes:
        if node not in graph.claimed and node not in graph.static and computes(node):
            claims.reasons.setdefault(node, _default_reason(node, disabled))
    return claims


def _try_pattern(pattern: Pattern, node: Node, checks: _Checks) -> tuple[Match | None, str | None]:
    """What a pattern makes of a node, and why the card cannot run that; a reason alone if it failed."""
    graph, mistakes = checks.graph, checks.mistakes
    if TABLE.is_users(pattern):
        if (reason := mistakes.reason(pattern, node)) is not None:
            return None, reason
        try:
            match = call_match(pattern, node, graph)
            if match is None or not graph.claimed.isdisjoint(match.nodes):
                return None, None
            return match, call_check(match, graph) or checks.refuse(match)
        except PatternError as error:
            return None, mistakes.note(error)
    match = pattern.match(pattern, node, graph)
    if match is None or not graph.claimed.isdisjoint(match.nodes):
        return None, None
    return match, match.pattern.check(match, graph) or checks.refuse(match)


def _alone(pattern: Pattern, reasons: dict[Node, str], checks: _Checks) -> list[Match]:
    """Matches of a pattern that merges for nodes that are left; refusals go into `reasons`.

    Nodes that another pattern has refused are left too: a sum that is unsupported in integers may be one in floats.
    """
    graph, anchors = checks.graph, frozenset(pattern.anchors)
    found = []
    for node in graph.module.graph.nodes:
        if node.op != "call_function" or node.target not in anchors or refuse_sizes(node) is not None:
            continue
        if node in graph.claimed or node in graph.static:
            continue
        match, refused = _try_pattern(pattern, node, checks)
        if refused is not None:
            reasons.setdefault(node, refused)
        elif match is not None:
            found.append(match)
    return found


def _try_merge(one: Match, group: Match, *, checks: _Checks) -> Match | None:
    pattern = one.pattern
    assert pattern.merge is not None
    if not TABLE.is_users(pattern):
        return pattern.merge(one, group, checks.graph)
    try:
        return call_merge(one, group, checks.graph)
    except PatternError as error:
        checks.mistakes.note(error)
        return None


def _default_reason(node: Node, disabled: tuple[str, ...]) -> str:
    if is_effectful(node):
        return "random numbers and state changes run in eager mode only"
    if is_view(node):
        return "a view: no computation"
    if disabled:
        return f"no pattern matches it with {', '.join(disabled)} disabled"
    why = REASONS.get(short(node.target)) if isinstance(node.target, OpOverload) else None
    return f"no pattern matches {node.target}" + (f": {why}" if why else "")
