"""What ran where, why, and at what cost."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.fx import Node
from torch.utils.flop_counter import flop_registry

from fpga_dynamo.backend import collect_programs, fpga
from fpga_dynamo.lowering.command import Command
from fpga_dynamo.lowering.graph import computes, source_line, value
from fpga_dynamo.lowering.program import Program
from fpga_dynamo.lowering.symbolic.size import Size
from fpga_dynamo.lowering.symbolic.size import value as hinted


@dataclass(frozen=True)
class NodeReport:
    """One node of an ATen graph. place: "PL" or "PS"; how: kernel, pattern and commands, or the reason."""

    name: str
    op: str
    place: str
    how: str
    source: str
    macs: int
    bytes: int
    computes: bool


@dataclass(frozen=True)
class GraphReport:
    """One compiled graph; `layout_changes` are copies that only rearrange, `greedy_launches` what `launches` would be
    with ``partition="greedy"``.

    In bytes, over all launches: arena_bytes and, of them, input_bytes and output_bytes, which cross between host and
    card; live_bytes, the least that the arena could have; weight_bytes as packed, and parameter_bytes, the tensors of
    the model that they are packed from.

    sizes: those that change from call to call, by symbol, as they are at this one; all figures are for them. The
    program is for all sizes that `guards` hold for. occasion: why such a graph was lowered again.
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

    @classmethod
    def of(cls, program: Program) -> GraphReport:
        tasks = program.card_tasks
        commands = [command for task in tasks for command in task.commands]
        symbols = program.symbols
        return cls(
            name=program.name,
            nodes=tuple(_nodes(program)),
            launches=len(tasks),
            greedy_launches=program.greedy_launches,
            commands=len(commands),
            layout_changes=sum(command.layout_change for command in commands),
            opcodes=dict(Counter(command.opcode for command in commands)),
            arena_bytes=sum(task.plan.floats for task in tasks) * 4,
            live_bytes=sum(task.plan.live_floats for task in tasks) * 4,
            input_bytes=sum(task.plan.input_end - task.plan.input_begin for task in tasks) * 4,
            output_bytes=sum(hinted(slot.nbytes) for task in tasks for slot in task.outputs),
            parameter_bytes=sum(_bytes(node) for node in {n for t in tasks for b in t.weights for n in b.pack.sources}),
            weight_bytes=sum(buffer.floats for task in tasks for buffer in task.weights) * 4,
            lowering_seconds=program.lowering_seconds,
            sizes={} if symbols is None else symbols.hints(),
            guards=() if symbols is None else tuple(map(str, symbols.guards.values())),
            occasion=program.occasion,
        )


@dataclass(frozen=True)
class Explanation:
    """What :func:`explain` returns; ``str()`` is the table."""

    graphs: tuple[GraphReport, ...]

    @property
    def node_offload(self) -> float:
        """Share of the call nodes that compute (views and getitem not counted) which the card runs, from 0 to 1."""
        counted = [node for graph in self.graphs for node in graph.nodes if node.computes]
        return sum(node.place == "PL" for node in counted) / len(counted) if counted else 0.0

    @property
    def mac_offload(self) -> float:
        """Share of the multiply-accumulates that the card runs, from 0 to 1; 1 if there are none."""
        total = sum(node.macs for graph in self.graphs for node in graph.nodes)
        card = sum(node.macs for graph in self.graphs for node in graph.nodes if node.place == "PL")
        return card / total if total else 1.0

    @property
    def pl_launches(self) -> int:
        """Launches of one call through all graphs."""
        return sum(graph.launches for graph in self.graphs)

    @property
    def greedy_launches(self) -> int:
        """What :attr:`pl_launches` would be with ``partition="greedy"``."""
        return sum(graph.greedy_launches for graph in self.graphs)

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
        }

    def __str__(self) -> str:
        console = Console(file=io.StringIO(), width=150, no_color=True)
        for graph in self.graphs:
            console.print(_table(graph))
            opcodes = ", ".join(f"{count} {name}" for name, count in graph.opcodes.items())
            console.print(
                f"{graph.launches} launch(es){_greedy(graph)}, {graph.commands} commands ({opcodes or 'none'}), "
                f"{graph.layout_changes} of them layout changes; "
                f"lowered in {graph.lowering_seconds * 1e3:.0f} ms"
            )
            for line in _about_sizes(graph):
                console.print(line)
            console.print(
                f"memory: arena {_size(graph.arena_bytes)} (at least {_size(graph.live_bytes)}; inputs "
                f"{_size(graph.input_bytes)}, results {_size(graph.output_bytes)}), weights "
                f"{_size(graph.weight_bytes)} packed from {_size(graph.parameter_bytes)} of parameters"
            )
        console.print(
            f"node offload {self.node_offload:.1%}, MAC offload {self.mac_offload:.1%}, "
            f"{self.pl_launches} PL launch(es) in {len(self.graphs)} graph(s)"
        )
        return console.file.getvalue()  # type: ignore[attr-defined]


def _greedy(graph: GraphReport) -> str:
    """The other number of launches, where it is another."""
    return "" if graph.greedy_launches == graph.launches else f" ({graph.greedy_launches} if partitioned greedily)"


def explain(
    model: Callable[..., Any], *args: Any, options: Mapping[str, Any] | None = None, **kwargs: Any
) -> Explanation:
    """Compiles `model` for the arguments, runs it once and says what ran where.

    A module in eval mode is looked at as in inference (no gradient). `options` are those of torch.compile. The
    compilation is one of its own: what has been compiled before stays as it is.
    """
    inner = getattr(model, "_orig_mod", model)
    inference = isinstance(inner, torch.nn.Module) and not inner.training
    backend = partial(fpga, options=dict(options or {}))
    with (
        collect_programs() as programs,
        torch._dynamo.config.patch(recompile_limit=1 << 16, accumulated_recompile_limit=1 << 20),
        torch.set_grad_enabled(torch.is_grad_enabled() and not inference),
    ):
        torch.compile(inner, backend=backend)(*args, **kwargs)
    return Explanation(tuple(GraphReport.of(program) for program in programs))


def _heads(commands: Sequence[Command]) -> Iterator[tuple[int, Command]]:
    """The commands and their places in the list; of a group of streams the head only."""
    i = 0
    while i < len(commands):
        yield i, commands[i]
        i += 1 + commands[i].group


def _nodes(program: Program) -> list[NodeReport]:
    how: dict[Node, str] = {}
    for task in program.card_tasks:
        numbers: dict[str, list[int]] = {}
        for i, command in _heads(task.commands):
            for name in command.nodes:
                numbers.setdefault(name, []).append(i)
        for match in task.segment.matches:
            for node in match.nodes:
                which = numbers.get(node.name, [])
                commands = f"command {', '.join(map(str, which))}" if which else "no command"
                how[node] = f"{task.kernel}: {match.pattern.name}, {commands} of {task.name}"
    eager = {node for task in program.tasks for node in task.segment.nodes}
    reports = []
    for node in program.module.graph.nodes:
        if node.op != "call_function":
            continue
        if node in how:
            place, text = "PL", how[node]
        elif node in program.graph.static and node not in eager:
            place, text = "PL", "constant: evaluated when the weights are packed"
        elif node in eager or computes(node):
            place, text = "PS", program.reasons.get(node, "a view or constant that eager makes")
        else:
            continue
        reports.append(
            NodeReport(
                node.name, str(node.target), place, text, source_line(node), macs(node), _bytes(node), computes(node)
            )
        )
    return reports


def macs(node: Node) -> int:
    """Multiply-accumulates of a node, half the FLOPs that torch.utils.flop_counter counts."""
    formula = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if formula is None:
        return 0
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), value)  # type: ignore[misc]
    try:
        return int(hinted(formula(*args, **kwargs, out_val=value(node)))) // 2
    except (TypeError, ValueError, RuntimeError):
        return 0


def _bytes(node: Node) -> int:
    fakes = value(node) if isinstance(value(node), (tuple, list)) else [value(node)]
    concrete = [f for f in fakes if isinstance(f, torch.Tensor) and all(isinstance(s, (int, Size)) for s in f.shape)]
    return sum(hinted(f.numel()) * f.element_size() for f in concrete)


def _about_sizes(graph: GraphReport) -> list[str]:
    """What is to be said of sizes that change from call to call."""
    lines = []
    if graph.sizes:
        here = ", ".join(f"{name} = {size}" for name, size in graph.sizes.items())
        lines.append(f"for all sizes: {here} here; guards: {', '.join(graph.guards)}")
    return [*lines, graph.occasion] if graph.occasion else lines


def _table(graph: GraphReport) -> Table:
    table = Table(title=graph.name, title_justify="left", box=None, pad_edge=False)
    for heading in ("node", "op", "where", "how, or why not", "source"):
        table.add_column(heading, overflow="fold")
    table.add_column("MACs", justify="right")
    table.add_column("bytes", justify="right")
    for node in graph.nodes:
        if node.computes:
            table.add_row(node.name, node.op, node.place, node.how, node.source, _count(node.macs), _size(node.bytes))
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
