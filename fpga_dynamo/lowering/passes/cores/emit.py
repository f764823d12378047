"""Pass: the commands of one card segment, its slots, its place in memory, its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.encode import encode
from fpga_dynamo.ir.dtypes import slot_element
from fpga_dynamo.ir.elements import F32
from fpga_dynamo.ir.graph import GraphInfo, value
from fpga_dynamo.ir.launch import Lowered, MemoryPlan, Patches, Slot
from fpga_dynamo.ir.sizes.size import identical, larger
from fpga_dynamo.ir.view import VEC, Buffer, Role, View, align, dense, floats_of, numel
from fpga_dynamo.ir.weights import WeightBuffer
from fpga_dynamo.lowering.passes.cores.bands import in_bands
from fpga_dynamo.lowering.passes.cores.memory import plan_memory
from fpga_dynamo.lowering.passes.cores.place import plan_places
from fpga_dynamo.lowering.passes.select.partition import Segment
from fpga_dynamo.lowering.patterns import TABLE, Match
from fpga_dynamo.lowering.user_patterns import call_lower, check_command


def emit_segment(
    graph: GraphInfo, segment: Segment, pattern_of: Mapping[Node, str], *, watch: bool = False, bands: bool = False
) -> Lowered:
    """Lowers the matches of `segment` in order. pattern_of: the pattern that has each node of the graph's matches.

    Results that eager may have to compute again become outputs; with `watch`, the value of every match does.
    bands: whether chains of convolutions may run in bands of rows.
    """
    assert segment.kernel is not None
    inputs = {node: _slot_view(node, Role.INPUT) for node in segment.inputs}
    emitter = Emitter(graph, segment.kernel, inputs.get, pattern_of)
    plan_places(segment.matches, emitter)
    for match in segment.matches:
        _lower(match, emitter)
    watched = [match for match in segment.matches if watch or match.pattern.must_be_finite(match)]
    wanted = list(dict.fromkeys([*segment.outputs, *(output for match in watched for output in match.outputs)]))
    asked = set(segment.outputs)
    outputs = {node: _output_view(node, emitter, layout_change=node in asked) for node in wanted}
    input_buffers = [view.buffer for view in inputs.values()]
    output_buffers = [view.buffer for view in outputs.values()]
    commands = in_bands(emitter.commands, graph.target, segment.kernel) if bands else emitter.commands
    plan = plan_memory(commands, input_buffers, output_buffers)
    patches = None if graph.sizes is None else Patches()
    return Lowered(
        commands=commands,
        plan=plan,
        code=encode(commands, plan.places, graph.target, patches),
        inputs=[_slot(node, view, plan, Role.INPUT) for node, view in inputs.items()],
        outputs=[_slot(node, view, plan, Role.OUTPUT) for node, view in outputs.items()],
        weights=_used_weights(emitter),
    )


def _lower(match: Match, emitter: Emitter) -> None:
    """The commands of one match, and where its outputs lie."""
    users = TABLE.is_users(match.pattern)
    with emitter.lowering(match.pattern.name, match.nodes, check_command if users else None):
        views = call_lower(match, emitter) if users else match.pattern.lower(match, emitter)
    for node, view in zip(match.outputs, views, strict=True):
        emitter.define(node, view)


def _slot_view(node: Node, role: Role) -> View:
    """A dense tensor of its own for `node`."""
    fake = value(node)
    size, strides = tuple(fake.shape), slot_strides(node, role)
    unit = floats_of(fake.dtype)
    element = F32 if unit != 1 else slot_element(fake.dtype)
    buffer = Buffer(align(unit * larger(1, numel(size)), element.lanes), role, node.name, element)
    return View(buffer, size, tuple(unit * stride for stride in strides), 0, fake.dtype)


def slot_strides(node: Node, role: Role) -> tuple[Any, ...]:
    """The strides that eager mode gives `node` if they are dense, else of an output dense ones in their order.

    Operators of eager mode that read the output then give results in the order that they have in eager mode. An input
    without dense strides is row-major.
    """
    fake = value(node)
    strides = tuple(fake.stride())
    if is_dense(fake):
        return strides
    plain = all(isinstance(n, int) for n in (*fake.shape, *strides))
    if role is not Role.OUTPUT or not plain or any(n > 1 and s == 0 for n, s in zip(fake.shape, strides, strict=True)):
        return dense(tuple(fake.shape))
    return dense(tuple(fake.shape), sorted(range(fake.dim()), key=lambda d: -strides[d]))


def is_dense(fake: torch.Tensor) -> bool:
    """Whether the strides are those of some permutation of a contiguous tensor."""
    step = 1
    for stride, size in sorted((s, n) for n, s in zip(fake.shape, fake.stride(), strict=True) if n != 1):
        if stride != step:
            return False
        step *= size
    return True


def _output_view(node: Node, emitter: Emitter, *, layout_change: bool) -> View:
    """The value of `node` in a slot: where it is if that is dense in eager mode's strides already, else copied there.

    layout_change: whether such a copy counts as one; those that only `watch` asks for do not.
    """
    wanted = _slot_view(node, Role.OUTPUT)
    found = emitter.view(node, narrow=True)
    if found.element is not wanted.element and found.element.is_narrow:
        found = emitter.view(node)
    walks = zip(found.strides, wanted.strides, found.shape, strict=True)
    same = all(identical(a, b) or n == 1 for a, b, n in walks)
    if wanted.element.is_narrow and not found.element.is_narrow:
        if not same or found.offset % VEC or found.buffer.in_weights:
            dense_ = View(Buffer(align(wanted.numel)), wanted.shape, wanted.strides, 0, found.dtype)
            emitter.copy(found, dense_, layout_change=layout_change)
            found = dense_
        emitter.convert(found, wanted)
        return wanted
    if same and found.offset == 0 and found.buffer.role is Role.TEMPORARY:
        found.buffer.role = Role.OUTPUT
        return found
    emitter.copy(found, wanted, layout_change=layout_change)
    return wanted


def _slot(node: Node, view: View, plan: MemoryPlan, role: Role) -> Slot:
    return Slot(node, view.shape, slot_strides(node, role), value(node).dtype, plan.places[view.buffer], view.numel)


def _used_weights(emitter: Emitter) -> list[WeightBuffer]:
    used = {buffer for command in emitter.commands for buffer in command.uses}
    return [buffer for buffer in emitter.weights.values() if buffer in used]
