"""Networks on the engine: bit for bit what the reference gives, and cycles that the cost model tells beforehand.

`make test` has ResNet-18 on a U250 and a small network of everything; `make engine` the other networks and platforms.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import pytest

from benchmarks.engine import networks
from benchmarks.engine.measure import Outcome, engine_recipe, measure, sizes_of
from benchmarks.engine.networks import NETWORKS
from fpga_dynamo.codegen.engine.choose import DoesNotFitError, chosen
from fpga_dynamo.codegen.engine.command import Flags, MacCommand, Operation, Order, WeightKind
from fpga_dynamo.codegen.engine.target import FITTED
from hls_kernels import ROOT
from tests.hls_kernels.engine_models import Everything
from xclbin_build import platform as platforms
from xclbin_build import recipe, records
from xclbin_build.errors import RecipeError

PLATFORMS = ("u250", "zcu102", "kv260")
HBM = ("u50", "u280", "u55c")
"""Cards with the same engine and the same memory beside it."""
SUM_WITHIN = 0.05
"""Of the counted cycles of a network."""
COMMAND_WITHIN = 0.1
"""Of the counted cycles of a command."""
HBM_COMMAND_WITHIN = 0.2
"""The same behind a pseudo channel of HBM, whose rows are short."""
LONG_BEATS = 0.94
"""Of all beats, those in bursts of 16 and more."""


@functools.cache
def outcome(name: str, platform: str, check: bool) -> Outcome:
    return measure(name, platform, check=check)


def assert_model_agrees(found: Outcome, command_within: float = COMMAND_WITHIN) -> None:
    assert abs(found.model_milliseconds / found.milliseconds - 1) <= SUM_WITHIN
    ratios = [(c.name, round(c.model / c.cycles, 3), c.cycles) for c in found.commands]
    assert not [ratio for ratio in ratios if abs(ratio[1] - 1) > command_within]


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setitem(networks.NETWORKS, "everything", (Everything, (1, 3, 45, 51)))
    yield "everything"


def test_a_network_of_everything_is_exact(everything: str) -> None:
    found = measure(everything, "u250")
    assert found.wrong == 0
    assert len(found.commands) == 9


def test_resnet18_is_exact_and_as_fast_as_the_model_says() -> None:
    found = outcome("resnet18", "u250", True)
    assert found.wrong == 0
    assert_model_agrees(found)
    assert found.bursts[0] >= LONG_BEATS * found.bursts[1]
    assert found.milliseconds <= 2.6
    assert found.utilisation >= 0.7


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, platform: str) -> None:
    found = outcome(name, platform, platform == "u250")
    assert not found.wrong
    assert_model_agrees(found)
    assert found.bursts[0] >= LONG_BEATS * found.bursts[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_behind_hbm(name: str) -> None:
    found = outcome(name, HBM[0], True)
    assert found.wrong == 0
    assert_model_agrees(found, HBM_COMMAND_WITHIN)
    assert found.bursts[0] >= LONG_BEATS * found.bursts[1]


def test_cards_with_hbm_are_counted_alike() -> None:
    """What the cycle simulator makes of them is the same, so one of them is counted."""

    def counted(name: str) -> tuple[object, ...]:
        card, kernel = platforms.load(name), recipe.load(f"engine-{name}").kernels[0]
        kinds = [bank.kind for bank in card.banks[:2]]
        return sizes_of(name), card.memories["hbm"], card.speeds["clock_mhz"], kinds, kernel.memory

    assert counted(HBM[0]) == counted(HBM[1]) == counted(HBM[2])
    assert FITTED[HBM[0]] == FITTED[HBM[1]] == FITTED[HBM[2]]


@pytest.mark.parametrize("platform", [*PLATFORMS, *HBM])
def test_what_is_measured_is_the_recipe_that_comes_along(platform: str) -> None:
    """Size by size, with those that `xclbin-build` gives the kernel's sources."""
    text = engine_recipe(platform).header(f"engine-{platform}")
    given = dict(line.split()[1:] for line in text.splitlines() if line.startswith("#define"))
    sizes = dataclasses.asdict(sizes_of(platform))
    del given["ENGINE_URAM"]
    assert sizes.pop("element_bytes") == 1 << int(given.pop("ENGINE_ELEMENT"))
    assert sizes.pop("intervals") == (), "those that synthesis achieved: none here"
    assert {f"ENGINE_{name.upper()}": str(int(value)) for name, value in sizes.items()} == given


def test_a_platform_without_an_engine_is_refused() -> None:
    with pytest.raises(RecipeError, match="unknown recipe 'engine-emu'"):
        sizes_of("emu")


def test_the_command_is_the_kernel_s_record() -> None:
    """Field by field, and the enumerations' values, as the header has them."""
    header = records.parse_header(ROOT / "engine" / "record.hpp")
    fields = dataclasses.fields(MacCommand)
    record = header.records["mac"]
    assert [f.name for f in fields] == [f.name for f in record.fields]
    default = MacCommand()
    for ours, theirs in zip(fields, record.fields, strict=True):
        value = getattr(default, ours.name)
        assert (len(value) if isinstance(value, tuple) else 1) == theirs.count, ours.name
        assert isinstance(value, float) == (theirs.type == "float"), ours.name
    prefixes = {"mac_flags": (Flags, "MAC_"), "mac_order": (Order, "ORDER_"), "weight_kind": (WeightKind, "WEIGHT_")}
    for name, (ours_enum, prefix) in {**prefixes, "operation": (Operation, "OPERATION_")}.items():
        for entry, number in header.enums[name].items():
            assert int(ours_enum[entry.removeprefix(prefix)]) == number, entry


def test_what_does_not_fit_is_named() -> None:
    sizes, memory = sizes_of("kv260"), FITTED["kv260"]
    wide = MacCommand(in_blocks=64, in_height=3, in_width=16384, out_height=1, out_width=16382, kernel=(3, 3))
    with pytest.raises(DoesNotFitError, match="rows of the window's 2048"):
        chosen(wide, sizes, memory)
    deep = MacCommand(in_blocks=4096, in_width=8, out_width=8)
    with pytest.raises(DoesNotFitError, match=r"more than the engine's 2048|rows of the window's"):
        chosen(deep, sizes, memory)
