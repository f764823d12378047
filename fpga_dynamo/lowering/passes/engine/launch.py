"""Pass: an engine's launches as tasks of a program, in the place of those from claim to encode."""

from __future__ import annotations

from collections.abc import Collection

from torch.fx import Node

from fpga_dynamo.codegen import cost
from fpga_dynamo.codegen.engine.launch import command_reports, encoded
from fpga_dynamo.codegen.engine.maps import Map
from fpga_dynamo.codegen.engine.target import EngineTarget
from fpga_dynamo.ir.blocked import Blocked
from fpga_dynamo.ir.elements import BEAT_BYTES
from fpga_dynamo.ir.graph import GraphInfo, shape, value
from fpga_dynamo.ir.launch import Lowered, MemoryPlan, Slot
from fpga_dynamo.ir.sizes.size import SizeError
from fpga_dynamo.ir.view import Role, numel
from fpga_dynamo.lowering.passes.cores.emit import slot_strides
from fpga_dynamo.lowering.passes.engine.claim import anchor_of
from fpga_dynamo.lowering.passes.engine.plan import LaunchMemory, plan_for_engine
from fpga_dynamo.lowering.passes.select.partition import Partition, Segment
from fpga_dynamo.lowering.patterns import Match
from fpga_dynamo.options import Options


def lower_on_engine(graph: GraphInfo, options: Options) -> tuple[Partition, list[Lowered | None]]:
    """The segments of a graph, and what each is on the card (None: it runs on the host).

    Raises SizeError for a graph whose sizes change: commands are for one set of sizes.
    """
    if graph.sizes is not None:
        raise SizeError("dynamic sizes are not supported by the engine")
    engine = EngineTarget.of_card(graph.target)
    plan = plan_for_engine(graph, engine, disabled=options.disable, granularity=options.granularity)
    memories = iter(plan.memories)
    lowered = [
        _lower_segment(graph, segment, next(memories), watch=options.verify) if segment.on_card else None
        for segment in plan.parts.segments
    ]
    return plan.parts, lowered


def _lower_segment(graph: GraphInfo, segment: Segment, memory: LaunchMemory, *, watch: bool) -> Lowered:
    """The launch of a segment, which also gets its time."""
    emitter, engine = memory.emitter, memory.emitter.engine
    of_anchor = {anchor_of(match): match for match in segment.matches}
    wanted = memory.made if watch else segment.outputs
    results = []
    for node in sorted(wanted, key=graph.position.__getitem__):
        view = emitter.view(node)
        of = view.buffer
        assert isinstance(of, Map)
        results.append(_slot(node, of, of.blocked(value(node).dtype, view=view), Role.OUTPUT))
    inputs = [
        _slot(node, of, of.blocked(value(node).dtype, emitter.filling(node)), Role.INPUT)
        for node, maps in emitter.given.items()
        for of in maps
        if of.at is not None
    ]
    (launch,) = emitter.lists.launches
    commands = command_reports(launch, engine, lambda emitted: _names(emitted.node, of_anchor[emitted.node]))
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


def _slot(node: Node, of: Map, blocked: Blocked, role: Role) -> Slot:
    size = tuple(shape(node))
    assert of.at is not None
    return Slot(node, size, slot_strides(node, role), value(node).dtype, of.at, numel(size), blocked)


def _memory(lines: int, inputs: Collection[Slot]) -> MemoryPlan:
    """No memory is used twice, and inputs lie among the other maps."""
    crossing = sum(slot.nbytes for slot in inputs) // BEAT_BYTES
    return MemoryPlan({}, lines, 0, 0, crossing, lines)
