"""ATen graph -> command lists of the hardware engine: claims, launches, commands.

The matches are those of the patterns that say how an engine computes them (`Pattern.engine`). What an engine of these
sizes cannot do is refused by the pattern while it emits; then all is done again without that match, so that its nodes
run on the host. Values between two matches never leave the card; before and behind a launch the host writes and reads
maps, in the order of hls_kernels/engine/layout.hpp. An engine of bfloat16 or float32 takes graphs of that type.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.codegen.engine.emitter import EngineEmitter, Lists
from fpga_dynamo.codegen.engine.maps import Map, RefusedError
from fpga_dynamo.codegen.engine.target import EngineTarget
from fpga_dynamo.ir.graph import GraphInfo, computes, is_view, refuse_sizes, shape, value
from fpga_dynamo.ir.quantised import DEQUANTIZE, QUANTIZE
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering import ops  # noqa: F401 - fills the pattern table
from fpga_dynamo.lowering.ops.quantised.vector_side import channel_axis
from fpga_dynamo.lowering.passes.normalise import normalise
from fpga_dynamo.lowering.passes.sink import sink_views
from fpga_dynamo.lowering.patterns import Match, Pattern, engine_patterns

Refusals = dict[tuple[str, Node], str]
"""Why the engine does not take what a pattern matches, by the pattern's name and the node that it starts from."""


@dataclass(frozen=True)
class EngineProgram:
    """A graph on an engine.

    taken: the pattern that each node of a match belongs to. left: why each node that computes is none of them, in the
    graph's order. given: the maps that the host writes, by node and channels side by side; fillings: what it fills
    blocks of channels with. made: where the values of matches lie, and the launch that makes each. results: those of
    them that the host reads.
    """

    graph: GraphInfo
    engine: EngineTarget
    lists: Lists
    taken: Mapping[Node, str]
    left: Mapping[Node, str]
    given: Mapping[tuple[Node, int], Map]
    fillings: Mapping[Node, int]
    made: Mapping[Node, tuple[View, int]]
    results: Mapping[Node, View]


def lower_for_engine(module: GraphModule, engine: EngineTarget, static_inputs: Collection[int]) -> EngineProgram:
    """Lowers an ATen graph, which is changed; `static_inputs` are the positions of parameters among its inputs."""
    normalise(module, static_inputs)
    sink_views(module)
    graph = GraphInfo(module, _bare(engine), static_inputs)
    refused: Refusals = {}
    while True:
        before = len(refused)
        graph.claimed.clear()
        found = _lowered(graph, engine, refused)
        if len(refused) == before:
            return found


def _bare(engine: EngineTarget) -> Target:
    """What a graph's patterns are told of the card: there are no cores."""
    return Target("", (), {}, {}, {}, {}, engine.platform)


def _lowered(graph: GraphInfo, engine: EngineTarget, refused: Refusals) -> EngineProgram:
    """A program without what is `refused`, which gets what the emitter refuses; then the program is none to use."""
    matches = claimed(graph, engine, refused)
    owner = {node: match for match in matches for node in match.nodes}
    stages = _stages(graph, owner)
    outputs = {node for match in matches for node in match.outputs}
    gone: set[Node] = set()  # values of what is refused meanwhile, which the host is then taken to make
    emitter = EngineEmitter(graph, engine, lambda node: _is_made_by_host(node, outputs) or node in gone)
    plan_joins(matches, outputs, emitter)
    made: dict[Node, tuple[View, int]] = {}
    stage = -1
    for match in sorted(matches, key=lambda m: (stages[m.root], graph.position[m.root])):
        while stage < stages[match.root]:
            emitter.begin_launch()
            stage += 1
        anchor = anchor_of(match)
        try:
            with emitter.lowering(anchor, match.pattern.name):
                assert match.pattern.engine is not None
                places = match.pattern.engine(match, emitter)
        except RefusedError as error:
            refused[match.pattern.name, anchor] = str(error)
            gone.update(match.outputs)
            continue
        for node, view in zip(match.outputs, places, strict=True):
            emitter.define(node, view)
            made[node] = (view, stage)
    taken = {node: match.pattern.name for node, match in owner.items()}
    left = reasons_of(graph, engine, taken, refused)
    results = {} if gone else _results(graph, outputs, taken, emitter)
    fillings = {node: emitter.filling(node) for node, _ in emitter.given}
    return EngineProgram(graph, engine, emitter.lists, taken, left, emitter.given, fillings, made, results)


# --- claims -----------------------------------------------------------------------------------------------------------


def claimed(graph: GraphInfo, engine: EngineTarget, refused: Refusals, disabled: Collection[str] = ()) -> list[Match]:
    """What patterns take that are not `disabled`, without what is refused."""
    graph.engine_functions = engine.sizes.has_functions
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
                match.bound["anchor"] = node
                graph.claimed.update(match.nodes)
                matches.append(match)
                break
    return matches


def _by_anchor(engine: EngineTarget, disabled: Collection[str]) -> dict[object, list[Pattern]]:
    table: dict[object, list[Pattern]] = {}
    for pattern in engine_patterns(floats=engine.sizes.is_float):
        if pattern.engine is not None and pattern.name not in disabled:
            for anchor in pattern.anchors:
                table.setdefault(anchor, []).append(pattern)
    return table


def anchor_of(match: Match) -> Node:
    """The node that the match's pattern started from."""
    anchor: Node = match.bound["anchor"]
    return anchor


# --- order ------------------------------------------------------------------------------------------------------------


def _stages(graph: GraphInfo, owner: Mapping[Node, Match]) -> dict[Node, int]:
    """The launch that makes, or comes last before, each value: how often data comes back from the host before it.

    A match needs all that any of its nodes reads, so it is looked at when its root is reached; in the order of roots no
    match stands before what it reads.
    """
    stages: dict[Node, int] = {}
    for node in graph.module.graph.nodes:
        match = owner.get(node)
        if match is None:
            stages[node] = max((stages[arg] for arg in node.all_input_nodes), default=-1)
        elif node is match.root:
            inside = set(match.nodes)
            reads = [arg for member in match.nodes for arg in member.all_input_nodes if arg not in inside]
            own = max((_ready(arg, stages, owner) for arg in reads if arg not in graph.static), default=0)
            stages.update(dict.fromkeys(match.nodes, own))
        else:
            stages[node] = max((stages.get(arg, -1) for arg in node.all_input_nodes), default=-1)
    return stages


def _ready(node: Node, stages: Mapping[Node, int], owner: Mapping[Node, Match]) -> int:
    """The first launch that can read a value: the one that makes it, or the one behind what the host makes."""
    while node not in owner and is_view(node):
        node = node.all_input_nodes[0]
    return stages[node] if node in owner else stages[node] + 1


def _is_made_by_host(node: Node, outputs: Collection[Node]) -> bool:
    if node.target is operator.getitem:  # an item of what the host makes is written to the card, the tuple is not
        return node not in outputs and not is_view(node.all_input_nodes[0])
    return node not in outputs and not is_view(node)


def plan_joins(matches: list[Match], outputs: Collection[Node], emitter: EngineEmitter) -> None:
    """Parts of concatenations are written to their place by those that make them, where blocks allow it."""
    for match in reversed(matches):
        if "parts" not in match.bound or not channel_axis(match.root):
            continue
        node, first = match.root, 0
        out = emitter.placements.setdefault(node, emitter.result(node))
        axis = 1 if len(shape(node)) == 4 else len(shape(node)) - 1
        for part in match.bound["parts"]:
            count = shape(part)[axis]
            place = out.narrow(axis, first, count)
            first += count
            if part in outputs and part not in emitter.placements and place.offset % 16 == 0:
                emitter.placements[part] = place


# --- what the host does -----------------------------------------------------------------------------------------------


def reasons_of(
    graph: GraphInfo, engine: EngineTarget, taken: Collection[Node], refused: Refusals, of_all: str | None = None
) -> dict[Node, str]:
    """Why each node that computes and is not taken is the host's, in the graph's order; `of_all`: said of all."""
    nodes = graph.module.graph.nodes
    left = [node for node in nodes if computes(node) and node not in taken and node not in graph.static]
    return {node: of_all or _reason(node, engine, refused) for node in left}


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


def _results(
    graph: GraphInfo, outputs: Collection[Node], taken: Mapping[Node, str], emitter: EngineEmitter
) -> dict[Node, View]:
    """What of the matches' values nodes of the host read."""
    found = {}
    for node in graph.module.graph.nodes:
        if node in outputs and any(_read_by_host(user, taken) for user in node.users):
            found[node] = emitter.view(node)
    return found


def _read_by_host(user: Node, taken: Mapping[Node, str]) -> bool:
    waiting = [user]
    while waiting:
        at = waiting.pop()
        if at in taken:
            continue
        if not is_view(at):
            return True
        waiting += at.users
    return False
