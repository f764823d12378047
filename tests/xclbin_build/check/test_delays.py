"""What operators take on a part, by its family (`hls/delays.toml`), and what is put together."""

from __future__ import annotations

import pytest

from tests.xclbin_build.check.conftest import Load
from tests.xclbin_build.check.test_reported import loop
from xclbin_build.check.loops import check
from xclbin_build.hls.delays import family
from xclbin_build.hls.frontend import Kernel

SUM = """
    extern "C" void top(const float x[64], float out[1]) {
        float sum = 0;
    adds:
        for (int i = 0; i < 64; i++) sum += x[i];
        out[0] = sum;
    }
"""
CHAIN = """
    extern "C" void top(unsigned n, unsigned out[1]) {
        unsigned a = 1;
    rounds:
        for (unsigned i = 0; i < n; i++) {
            unsigned b = a;
            BODY
            a = b;
        }
        out[0] = a;
    }
"""


def on(kernel: Kernel, part: str, clock_ns: float) -> Kernel:
    kernel.part, kernel.clock_ns = part, clock_ns
    return kernel


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("xc7z020clg400-1", "7-1"),
        ("xa7z010-clg400-1I", "7-1"),
        ("xc7z010-clg400-2", "7-2"),
        ("xc7vx485t-ffg1761-3", "7-k"),
        ("xczu3eg-sbva484-1-i", "us-1"),
        ("xck26-sfvc784-2LV-c", "us-2"),
        ("xcu55c-fsvh2892-2L-e", "alveo"),
        ("xcvc1902-vsva2197-2MP-e-S", None),
        ("", None),
    ],
)
def test_a_part_belongs_to_a_family_by_name_and_grade(part: str, name: str | None) -> None:
    found = family(part)
    assert (found.name if found else None) == name


def test_a_unit_is_the_shortest_whose_steps_fit() -> None:
    """An xcu280 at 10 ns takes 2 cycles for a sum (ForgeHLS), of which no schedule is: it lies between 1 at 15 ns,
    whose step is too long, and 4 at 5 ns."""
    alveo = family("xcu280-fsvh2892-2L-e")
    assert alveo is not None
    cycles = {clock: unit.cycles for clock in (20, 15, 10, 5) if (unit := alveo.unit("fadd", clock, 0.73 * clock))}
    assert cycles == {20: 1, 15: 1, 10: 2, 5: 4}
    assert alveo.unit("fmystery", 10, 7.3) is None


@pytest.mark.parametrize(
    ("part", "clock_ns", "ii"),
    [
        ("xc7z020-clg400-1", 10, 5),  # a step of 7.25 ns leaves no room in 7.3
        ("xczu7ev-ffvc1156-2-e", 10, 3),  # conv4 of Arun-66/AN50_ZCU104 (2024.2)
        ("xcu55c-fsvh2892-2L-e", 5, 4),  # zanehpn/HLStrans (2022.2)
        ("xcu250-figd2104-2L-e", 15, 1),  # NTHU-CTLAB-24/ViT_HLS (2022.1)
    ],
)
def test_a_sum_takes_what_the_part_does_at_its_clock(load: Load, part: str, clock_ns: float, ii: int) -> None:
    assert loop(check(on(load(SUM), part, clock_ns), memories=True), "adds").ii == ii


@pytest.mark.parametrize(("part", "ii"), [("xc7z020-clg400-1", 2), ("xczu7ev-ffvc1156-2-e", 1)])
def test_logic_of_older_families_is_slower(load: Load, part: str, ii: int) -> None:
    """Comparisons and choices in turn, each of which waits for the one before."""
    body = "".join(f"if (b > i + {n}) b = b + {n}; else b = b ^ i;" for n in (3, 5, 9))
    assert loop(check(on(load(CHAIN.replace("BODY", body)), part, 10), memories=True), "rounds").ii == ii


@pytest.mark.parametrize(
    ("body", "ii"),
    [
        ("b = ((((b & i) | (i >> 3)) ^ (i << 5)) & ~(i * 3)) | 8;", 1),
        # On an xc7z020 two additions that are one take 4.4 ns of 7.3; each by itself 2.5.
        ("b = b + (b >> 1) + i;", 1),
        ("b = (b + (b >> 1)) ^ i; b = b + (b >> 2); b = b + (b >> 7);", 2),
        ("b = b * 5; b = b + (b >> 3);", 1),
        ("b = b * 0x9e3779b1;", 2),  # of 32 bits: several DSPs, a cycle of latency and 6.9 ns behind it
        ("b = b * 0x9e3779b1; b = b ^ (b >> 15);", 3),
    ],
)
def test_what_is_put_together_takes_one_delay(load: Load, body: str, ii: int) -> None:
    kernel = on(load(CHAIN.replace("BODY", body)), "xc7z020-clg400-1", 10)
    assert loop(check(kernel, memories=True), "rounds").ii == ii
