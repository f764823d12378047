"""Synthesis held against the contract, the checker and the estimate: loops, resources of kernels, the clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .. import qor
from ..check.run import Checked, CheckedPart, requested_interval
from ..design import Design
from ..errors import RecipeError
from ..estimate.design import Estimate
from ..flow import csynth, implementation
from ..flow.implementation import Timing, Utilization
from ..hls.resources import NAMES, Resources
from ..trusted_path import printable


@dataclass(frozen=True)
class LoopRow:
    """A loop: what its contract (or else its pragma) asks for, what the checker predicts, what synthesis says.

    Intervals and depths are in cycles; None where there is no figure.
    """

    kernel: str
    loop: str
    asked: int | None
    by: str
    checked: int | None
    synthesized: int | None
    depth_asked: int | None = None
    depth: int | None = None

    @property
    def broken(self) -> bool:
        """Whether synthesis needs more cycles than were asked for; of a loop that it does not report, unknown."""
        return self.asked is not None and self.synthesized is not None and self.synthesized > self.asked


@dataclass
class Comparison:
    """All that was found. resources: of each kernel, by "estimate", "csynth" and "implementation"."""

    loops: list[LoopRow]
    clocks: list[csynth.Synthesis]
    timing: list[Timing]
    resources: dict[str, dict[str, Resources]]
    whole: Resources | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def broken(self) -> list[str]:
        """Sentences, one for each broken contract."""
        found = [
            f"{row.kernel}.{row.loop}: II {row.synthesized} where the {row.by} requires {row.asked}."
            for row in self.loops
            if row.broken
        ]
        found += [
            f"{one.top}: synthesis estimates {one.estimated_ns:g} ns for a clock of {one.target_ns:g} ns."
            for one in self.clocks
            if not one.meets_clock
        ]
        return found + [
            f"{printable(one.path.name)}: timing is missed by {-one.slack_ns:g} ns at {one.failing} endpoints."
            for one in self.timing
            if not one.met
        ]

    def document(self) -> dict[str, Any]:
        """The comparison as JSON."""
        return {
            "passes": not self.broken,
            "broken": self.broken,
            "loops": [
                {"kernel": r.kernel, "loop": r.loop, "asked": r.asked, "by": r.by if r.asked is not None else None,
                 "checker": r.checked, "synthesis": r.synthesized, "depth_asked": r.depth_asked, "depth": r.depth}
                for r in self.loops
            ],
            "synthesis": [one.table() for one in self.clocks],
            "timing": [{"report": str(one.path), "slack_ns": one.slack_ns, "met": one.met} for one in self.timing],
            "resources": {
                kernel: {source: used.table() for source, used in figures.items()}
                for kernel, figures in self.resources.items()
            },
            "implementation": self.whole.table() if self.whole else None,
            "notes": self.notes,
        }  # fmt: skip


def compare(design: Design, folder: Path, checked: Checked | None, estimate: Estimate | None) -> Comparison:
    """Holds the reports below a folder against a design.

    checked: by the checker, None without clang. Raises RecipeError if the folder has no report of synthesis,
    ToolchainError for a damaged one.
    """
    if not folder.is_dir():
        raise RecipeError(f"--against {printable(folder)} is not a folder; name one with reports of Vitis.")
    reports = csynth.load(folder)
    known = {kernel.name for kernel in design.kernels}
    own = [one for one in reports if one.top in known]
    timing, utilization = implementation.timing_in(folder), implementation.utilization_in(folder)
    if not own and not timing and not utilization:
        tops = ", ".join(one.top for one in reports)
        names = ", ".join(sorted(known))
        what = f"they are of {tops}, and the recipe has {names}" if tops else "the folder has no report"
        raise RecipeError(
            f"--against {printable(folder)}: no report csynth.xml of a kernel of recipe '{design.recipe.name}' and no "
            f"report of the implementation was found: {what}."
        )
    found = Comparison([], own, timing, {})
    for report in own:
        parts = [part for part in checked.parts if part.kernel == report.top] if checked else []
        found.loops += _loops(report, parts)
    for report in own:
        found.resources.setdefault(report.top, {})["csynth"] = report.resources
    for component in estimate.kernels if estimate else ():
        if component.name in known:
            found.resources.setdefault(component.name, {})["estimate"] = component.resources
    _add_utilization(found, utilization, known)
    missing = sorted(known - {one.top for one in own})
    if missing:
        found.notes.append(f"no report of synthesis of {', '.join(missing)}")
    if checked is None:
        found.notes.append("the checker did not run, because clang is missing: only contracts that are named count")
    return found


def _add_utilization(found: Comparison, reports: Iterable[Utilization], known: set[str]) -> None:
    for report in reports:
        found.whole = report.whole or found.whole
        for kernel, used in report.kernels.items():
            if kernel in known:
                found.resources.setdefault(kernel, {})["implementation"] = used


def _loops(report: csynth.Synthesis, parts: list[CheckedPart]) -> list[LoopRow]:
    """A row for each pipelined loop that synthesis, the checker or the contract knows, by label."""
    said = [loop for loop in report.loops if loop.ii is not None]
    rows: dict[str, LoopRow] = {}
    contract = next((part.contract for part in parts if part.contract), None)
    for part in parts:
        for loop in part.check.loops if part.check else ():
            by, asked = requested_interval(loop, part.contract)
            if loop.ii is None and asked is None:
                continue
            depth = contract.loops[loop.name].depth if contract and loop.name in contract.loops else None
            rows[loop.name] = LoopRow(report.top, loop.name, asked, by, loop.ii, None, depth)
    for name, wanted in (contract or qor.Contract({}, {})).loops.items():
        rows.setdefault(name, LoopRow(report.top, name, wanted.ii, "contract", None, None, wanted.depth))
    for one in said:
        label = _label(one.name, rows)
        row = rows.get(label) or LoopRow(report.top, label, None, "", None, None)
        if row.synthesized is None or (one.ii or 0) > row.synthesized:  # of several instances the slowest
            rows[label] = replace(row, synthesized=one.ii, depth=one.depth)
    return list(rows.values())


def _label(name: str, known: Iterable[str]) -> str:
    """The label of a loop in a report: of loops that were flattened the innermost, whose name comes last."""
    inner = [label for label in known if name == label or name.endswith(f"_{label}")]
    return max(inner, key=len, default=name)


def show(found: Comparison, console: Console) -> None:
    """Prints the comparison as tables."""
    loops = Table("kernel", "loop", "required II", "checker", "synthesis", "depth", "", box=None, pad_edge=False)
    for row in found.loops:
        if row.synthesized is None and row.checked is None:
            continue
        state = "[bold red]broken[/]" if row.broken else "" if row.synthesized is not None else "not reported"
        depth = _pair(row.depth, row.depth_asked)
        loops.add_row(row.kernel, row.loop, _word(row.asked), _word(row.checked), _word(row.synthesized), depth, state)
    console.print(loops)
    resources = Table("kernel", "source", *NAMES.values(), box=None, pad_edge=False)
    for kernel, figures in found.resources.items():
        for source, used in figures.items():
            resources.add_row(kernel, source, *(f"{value:,.1f}".removesuffix(".0") for value in used.values()))
    console.print(resources)
    for one in found.clocks:
        _line(console, f"{one.top}: {one.estimated_ns:g} ns of {one.target_ns:g} ns ({one.part}, Vitis {one.version})")
    for slack in found.timing:
        _line(console, f"{slack.path.name}: worst slack {slack.slack_ns:g} ns")
    for note in found.notes:
        _line(console, f"note: {note}")
    for sentence in found.broken:
        _line(console, sentence)
    if not found.broken:
        _line(console, "Every contract that the reports tell of is kept.")


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _word(value: int | None) -> str:
    return "-" if value is None else str(value)


def _pair(value: int | None, asked: int | None) -> str:
    return _word(value) if asked is None else f"{_word(value)} of {asked}"
