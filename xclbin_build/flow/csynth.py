"""Reports of C synthesis: clock, latency, loops and resources of a function, as Vitis HLS says.

They are those of csynth.xml. Where only the text csynth.rpt is there, its loops and clock count.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import ToolchainError
from ..hls.resources import Resources
from ..trusted_path import printable
from . import csynth_text

NAME, TEXT_NAME = "csynth.xml", "csynth.rpt"
_MOST_BYTES = 64 << 20
_OF_A_LOOP = ("PipelineII", "IterationLatency", "PipelineDepth", "TripCount")


@dataclass(frozen=True)
class Loop:
    """A loop of a report. ii, depth: in cycles, None if it is not pipelined. trips: iterations, None if they vary."""

    module: str
    name: str
    ii: int | None
    depth: int | None
    trips: int | None


@dataclass(frozen=True)
class Synthesis:
    """What C synthesis says of a function. Periods are in ns; resources are those of the whole function, block RAM in
    units of 36 Kbit. modules: the functions inside it, by name."""

    path: Path
    top: str
    version: str
    part: str
    target_ns: float
    uncertainty_ns: float
    estimated_ns: float
    latency: int | None
    resources: Resources
    loops: tuple[Loop, ...]
    modules: dict[str, Resources]

    @property
    def meets_clock(self) -> bool:
        return self.estimated_ns <= self.target_ns

    def table(self) -> dict[str, object]:
        """The report for a JSON document."""
        return {
            "top": self.top, "version": self.version, "part": self.part, "target_ns": self.target_ns,
            "estimated_ns": self.estimated_ns, "meets_clock": self.meets_clock, "latency": self.latency,
            "resources": self.resources.table(),
            "loops": [asdict(loop) for loop in self.loops],
            "modules": {name: used.table() for name, used in self.modules.items()},
        }  # fmt: skip


def load(folder: Path) -> list[Synthesis]:
    """The reports of the functions on top that lie in a folder, one for each function: the newest release's last.

    Raises ToolchainError for a report that cannot be read.
    """
    found: dict[str, Synthesis] = {}
    for path in sorted(folder.rglob(TEXT_NAME)):
        one = _read_text(path)
        if one is not None:
            found[one.top] = one
    for path in sorted(folder.rglob(NAME)):
        one = read(path)
        if one is not None:
            found[one.top] = one
    return list(found.values())


def _read_text(path: Path) -> Synthesis | None:
    """What a summary says, with the clock of the function's own report beside it; None without that."""
    if path.stat().st_size > _MOST_BYTES:
        return None
    said = csynth_text.parse(path.read_text(errors="replace"))
    beside = path.with_name(f"{said.top}_csynth.rpt") if said else path
    if said is None or not beside.is_file():
        return None
    clock = csynth_text.AP_CLOCK.search(beside.read_text(errors="replace"))
    if clock is None:
        return None
    loops = tuple(Loop(module, name, ii, depth, None) for module, name, ii, depth in said.loops)
    target, estimated = float(clock[1]), float(clock[2])
    return Synthesis(path, said.top, said.version, said.part, target, 0.0, estimated, None, Resources(), loops, {})


def read(path: Path) -> Synthesis | None:
    """The report in a file; None for XML of another kind. Raises ToolchainError if it is damaged."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ToolchainError(
                f"{printable(path)} has more than {_MOST_BYTES >> 20} MiB; it is no report of synthesis."
            )
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise ToolchainError(
            f"the report {printable(path)} cannot be read: {error}; synthesize the kernel again."
        ) from error
    top = root.findtext("UserAssignments/TopModelName")
    if root.tag != "profile" or not top:
        return None
    asked, used = root.find("UserAssignments"), root.find("AreaEstimates/Resources")
    timing = root.find("PerformanceEstimates/SummaryOfTimingAnalysis")
    target = _number(asked, "TargetClockPeriod")
    estimated = _number(timing, "EstimatedClockPeriod")
    if used is None or target is None or estimated is None:
        raise ToolchainError(f"the report {printable(path)} has no clock or no resources; synthesize the kernel again.")
    modules = list(root.iterfind("ModuleInformation/Module"))
    loops: dict[tuple[str, str], Loop] = {}
    for name, performance in [
        (top, root.find("PerformanceEstimates")),
        *((module.findtext("Name") or "", module.find("PerformanceEstimates")) for module in modules),
    ]:
        if performance is not None:
            loops |= {(loop.module, loop.name): loop for loop in _loops(name, performance)}
    return Synthesis(
        path=path,
        top=top,
        version=root.findtext("ReportVersion/Version") or "",
        part=root.findtext("UserAssignments/Part") or "",
        target_ns=target,
        uncertainty_ns=_number(asked, "ClockUncertainty") or 0.0,
        estimated_ns=estimated,
        latency=_whole(root.find("PerformanceEstimates/SummaryOfOverallLatency"), "Worst-caseLatency"),
        resources=_resources(used),
        loops=tuple(loops.values()),
        modules={
            module.findtext("Name") or "": _resources(area)
            for module in modules
            if (area := module.find("AreaEstimates/Resources")) is not None
        },
    )


def lines(reports: Sequence[Synthesis]) -> Iterator[str]:
    """The reports as text: a head for each function, and a line for each pipelined loop."""
    if not reports:
        yield "no report csynth.xml was found"
    for one in reports:
        state = "meets" if one.meets_clock else "misses"
        used = ", ".join(f"{value:g} {name}" for name, value in one.resources.items() if value)
        clock = f"the clock of {one.target_ns:g} ns with {one.estimated_ns:g} ns"
        yield f"{one.top}: {state} {clock}; {used or 'no resources'}"
        for loop in one.loops:
            if loop.ii is not None:
                depth = "?" if loop.depth is None else loop.depth
                yield f"  {loop.module}.{loop.name}: II {loop.ii}, depth {depth}"


def achieved(reports: Sequence[Synthesis]) -> dict[str, Any]:
    """What a manifest says of the reports, by kernel; of several instances of a loop the slowest counts."""
    found: dict[str, Any] = {}
    for one in reports:
        loops: dict[str, dict[str, int | None]] = {}
        for loop in one.loops:
            before = loops.get(loop.name, {}).get("ii") or 0
            if loop.ii and loop.ii > before:
                loops[loop.name] = {"ii": loop.ii, "depth": loop.depth or None}
        found[one.top] = {"target_ns": one.target_ns, "estimated_ns": one.estimated_ns, "loops": loops}
    return found


def _loops(module: str, performance: ElementTree.Element) -> Iterator[Loop]:
    """Loops of a function, nested ones too: elements that are named after their loops."""
    summary = performance.find("SummaryOfLoopLatency")
    for element in _inside(summary if summary is not None else ()):
        if any(element.find(name) is not None for name in _OF_A_LOOP):
            depth = _whole(element, "PipelineDepth")
            ii = _whole(element, "PipelineII")
            depth = depth if depth is not None else _whole(element, "IterationLatency")
            yield Loop(module, element.findtext("Name") or element.tag, ii, depth if ii else None,
                       _whole(element, "TripCount"))  # fmt: skip


def _inside(elements: Iterable[ElementTree.Element]) -> Iterator[ElementTree.Element]:
    for element in elements:
        yield element
        yield from _inside(element)


def _resources(element: ElementTree.Element) -> Resources:
    def value(*names: str) -> float:
        return next((found for name in names if (found := _number(element, name)) is not None), 0.0)

    return Resources(
        dsp=value("DSP", "DSP48E"), bram36=value("BRAM_18K") / 2, uram=value("URAM"), lut=value("LUT"), ff=value("FF")
    )


def _number(element: ElementTree.Element | None, name: str) -> float | None:
    try:
        return float((element.findtext(name) if element is not None else None) or "")
    except ValueError:
        return None


def _whole(element: ElementTree.Element | None, name: str) -> int | None:
    found = _number(element, name)
    return None if found is None else int(found)
