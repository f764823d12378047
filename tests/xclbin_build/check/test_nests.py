"""Which loops of a nest are left, and what iterations leave to each other in registers.

Each case is the shape of a loop of which a published report says what became of it.
"""

from __future__ import annotations

import pytest

from tests.xclbin_build.check.conftest import Load
from xclbin_build.check.loops import Check, Loop, check

WINDOW = """
    extern "C" void top(const float x[3][52][52], const float w[3][7][7], float out[46]) {
    columns:
        for (int j = 0; j < 46; j++) {
            out[j] = 0.0f;
        channels:
            for (int c = 0; c < 3; c++)
            rows:
                for (int m = 0; m < 7; m++)
                taps:
                    for (int n = 0; n < 7; n++) out[j] += x[c][m][j + n] * w[c][m][n];
        }
    }
"""
COUNTS = """
    extern "C" void top(const int a[2048], int bucket[2049]) {
    blocks:
        for (int b = 0; b < 512; b++)
        elements:
            for (int i = 0; i < 4; i++) bucket[(a[b * 4 + i] & 3) * 512 + b + 1]++;
    }
"""
TAPS_OF_ONE = """
    extern "C" void top(const short x[64][8], const short w[64][1][1], int out[8]) {
    #pragma HLS array_partition variable = out complete
    channels:
        for (int c = 0; c < 64; c++) {
        rows:
            for (int m = 0; m < 1; m++)
            taps:
                for (int n = 0; n < 1; n++)
                columns:
                    for (int j = 0; j < 8; j++) {
    #pragma HLS pipeline II = 1
                        out[j] += x[c][j] * w[c][m][n];
                    }
        }
    }
"""
UNROLLED_ONCE = """
    extern "C" void top(const float x[147], float out[144]) {
    points:
        for (int p = 0; p < 48; p++) {
    #pragma HLS unroll factor = 1
            float v[3], length = 0.0f;
            for (int k = 0; k < 3; k++) v[k] = x[3 * p + k + 3] - x[3 * p + k];
            for (int k = 0; k < 3; k++) length += v[k] * v[k];
            out[p] = length;
        }
    }
"""
SUMS = """
    extern "C" void top(const int x[128], int sum[128]) {
        sum[0] = 0;
    sums:
        for (int i = 1; i < 128; i++) sum[i] = sum[i - DISTANCE] + x[i - 1];
    }
"""
SUMS_OF_ROWS = """
    extern "C" void top(int bucket[2048]) {
    rows:
        for (int r = 0; r < 128; r++)
        sums:
            for (int i = 1; i < 16; i++) bucket[r * 16 + i] += bucket[r * 16 + i - 1];
    }
"""
ROTATIONS = """
    extern "C" void top(const short angles[17], short at, short* x_end, short* y_end) {
        short x[17], y[17], z[17];
        x[0] = 19898, y[0] = 0, z[0] = at;
    rotations:
        for (int i = 0; i < 16; i++) {
            if (z[i] >= 0) {
                x[i + 1] = x[i] - (y[i] >> 2);
                y[i + 1] = y[i] + (x[i] >> 2);
                z[i + 1] = z[i] - angles[i];
            } else {
                x[i + 1] = x[i] + (y[i] >> 2);
                OTHER
                z[i + 1] = z[i] + angles[i];
            }
        }
        *x_end = x[16], *y_end = y[16];
    }
"""
MATRIX = """
    extern "C" void top(const float a[64][64], const float x[64], float out[64]) {
        float sums[64];
    clear:
        for (int j = 0; j < 64; j++) sums[j] = 0.0f;
    rows:
        for (int i = 0; i < 64; i++) {
            for (int j = 0; j < 64; j++) sums[j] = sums[j] + a[i][j] * x[i];
        }
    drain:
        for (int j = 0; j < 64; j++) out[j] = sums[j];
    }
"""


def loop(found: Check, name: str) -> Loop:
    return next(loop for loop in found.loops if loop.name == name)


def names(found: Check) -> set[str]:
    return {one.name for one in found.loops}


def test_what_stays_the_same_in_both_loops_of_a_nest_lies_outside_of_both(load: Load) -> None:
    """A window of 3 x 7 x 7 of Ritarka's resnet_rpn_fpn (2023.1) is one loop, which waits for one addition."""
    found = check(load(WINDOW), memories=True)
    assert {"channels", "rows", "taps"} <= names(found)
    assert loop(found, "taps").limit.count("fadd") == 1 and "49" not in loop(found, "taps").limit


def test_an_address_made_of_what_the_inner_loop_reads_does_not_stay_the_same(load: Load) -> None:
    """`hist` of sort_radix (HLStrans, 2022.2) flattens: `hist_1_hist_2`."""
    found = check(load(COUNTS), memories=True)
    assert names(found) == {"blocks", "elements"}
    assert loop(found, "blocks").note == "flattened with 'elements'"


def test_a_loop_that_a_pragma_pipelines_stays_one_in_loops_of_one_iteration(load: Load) -> None:
    """`ID_OW` of a convolution of 1 x 1 (sharc-lab/FPGA_ECE8893, 2022.1)."""
    found = check(load(TAPS_OF_ONE), memories=True)
    assert names(found) == {"channels", "columns"}
    assert loop(found, "columns").ii == 1


def test_short_loops_unroll_in_one_that_a_pragma_does_not_unroll(load: Load) -> None:
    """Points of `normals` (HLStrans, 2022.2): three coordinates each; 3."""
    found = check(load(UNROLLED_ONCE), memories=True)
    assert names(found) == {"points"} and loop(found, "points").ii == 3


@pytest.mark.parametrize("distance", [1, 2, 0])
def test_what_the_iteration_before_wrote_is_in_a_register(load: Load, distance: int) -> None:
    """`sum_1` of sort_radix (HLStrans, 2022.2): 1, where a memory would make it 2. Further apart a memory suffices."""
    found = loop(check(load(SUMS.replace("DISTANCE", str(distance))), memories=True), "sums")
    assert found.ii == 1 and found.depth <= 3


def test_a_register_begins_before_the_loop_so_that_the_nest_is_not_perfect(load: Load) -> None:
    """`local_1` of sort_radix (HLStrans, 2022.2): 16, by 16 reads and 15 writes of two ports."""
    found = check(load(SUMS_OF_ROWS), memories=True)
    assert names(found) == {"rows"} and loop(found, "rows").ii == 16


@pytest.mark.parametrize(
    ("other", "ii"),
    [("y[i + 1] = y[i] - (x[i] >> 2);", 1), ("y[i] = y[i] - (x[i] >> 2);", 2), ("y[x[i] & 15] = 0;", 2)],
)
def test_a_register_asks_for_a_write_on_every_way(load: Load, other: str, ii: int) -> None:
    """PengXuanyao/hls_cordic (2020.2): 1, each of two branches writes the next elements. Another write may come
    between: then `y` is read and written in each iteration, in one branch or the other, which do not wait for each
    other (no report has these two)."""
    found = loop(check(load(ROTATIONS.replace("OTHER", other)), memories=True), "rotations")
    assert found.ii == ii and found.kind == ("recurrence" if ii > 1 else "")


@pytest.mark.parametrize(
    "body",
    [
        "sum[i] = sum[i - 1] + in.read();",  # something else touches memory
        "if (x[i] > 0) sum[i] = sum[i - 1] + x[i];",  # not every iteration writes
    ],
)
def test_a_register_is_none_where_llvm_would_leave_the_load(load: Load, body: str) -> None:
    """The conditions of AMD's LLVM (`LoopLoadElimination.cpp`)."""
    text = f"""
        #include "hls_stream.h"
        extern "C" void top(const int x[128], hls::stream<int>& in, int sum[128]) {{
            sum[0] = 0;
        sums:
            for (int i = 1; i < 128; i++) {{ {body} }}
        }}
    """
    assert (loop(check(load(text), memories=True), "sums").ii or 0) >= 2


def test_elements_that_stay_the_same_behind_unrolling_only_are_no_registers(load: Load) -> None:
    """`lp3` of atax and `lp1` of bicg (HLStrans, 2022.2): 64, by 64 reads and 64 writes of two ports."""
    rows = loop(check(load(MATRIX), memories=True), "rows")
    assert rows.ii == 64 and rows.kind == "memory"


@pytest.mark.parametrize(("version", "ii"), [("2022.2", 2), ("2024.1", 1)])
def test_unrolling_in_part_divides_arrays_since_2023(load: Load, version: str, ii: int) -> None:
    """Coefficients of `latnrm` (HLStrans, 2022.2), by fours: 2; halves of a row of Muxucao0812/Crypto (2024.1)."""
    kernel = load("""
        extern "C" void top(const int x[64], int out[64]) {
        #pragma HLS array_partition variable = x complete
            int kept[64];
        by_fours:
            for (int j = 0; j < 64; j++) {
        #pragma HLS unroll factor = 4
                kept[j] = x[j];
            }
            for (int j = 0; j < 64; j++) out[j] = kept[63 - j];
        }
    """)
    kernel.vitis = version
    assert loop(check(kernel, memories=True), "by_fours").ii == ii


def test_a_parameter_may_be_called_like_a_word_of_the_ir(load: Load) -> None:
    """`internal_state` of latnrm (HLStrans)."""
    found = check(
        load("""
        extern "C" void top(const int* internal_state, int* inlinehint_of) {
        copy:
            for (int i = 0; i < 64; i++) inlinehint_of[i] = internal_state[i];
        }
    """)
    )
    assert loop(found, "copy").ii == 1
