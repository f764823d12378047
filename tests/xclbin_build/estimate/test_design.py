"""Designs against cards, by their sizes alone: no clang is needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from xclbin_build import RecipeError, build
from xclbin_build import platform as platforms
from xclbin_build import recipe as recipes
from xclbin_build.build import load_design
from xclbin_build.estimate import kernels, uncertainty
from xclbin_build.estimate.design import check_fit, estimate
from xclbin_build.estimate.report import document, show
from xclbin_build.hls import clang
from xclbin_build.hls.error_bounds import ErrorBounds
from xclbin_build.hls.resources import NAMES, Component, Resources

CARDS = [name for name in platforms.names() if name != "emu"]


@pytest.mark.parametrize("card", CARDS)
def test_the_software_cards_recipe_is_refused_on_every_card(card: str, tmp_path: Path) -> None:
    words = f"recipe 'emulator' does not fit platform '{card}': compute unit sequencer_1"
    with pytest.raises(RecipeError, match=words):
        build("hw", "emulator", platform=card, output=tmp_path / "x")


def test_a_larger_array_is_refused_with_what_it_takes(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_text('name = "large"\n[kernel.k]\ncores = ["gemm"]\n[tiles]\nROWS = 300\n')
    with pytest.raises(RecipeError, match=r"k_1 is larger than any region of the card: it needs 96,000 of 1,248 DSP"):
        check_fit(load_design(path, platform="kv260"))


def test_document_has_what_is_used_and_available() -> None:
    words = document(estimate(load_design("single", platform="u250"), whole=False))
    assert words["fits"] is False
    assert words["used"]["dsp"] == 8960
    assert words["available"]["dsp"] == 4 * 2877
    assert set(words["used"]) == set(words["available"]) == set(NAMES)
    assert [region["name"] for region in words["regions"]] == ["SLR0", "SLR1", "SLR2", "SLR3"]
    (kernel,) = words["kernels"]
    for where in (kernel, words):
        low, high = where["bounds"]["lut"]
        assert low < where["used"]["lut"] < high
    assert "460 reports" in words["bounds_rest_on"]


def test_every_figure_of_the_table_has_its_band(capsys: pytest.CaptureFixture[str]) -> None:
    found = estimate(load_design("engine-kv260", platform="kv260"), whole=False)
    show(found, Console(width=200))
    said = capsys.readouterr().out
    low, high = uncertainty.bounds(found.kernels[0])["lut"]
    # of the kernel in all, and of the region that it lies in
    assert said.count(f"{low:,.0f} to {high:,.0f}") == 2
    for part in found.kernels[0].parts:
        for name, (low, high) in uncertainty.bounds(part).items():
            assert low == high or f"{low:,.0f} to {high:,.0f}" in said, (part.name, name)
    region = document(found)["regions"][0]
    assert region["bounds"]["lut"][0] < region["used"]["lut"] < region["bounds"]["lut"][1]


def test_independent_factors_widen_a_band() -> None:
    both = ErrorBounds(0.5, 2.0, 10).times(ErrorBounds(0.5, 1.0, 20))
    assert both.low == pytest.approx(0.5**2**0.5) and both.high == pytest.approx(2.0) and both.figures == 10


def test_the_software_card_has_nothing_to_fit() -> None:
    with pytest.raises(RecipeError, match="platform 'emu' has no resource figures"):
        estimate(load_design("emulator"), whole=False)


def test_own_recipe_of_a_platform() -> None:
    assert recipes.own("u250") == "engine-u250"
    with pytest.raises(RecipeError, match="made for platform 'another'"):
        recipes.own("another")


def logic_of(lut: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the LUTs of an engine."""
    part = Component("process", "epilogue", Resources(lut=lut), "source")
    monkeypatch.setattr(clang, "available", lambda: True)
    monkeypatch.setattr(kernels.cache, "load", lambda *_: [part])


def test_a_build_counts_an_engines_logic(monkeypatch: pytest.MonkeyPatch) -> None:
    logic_of(50_000, monkeypatch)
    assert check_fit(load_design("engine-kv260", platform="kv260")).fits
    logic_of(150_000, monkeypatch)
    said = r"engine-kv260' does not fit .* needs 1\d\d,\d{3} of 117,120 LUT of SLR0\. Recipe 'engine-kv260-gather' fits"
    with pytest.raises(RecipeError, match=said):
        check_fit(load_design("engine-kv260", platform="kv260"))
    logic_of(300_000, monkeypatch)
    said = r"engine-zcu102' does not fit .* needs 3\d\d,\d{3} of 274,080 LUT of SLR0\. No built-in rec"
    with pytest.raises(RecipeError, match=said):
        check_fit(load_design("engine-zcu102", platform="zcu102"))


def test_a_refusal_names_a_recipe_that_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    logic_of(50_000, monkeypatch)
    path = tmp_path / "large.toml"
    path.write_text('name = "large"\n[kernel.k]\nengine = "16x32x16"\n')
    with pytest.raises(RecipeError, match=r"4,096 of 1,248 DSP.*Recipe 'engine-kv260' fits\."):
        check_fit(load_design(path, platform="kv260"))


def test_without_clang_sizes_decide_and_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clang, "available", lambda: False)
    found = check_fit(load_design("engine-kv260", platform="kv260"))
    assert found.fits is None
    assert "clang 19 is missing" in found.unknown[0]
    assert "build continues" in found.unknown[0]


def test_sizes_that_are_too_large_are_enough() -> None:
    found = estimate(load_design("emulator", platform="kv260"))
    assert found.fits is False
    assert "its arrays alone are too large" in found.unknown[0]
    assert found.advice
