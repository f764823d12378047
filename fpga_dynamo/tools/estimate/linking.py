"""Which cores, linked beside the engine, would take what is left to the host, and what that could save at most."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node

from fpga_dynamo.errors import PatternError
from fpga_dynamo.ir.graph import GraphInfo
from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering.passes.select.claim import claim
from fpga_dynamo.tools.estimate.figures import host_seconds
from fpga_dynamo.tools.estimate.program import EngineProgram
from xclbin_build import manifest
from xclbin_build import recipe as recipes
from xclbin_build.design import Design, elaborate

_ALL_CORES = "emulator"
"""The recipe whose kernel has all cores."""


@dataclass(frozen=True)
class Link:
    """Cores, the nodes that they would run, and the time of these nodes on the host, which bounds what is saved."""

    cores: tuple[str, ...]
    nodes: tuple[str, ...]
    saves_at_most_ms: float


def links(program: EngineProgram, design: Design) -> tuple[Link, ...]:
    """Of a sequencer with these cores beside the engine; what no core supports is missing. Largest savings first."""
    full = elaborate(recipes.load(_ALL_CORES), design.platform)
    target = Target.from_manifest("", manifest.describe(full, "emu", ""))
    graph = GraphInfo(program.graph.module, target, program.graph.static_inputs)
    graph.claimed.update(program.taken)
    try:
        matches = claim(graph).matches
    except PatternError:  # a user's
        return ()
    core_of = {opcode: core.name for core in full.cores for opcode in core.opcodes}
    nodes: dict[tuple[str, ...], list[Node]] = {}
    for match in matches:
        own = [node for node in match.nodes if node in program.left]
        needed = tuple(sorted({core_of[name] for name in match.pattern.opcodes if name in core_of} - {"move"}))
        if own:
            nodes.setdefault(needed or ("move",), []).extend(own)
    platform = program.engine.platform
    found = [
        Link(cores, tuple(node.name for node in own), sum(host_seconds(node, platform) for node in own) * 1e3)
        for cores, own in nodes.items()
    ]
    return tuple(sorted(found, key=lambda link: -link.saves_at_most_ms))
