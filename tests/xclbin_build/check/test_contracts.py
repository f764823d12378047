"""Our own kernels keep the contracts of their `qor.toml`, but for the loops that are listed here with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from xclbin_build.build import load_design
from xclbin_build.check.run import check_design

EXAMPLES = Path(__file__).parents[3] / "examples"

# Loops that are slower than their contract, and why. Whoever mends one takes it out.
KNOWN: dict[str, dict[str, str]] = {}


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
