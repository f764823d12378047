"""The table of reports, and the page of the documentation that has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch

from tests.reports.case import Report
from tests.reports.catalogue import KNOWN
from tests.reports.outcome import Outcome, acceptable

DATE = "2026-11-28"
HEAD = (
    "| report | what it is about | eager | aot_eager | fpga before (0c5ce48) | fpga now |\n|---|---|---|---|---|---|\n"
)


@dataclass(frozen=True)
class Row:
    report: Report
    cells: dict[str, Outcome]
    before: str


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _line(row: Row) -> str:
    cells = row.cells["eager"].text, row.cells["aot_eager"].text, row.before, row.cells["fpga"].text
    return f"| {row.report.reference} | {row.report.about} | {' | '.join(map(_cell, cells))} |"


def table(rows: Iterable[Row]) -> str:
    """The rows under the heads of their kinds."""
    parts = []
    for kind, group in groupby(rows, key=lambda row: row.report.kind):
        lines = "\n".join(map(_line, group))
        parts.append(f"## {kind[0].upper()}{kind[1:]}\n\n{HEAD}{lines}\n")
    return "\n".join(parts)


def _summary(rows: Sequence[Row]) -> str:
    right = sum(row.cells["fpga"].right for row in rows)
    control = sum(row.cells["aot_eager"].right for row in rows)
    before = sum(row.before == "as eager mode" for row in rows)
    launched = sum(row.cells["fpga"].launches > 0 for row in rows)
    alone = sum(not acceptable(row.cells["aot_eager"], row.cells["fpga"]) for row in rows)
    return (
        f"| figure | programs |\n|---|---|\n| all | {len(rows)} |\n"
        f"| aot_eager does what eager mode does | {control} |\n"
        f"| fpga did so at 0c5ce48 | {before} |\n| fpga does so now | {right} |\n"
        f"| fpga launches work on the emulator | {launched} |\n| fpga alone differs from eager mode | {alone} |\n"
    )


def _changed(rows: Sequence[Row]) -> str:
    lines = [
        f"- {row.report.reference} ({row.report.about}): before, {row.before}; now, {row.cells['fpga'].text}."
        for row in rows
        if row.before not in ("not run", row.cells["fpga"].text)
    ]
    return "\n".join(lines) or "None."


def _alone(rows: Sequence[Row]) -> str:
    lines = [
        f"- {row.report.reference} ({row.report.about}): {KNOWN.get(row.report.name, row.cells['fpga'].text)}."
        for row in rows
        if not acceptable(row.cells["aot_eager"], row.cells["fpga"])
    ]
    return "\n".join(lines) or "None."


def write_page(path: Path, rows: Sequence[Row]) -> None:
    """Writes docs/evaluation/public-reports.md."""
    caption = (
        f"CPU with {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}, one thread, "
        f'options={{"partition": "greedy"}}; `python -m tests.reports --page {path}`, {DATE}.'
    )
    text = _TEXT.format(date=DATE, summary=_summary(rows), changed=_changed(rows), alone=_alone(rows), caption=caption)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n{table(rows)}", encoding="utf-8")


_TEXT = """# Public reports of torch.compile backends

This page is for a reader who wants to know which known faults of other compilers this backend shares. It was written on
{date} by `make reports`, from the programs in `tests/reports`.

Each row is a public bug report about torch.compile, about one of its backends, or about a compiler for PyTorch models.
The reference names the project and the number. The programs are our own: each keeps the operators that its report is
about.

Each program runs under eager mode, under `aot_eager` and under `fpga`. Eager mode is the reference, with its own
float64 result where the program has one. `aot_eager` is the control: it traces as `fpga` does, but compiles nothing. A
program compares values, dtypes, strides, changed inputs, gradients, exceptions and memory, whichever its report is
about.

- *as eager mode*: the program returns or raises what it does in eager mode.
- *other*: it returns something else. A value may be off by four times the error of eager float32, and a few ulp.
- *raises*: it raises an exception that eager mode does not raise.
- *internal error*: the result is right, but the compiler failed and left the graph to eager mode with a warning.

{caption}

{summary}
The column *fpga before* is `tests/reports/before.json`, measured at 0c5ce48 on the same CPU.

## Changes since 0c5ce48

Fixed kind: AOTAutograd cannot trace some graphs that eager mode runs. The backend took AOTAutograd's exception for an
internal error of its own, warned, and asked for a report. Now such a graph runs in eager mode, with AOTAutograd's
reason.

{changed}

## Reports where fpga alone differs

{alone}
"""
