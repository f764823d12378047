"""What an engine program takes: time, traffic and share of the array by layer, and what is left to the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen import cost
from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.commands import Emitted
from fpga_dynamo.codegen.engine.cycles import cycles
from fpga_dynamo.codegen.engine.launch import modelled_ends, moved_bytes
from fpga_dynamo.codegen.engine.sizes import LINE_BYTES
from fpga_dynamo.codegen.engine.target import EngineTarget
from fpga_dynamo.codegen.engine.vector import VectorCommand
from fpga_dynamo.ir.flops import macs
from fpga_dynamo.ir.graph import computes, is_view, module_path, value
from fpga_dynamo.ir.operators import facts
from fpga_dynamo.ir.target import Platform
from fpga_dynamo.tools.estimate.program import EngineProgram


@dataclass(frozen=True)
class Layer:
    """The time of a node's commands, from the end of those before to their own.

    bound: what the longest of them waits for.
    utilisation: its products over those that the array could have computed in the same time.
    """

    name: str
    op: str
    module: str
    launch: int
    commands: int
    cycles: int
    ms: float
    share: float
    macs: int
    utilisation: float
    bytes: int
    bound: str


@dataclass(frozen=True)
class HostNode:
    """A node that the engine does not take. ms: what the host takes for it, by the platform's figures."""

    name: str
    op: str
    reason: str
    macs: int
    ms: float


@dataclass(frozen=True)
class HostWork:
    """What a call takes beside the engine's time: starts of launches, copies and nodes."""

    launches: int
    launch_ms: float
    transfer_ms: float
    nodes_ms: float
    nodes: tuple[HostNode, ...]


@dataclass(frozen=True)
class Figures:
    """latency_ms: of the engine for a call, of `batch` items; call_ms: with what the host does before and behind it."""

    latency_ms: float
    call_ms: float
    throughput_per_s: float
    array_utilisation: float
    dram_gb_per_s: float
    dram_mb: float
    node_offload: float
    mac_offload: float
    host: HostWork
    layers: tuple[Layer, ...]
    launch_cycles: tuple[int, ...] = ()


def modelled(program: EngineProgram) -> list[list[float]]:
    """The cycle in which each command of each launch ends, by the cost model."""
    return [modelled_ends(launch, program.engine) for launch in program.lists.launches]


def figures(program: EngineProgram, batch: int, found: Sequence[Sequence[float]], moved: int | None = None) -> Figures:
    """found: ends of the commands of each launch, in cycles. moved: bytes, if they were counted."""
    engine = program.engine
    hertz = engine.platform.clock_hz
    launches = [emitted for emitted in program.lists.launches if emitted]
    spent = [launch[-1] for launch in found if launch]
    total = sum(spent)
    layers = _layers(program, found, total)
    every_byte = sum(layer.bytes for layer in layers) if moved is None else moved
    seconds = total / hertz
    host = host_work(program, len(launches))
    nodes = [node for node in program.graph.module.graph.nodes if computes(node) and node not in program.graph.static]
    taken = [node for node in nodes if node in program.taken]
    products = sum(macs(node) for node in nodes)
    made = sum(emitted.macs for launch in launches for emitted in launch)
    return Figures(
        latency_ms=seconds * 1e3,
        call_ms=seconds * 1e3 + host.launch_ms + host.transfer_ms + host.nodes_ms,
        throughput_per_s=batch / seconds if seconds else 0.0,
        array_utilisation=made / (total * engine.sizes.macs * engine.units) if total else 0.0,
        dram_gb_per_s=every_byte / seconds / 1e9 if seconds else 0.0,
        dram_mb=every_byte / 1e6,
        node_offload=len(taken) / len(nodes) if nodes else 0.0,
        mac_offload=sum(macs(node) for node in taken) / products if products else 1.0,
        host=host,
        layers=layers,
        launch_cycles=tuple(round(n) for n in spent),
    )


def _layers(program: EngineProgram, found: Sequence[Sequence[float]], total: float) -> tuple[Layer, ...]:
    engine = program.engine
    layers = []
    for number, (launch, times) in enumerate(zip(program.lists.launches, found, strict=True)):
        begin, moved = 0.0, moved_bytes(launch, engine.sizes)
        for group in _grouped(launch):
            end = times[group[-1]]
            first = launch[group[0]]
            commands = [command for i in group for command in launch[i].working]
            made, spent = sum(launch[i].macs for i in group), end - begin
            layers.append(
                Layer(
                    name=first.node.name,
                    op=first.pattern,
                    module=module_path(first.node),
                    launch=number,
                    commands=len(group),
                    cycles=round(spent),
                    ms=spent / engine.platform.clock_hz * 1e3,
                    share=spent / total,
                    macs=made,
                    utilisation=made / (spent * engine.sizes.macs * engine.units) if spent else 0.0,
                    bytes=sum(moved[i] for i in group),
                    bound=_bound(commands, engine),
                )
            )
            begin = end
    return tuple(layers)


def _grouped(launch: Sequence[Emitted]) -> list[list[int]]:
    """Commands that follow each other for one node."""
    groups: list[list[int]] = []
    for i, emitted in enumerate(launch):
        if groups and launch[groups[-1][-1]].node is emitted.node:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _bound(commands: Sequence[MacCommand | VectorCommand], engine: EngineTarget) -> str:
    products = [command for command in commands if isinstance(command, MacCommand)]
    if not products:
        return "vector side"
    longest = max((cycles(command, engine.sizes, engine.memory) for command in products), key=lambda c: c.total)
    return longest.bound


# --- the host ---------------------------------------------------------------------------------------------------------


def host_work(program: EngineProgram, launches: int) -> HostWork:
    """What the host does in a call, by the platform's figures."""
    platform = program.engine.platform
    nodes = tuple(
        HostNode(node.name, str(node.target), why, macs(node), host_seconds(node, platform) * 1e3)
        for node, why in program.left.items()
    )
    moved = sum(of.lines for maps in program.given.values() for of in maps) * LINE_BYTES
    moved += sum(_nbytes(value(node)) for node in program.results)
    return HostWork(
        launches,
        launches * platform.launch_seconds * 1e3,
        cost.transfer_seconds(moved, platform) * 1e3,
        sum(node.ms for node in nodes),
        nodes,
    )


def host_seconds(node: Node, platform: Platform) -> float:
    """Time of an eager node by the platform's figures, as lowering/passes/select/partition.py has it."""
    if is_view(node):
        return 0.0
    moved = sum(_nbytes(value(operand)) for operand in (node, *node.all_input_nodes))
    return cost.ps_seconds(2.0 * macs(node), facts(node.target).passes * moved, platform)


def _nbytes(fake: Any) -> int:
    if isinstance(fake, (tuple, list)):
        return sum(map(_nbytes, fake))
    return fake.numel() * fake.element_size() if isinstance(fake, torch.Tensor) else 0
