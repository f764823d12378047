"""How far off an estimate may be: for each way to a figure a band, set by hand.

The bands of `source` were set with the errors on ForgeHLS' designs in view (docs/resources.md), not computed from them.
Those of `formula` are these and what the formula adds; for `counted` things the sources give the number, and what is
open is what the tools make of it. None has been held against a placed design.
"""

from __future__ import annotations

from ..hls.resources import NAMES, Part

BASES = {
    "counted": "a size or a number in the sources",
    "formula": "a formula with coefficients from the sources' IR",
    "source": "the sources' IR, operator by operator",
    "unknown": "nothing: it could not be counted",
}

# Report / estimate, (least, most) that is expected.
BANDS: dict[str, dict[str, tuple[float, float]]] = {
    "counted": {"dsp": (1.0, 1.0), "bram36": (0.9, 1.1), "uram": (0.9, 1.1), "lut": (0.7, 1.3), "ff": (0.7, 1.3)},
    "source": {"dsp": (0.8, 1.25), "bram36": (1.0, 1.2), "uram": (1.0, 1.0), "lut": (0.75, 1.6), "ff": (0.6, 2.0)},
    "formula": {"dsp": (0.8, 1.25), "bram36": (0.8, 1.2), "uram": (1.0, 1.0), "lut": (0.6, 1.7), "ff": (0.6, 2.0)},
    "unknown": {name: (1.0, float("inf")) for name in NAMES},
}


def bounds(part: Part) -> dict[str, tuple[float, float]]:
    """Least and most of each resource of a part and all within it. Errors of its parts add up, as if all were alike."""
    low, high = dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.0)
    for basis, own in part.leaves():
        for name, value in own.items():
            least, most = BANDS[basis][name]
            low[name] += value * least
            high[name] += value * most if value else 0.0
    return {name: (low[name], high[name]) for name in NAMES}
