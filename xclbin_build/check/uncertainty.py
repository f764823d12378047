"""How far off an interval or a latency may be: what public reports of Vitis HLS said beside the checker.

Intervals and depths: loops of `python -m benchmarks.hls_loops`, latencies: designs of `python -m benchmarks.hls_check`
(at 10 ns); of each the half that no rule was made by. docs/evaluation/checking-hls.md has the tables.
"""

from __future__ import annotations

import math

from ..hls.error_bounds import ErrorBounds

# Loops that were found to have an interval of 1: so many of them have it by their reports.
ONE_RIGHT, ONE = 93, 96
# Loops that were found to have an interval above 1, reported / found; so many of them exactly.
SLOW = ErrorBounds(0.29, 1.46, 13)
SLOW_RIGHT = 6
DEPTH = ErrorBounds(0.67, 2.0, 109)
LATENCY = ErrorBounds(0.98, 1.13, 449)

_SURE = 0.9  # of an interval of 1: the share from which on it has no band

RESTS_ON = (
    f"In brackets: the range that holds four of five public reports. II of 1: {ONE_RIGHT} of {ONE} loops agree with "
    f"their reports; above 1: {SLOW_RIGHT} of {SLOW.figures} exactly; depths: {DEPTH.figures} "
    f"loops; latencies: {LATENCY.figures} designs."
)


def of_interval(ii: int) -> tuple[int, int]:
    """Least and most of an initiation interval."""
    if ii == 1 and ONE_RIGHT >= _SURE * ONE:
        return (1, 1)
    return _cycles(ii, SLOW)


def of_depth(depth: int) -> tuple[int, int]:
    """Least and most of the latency of an iteration."""
    return _cycles(depth, DEPTH)


def of_latency(latency: int) -> tuple[int, int]:
    """Least and most of the latency of a loop or a kernel."""
    return _cycles(latency, LATENCY)


def _cycles(found: int, band: ErrorBounds) -> tuple[int, int]:
    return (max(1, math.floor(found * band.low)), math.ceil(found * band.high)) if found > 0 else (found, found)
