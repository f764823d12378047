"""Pass, in the place of claim to encode if the xclbin has a hardware engine: its launches, and their commands.

All that the engine takes goes there: whoever builds an xclbin of an engine wants to see it at work, so what a launch
costs is not weighed. Each launch has maps of its own. A value that one makes and a later one reads crosses through the
host, as between any two launches.
"""

from __future__ import annotations

from collections.abc import Collection

from torch.fx import Node

from fpga_dynamo.codegen import cost
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.launch import encoded, told
from fpga_dynamo.codegen.engine.maps import Map, RefusedError
from fpga_dynamo.codegen.engine.target import EngineTarget
from fpga_dynamo.ir.blocked import Blocked
from fpga_dynamo.ir.elements import BEAT_BYTES
from fpga_dynamo.ir.graph import GraphInfo, shape, value
from fpga_dynamo.ir.launch import Lowered, MemoryPlan, Slot
from fpga_dynamo.ir.sizes.size import SizeError
from fpga_dynamo.ir.view import dense, numel
from fpga_dynamo.lowering.passes.claim import Claims, why_none
from fpga_dynamo.lowering.passes.emit import is_dense
from fpga_dynamo.lowering.passes.engine import Refusals, anchor_of, claimed, plan_joins, reasons_of
from fpga_dynamo.lowering.passes.partition import Partition, Segment, partition
from fpga_dynamo.lowering.patterns import TABLE, Match
from fpga_dynamo.options import Options


def plan_for_engine(graph: GraphInfo, options: Options) -> tuple[Partition, list[Lowered | None]]:
    """The segments of a graph, and what each is on the card (None: it is the host's).

    What the engine refuses is found out as commands are made; then all is done again without that match. Raises
    SizeError for a graph whose sizes change: commands are for one set of sizes.
    """
    if graph.sizes is not None:
        raise SizeError("dynamic sizes are not supported by the engine")
    TABLE.by_anchor(options.disable)  # raises OptionError for names that there are not
    engine = EngineTarget.of_card(graph.target)
    refused: Refusals = {}
    while True:
        before = len(refused)
        graph.claimed.clear()
        none = why_none(graph)
        matches = [] if none is not None else claimed(graph, engine, refused, options.disable)
        taken = {node for match in matches for node in match.nodes}
        reasons = reasons_of(graph, engine, taken, refused, none)
        parts = partition(graph, Claims(matches, reasons), greedy=True, granularity=options.granularity)
        lowered = [
            _launch(graph, segment, engine, refused, watch=options.verify) if segment.on_card else None
            for segment in parts.segments
        ]
        if len(refused) == before:
            return parts, lowered


def _launch(graph: GraphInfo, segment: Segment, engine: EngineTarget, refused: Refusals, *, watch: bool) -> Lowered:
    """The commands of a segment, which also gets its time. What the engine refuses is added to `refused`; then the
    launch is none to use."""
    given = set(segment.inputs)
    emitter = EngineEmitter(graph, engine, lambda node: node in given or _is_at_hand(node, graph))
    emitter.begin_launch()
    outputs = {node for match in segment.matches for node in match.outputs}
    plan_joins(segment.matches, outputs, emitter)
    of_anchor = {anchor_of(match): match for match in segment.matches}
    for match in segment.matches:
        anchor = anchor_of(match)
        try:
            with emitter.lowering(anchor, match.pattern.name):
                assert match.pattern.engine is not None
                places = match.pattern.engine(match, emitter)
        except RefusedError as error:
            refused[match.pattern.name, anchor] = str(error)
            given.update(match.outputs)  # who reads them goes on as if the host had made them
            continue
        for node, view in zip(match.outputs, places, strict=True):
            emitter.define(node, view)
    wanted = [node for node in (outputs if watch else segment.outputs) if node not in given]
    results = []
    for node in sorted(wanted, key=graph.position.__getitem__):
        view = emitter.view(node)
        of = view.buffer
        assert isinstance(of, Map)
        results.append(_slot(node, of, of.blocked(value(node).dtype, view=view)))
    inputs = [
        _slot(node, of, of.blocked(value(node).dtype, emitter.filling(node)))
        for (node, _), of in emitter.given.items()
        if of.at is not None
    ]
    (launch,) = emitter.lists.launches
    commands = told(launch, engine, lambda emitted: _names(emitted.node, of_anchor[emitted.node]))
    clock, platform = engine.platform.clock_hz, engine.platform
    moved = sum(slot.nbytes for slot in (*inputs, *results))
    computed = sum(command.cycles for command in commands) / clock
    segment.seconds = platform.launch_seconds + cost.transfer_seconds(moved, platform) + computed
    return Lowered(
        commands=commands,
        plan=_memory(emitter.lists.maps.lines, inputs),
        code=encoded(launch, emitter.lists, engine.units),
        inputs=inputs,
        outputs=results,
        weights=list(emitter.lists.packs.values()),
    )


def _names(anchor: Node, match: Match) -> tuple[str, ...]:
    """Of the nodes that a match covers, that which it started from first."""
    return (anchor.name, *(node.name for node in match.nodes if node is not anchor))


def _is_at_hand(node: Node, graph: GraphInfo) -> bool:
    """Whether it is a parameter or constant as it came with the graph, which can be handed over like an input."""
    return node in graph.static and node.op in ("placeholder", "get_attr")


def _slot(node: Node, of: Map, blocked: Blocked) -> Slot:
    fake, size = value(node), tuple(shape(node))
    strides = tuple(fake.stride()) if is_dense(fake) else dense(size)
    assert of.at is not None
    return Slot(node, size, strides, fake.dtype, of.at, numel(size), blocked)


def _memory(lines: int, inputs: Collection[Slot]) -> MemoryPlan:
    """No memory is used twice, and inputs lie among the other maps."""
    crossing = sum(slot.nbytes for slot in inputs) // BEAT_BYTES
    return MemoryPlan({}, lines, 0, 0, crossing, lines)
