"""ATen graph -> Program: the passes in the order that they run::

    0. spell      fake quantization becomes quantization; bytes between operators become
                  unsigned, or for an engine signed                     (rewrite/fake_quantised.py, unsigned.py)
    1. normalise  small rewrites                                                              (rewrite/normalise.py)
    2. claim      patterns match nodes; every other node gets the reason for its fallback     (select/claim.py)
    3. partition  claimed groups become launches, the rest eager tasks                        (select/partition.py)
    4. emit       commands of each launch, with layouts and views                             (cores/emit.py)
    5. bands      chains of convolutions become streams of bands of rows, one for each lane   (cores/bands.py)
    6. memory     places of the buffers in the arena                                          (cores/memory.py)
    7. encode     words of the command list                                                   (codegen/encode.py)
    8. tasks      dependencies, eager modules, the graph's result                             (below)

For an xclbin of a hardware engine views move behind element-wise work before 2 (sink.py), and 2 to 7 are those of
passes/engine/.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from torch.fx import GraphModule, Node

from fpga_dynamo.codegen.eager import EagerPart, extract, whole
from fpga_dynamo.codegen.engine.target import features
from fpga_dynamo.errors import InternalError, NotLoweredError, PatternError
from fpga_dynamo.ir.elements import BEAT_BYTES
from fpga_dynamo.ir.graph import GraphInfo, computes, describe, is_effectful, is_view
from fpga_dynamo.ir.launch import Lowered
from fpga_dynamo.ir.program import CardTask, Covered, HostTask, KernelTask, Program, Task
from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering.garbage import collector_paused
from fpga_dynamo.lowering.names import graph_name
from fpga_dynamo.lowering.order import refuse_unknown
from fpga_dynamo.lowering.passes.cores.emit import emit_segment
from fpga_dynamo.lowering.passes.engine.launch import lower_on_engine
from fpga_dynamo.lowering.passes.rewrite.fake_quantised import name_fake_quantization
from fpga_dynamo.lowering.passes.rewrite.normalise import normalise
from fpga_dynamo.lowering.passes.rewrite.sink import sink_views
from fpga_dynamo.lowering.passes.rewrite.split_heads import split_heads
from fpga_dynamo.lowering.passes.rewrite.unsigned import with_signs, without_signs
from fpga_dynamo.lowering.passes.select.claim import claim
from fpga_dynamo.lowering.passes.select.partition import Partition, Segment, cores, partition
from fpga_dynamo.lowering.patterns import Match
from fpga_dynamo.lowering.user_patterns import Mistakes
from fpga_dynamo.options import Options

log = logging.getLogger(__name__)


@dataclass
class Plan:
    """All that lowering decides, in terms of the graph's nodes; the disk cache keeps it.

    segments: in an order in which they can run; lowered: the commands of those on the card, None for the others.
    """

    segments: list[Segment]
    lowered: list[Lowered | None]
    reasons: dict[Node, str]
    greedy_launches: int


def lower(module: GraphModule, target: Target, options: Options, static_inputs: Collection[int] = ()) -> Program:
    """Lowers one ATen graph; `static_inputs` are the positions of parameters and buffers among its placeholders.

    Raises :class:`NotLoweredError` under ``strict=True`` if a node that computes stays on the PS.
    """
    return lower_to_plan(module, target, options, static_inputs)[0]


def lower_to_plan(
    module: GraphModule, target: Target, options: Options, static_inputs: Collection[int] = ()
) -> tuple[Program, Plan]:
    """Like :func:`lower`, with the plan that the program was assembled from."""
    began = time.perf_counter()
    with collector_paused():
        graph = prepare(module, _tune(target, options), static_inputs)
        plan = make_plan(graph, options)
        program = assemble(graph, plan)
        if program.symbols is not None:
            program.symbols.open = False
    program.lowering_seconds = time.perf_counter() - began
    log.info(
        "%s: %d launches with %d commands, %d eager tasks, lowered in %.1f ms",
        program.name,
        len(program.card_tasks) + len(program.kernel_tasks),
        sum(len(task.commands) for task in program.card_tasks),
        len(program.tasks) - len(program.card_tasks) - len(program.kernel_tasks),
        program.lowering_seconds * 1e3,
    )
    for node, reason in program.reasons.items():
        log.debug("%s: %s falls back to eager mode: %s", program.name, describe(node), reason)
    return program, plan


def _tune(target: Target, options: Options) -> Target:
    """The target with what options say instead of its figures."""
    if options.winograd is True:
        return target
    if options.winograd is False:
        return replace(target, tuning=replace(target.tuning, winograd=None))
    return replace(target, tuning=replace(target.tuning, winograd_tile=options.winograd))


def prepare(module: GraphModule, target: Target, static_inputs: Collection[int]) -> GraphInfo:
    """The graph as all passes from claim on see it."""
    for rewrite in _steps_of(target).rewrites:
        rewrite(module, static_inputs)
    return GraphInfo(module, target, static_inputs, engine_features=features(target))


def make_plan(graph: GraphInfo, options: Options) -> Plan:
    """The passes from claim to encode; once more without a user's pattern for a node that it fails to lower."""
    refuse_unknown(options.disable)
    mistakes = Mistakes(options.strict)
    while True:
        try:
            return _steps_of(graph.target).plan(graph, options, mistakes)
        except PatternError as error:
            mistakes.note(error)
            graph.claimed.clear()


def _plan_for_cores(graph: GraphInfo, options: Options, mistakes: Mistakes) -> Plan:
    claims = claim(graph, options.disable, mistakes)
    log.debug("matched %d groups; %d nodes fall back to eager mode", len(claims.matches), len(claims.reasons))
    greedy = options.partition == "greedy"
    parts = partition(graph, claims, cores(graph), greedy=greedy, granularity=options.granularity)
    if options.strict:
        _refuse_fallbacks(graph, parts)
    pattern_of = claims.pattern_of
    lowered = [
        emit_segment(graph, segment, pattern_of, watch=options.verify, bands=options.bands) if segment.on_card else None
        for segment in parts.segments
    ]
    return Plan(parts.segments, lowered, parts.reasons, parts.greedy_launches)


def _plan_for_engine(graph: GraphInfo, options: Options, mistakes: Mistakes) -> Plan:
    parts, lowered = lower_on_engine(graph, options)
    if options.strict:
        _refuse_fallbacks(graph, parts)
    return Plan(parts.segments, lowered, parts.reasons, parts.greedy_launches)


@dataclass(frozen=True)
class Steps:
    """What a machine's passes are. rewrites: of the traced module, in order; plan: from claim to encode."""

    rewrites: tuple[Callable[[GraphModule, Collection[int]], None], ...]
    plan: Callable[[GraphInfo, Options, Mistakes], Plan]


CORES = Steps(rewrites=(name_fake_quantization, without_signs, normalise, split_heads), plan=_plan_for_cores)
ENGINE = Steps(rewrites=(name_fake_quantization, with_signs, normalise, sink_views), plan=_plan_for_engine)


def _steps_of(target: Target) -> Steps:
    return CORES if target.engine is None else ENGINE


def assemble(graph: GraphInfo, plan: Plan) -> Program:
    """The last pass: a plan as tasks that can run."""
    name, model = graph_name(graph.module)
    tasks: list[Task] = []
    for i, (segment, lowered) in enumerate(zip(plan.segments, plan.lowered, strict=True)):
        own = f"{name}.{i}"
        tasks.append(_eager_task(own, graph, segment) if lowered is None else _card_task(own, graph, segment, lowered))
    _link(tasks, plan.segments)
    output = next(node for node in graph.module.graph.nodes if node.op == "output")
    result, reads = _result(graph, tasks, output)
    attributes = {n: graph.constant(n) for n in graph.module.graph.nodes if n.op == "get_attr"}
    return Program(
        name,
        graph,
        tasks,
        plan.reasons,
        graph.module,
        result,
        reads,
        greedy_launches=plan.greedy_launches,
        attributes=attributes,
        model=model,
    )


def in_eager(module: GraphModule, target: Target, why: str) -> Program:
    """A program without a launch, for a graph that could not be lowered."""
    graph = GraphInfo(module, target)
    reasons = {node: why for node in module.graph.nodes if computes(node)}
    name, model = graph_name(module)
    return Program(name, graph, [], reasons, module, whole(module), graph.placeholders, model=model)


def _refuse_fallbacks(graph: GraphInfo, parts: Partition) -> None:
    left = [node for segment in parts.segments if not segment.is_launch for node in segment.nodes if computes(node)]
    if left:
        lines = "\n".join(f"  {describe(node)}: {parts.reasons.get(node, 'no pattern matches it')}" for node in left)
        raise NotLoweredError(f"strict=True, but {len(left)} node(s) would fall back to eager mode:\n{lines}")


def _eager_task(name: str, graph: GraphInfo, segment: Segment) -> HostTask:
    """A task of operators on tensors: the one of a plain kernel, or any of eager mode."""
    own = set(segment.nodes)
    eager, reads = extract(
        graph,
        segment.outputs,
        segment.inputs,
        segment.nodes,
        name=name,
        may_run=lambda node: node in own or is_view(node) or node in graph.static,
    )
    if segment.plain is None:
        return HostTask(name, segment.nodes, eager, reads, segment.outputs, segment.seconds)
    return KernelTask(
        name,
        segment.nodes,
        eager,
        reads,
        segment.outputs,
        segment.seconds,
        kernel=segment.plain,
        own_xclbin=not segment.plain.is_in(graph.target),
        ps_seconds=segment.ps_seconds,
    )


def _card_task(name: str, graph: GraphInfo, segment: Segment, lowered: Lowered) -> CardTask:
    assert segment.kernel is not None
    outputs = [slot.node for slot in lowered.outputs]
    eager, eager_reads = extract(graph, outputs, segment.inputs, name="CardTaskInEager")
    place = {node: i for i, node in enumerate(outputs)}
    task = CardTask(
        **vars(lowered),
        name=name,
        kernel=segment.kernel.name,
        covers=tuple(_describe_match(match, place) for match in segment.matches),
        eager=eager,
        eager_reads=eager_reads,
        seconds=segment.seconds,
        ps_seconds=segment.ps_seconds,
    )
    size = task.plan.beats * BEAT_BYTES
    log.debug("%s: %d commands on kernel %s, arena %d bytes", name, len(task.commands), task.kernel, size)
    return task


def _describe_match(match: Match, place: Mapping[Node, int]) -> Covered:
    must_be_finite = match.pattern.must_be_finite(match) if match.root in place else ()
    return Covered(match.pattern.name, match.nodes, tuple((place[match.root], *one) for one in must_be_finite))


def _link(tasks: list[Task], segments: list[Segment]) -> None:
    """Dependencies: who makes what one reads; and eager tasks whose order matters, one after the other."""
    maker = {node: i for i, task in enumerate(tasks) for node in task.writes}
    previous: int | None = None
    for i, (task, segment) in enumerate(zip(tasks, segments, strict=True)):
        needed = {maker[node] for node in task.reads if node in maker} - {i}
        if any(is_effectful(node) for node in segment.nodes):
            if previous is not None:
                needed.add(previous)
            previous = i
        task.dependencies = tuple(sorted(needed))
        if any(d > i for d in task.dependencies):
            raise InternalError(f"task {task.name} depends on a later one")


def _result(graph: GraphInfo, tasks: list[Task], output: Node) -> tuple[EagerPart, list[Node]]:
    """The graph's results from what tasks made and from its inputs: views, and values handed through."""
    made = {node for task in tasks for node in task.writes}
    return extract(
        graph,
        output.all_input_nodes,
        made,
        name="Result",
        result=output.args[0],
        may_run=lambda node: is_view(node) or node in graph.static,
    )
