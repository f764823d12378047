"""Every recipe that is made for a card fits it, with the room that routing wants; without clang 19 this is skipped.

They are a part of `make contracts`, which `.ci/run` calls.
"""

from __future__ import annotations

import pytest

from xclbin_build import platform as platforms
from xclbin_build import recipe as recipes
from xclbin_build.build import load_design
from xclbin_build.estimate import engine_logic
from xclbin_build.estimate.design import estimate
from xclbin_build.estimate.report import document
from xclbin_build.hls import clang
from xclbin_build.hls.resources import total

MOST = {"dsp": 0.8, "bram36": 0.8, "uram": 0.8, "lut": 0.7, "ff": 0.55}
RECIPES = [(recipe, card) for card in platforms.names() if card != "emu" for recipe in recipes.for_platform(card)]


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "card"), RECIPES)
def test_a_cards_own_recipe_fits_it(recipe: str, card: str) -> None:
    if not clang.available():
        pytest.skip("clang 19 is not installed")
    design = load_design(recipe, platform=card)
    found = estimate(design)
    words = document(found)
    assert words["fits"] is True, words["problems"]
    assert words["unknown"] == []
    for region in words["regions"]:
        for name, most in MOST.items():
            assert region["used"][name] <= most * region["available"][name], (region["name"], name)
    for kernel, part in zip(design.kernels, found.kernels, strict=True):
        if kernel.engine is not None:  # the formulas of a search, which counts nothing
            counted = total(child.resources for child in part.parts if child.kind == "process")
            by_formula = engine_logic.logic(kernel.engine)
            assert by_formula.lut == pytest.approx(counted.lut, rel=0.15)
            assert by_formula.dsp == pytest.approx(counted.dsp, rel=0.15)
