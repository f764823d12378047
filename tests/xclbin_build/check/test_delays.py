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
ADDITIONS = """
    extern "C" void top(const float x[64], const float y[4], float out[64]) {
    #pragma HLS array_partition variable = y complete
    rows:
        for (int i = 0; i < 64; i++) out[i] = x[i] + y[0] + y[1] MORE;
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


@pytest.mark.parametrize(
    ("part", "clock_ns", "cycles"),
    [
        ("xczu7ev-ffvc1156-2-i", 10, 4),  # conv2 of Arun-66/AN50_ZCU104 (2024.2): 25 additions, 109 states
        ("xcu55c-fsvh2892-2L-e", 5, 5),  # lp1 of atax (HLStrans, 2022.2): 64 additions, 326 states
        ("xc7z020-clg484-1", 10, 5),  # dft of 1111HLS_labB (2022.1): 255 additions, 1282 states
    ],
)
def test_additions_behind_each_other_take_a_cycle_more_than_their_latency(
    load: Load, part: str, clock_ns: float, cycles: int
) -> None:
    """What the last stage of one leaves of its cycle is too little for the first stage of the next."""
    depths = [
        loop(check(on(load(ADDITIONS.replace("MORE", more)), part, clock_ns), memories=True), "rows").depth or 0
        for more in ("", "+ y[2]", "+ y[2] + y[3]")
    ]
    assert depths[1] - depths[0] == depths[2] - depths[1] == cycles


@pytest.mark.parametrize(
    ("part", "clock_ns", "ii"),
    [
        ("xczu7ev-ffvc1156-2-e", 10, 4),
        ("xcu55c-fsvh2892-2L-e", 5, 5),  # loop 10 of correlation (HLStrans, 2022.2), in doubles
        ("xc7z020-clg400-1", 10, 6),  # loop 52 of spmv (AAHLS_LabB, 2022.1)
    ],
)
def test_a_choice_in_front_of_an_adder_waits_for_the_register(load: Load, part: str, clock_ns: float, ii: int) -> None:
    text = SUM.replace("sum += x[i]", "sum = (i % 10 == 0 ? 0 : sum) + x[i]")
    assert loop(check(on(load(text), part, clock_ns), memories=True), "adds").ii == ii


def test_a_maximum_takes_a_cycle(load: Load) -> None:
    """Loop 24 of compute_attention_HLS (HLStrans, 2022.2): 1, though a comparison has a latency of 1."""
    text = SUM.replace("sum += x[i]", "sum = x[i] > sum ? x[i] : sum")
    assert loop(check(on(load(text), "xcu55c-fsvh2892-2L-e", 5), memories=True), "adds").ii == 1


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
