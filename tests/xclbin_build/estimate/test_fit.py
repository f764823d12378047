"""Compute units laid into regions: what fits, what is too large, and the sentences about it."""

from __future__ import annotations

import pytest

from xclbin_build import platform as platforms
from xclbin_build.estimate.fit import Fit, PlacedUnit, fit
from xclbin_build.hls.resources import Component, Resources

U250 = platforms.load("u250")
KV260 = platforms.load("kv260")


def units(count: int, resources: Resources, **more: object) -> list[PlacedUnit]:
    part = Component("kernel", "k", resources, "counted")
    return [PlacedUnit(f"k_{n + 1}", part, **more) for n in range(count)]  # type: ignore[arg-type]


def places(found: Fit) -> dict[str, list[str]]:
    return {load.region.name: [unit.name for unit in load.units] for load in found.loads if load.units}


def test_units_go_into_regions_of_their_own() -> None:
    found = fit(units(4, Resources(dsp=2000)), U250)
    assert found.fits
    assert sorted(places(found)) == ["SLR0", "SLR1", "SLR2", "SLR3"]


def test_a_unit_goes_beside_its_memory() -> None:
    found = fit(units(1, Resources(dsp=10), banks=("DDR[2]", "DDR[2]", "DDR[0]")), U250)
    assert places(found) == {"SLR2": ["k_1"]}
    high = fit(units(1, Resources(dsp=10), banks=("HBM[7]",)), platforms.load("u55c"))
    assert places(high) == {"SLR0": ["k_1"]}


def test_a_unit_that_no_region_holds_is_named_with_what_it_lacks() -> None:
    found = fit(units(1, Resources(dsp=3000, lut=346_000)), U250)
    assert not found.fits
    assert found.problems == [
        "compute unit k_1 is larger than any region of the card: it needs 3,000 of 2,877 DSP and 346,000 of 345,000 "
        "LUT of SLR0."
    ]


def test_units_for_which_there_is_no_room_left() -> None:
    found = fit(units(5, Resources(dsp=2000)), U250)
    assert found.problems == ["no region has room left for compute unit k_5; build fewer compute units."]


def test_a_region_that_the_recipe_fills_too_full() -> None:
    found = fit(units(2, Resources(uram=200), slr="SLR1"), U250)
    assert found.problems == ["SLR1 is too small for k_1, k_2: 400 of 320 URAM; the largest is k_1."]


def test_what_a_device_does_not_have_is_too_much_of_it() -> None:
    found = fit(units(1, Resources(uram=1)), platforms.load("zcu102"))
    assert found.problems == ["compute unit k_1 is larger than any region of the card: it needs 1 of 0 URAM of SLR0."]


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        (Resources(dsp=1000), "80% of its DSP"), (Resources(lut=90_000), "77% of its LUT"),
        (Resources(bram36=120), "83% of its BRAM36"), (Resources(ff=130_000), "55% of its FF"),
    ],
)  # fmt: skip
def test_what_fits_with_little_room_left_is_said_to_be_tight(resources: Resources, words: str) -> None:
    found = fit(units(1, resources), KV260)
    assert found.fits
    assert words in found.tight[0]
    assert not fit(units(1, resources * 0.5), KV260).tight
