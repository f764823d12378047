"""An estimate: its making, as JSON, and as tables for people."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fpga_dynamo.ir.flops import macs
from fpga_dynamo.ir.weights import NotExactError
from fpga_dynamo.quantize.specs import Scales
from fpga_dynamo.tools.estimate import hardware, model
from fpga_dynamo.tools.estimate.accuracy import Error
from fpga_dynamo.tools.estimate.figures import Figures, HostNode, figures, modelled
from fpga_dynamo.tools.estimate.hardware import DesignResources, EstimateError
from fpga_dynamo.tools.estimate.linking import Link, links
from fpga_dynamo.tools.estimate.program import EngineProgram, lower_for_engine
from fpga_dynamo.tools.estimate.simulation import Counted, EngineCard, SharedCard, counted

_ROWS = 20
"""Layers that a table shows."""


@dataclass(frozen=True)
class Simulation:
    """What the cycle simulator adds to the estimate.

    model_ms: the cost model's latency.
    stalls: milliseconds in which the array idles, by cause.
    values: how many values of the engine were compared with eager mode's.
    differences: of int8 values that differ: elements that differ, all elements, and the largest difference.
    errors: of each floating-point value.
    """

    model_ms: float
    stalls: dict[str, float]
    values: int
    differences: dict[str, tuple[int, int, int]]
    errors: dict[str, Error]


@dataclass(frozen=True)
class Report:
    """What `fpga-dynamo estimate` says. basis: what each figure rests on, by its name."""

    model: str
    dtype: str
    platform: str
    recipe: str
    batch: int
    cus: int
    calibration: str
    clock_mhz: float
    figures: Figures
    resources: DesignResources
    links: tuple[Link, ...]
    basis: dict[str, str]
    counted: Simulation | None = None

    def as_dict(self) -> dict[str, Any]:
        """In types that JSON knows; `figures` are keys of their own."""
        found = asdict(self)
        del found["figures"], found["resources"]
        of_figures = asdict(self.figures)
        layers = of_figures.pop("layers")
        of_resources = asdict(self.resources)
        return {
            **found,
            **of_figures,
            "fits": of_resources.pop("fits"),
            "resources": of_resources,
            "layers": layers,
        }


def estimate(
    name: str,
    platform: str,
    *,
    dtype: str = "int8",
    recipe: str | None = None,
    cus: int = 1,
    batch: int = 1,
    simulate: bool = False,
    calibration: Path | None = None,
    scales: Scales = "pow2",
    sizes_only: bool = False,
) -> Report:
    """What the model `name` of the zoo takes. Raises EstimateError, and ModelNotFoundError, in a sentence."""
    card = hardware.card(platform, recipe, dtype, cus)
    if dtype == "int8":
        given = model.quantised(name, batch, scales, calibration)
    elif calibration is not None:
        raise EstimateError(f"--calibration requires --dtype int8, and --dtype is {dtype}: leave it out")
    else:
        given = model.floating(name, batch, dtype)
    program = lower_for_engine(given.graph.module, card.engine, given.graph.static)
    if not any(program.lists.launches):
        node = max(program.left, key=macs)
        raise EstimateError(f"the engine supports no node of '{name}': {node.name}: {program.left[node]}")
    times, moved, simulation = modelled(program), None, None
    if simulate:
        modelled_ms = sum(launch[-1] for launch in times if launch) / card.engine.platform.clock_hz * 1e3
        found = _counted(program, card, given)
        times, moved = [[float(end) for end in launch] for launch in found.ends], found.moved
        stalls = {cause: cycles / card.mhz / 1e3 for cause, cycles in found.stalls.items() if cycles}
        simulation = Simulation(modelled_ms, stalls, found.values, dict(found.differences), dict(found.errors))
    return Report(
        name,
        dtype,
        platform,
        card.engine.recipe,
        given.batch,
        cus,
        given.calibration,
        card.mhz,
        figures(program, given.batch, times, moved),
        hardware.resources(card.design, sizes_only=sizes_only),
        links(program, card.design),
        _basis(card, simulate),
        simulation,
    )


def _counted(program: EngineProgram, card: hardware.EstimatedCard, given: model.Model) -> Counted:
    try:
        units = program.engine.units
        on = SharedCard(card.engine, card.platform) if units > 1 else EngineCard(card.recipe, card.platform)
        return counted(program, on, given.graph.tensors())
    except NotExactError as error:
        raise EstimateError(f"the engine cannot hold a parameter of '{given.name}': {error}") from error


def _basis(card: hardware.EstimatedCard, simulate: bool) -> dict[str, str]:
    """What each figure rests on."""
    memory = "fitted to the cycle simulator" if card.fitted else "a guess from the bandwidth of the bank"
    model_says = (
        "the loop formulas of the cost model (codegen/engine), compared with the cycle simulator; memory figures are "
        f"{memory}; not confirmed by an HLS schedule or a card"
    )
    counting_says = (
        "simulated from the kernel sources, with the II and depth of each loop in hls_kernels/engine/qor.toml and a "
        "memory model; not confirmed by synthesis or a card"
    )
    return {
        "latency_ms": counting_says if simulate else model_says,
        "clock_mhz": "the platform file; it is not known whether the engine closes timing there",
        "throughput_per_s": "batch / latency_ms: the host works in parallel with the card",
        "array_utilisation": "multiplications of the model / multiplications that the array could do in latency_ms",
        "dram_gb_per_s": (
            "bytes transferred through the ports" if simulate else "lines that the commands move, from their tiling"
        )
        + " / latency_ms",
        "call_ms": "latency_ms plus the time on the host, from the platform file's estimated figures",
        "node_offload": "share of the nodes that compute",
        "resources": "see resources.basis",
        "links": "host time of these nodes; the time on the cores is not subtracted",
    }


def show(found: Report) -> None:
    console = Console(soft_wrap=True, highlight=False)
    of, host = found.figures, found.figures.host
    table = Table(show_header=False, title=f"{found.model}, {found.dtype}, batch {found.batch}, on {found.platform}")
    table.add_row("engine", f"recipe {found.recipe}, {found.clock_mhz:g} MHz")
    table.add_row("calibration", found.calibration)
    table.add_row(
        "a call, host included",
        f"{of.call_ms:.2f} ms: engine {of.latency_ms:.2f}, {host.launches} launches {host.launch_ms:.2f}, copies "
        f"{host.transfer_ms:.2f}, {len(host.nodes)} nodes on the host {host.nodes_ms:.2f} ms",
    )
    table.add_row("latency on the card", f"{of.latency_ms:.2f} ms, {of.throughput_per_s:.0f} items/s")
    table.add_row("array used", f"{of.array_utilisation:.0%}")
    table.add_row("device memory", f"{of.dram_mb:.1f} MB, {of.dram_gb_per_s:.1f} GB/s")
    table.add_row("offloaded", f"{of.node_offload:.1%} of nodes, {of.mac_offload:.1%} of products")
    if found.counted is not None:
        table.add_row("the cost model says", f"{found.counted.model_ms:.2f} ms")
        table.add_row("compared with eager mode", _compared(found.counted))
        longest = sorted(found.counted.stalls.items(), key=lambda stall: -stall[1])[:4]
        table.add_row("array idle", ", ".join(f"{ms:.2f} ms: {cause}" for cause, ms in longest) or "never")
    used, available = found.resources.used, found.resources.available
    table.add_row("resources", ", ".join(f"{name} {used[name]:,.0f} of {available[name]:,.0f}" for name in used))
    fits = {True: "yes", False: "no", None: "not known"}[found.resources.fits]
    table.add_row("fits", f"{fits} ({found.resources.basis})")
    console.print(table)
    for problem in found.resources.problems:
        console.print(problem, markup=False)
    console.print(_layers(of))
    _show_host(found, console)
    for name, words in found.basis.items():
        console.print(f"{name}: {words}", markup=False)


def _compared(of: Simulation) -> str:
    if of.errors:
        worst = max(of.errors.values(), key=lambda error: error.card)
        return (
            f"rms error of {of.values} values against float64, relative to their rms: at most {worst.card:.2g}; eager "
            f"mode: {worst.eager:.2g}"
        )
    if not of.differences:
        return f"all {of.values} values of the engine are bit-identical to eager mode"
    elements = sum(number for number, _, _ in of.differences.values())
    largest = max(apart for _, _, apart in of.differences.values())
    return (
        f"{len(of.differences)} of {of.values} values differ from eager mode: {elements} elements, by at most {largest}"
    )


def _layers(of: Figures) -> Table:
    slowest = sorted(of.layers, key=lambda layer: -layer.ms)[:_ROWS]
    title = f"the {len(slowest)} slowest of {len(of.layers)} layers"
    table = Table(title=title)
    for name in ("layer", "operator", "ms", "share", "array used", "MB", "bound by"):
        table.add_column(name, justify="left" if name in ("layer", "operator", "bound by") else "right")
    for layer in slowest:
        table.add_row(
            layer.module or layer.name,
            layer.op,
            f"{layer.ms:.3f}",
            f"{layer.share:.1%}",
            f"{layer.utilisation:.0%}",
            f"{layer.bytes / 1e6:.2f}",
            layer.bound,
        )
    return table


@dataclass(frozen=True)
class _Left:
    """Nodes that stay on the host for one reason, and the cores that would compute them there; none: no core does."""

    reason: str
    cores: tuple[str, ...]
    nodes: tuple[HostNode, ...]

    @property
    def ms(self) -> float:
        return sum(node.ms for node in self.nodes)


def left_to_host(found: Report) -> list[_Left]:
    """What is left to the host, by reason and by the cores that would bring it onto the card; the slowest first."""
    cores = {name: link.cores for link in found.links for name in link.nodes}
    groups: dict[tuple[str, tuple[str, ...]], list[HostNode]] = {}
    for node in found.figures.host.nodes:
        groups.setdefault((node.reason, cores.get(node.name, ())), []).append(node)
    left = [_Left(reason, own, tuple(nodes)) for (reason, own), nodes in groups.items()]
    return sorted(left, key=lambda group: -group.ms)


def _show_host(found: Report, console: Console) -> None:
    left = left_to_host(found)
    if not left:
        return
    console.print("on the host, by cost:")
    for group in left:
        operators = ", ".join(dict.fromkeys(_short(node.op) for node in group.nodes))
        count = f"{len(group.nodes)} node{'s' if len(group.nodes) > 1 else ''}"
        way = f"core {', '.join(group.cores)} would run them on the card" if group.cores else "no core runs them"
        console.print(f"  {group.ms:.3f} ms, {count} ({operators}): {group.reason}; {way}", markup=False)


def _short(op: str) -> str:
    """`aten.add.Tensor` as `add`."""
    parts = op.split(".")
    return parts[1] if len(parts) == 3 else op
