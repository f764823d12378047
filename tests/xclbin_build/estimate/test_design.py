"""Designs against cards, by their sizes alone: no clang is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from xclbin_build import RecipeError, build
from xclbin_build import platform as platforms
from xclbin_build import recipe as recipes
from xclbin_build.build import load_design
from xclbin_build.estimate.design import check_fit, estimate
from xclbin_build.estimate.report import document
from xclbin_build.estimate.resources import NAMES

CARDS = [name for name in platforms.names() if name != "emu"]


@pytest.mark.parametrize("card", CARDS)
def test_the_software_cards_recipe_is_refused_on_every_card(card: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=f"recipe 'default' does not fit platform '{card}': compute unit sequencer_1"):
        build("hw", "default", platform=card, output=tmp_path / "x")


def test_a_larger_array_is_refused_with_what_it_takes(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_text('name = "large"\n[kernel.k]\ncores = ["gemm"]\n[tiles]\nROWS = 300\n')
    with pytest.raises(RecipeError, match=r"k_1 is larger than any region of the card: it takes 96,000 of 1,248 DSP"):
        check_fit(load_design(path, platform="kv260"))


def test_document_has_what_is_used_and_available() -> None:
    words = document(estimate(load_design("single", platform="u250"), whole=False))
    assert words["fits"] is False
    assert words["used"]["dsp"] == 8960
    assert words["available"]["dsp"] == 4 * 2877
    assert set(words["used"]) == set(words["available"]) == set(NAMES)
    assert [region["name"] for region in words["regions"]] == ["SLR0", "SLR1", "SLR2", "SLR3"]
    (kernel,) = words["kernels"]
    low, high = kernel["bounds"]["lut"]
    assert low < kernel["used"]["lut"] < high


def test_the_software_card_has_nothing_to_fit() -> None:
    with pytest.raises(RecipeError, match="platform 'emu' has no resources to fit"):
        estimate(load_design("default"), whole=False)


def test_own_recipe_of_a_platform() -> None:
    assert recipes.own("u250") == "engine-u250"
    with pytest.raises(RecipeError, match="made for platform 'vck190'"):
        recipes.own("vck190")
