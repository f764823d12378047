"""Our own kernels keep the contracts of their `qor.toml`, but for the loops that are listed here with a reason.

`make test` looks at the kernels of `examples/` and at one core; `make contracts`, which `.ci/run` calls, at the engines
of all boards and the cores of the recipe `signal`, whose contracts are the pragmas of their loops.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xclbin_build import platform as platforms
from xclbin_build import recipe as recipes
from xclbin_build.build import load_design
from xclbin_build.check.run import check_design
from xclbin_build.design import Design

EXAMPLES = Path(__file__).parents[3] / "examples"

# Loops that are slower than their contract, and why. Whoever mends one takes it out.
KNOWN: dict[str, dict[str, str]] = {}


ALL_TYPES = ("kv260", "u250")
"""Boards whose engines of floats are looked at as well: without functions of what they round, and with them."""


def kinds() -> list[Any]:
    """A board for each kind of engine: those with the same sizes and clock are checked once."""
    found, seen = [], set()
    for card in platforms.names():
        for name in recipes.for_platform(card)[: None if card in ALL_TYPES else 1] if card != "emu" else ():
            design = load_design(name, platform=card)
            kernels = tuple((kernel.engine, kernel.peers) for kernel in design.kernels)
            kind = (kernels, design.platform.speeds["clock_mhz"])
            if kind not in seen:
                seen.add(kind)
                found.append(pytest.param(design, id=name, marks=pytest.mark.slow))
    return found


@pytest.mark.parametrize("design", kinds())
def test_a_boards_own_recipe_keeps_its_contracts(design: Design) -> None:
    keeps_its_contracts(design)


@pytest.mark.parametrize("recipe", ["dataflow_kernel/scale.toml", "plain_kernel/vadd.toml"])
def test_examples_keep_their_contracts(recipe: str) -> None:
    keeps_its_contracts(load_design(EXAMPLES / recipe, {}, "u250"))


@pytest.mark.parametrize(
    "kernel", ["zip", *(pytest.param(name, marks=pytest.mark.slow) for name in ("move", "pointwise", "fft"))]
)
def test_cores_of_the_recipe_signal_keep_their_intervals(kernel: str, tmp_path: Path) -> None:
    """What an accelerator of signals is made of; those of matrices and convolutions are made for the emulator."""
    recipe = tmp_path / "one.toml"
    recipe.write_text(f'name = "one"\n[kernel.one]\ncores = ["{kernel}"]\n')
    keeps_its_contracts(load_design(recipe, {}, "zcu102"))


def keeps_its_contracts(design: Design) -> None:
    found = check_design(design)
    assert not found.unchecked
    known = KNOWN.get(design.recipe.name, {})
    new = [
        f"{miss.part.name}.{miss.loop.name}: {miss.loop.ii} instead of {miss.asked}: {miss.loop.limit}"
        for miss in found.misses
        if f"{miss.part.name}.{miss.loop.name}" not in known
    ]
    assert not new
