"""Our own kernels keep the contracts of their `qor.toml`, but for the loops that are listed here with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from xclbin_build.build import load_design
from xclbin_build.check.run import check_design

EXAMPLES = Path(__file__).parents[3] / "examples"

# Loops that are slower than their contract, and why. Whoever mends one takes it out.
KNOWN: dict[str, dict[str, str]] = {
    "engine-kv260": {
        "fill_window.fill_words": "the banks of the window are one memory until a pragma divides them",
        "feed.feed_steps": "the banks of the window are one memory until a pragma divides them",
        "feed.find_taps": "counters of 32 bits: two additions, a comparison and a choice in a cycle",
        "load_weights.packed_lines": "counters of 32 bits: an addition, a comparison and a choice in a cycle",
        "load_weights.diagonal_taps": "counters of 32 bits: an addition, a comparison and a choice in a cycle",
        "load_weights.params_lines": "counters of 32 bits: an addition, a comparison and a choice in a cycle",
        "load_weights.map_lines": "a sum of 15 terms is carried through the memory 'column'",
        "mac_array.mac_steps": "two additions of 32 bits a step, behind the choice of where a sum begins",
    },
}


@pytest.mark.parametrize(
    ("recipe", "platform"),
    [("engine-kv260", "kv260"), (EXAMPLES / "dataflow_kernel/scale.toml", "u250"),
     (EXAMPLES / "plain_kernel/vadd.toml", "u250")],
    ids=["engine-kv260", "scale", "vadd"],
)  # fmt: skip
def test_loops_keep_their_contracts(recipe: str | Path, platform: str) -> None:
    found = check_design(load_design(recipe, {}, platform))
    unchecked = {part.name: part.note for part in found.parts if part.check is None}
    assert not unchecked
    known = KNOWN.get(str(recipe), {})
    new = [
        f"{miss.part.name}.{miss.loop.name}: {miss.loop.ii} instead of {miss.asked}: {miss.loop.limit}"
        for miss in found.misses
        if f"{miss.part.name}.{miss.loop.name}" not in known
    ]
    assert not new
