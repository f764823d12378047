"""What an explanation says of nodes and graphs, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # which imports torch
    from fpga_dynamo.tools.estimate.linking import Link


@dataclass(frozen=True)
class NodeReport:
    """One node of an ATen graph. place: "PL" or "PS"; how: kernel, pattern and commands, or the reason.

    module: the path of the nn.Module that it comes from (``layer1.0.conv1``); pattern: the kernel and pattern that take
    it, "" on the PS.
    """

    name: str
    op: str
    place: str
    how: str
    source: str
    macs: int
    bytes: int
    computes: bool
    module: str = ""
    pattern: str = ""


COUNTED, MODELLED, FORMULA = "counted", "cost model", "formula"
BASES = {
    COUNTED: "by the cycle simulator, from the kernel sources, with loops as in their qor.toml and a memory model",
    MODELLED: "the cost model of the engine, compared with the cycle simulator",
    FORMULA: "the cost model of the core's loops, without waiting for memory",
}
"""What cycles of a command rest on. No synthesis and no card has confirmed any of them."""


@dataclass(frozen=True)
class CommandReport:
    """A command of a launch. cycles: of an engine from the end of the command before it to its own; ms: at the
    platform's clock; basis: a key of BASES. layer: the module that it is for, or the node.
    """

    launch: str
    index: int
    opcode: str
    layer: str
    nodes: tuple[str, ...]
    macs: int
    bytes: int
    cycles: int
    ms: float
    basis: str


@dataclass(frozen=True)
class OutsideReport:
    """An op that eager ran in no graph: in a frame that Dynamo skips, or between two graphs.

    how: Dynamo's reason; source: the line that called it; runs: how often it ran in the call; macs, bytes: of all runs.
    """

    op: str
    how: str
    source: str
    runs: int
    macs: int
    bytes: int


@dataclass(frozen=True)
class Latency:
    """The estimated time of one call on a board, in ms, by the figures of the platform's file.

    engine: the commands; launches: starting them; transfers: between host and device memory; host: eager mode.
    links: cores that would run nodes of the host, and how much less the host would do then.
    """

    platform: str
    engine: float
    launches: float
    transfers: float
    host: float
    links: tuple[Link, ...] = ()

    @property
    def call(self) -> float:
        """The sum: nothing is taken to overlap."""
        return self.engine + self.launches + self.transfers + self.host


@dataclass(frozen=True)
class GraphReport:
    """One compiled graph; `layout_changes` are copies that only rearrange, `greedy_launches` what `launches` would be
    with ``partition="greedy"``.

    In bytes, over all launches:
    arena_bytes: with input_bytes and output_bytes, which are transferred between host and card.
    live_bytes: the least that the arena could have.
    weight_bytes: as packed.
    parameter_bytes: the tensors of the model that weights are packed from.

    sizes: the dynamic sizes of this call, by symbol; all figures are for them. The program is valid for all sizes that
    satisfy `guards`. occasion: why such a graph was lowered again.

    runs: how often the graph ran in the call (a graph of a backward pass: as often as its forward graph).

    steps: the commands one by one, with cycles at clock_mhz. latency: estimated, for a platform with an engine.
    """

    name: str
    nodes: tuple[NodeReport, ...]
    launches: int
    greedy_launches: int
    commands: int
    layout_changes: int
    opcodes: Mapping[str, int]
    arena_bytes: int
    live_bytes: int
    input_bytes: int
    output_bytes: int
    weight_bytes: int
    parameter_bytes: int
    lowering_seconds: float
    sizes: Mapping[str, int] = field(default_factory=dict)
    guards: tuple[str, ...] = ()
    occasion: str = ""
    runs: int = 1
    steps: tuple[CommandReport, ...] = ()
    clock_mhz: float = 0.0
    latency: Latency | None = None
