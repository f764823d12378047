"""How far off an estimate may be: for each way to a figure a band that holds four of five public designs.

`source`: what Vitis HLS reported over what the rules give of the same sources (`python -m benchmarks.hls_check`:
designs of ForgeHLS at 10 ns, the half that no rule was made by). LUTs and registers have what placed designs
are of their reports in addition; both are independent. `formula`: coefficients from such reports, so the same band.
`counted`: the sources give the number, and what tools make of it is a guess. No engine of ours has been placed.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..hls.error_bounds import ErrorBounds
from ..hls.resources import NAMES, Component

Bounds = dict[str, tuple[float, float]]

BASES = {
    "counted": "a size or a number in the sources",
    "formula": "a formula with coefficients from the LLVM IR of the sources",
    "source": "the LLVM IR of the sources, operator by operator",
    "unknown": "unknown: it could not be counted",
}

# Report / estimate, of the designs that have any.
_REPORTED = {
    "dsp": ErrorBounds(0.90, 1.37, 233),
    "bram36": ErrorBounds(0.90, 1.0, 79),
    "lut": ErrorBounds(0.78, 1.62, 460),
    "ff": ErrorBounds(0.62, 2.20, 460),
}
# Placed / report over the median, by which estimates are multiplied ([placed] in hls/operators.toml, with the source).
_PLACED = {"lut": ErrorBounds(0.45 / 0.66, 0.95 / 0.66, 4778), "ff": ErrorBounds(0.62 / 0.77, 0.89 / 0.77, 4778)}
_SURE = ErrorBounds(1.0, 1.0, 0)

_BY_REPORTS = {name: _REPORTED.get(name, _SURE).times(_PLACED.get(name, _SURE)) for name in NAMES}
BANDS: dict[str, dict[str, ErrorBounds]] = {
    "counted": {"dsp": _SURE, **dict.fromkeys(("bram36", "uram"), ErrorBounds(0.9, 1.1, 0)),
                **dict.fromkeys(("lut", "ff"), ErrorBounds(0.7, 1.3, 0))},
    "source": _BY_REPORTS,
    "formula": _BY_REPORTS,
    "unknown": dict.fromkeys(NAMES, ErrorBounds(1.0, float("inf"), 0)),
}  # fmt: skip


def rests_on() -> str:
    """What the bands rest on, in a sentence."""
    return (
        f"the band that {_REPORTED['lut'].figures} reports of Vitis HLS (a tenth lies below, a tenth above) and "
        f"{_PLACED['lut'].figures:,} placed designs leave to what is counted from sources and by formulas; "
        "of sizes (counted) a guess. Errors are added up as if all were alike. No engine of ours has been placed."
    )


def bounds(part: Component) -> Bounds:
    """Least and most of each resource of a part and all within it. Errors of its parts add up, as if all were alike."""
    low, high = dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.0)
    for basis, own in part.leaves():
        for name, value in own.items():
            band = BANDS[basis][name]
            low[name] += value * band.low
            high[name] += value * band.high if value else 0.0
    return {name: (low[name], high[name]) for name in NAMES}


def add_bounds(parts: Iterable[Bounds]) -> Bounds:
    """Bounds of several parts together."""
    low, high = dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.0)
    for found in parts:
        for name, (least, most) in found.items():
            low[name] += least
            high[name] += most
    return {name: (low[name], high[name]) for name in NAMES}
