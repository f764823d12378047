"""Pass: the launches of a graph on the hardware engine, and their commands.

`torch.compile` (launch.py) and `fpga-dynamo estimate` both lower here. Every node that the engine supports runs there,
whatever a launch costs: who builds an xclbin of an engine asks for that. A pattern may refuse a match while it emits
commands, if the engine's memories are too small. Then the graph is lowered again without that match, and the nodes of
the match run on the host.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch.fx import Node

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError
from fpga_dynamo.codegen.engine.target import EngineTarget
from fpga_dynamo.ir.graph import GraphInfo, shape
from fpga_dynamo.ir.quantised import QUANTIZE
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.engine.common.concatenations import Concatenation
from fpga_dynamo.lowering.ops.engine.int8.vector_side import channel_axis
from fpga_dynamo.lowering.passes.engine.claim import Refusals, anchor_of, claim_for_engine, emit_of
from fpga_dynamo.lowering.passes.select.partition import Machine, Partition, Segment, partition
from fpga_dynamo.lowering.patterns import Match


class LaunchMemory:
    """The device memory of one launch, or of several, and the emitter that places maps there.

    made: where values of matches lie, and the launch that makes each. given: values that the host writes.
    """

    def __init__(self, graph: GraphInfo, engine: EngineTarget) -> None:
        self.made: dict[Node, tuple[View, int]] = {}
        self.given: set[Node] = set()
        self.emitter = EngineEmitter(graph, engine, lambda node: node in self.given or _is_at_hand(node, graph))


@dataclass(frozen=True)
class EnginePlan:
    """memories: one for all launches, or one for each segment on the card, in their order."""

    parts: Partition
    memories: list[LaunchMemory]


def plan_for_engine(
    graph: GraphInfo,
    engine: EngineTarget,
    *,
    disabled: Collection[str] = (),
    granularity: str = "launch",
    one_memory: bool = False,
) -> EnginePlan:
    """The segments of a graph, and the commands of those on the card.

    one_memory: all launches share a memory, so that a later launch finds there what an earlier one made. Else each
    launch has its own, and the host copies such values.
    """
    kernel = graph.target.engine
    assert kernel is not None
    machine = Machine(kernels=lambda match: (kernel.name,), seconds=lambda match: 0.0)  # launch.py knows the cycles
    refused: Refusals = {}
    while True:
        before = len(refused)
        claims = claim_for_engine(graph, engine, refused, disabled)
        parts = partition(graph, claims, machine, greedy=True, granularity=granularity)
        on_card = [segment for segment in parts.segments if segment.on_card]
        sharing = [on_card] if one_memory else [[segment] for segment in on_card]
        memories = [_emit_launches(graph, engine, segments, refused) for segments in sharing]
        if len(refused) == before:
            return EnginePlan(parts, memories)


def _emit_launches(
    graph: GraphInfo, engine: EngineTarget, segments: Sequence[Segment], refused: Refusals
) -> LaunchMemory:
    """The memory of these segments, with a launch for each."""
    memory = LaunchMemory(graph, engine)
    matches = [match for segment in segments for match in segment.matches]
    # A cast gives a map of its own, of which a concatenation copies its part.
    outputs = {node for match in matches for node in match.outputs if anchor_of(match).target is not QUANTIZE}
    _plan_concatenations(matches, outputs, memory.emitter)
    for segment in segments:
        _emit(segment, memory, refused)
    return memory


def _emit(segment: Segment, memory: LaunchMemory, refused: Refusals) -> None:
    """Appends a launch with the commands of a segment.

    Adds what the engine refuses to `refused`; the launch is incomplete then.
    """
    emitter, made = memory.emitter, memory.made
    memory.given.update(node for node in segment.inputs if node not in made)
    emitter.begin_launch()
    for match in segment.matches:
        anchor = anchor_of(match)
        try:
            with emitter.lowering(anchor, match.pattern.name):
                places = emit_of(match, emitter.engine)(match, emitter)
        except RefusedError as error:
            refused[match.pattern.name, anchor] = str(error)
            memory.given.update(match.outputs)  # who reads them goes on as if the host had made them
            continue
        for node, view in zip(match.outputs, places, strict=bool(places)):
            emitter.define(node, view)
            made[node] = (view, len(emitter.lists.launches) - 1)
    for node in segment.outputs:
        if node in emitter.rounded and node not in made:
            made[node] = (emitter.view(node), len(emitter.lists.launches) - 1)


def _plan_concatenations(matches: list[Match], outputs: Collection[Node], emitter: EngineEmitter) -> None:
    """Parts of concatenations are written to their place by those that make them, where blocks allow it."""
    for match in reversed(matches):
        if not isinstance(match.bound, Concatenation) or not channel_axis(match.root):
            continue
        node, first = match.root, 0
        out = emitter.placements.setdefault(node, emitter.result(node))
        axis = 1 if len(shape(node)) == 4 else len(shape(node)) - 1
        for part in match.bound.parts:
            count = shape(part)[axis]
            place = out.narrow(axis, first, count)
            first += count
            if part in outputs and part not in emitter.placements and place.offset % 16 == 0:
                emitter.placements[part] = place


def _is_at_hand(node: Node, graph: GraphInfo) -> bool:
    """Whether it is a parameter or constant as it came with the graph, which can be handed over like an input."""
    return node in graph.static and node.op in ("placeholder", "get_attr")
