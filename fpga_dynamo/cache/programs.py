"""Plans (what lowering decided about a graph) as plain data, and back in terms of the nodes of a graph that is equal.

What is cheap to compute again is not stored: expressions of packs, eager parts, dependencies. Command lists are stored
as words; of the commands themselves, only what `explain` and traces show.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from fpga_dynamo.cache.checks import MOST_BEATS, blocked_map, check_slot, integer, number, text
from fpga_dynamo.cache.plain import SETTINGS, CorruptError, UnstorableError, from_plain, to_plain
from fpga_dynamo.ir.command import Command, OwnRecord
from fpga_dynamo.ir.elements import BEAT_BYTES, ELEMENTS
from fpga_dynamo.ir.graph import GraphInfo
from fpga_dynamo.ir.launch import CommandList, Lowered, MemoryPlan, Slot
from fpga_dynamo.ir.weights import Pack, WeightBuffer, expression
from fpga_dynamo.lowering.order import patterns_of
from fpga_dynamo.lowering.passes.cores.memory import STATUS_BEATS
from fpga_dynamo.lowering.passes.pipeline import Plan
from fpga_dynamo.lowering.passes.select.partition import Segment
from fpga_dynamo.lowering.patterns import Match, Pattern

_LAYOUTS = ("fpga_dynamo.lowering.", "fpga_dynamo.codegen.", "fpga_dynamo.ir.")
"""Where functions that lay packs out may come from."""


def plan_to_plain(graph: GraphInfo, plan: Plan) -> tuple[dict[str, Any], bytes]:
    """A JSON object and raw bytes. Raises :class:`UnstorableError` for what has no notation."""
    writer = _Writer(graph)
    segments = [writer.segment(s, lowered) for s, lowered in zip(plan.segments, plan.lowered, strict=True)]
    reasons = [[graph.position[node], why] for node, why in plan.reasons.items()]
    header = {"segments": segments, "reasons": reasons, "greedy_launches": plan.greedy_launches}
    return header, b"".join(writer.raw)


def plan_from_plain(graph: GraphInfo, header: dict[str, Any], raw: memoryview) -> Plan:
    """Raises :class:`CorruptError` for what :func:`plan_to_plain` does not write."""
    reader = _Reader(graph, raw)
    try:
        read = [reader.segment(data) for data in header["segments"]]
        reasons = {reader.node(i): text(why) for i, why in header["reasons"]}
        greedy_launches = integer(header["greedy_launches"])
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError, ArithmeticError) as error:
        raise CorruptError(f"not a program: {error!r}") from error
    return Plan([segment for segment, _ in read], [lowered for _, lowered in read], reasons, greedy_launches)


class _Writer:
    def __init__(self, graph: GraphInfo) -> None:
        self._position = graph.position
        self.raw: list[bytes] = []
        self._words = 0

    def nodes(self, nodes: Sequence[Node]) -> list[int]:
        return [self._position[node] for node in nodes]

    def segment(self, segment: Segment, lowered: Lowered | None) -> dict[str, Any]:
        return {
            "kernel": segment.kernel and segment.kernel.name,
            "stage": segment.stage,
            "matches": [[m.pattern.name, self.nodes(m.nodes), self.nodes(m.outputs)] for m in segment.matches],
            "nodes": self.nodes(segment.nodes),
            "inputs": self.nodes(segment.inputs),
            "outputs": self.nodes(segment.outputs),
            "seconds": [segment.seconds, segment.ps_seconds],
            "lowered": None if lowered is None else self.lowered(lowered),
        }

    def lowered(self, lowered: Lowered) -> dict[str, Any]:
        number = {buffer: i for i, buffer in enumerate(lowered.weights)}
        words = lowered.code.words.astype("<u4").tobytes()
        first, self._words = self._words, self._words + len(lowered.code.words)
        self.raw.append(words)
        plan = lowered.plan
        return {
            "commands": [
                [c.opcode, list(c.nodes), c.pattern, c.macs, c.bytes, c.cycles, c.layout_change, c.group]
                for c in lowered.commands
            ],
            "plan": [plan.beats, plan.output_end, plan.input_begin, plan.input_end, plan.live],
            "code": [first, self._words, lowered.code.count, lowered.code.in_beats],
            "fixups": [[word, number[buffer], offset] for word, buffer, offset in lowered.code.fixups],
            "inputs": [self.slot(slot) for slot in lowered.inputs],
            "outputs": [self.slot(slot) for slot in lowered.outputs],
            "weights": [self.weight(buffer) for buffer in lowered.weights],
        }

    def slot(self, slot: Slot) -> list[Any]:
        dtype = to_plain(slot.dtype, self._position.__getitem__)
        blocked = None if slot.blocked is None else to_plain(astuple(slot.blocked), self._position.__getitem__)
        return [self._position[slot.node], list(slot.shape), list(slot.strides), dtype, slot.place, slot.numel, blocked]

    def weight(self, buffer: WeightBuffer) -> list[Any]:
        pack = buffer.pack
        name = f"{pack.layout.__module__}.{pack.layout.__qualname__}"
        if not name.startswith(_LAYOUTS) or packing_function(name) is not pack.layout:
            raise UnstorableError(f"a packing function {name}")
        operands = [None if e is None else self._position[e.node] for e in pack.operands]
        params = to_plain(pack.params, self._position.__getitem__)
        return [name, params, operands, pack.count, pack.element.name, buffer.name]


class _Reader:
    def __init__(self, graph: GraphInfo, raw: memoryview) -> None:
        self._graph = graph
        self._nodes = list(graph.module.graph.nodes)
        self._words = np.frombuffer(bytes(raw), "<u4")
        self._kernels = {kernel.name: kernel for kernel in graph.target.kernels}
        self._patterns: dict[str, Pattern] = {p.name: p for p in patterns_of(graph.target)}

    def node(self, position: int) -> Node:
        return self._nodes[integer(position, 0, len(self._nodes) - 1)]

    def nodes(self, positions: Sequence[int]) -> list[Node]:
        found = [self.node(position) for position in positions]
        if len(set(found)) < len(found):
            raise CorruptError("a list that names a node twice")
        return found

    def segment(self, data: dict[str, Any]) -> tuple[Segment, Lowered | None]:
        seconds, ps_seconds = data["seconds"]
        segment = Segment(
            kernel=None if data["kernel"] is None else self._kernels[data["kernel"]],
            stage=integer(data["stage"]),
            matches=[
                Match(self._patterns[name], tuple(self.nodes(nodes)), tuple(self.nodes(outputs)))
                for name, nodes, outputs in data["matches"]
            ],
            nodes=self.nodes(data["nodes"]),
            inputs=self.nodes(data["inputs"]),
            outputs=self.nodes(data["outputs"]),
            seconds=number(seconds),
            ps_seconds=number(ps_seconds),
        )
        if segment.on_card != (data["lowered"] is not None):
            raise CorruptError("a segment on the card without commands, or a segment on the PS with commands")
        if data["lowered"] is None:
            return segment, None
        lowered = self.lowered(data["lowered"])
        written, results = {slot.node for slot in lowered.outputs}, set(segment.outputs)
        if not results <= written <= results.union(*(match.outputs for match in segment.matches)):  # all by `verify`
            raise CorruptError("a launch whose results are not those of its segment")
        return segment, lowered

    def lowered(self, data: dict[str, Any]) -> Lowered:
        weights = [self.weight(item) for item in data["weights"]]
        commands = [self.command(item) for item in data["commands"]]
        inputs = [self.slot(item) for item in data["inputs"]]
        outputs = [self.slot(item) for item in data["outputs"]]
        code = self.code(data["code"], data["fixups"], weights)
        if code.count != len(commands):
            raise CorruptError(f"{code.count} commands, but descriptions of {len(commands)}")
        plan = self.plan(data["plan"], inputs, outputs)
        return Lowered(commands, plan, code, inputs, outputs, weights)

    def code(self, data: Sequence[Any], fixups: Sequence[Any], weights: list[WeightBuffer]) -> CommandList:
        first, end, count, in_beats = data
        words = self._words[integer(first, 0, len(self._words)) : integer(end, first, len(self._words))]
        if type(in_beats) is not bool:
            raise CorruptError(f"not a truth value: {in_beats!r:.80}")
        read = []
        for word, at, offset in fixups:
            buffer = weights[integer(at, 0, len(weights) - 1)]
            room = buffer.pack.beats if in_beats else buffer.pack.beats * buffer.element.lanes
            read.append((integer(word, 0, len(words) - 1), buffer, integer(offset, 0, room - 1)))
        if len({word for word, _, _ in read}) < len(read):
            raise CorruptError("a word with two addresses")
        return CommandList(words.astype(np.uint32), integer(count), tuple(read), in_beats=in_beats)

    def plan(self, data: Sequence[Any], inputs: list[Slot], outputs: list[Slot]) -> MemoryPlan:
        beats, output_end, input_begin, input_end, live = (integer(item) for item in data)
        if self._graph.target.engine is None:
            ordered = STATUS_BEATS <= output_end <= input_begin <= input_end <= beats
            regions = (STATUS_BEATS, output_end), (input_begin, input_end)
        else:  # whose inputs and outputs lie among the other maps
            ordered = output_end == input_begin == 0 and input_end <= beats
            regions = (0, beats), (0, beats)
        if not ordered or beats > MOST_BEATS or live > beats:
            raise CorruptError(f"regions that are in no arena: {data!r:.80}")
        for slots, (begin, end) in zip((outputs, inputs), regions, strict=True):
            for slot in sorted(slots, key=lambda slot: slot.place):
                if slot.place < begin or slot.begin + slot.nbytes > end * BEAT_BYTES:
                    raise CorruptError(f"{slot.node} lies outside its region, or shares memory with another value")
                begin = slot.place + -(-slot.nbytes // BEAT_BYTES)
        return MemoryPlan({}, beats, output_end, input_begin, input_end, live)

    @staticmethod
    def command(data: Sequence[Any]) -> Command:
        opcode, nodes, pattern, macs, moved, cycles, change, group = data
        if type(change) is not bool:
            raise CorruptError(f"not a truth value: {change!r:.80}")
        return Command(
            OwnRecord(text(opcode), {}),
            (),
            (),
            tuple(map(text, nodes)),
            text(pattern),
            macs=integer(macs),
            bytes=integer(moved),
            cycles=number(cycles),
            layout_change=change,
            group=integer(group),
        )

    def slot(self, data: Sequence[Any]) -> Slot:
        position, shape, strides, dtype, place, numel, blocked = data
        node = self.node(position)
        kind, map_ = from_plain(dtype, ()), from_plain(blocked, ())
        of = None if map_ is None else blocked_map(map_)
        sizes, steps = tuple(map(integer, shape)), tuple(map(integer, strides))
        slot = Slot(node, sizes, steps, kind, integer(place), integer(numel), of)
        check_slot(slot)
        return slot

    def weight(self, data: Sequence[Any]) -> WeightBuffer:
        name, params, operands, count, element, label = data
        expressions = tuple(None if i is None else expression(self.node(i), self._graph) for i in operands)
        for operand in expressions:
            if operand is not None and not self._graph.from_inputs(operand.node):
                raise CorruptError(f"a parameter made from {operand.node}, which is not a constant")
        settings = from_plain(params, ())
        if not isinstance(settings, (tuple, *SETTINGS)):
            raise CorruptError(f"not the settings of a pack: {params!r:.80}")
        hash(settings)
        most = MOST_BEATS * ELEMENTS[element].lanes
        pack = Pack(packing_function(name), settings, expressions, integer(count, 1, most), ELEMENTS[element])
        return WeightBuffer(pack, text(label))


def packing_function(name: str) -> Callable[..., torch.Tensor]:
    """The function ``pack_...`` of a module that lowering uses. Raises :class:`CorruptError` for others."""
    module, _, function = name.rpartition(".")
    found = getattr(sys.modules.get(module), function, None) if name.startswith(_LAYOUTS) else None
    if not callable(found) or not function.startswith("pack_") or getattr(found, "__module__", "") != module:
        raise CorruptError(f"no packing function {name!r:.80}")
    return found
