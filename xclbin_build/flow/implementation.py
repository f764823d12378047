"""Reports of Vivado's implementation: the timing summary and the utilization of the routed design."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..hls.resources import Resources

_MOST_BYTES = 256 << 20
_TIMING = re.compile(r"^\s*WNS\(ns\)[^\n]*\n[-\s]*\n\s*(-?[\d.]+)\s+(-?[\d.]+)\s+(\d+)\s+(\d+)", re.MULTILINE)
_CELL = re.compile(r"^\|\s*([A-Za-z][\w ]*?)\*?\s*\|\s*([\d.]+)\s*\|", re.MULTILINE)
_NAMES = {
    "clb luts": "lut", "slice luts": "lut", "clb registers": "ff", "registers": "ff", "slice registers": "ff",
    "block ram tile": "bram36", "uram": "uram", "dsps": "dsp", "dsp slices": "dsp",
}  # fmt: skip
_KERNEL_HEAD = re.compile(r"^\|\s*Name\s*\|(.*\|)\s*$", re.MULTILINE)
_KERNEL_COLUMNS = {"lut": "lut", "reg": "ff", "bram": "bram36", "uram": "uram", "dsp": "dsp"}


@dataclass(frozen=True)
class Timing:
    """Worst negative slack in ns, below 0 where timing is not met, and the endpoints that miss it."""

    path: Path
    slack_ns: float
    failing: int

    @property
    def met(self) -> bool:
        return self.slack_ns >= 0


@dataclass(frozen=True)
class Utilization:
    """What a design uses. kernels: what each kernel uses, by name, where the report says."""

    path: Path
    whole: Resources | None
    kernels: dict[str, Resources]


def timing_in(folder: Path) -> list[Timing]:
    """The timing summaries in a folder."""
    found = []
    for path, text in _texts(folder, "*timing*.rpt"):
        if match := _TIMING.search(text):
            found.append(Timing(path, float(match[1]), int(match[3])))
    return found


def utilization_in(folder: Path) -> list[Utilization]:
    """The reports of utilization in a folder."""
    found = []
    for path, text in _texts(folder, "*util*.rpt"):
        figures: dict[str, float] = {}
        for name, value in _CELL.findall(text):
            key = _NAMES.get(name.strip().lower())
            if key is not None:
                figures.setdefault(key, float(value))
        kernels = dict(_kernels(text))
        whole = Resources(**figures) if "lut" in figures else None
        if whole or kernels:
            found.append(Utilization(path, whole, kernels))
    return found


def _kernels(text: str) -> Iterator[tuple[str, Resources]]:
    """Rows of the report of kernels, `| vadd (1) | 3712 [ 0.36%] | ...`: those that have a count of compute units."""
    head = _KERNEL_HEAD.search(text)
    if head is None:
        return
    columns = [cell.strip().lower() for cell in head[1].split("|")]
    for line in text[head.end() :].splitlines():
        row = re.match(r"^\|\s*(\w+)\s+\(\d+\)\s*\|(.*\|)\s*$", line)
        if row:
            cells = [cell.split("[")[0].strip() for cell in row[2].split("|")]
            pairs = zip(columns, cells, strict=False)
            figures = {_KERNEL_COLUMNS[c]: float(v) for c, v in pairs if c in _KERNEL_COLUMNS and _is_number(v)}
            yield row[1], Resources(**figures)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", text) is not None


def _texts(folder: Path, pattern: str) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob(pattern)):
        if path.is_file() and path.stat().st_size <= _MOST_BYTES:
            yield path, path.read_text(errors="replace")
