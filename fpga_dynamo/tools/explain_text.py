"""What `explain` returns, and its text: a table for each graph, or one with sums; what ran outside; the totals."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from fpga_dynamo.tools.reports import BASES, COUNTED, GraphReport, NodeReport, OutsideReport

if TYPE_CHECKING:  # which imports torch
    from fpga_dynamo.frontend.frames import Gap

BY = ("node", "op", "module", "reason", "command")
"""What the rows of the table may be."""


@dataclass(frozen=True)
class Explanation:
    """What :func:`explain` returns; ``str()`` is the table.

    gaps: the frames that Dynamo skips and the places where its graphs end early; outside: what eager ran there.
    by: whose rows the table has: "node", or sums by "op", "module" or "reason".
    """

    graphs: tuple[GraphReport, ...]
    gaps: tuple[Gap, ...] = ()
    outside: tuple[OutsideReport, ...] = ()
    by: str = "node"

    @property
    def node_offload(self) -> float:
        """Share of what computes (views and getitem do not) in a call that the card runs, from 0 to 1."""
        counted = [(graph.runs, node) for graph in self.graphs for node in graph.nodes if node.computes]
        total = sum(runs for runs, _ in counted) + sum(op.runs for op in self.outside)
        return sum(runs for runs, node in counted if node.place == "PL") / total if total else 0.0

    @property
    def mac_offload(self) -> float:
        """Share of the multiply-accumulates of a call that the card runs, from 0 to 1; 1 for a call without any."""
        counted = [(graph.runs * node.macs, node.place) for graph in self.graphs for node in graph.nodes]
        total = sum(macs for macs, _ in counted) + sum(op.macs for op in self.outside)
        return sum(macs for macs, place in counted if place == "PL") / total if total else 1.0

    @property
    def pl_launches(self) -> int:
        """Launches of one call through all graphs."""
        return sum(graph.launches * graph.runs for graph in self.graphs)

    @property
    def greedy_launches(self) -> int:
        """What :attr:`pl_launches` would be with ``partition="greedy"``."""
        return sum(graph.greedy_launches * graph.runs for graph in self.graphs)

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    def to_dict(self) -> dict[str, Any]:
        """Everything, in types that JSON knows."""
        return {
            "node_offload": self.node_offload,
            "mac_offload": self.mac_offload,
            "pl_launches": self.pl_launches,
            "graphs": [asdict(graph) for graph in self.graphs],
            "gaps": [asdict(gap) for gap in self.gaps],
            "outside": [asdict(op) for op in self.outside],
        }

    def __str__(self) -> str:
        return _as_text(self)


def _as_text(explained: Explanation) -> str:
    text = io.StringIO()
    console = Console(file=text, width=150, markup=False, color_system=None, force_terminal=False, force_jupyter=False)
    if explained.by == "node":
        for graph in explained.graphs:
            console.print(_table(graph))
            for line in _about(graph):
                console.print(line)
        if explained.outside:
            console.print(_outside(explained))
    elif explained.by == "command":
        for graph in explained.graphs:
            console.print(_commands(graph))
        for basis in dict.fromkeys(step.basis for graph in explained.graphs for step in graph.steps):
            console.print(f"{basis}: {BASES[basis]}")
    else:
        console.print(_sums(explained))
    for gap in explained.gaps:
        console.print(f"{gap.kind} at {gap.source}: {gap.reason}")
    outside = sum(op.runs for op in explained.outside)
    console.print(
        f"node offload {explained.node_offload:.1%}, MAC offload {explained.mac_offload:.1%}, "
        f"{explained.pl_launches} PL launch(es) in {len(explained.graphs)} graph(s)"
        + (f"; {outside} operator(s) ran in eager mode outside every graph" if outside else "")
    )
    return text.getvalue()


def _table(graph: GraphReport) -> Table:
    table = _new_table(graph.name, ("node", "op", "where", "how, or why not", "source"), ("MACs", "bytes"))
    for node in graph.nodes:
        if node.computes:
            table.add_row(node.name, node.op, node.place, node.how, node.source, _count(node.macs), _size(node.bytes))
    return table


def _commands(graph: GraphReport) -> Table:
    """A row for each command, and one for all of them."""
    numbers = ("MACs", "bytes", "cycles", "ms", "share")
    title = f"{graph.name}, cycles at {graph.clock_mhz:g} MHz"
    table = _new_table(title, ("launch", "command", "layer", "rests on"), numbers)
    total = sum(step.cycles for step in graph.steps)
    for step in graph.steps:
        names = (step.launch, f"{step.index} {step.opcode}", step.layer, step.basis)
        figures = (_count(step.macs), _size(step.bytes), f"{step.cycles:,}", f"{step.ms:.4f}")
        table.add_row(*names, *figures, f"{step.cycles / total:.1%}" if total else "")
    if len(graph.steps) > 1:
        macs, moved = sum(step.macs for step in graph.steps), sum(step.bytes for step in graph.steps)
        ms = sum(step.ms for step in graph.steps)
        table.add_row("all", f"{len(graph.steps)}", "", "", _count(macs), _size(moved), f"{total:,}", f"{ms:.4f}", "")
    return table


def _about(graph: GraphReport) -> Iterator[str]:
    opcodes = ", ".join(f"{count} {name}" for name, count in graph.opcodes.items())
    greedy = "" if graph.greedy_launches == graph.launches else f" ({graph.greedy_launches} if partitioned greedily)"
    yield (
        f"{graph.launches} launch(es){greedy}, {graph.commands} commands ({opcodes or 'none'}), "
        f"{graph.layout_changes} of them layout changes; "
        f"lowered in {graph.lowering_seconds * 1e3:.0f} ms"
    )
    if any(step.basis == COUNTED for step in graph.steps):
        cycles, ms = sum(step.cycles for step in graph.steps), sum(step.ms for step in graph.steps)
        yield f"card time: {cycles:,} cycles, {ms:.4f} ms at {graph.clock_mhz:g} MHz, by the cycle simulator"
    if (latency := graph.latency) is not None:
        yield (
            f"estimated latency on {latency.platform}: {latency.call:.3f} ms a call ({latency.engine:.3f} engine, "
            f"{latency.launches:.3f} launches, {latency.transfers:.3f} transfers, {latency.host:.3f} host); "
            "by the cost model, not measured on a card"
        )
        yield from map(str, latency.links)
    if graph.runs > 1:
        yield f"ran {graph.runs} times in the call"
    if graph.sizes:
        here = ", ".join(f"{name} = {size}" for name, size in graph.sizes.items())
        yield f"for all sizes: {here} here; guards: {', '.join(graph.guards)}"
    if graph.occasion:
        yield graph.occasion
    yield (
        f"memory: arena {_size(graph.arena_bytes)} (at least {_size(graph.live_bytes)}; inputs "
        f"{_size(graph.input_bytes)}, results {_size(graph.output_bytes)}), weights "
        f"{_size(graph.weight_bytes)} packed from {_size(graph.parameter_bytes)} of parameters"
    )


def _outside(explained: Explanation) -> Table:
    """What eager ran outside every graph, a row for each op and line."""
    table = _new_table("outside every graph", ("op", "where", "why", "source"), ("runs", "MACs", "bytes"))
    for op in explained.outside:
        table.add_row(op.op, "PS", op.how, op.source, str(op.runs), _count(op.macs), _size(op.bytes))
    return table


@dataclass
class _Sum:
    """Of nodes that have something in common; nodes, macs: on the card and in all."""

    card_nodes: int = 0
    nodes: int = 0
    card_macs: int = 0
    macs: int = 0
    bytes: int = 0

    def add(self, nodes: int, macs: int, size: int, on_card: bool) -> None:
        self.nodes += nodes
        self.macs += macs
        self.bytes += size
        self.card_nodes += nodes * on_card
        self.card_macs += macs * on_card


def _sums(explained: Explanation) -> Table:
    """A row for each op, module or reason, those with the most multiply-accumulates first."""
    sums: dict[str, _Sum] = {}
    for graph in explained.graphs:
        for node in graph.nodes:
            if node.computes:
                figures = (graph.runs, node.macs * graph.runs, node.bytes * graph.runs)
                sums.setdefault(_key(node, explained.by), _Sum()).add(*figures, node.place == "PL")
    for op in explained.outside:
        key = {"op": op.op, "module": f"(outside every graph) {op.source}", "reason": op.how}[explained.by]
        sums.setdefault(key, _Sum()).add(op.runs, op.macs, op.bytes, False)
    table = _new_table("", (explained.by,), ("nodes", "on the card", "MACs", "on the card", "bytes"))
    for key, one in sorted(sums.items(), key=lambda item: (-item[1].macs, -item[1].nodes)):
        share = f"{one.card_macs / one.macs:.0%}" if one.macs else ""
        table.add_row(key, str(one.nodes), str(one.card_nodes), _count(one.macs), share, _size(one.bytes))
    return table


def _key(node: NodeReport, by: str) -> str:
    if by == "op":
        return node.op
    if by == "module":
        return node.module or "(none)"
    return node.pattern or node.how


def _new_table(title: str, texts: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for heading in texts:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right")
    return table


def _count(number: int) -> str:
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.2f} {unit}"
    return str(number) if number else ""


def _size(number: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= scale:
            return f"{number / scale:.1f} {unit}"
    return f"{number} B"
