"""ATen graph -> Program: the passes in the order that they run.

1. normalise  small rewrites                                                                 (normalise.py)
2. claim      patterns take nodes; every other node gets the reason why it stays on the PS   (claim.py, ops/, fuse.py)
3. partition  claimed groups become launches, the rest eager tasks                           (partition.py, cost.py)
4. emit       commands of each launch, with layouts and views                       (emit.py, place.py, emitter.py)
5. memory     places of the buffers in the arena                                             (memory.py)
6. encode     words of the command list                                                      (codegen/encode.py)
7. tasks      dependencies, eager modules, the graph's result                                (below)
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Collection

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.errors import FpgaError, NotLoweredError
from fpga_dynamo.lowering.claim import claim
from fpga_dynamo.lowering.emit import emit_segment
from fpga_dynamo.lowering.graph import GraphInfo, computes, is_effectful, is_view, source_line
from fpga_dynamo.lowering.normalise import normalise
from fpga_dynamo.lowering.partition import Partition, Segment, partition
from fpga_dynamo.lowering.program import CardTask, HostTask, Program, Task
from fpga_dynamo.lowering.submodule import Part, extract
from fpga_dynamo.lowering.target import Target
from fpga_dynamo.options import Options

log = logging.getLogger(__name__)

_names = itertools.count()


def lower(module: GraphModule, target: Target, options: Options, static_inputs: Collection[int] = ()) -> Program:
    """Lowers one ATen graph; `static_inputs` are the positions of parameters and buffers among its placeholders.

    Raises :class:`NotLoweredError` under ``strict=True`` if a node that computes stays on the PS.
    """
    began = time.perf_counter()
    normalise(module)
    graph = GraphInfo(module, target, static_inputs)
    claims = claim(graph, options.disable)
    log.debug("claimed %d groups; %d nodes have a reason to stay", len(claims.matches), len(claims.reasons))
    parts = partition(graph, claims, greedy=options.partition == "greedy")
    if options.strict:
        _refuse_fallbacks(graph, parts)
    name = f"graph{next(_names)}"
    tasks = [_task(f"{name}.{i}", graph, segment, options) for i, segment in enumerate(parts.segments)]
    _link(tasks, parts.segments)
    output = next(node for node in module.graph.nodes if node.op == "output")
    result, reads = _result(graph, tasks, output)
    attributes = {n: _attribute(module, n) for n in module.graph.nodes if n.op == "get_attr"}
    program = Program(name, graph, tasks, parts.reasons, module, result, reads, attributes=attributes)
    program.lowering_seconds = time.perf_counter() - began
    log.info(
        "%s: %d launches with %d commands, %d eager tasks, lowered in %.1f ms",
        name,
        len(program.card_tasks),
        sum(len(task.commands) for task in program.card_tasks),
        len(tasks) - len(program.card_tasks),
        program.lowering_seconds * 1e3,
    )
    for node, reason in parts.reasons.items():
        log.debug("%s: %s stays on the PS: %s", name, describe(node), reason)
    return program


def describe(node: Node) -> str:
    """``relu (aten.relu.default at model.py:12 forward)``"""
    where = source_line(node)
    return f"{node.name} ({node.target}{' at ' + where if where else ''})"


def _refuse_fallbacks(graph: GraphInfo, parts: Partition) -> None:
    left = [node for segment in parts.segments for node in segment.nodes if computes(node)]
    if left:
        lines = "\n".join(f"  {describe(node)}: {parts.reasons.get(node, 'no pattern takes it')}" for node in left)
        raise NotLoweredError(f"strict=True, but {len(left)} node(s) would run on the PS:\n{lines}")


def _task(name: str, graph: GraphInfo, segment: Segment, options: Options) -> Task:
    if segment.kernel is None:
        own = set(segment.nodes)
        eager, reads = extract(
            graph,
            segment.outputs,
            segment.inputs,
            segment.nodes,
            name=name,
            may_run=lambda node: node in own or is_view(node) or node in graph.static,
        )
        return HostTask(name, segment, eager, reads, segment.outputs)
    lowered = emit_segment(graph, segment, watch=options.verify)
    outputs = [slot.node for slot in lowered.outputs]
    eager, eager_reads = extract(graph, outputs, segment.inputs, name="CardTaskInEager")
    task = CardTask(
        name=name,
        segment=segment,
        kernel=segment.kernel.name,
        commands=lowered.commands,
        plan=lowered.plan,
        code=lowered.code,
        inputs=lowered.inputs,
        outputs=lowered.outputs,
        weights=lowered.weights,
        eager=eager,
        eager_reads=eager_reads,
    )
    size = task.plan.floats * 4
    log.debug("%s: %d commands on kernel %s, arena %d bytes", name, len(task.commands), task.kernel, size)
    return task


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
            raise FpgaError(f"internal error: task {task.name} depends on a later one; please report the graph")


def _result(graph: GraphInfo, tasks: list[Task], output: Node) -> tuple[Part, list[Node]]:
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


def _attribute(module: GraphModule, node: Node) -> torch.Tensor:
    found: object = module
    for name in str(node.target).split("."):
        found = getattr(found, name)
    return found  # type: ignore[return-value]
