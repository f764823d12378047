"""Segments: groups of nodes that run together, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch.fx import Node

from fpga_dynamo.codegen import cost
from fpga_dynamo.codegen.core import CORES
from fpga_dynamo.ir.dtypes import UNCHANGED
from fpga_dynamo.ir.graph import GraphInfo, is_view, value
from fpga_dynamo.ir.operators import facts
from fpga_dynamo.ir.plain_kernels import PlainKernel
from fpga_dynamo.ir.sizes.size import value as hinted
from fpga_dynamo.ir.target import KernelInfo, Target
from fpga_dynamo.ir.view import VEC
from fpga_dynamo.lowering.patterns import Match


@dataclass(eq=False)
class Segment:
    """Groups that run together: one launch on `kernel`, or (kernel None) eager nodes in their original order.

    plain: the plain kernel whose launch computes `nodes` in place of eager mode.
    """

    kernel: KernelInfo | None
    stage: int
    matches: list[Match] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Node] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)
    seconds: float = 0.0
    ps_seconds: float = 0.0
    plain: PlainKernel | None = None

    @property
    def on_card(self) -> bool:
        """Whether it is a launch of commands."""
        return self.kernel is not None

    @property
    def is_launch(self) -> bool:
        return self.on_card or self.plain is not None


def groups_of(segment: Segment) -> Iterable[tuple[object, Sequence[Node]]]:
    """The matches of a launch of commands, or each node of another segment."""
    if segment.on_card:
        return [(match, match.nodes) for match in segment.matches]
    return [(node, (node,)) for node in segment.nodes]


def bytes_of(node: Node) -> int:
    """Bytes of a node's value, of all its tensors, at the sizes of the call that is traced."""
    fakes = value(node) if isinstance(value(node), (tuple, list)) else [value(node)]
    return sum(hinted(f.numel()) * f.element_size() for f in fakes if isinstance(f, torch.Tensor) and not _symbolic(f))


def copied_bytes(node: Node, segment: Segment, target: Target) -> int:
    """Bytes of a segment's input or result that are copied, rather than read or written in the host's memory.

    A core that a user added may not be able to do that, and has then everything copied for the segment it is in.
    """
    nbytes, fake = bytes_of(node), value(node)
    direct = isinstance(fake, torch.Tensor) and fake.dtype in UNCHANGED
    if not direct or target.windows is None or not target.windows.show(nbytes):
        return nbytes
    return 0 if all(map(_in_place, segment.matches)) else nbytes


def _in_place(match: Match) -> bool:
    """Whether its cores are sure to read and write the host's memory, if the card can."""
    return CORES.redirect(match.opcodes)


def _symbolic(fake: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in fake.shape)


def seconds_on_card(match: Match, graph: GraphInfo) -> float:
    """Before lowering: the MAC array's share, or a vector a cycle for each node, more of some activations."""
    tiles = graph.target.tiles
    macs = hinted(match.pattern.macs(match))
    array = tiles["ROWS"] * tiles["MAX_VECTORS"] * VEC
    vectors = sum(bytes_of(node) for node in match.outputs) / (4 * VEC)
    cycles = macs / array if macs else vectors * sum(facts(node.target).steps for node in match.nodes)
    seconds = cost.command_seconds(cost.START + cycles, graph.target.platform)
    share = graph.target.tuning.memory_share
    if macs or share is None or graph.target.windows is None or not _in_place(match):
        return seconds
    # The emulator uses host memory: what only moves data is no faster there than in eager mode.
    inside = set(match.nodes)
    read = {arg for node in match.nodes for arg in node.all_input_nodes if arg not in inside}
    moved = sum(bytes_of(node) for node in (*read, *match.outputs))
    return max(seconds, moved / (graph.target.platform.ps_bytes * share))


def seconds_on_host(segment: Segment, graph: GraphInfo) -> float:
    """What a segment takes in eager mode."""
    platform = graph.target.platform
    total = 0.0
    for group, nodes in groups_of(segment):
        macs = hinted(group.pattern.macs(group)) if isinstance(group, Match) else 0
        for i, node in enumerate(nodes):
            if is_view(node) or node.op != "call_function":
                continue
            moved = bytes_of(node) + sum(bytes_of(arg) for arg in node.all_input_nodes)
            passes = facts(node.target).passes
            total += cost.ps_seconds(2.0 * macs if i == 0 else 0.0, passes * moved, platform)
    return total
