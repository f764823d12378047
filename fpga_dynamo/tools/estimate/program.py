"""A graph on an engine as `fpga-dynamo estimate` looks at it: all launches in one memory, without an xclbin."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from torch.fx import GraphModule, Node

from fpga_dynamo.codegen.engine.commands import Lists
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map
from fpga_dynamo.codegen.engine.target import EngineTarget, table_of
from fpga_dynamo.ir.graph import GraphInfo, is_view
from fpga_dynamo.ir.target import KernelInfo, Target
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.passes.engine.plan import plan_for_engine
from fpga_dynamo.lowering.passes.pipeline import prepare


@dataclass(frozen=True)
class EngineProgram:
    """A graph on an engine.

    taken: the pattern that each node of a match belongs to.
    left: the reason for each other node that computes, in graph order.
    given: the feature maps that the host writes, by node.
    fillings: the value with which it pads blocks of channels.
    made: where the values of matches lie, and the launch that computes each.
    results: those values that the host reads.
    """

    graph: GraphInfo
    engine: EngineTarget
    lists: Lists
    taken: Mapping[Node, str]
    left: Mapping[Node, str]
    given: Mapping[Node, list[Map]]
    fillings: Mapping[Node, int]
    made: Mapping[Node, tuple[View, int]]
    results: Mapping[Node, View]


def lower_for_engine(module: GraphModule, engine: EngineTarget, static_inputs: Collection[int]) -> EngineProgram:
    """Lowers an ATen graph, which is changed; `static_inputs` are the positions of parameters among its inputs."""
    return lower_prepared(prepare(module, target_of(engine), static_inputs), engine)


def lower_prepared(graph: GraphInfo, engine: EngineTarget) -> EngineProgram:
    """Lowers a graph that `prepare` was given an engine of the same features for; may be called again and again."""
    plan = plan_for_engine(graph, engine, one_memory=True)
    (memory,) = plan.memories
    matches = [match for segment in plan.parts.segments for match in segment.matches]
    taken = {node: match.pattern.name for match in matches for node in match.nodes}
    emitter, made = memory.emitter, memory.made
    fillings = {node: emitter.filling(node) for node in emitter.given}
    results = _results(graph, made, taken, emitter)
    return EngineProgram(
        graph, engine, emitter.lists, taken, plan.parts.reasons, emitter.given, fillings, made, results
    )


def target_of(engine: EngineTarget) -> Target:
    """A card whose only kernel is the engine, as passes see it."""
    kernel = KernelInfo(engine.recipe, frozenset(), engine.units, engine=table_of(engine.sizes))
    return Target("", (kernel,), {}, {}, {}, {}, engine.platform)


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
