"""The formulas of an engine's logic against counts from the sources (clang 19, 300 MHz), and what they depend on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xclbin_build import recipe as recipes
from xclbin_build.engine import ELEMENTS, Engine
from xclbin_build.estimate import engine_logic

COUNTED = {  # DSP, LUT and FF of all processes together; test_recipes.py counts them again
    "engine-kv260": (102, 72_089, 74_335),
    "engine-kv260-gather": (112, 72_409, 67_196),
}


def engine_of(recipe: str) -> Engine:
    (kernel,) = recipes.load(recipe).kernels
    assert kernel.engine is not None
    return kernel.engine


@pytest.mark.parametrize("recipe", COUNTED)
def test_formulas_are_near_counts(recipe: str) -> None:
    found = engine_logic.logic(engine_of(recipe))
    for value, counted in zip((found.dsp, found.lut, found.ff), COUNTED[recipe], strict=True):
        assert value == pytest.approx(counted, rel=0.12)


@pytest.mark.parametrize("element", ELEMENTS)
def test_larger_engines_take_more(element: str) -> None:
    recipe = {"int8": "engine-u250", "bfloat16": "engine-u250-bf16", "float32": "engine-u250-fp32"}[element]
    engine = engine_of(recipe)
    found = engine_logic.logic(engine)
    bare = replace(engine, vector_lanes=0, gather=False, casts=False)
    for smaller in (replace(engine, pixels=2), replace(engine, out_channels=16), bare):
        less = engine_logic.logic(smaller)
        assert 0 < less.lut <= found.lut
        assert 0 < less.ff <= found.ff
    assert engine_logic.logic(bare).lut < 0.95 * found.lut
