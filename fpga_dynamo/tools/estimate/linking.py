"""Which cores, linked beside the engine, would take what is left to the host, and what that could save at most."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from torch.fx import Node

from fpga_dynamo.errors import PatternError
from fpga_dynamo.ir.graph import GraphInfo
from fpga_dynamo.ir.target import Platform, Target
from fpga_dynamo.lowering.passes.select.claim import claim
from fpga_dynamo.tools.estimate.figures import host_seconds
from fpga_dynamo.tools.estimate.program import EngineProgram
from xclbin_build import manifest
from xclbin_build import recipe as recipes
from xclbin_build.design import Design, elaborate
from xclbin_build.platform import Platform as CardPlatform

_ALL_CORES = "emulator"
"""The recipe whose kernel has all cores."""


@dataclass(frozen=True)
class Link:
    """Cores, the nodes that they would run, and the time of these nodes on the host, which bounds what is saved."""

    cores: tuple[str, ...]
    nodes: tuple[str, ...]
    saves_at_most_ms: float

    def __str__(self) -> str:
        nodes = f"{len(self.nodes)} node{'s' if len(self.nodes) > 1 else ''}"
        return f"link core {', '.join(self.cores)} to gain at most {self.saves_at_most_ms:.3f} ms: {nodes} on the host"


def links(program: EngineProgram, design: Design) -> tuple[Link, ...]:
    """The links of an engine's program."""
    return links_for(program.graph, program.taken, program.left, program.engine.platform, design.platform)


def links_for(
    lowered: GraphInfo, taken: Collection[Node], left: Collection[Node], host: Platform, card: CardPlatform
) -> tuple[Link, ...]:
    """Of a sequencer with these cores beside the engine; what no core supports is missing. Largest savings first.

    taken: the nodes on the device. left: those on the host, which is as fast as `host` says.
    """
    full = elaborate(recipes.load(_ALL_CORES), card)
    target = Target.from_manifest("", manifest.describe(full, "emu", ""))
    graph = GraphInfo(lowered.module, target, lowered.static_inputs)
    graph.claimed.update(taken)
    try:
        matches = claim(graph).matches
    except PatternError:  # a user's
        return ()
    core_of = {opcode: core.name for core in full.cores for opcode in core.opcodes}
    nodes: dict[tuple[str, ...], list[Node]] = {}
    for match in matches:
        own = [node for node in match.nodes if node in left]
        needed = tuple(sorted({core_of[name] for name in match.pattern.opcodes if name in core_of} - {"move"}))
        if own:
            nodes.setdefault(needed or ("move",), []).extend(own)
    found = [
        Link(cores, tuple(node.name for node in own), sum(host_seconds(node, host) for node in own) * 1e3)
        for cores, own in nodes.items()
    ]
    return tuple(sorted(found, key=lambda link: -link.saves_at_most_ms))
