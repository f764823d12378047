"""Which loops become one with the loop in them. Each case is the shape of a loop whose verdict a log has."""

from __future__ import annotations

import pytest

from tests.xclbin_build.check.conftest import Load
from tests.xclbin_build.check.test_delays import on
from tests.xclbin_build.check.test_nests import loop
from xclbin_build.check.loops import check

MEANS = """
    extern "C" void top(const double data[100][80], double mean[80], double other[80], double n) {
    rows:
        for (int j = 0; j < 80; j++) {
            BEFORE
            double sum = BEGIN;
        elements:
            for (int i = FIRST; i < 100; i++) sum += data[i][j];
            BEHIND
        }
    }
"""
ONE = "flattened with 'elements'"


@pytest.mark.parametrize(
    ("version", "before", "begin", "first", "behind", "joined"),
    [
        ("2022.2", "", "0", "0", "mean[j] = sum / n;", True),  # VITIS_LOOP_11_1 of covariance
        ("2022.2", "", "0", "0", "mean[j] = sum; other[j] = sum;", True),  # loop_i of md_knn
        ("2022.2", "", "0", "0", "mean[j] = sum / n; mean[79 - j] = sum;", False),  # VITIS_LOOP_29_6 of covariance
        ("2022.2", "", "0", "j", "mean[j] = sum;", False),  # VITIS_LOOP_27_5 of covariance
        ("2022.2", "", "other[j]", "0", "mean[j] = sum;", False),  # ellpack_1 of spmv_ellpack
        ("2025.2", "", "other[j]", "0", "mean[j] = sum;", True),  # VITIS_LOOP_138_23 of Farhan-wrld's CNN
        ("2022.2", "other[j] = n;", "0", "0", "mean[j] = sum;", False),  # VITIS_LOOP_10_1 of trisolv
        ("2022.2", "", "0", "0", "if (sum > n) mean[j] = sum; else other[j] = sum;", False),  # VITIS_LOOP_23_2 of a dft
        ("2025.2", "", "0", "0", "if (sum > n) mean[j] = sum; else other[j] = sum;", True),  # VITIS_LOOP_87_13
    ],
)
def test_what_lies_around_the_inner_loop_decides(
    load: Load, version: str, before: str, begin: str, first: str, behind: str, joined: bool
) -> None:
    """Designs of HLStrans but for the last of the CNN of Farhan-wrld."""
    text = MEANS.replace("BEFORE", before).replace("BEGIN", begin).replace("FIRST", first).replace("BEHIND", behind)
    kernel = load(text)
    kernel.vitis = version
    assert (loop(check(kernel, memories=True), "rows").note == ONE) == joined


def test_a_sum_that_begins_anew_in_one_of_two_loops_has_a_choice_in_front(load: Load) -> None:
    """`covariance`, 5 for adders of doubles with 4 cycles; its latency is that of one loop."""
    text = MEANS.replace("BEFORE", "").replace("BEGIN", "0").replace("FIRST", "0").replace("BEHIND", "mean[j] = sum;")
    found = check(on(load(text), "xcu55c-fsvh2892-2L-e", 5), memories=True)
    elements = loop(found, "elements")
    assert elements.ii == 5
    assert loop(found, "rows").latency == elements.depth + 5 * (80 * 100 - 1)


def test_where_three_loops_are_one_it_has_not(load: Load) -> None:
    """compute_attention_HLS (HLStrans, 2022.2): 4, four loops that are one."""
    text = """
        extern "C" void top(const float q[8][100], const float k[8][100], float scores[8][8]) {
        rows:
            for (int i = 0; i < 8; i++)
            columns:
                for (int j = 0; j < 8; j++) {
                    float sum = 0;
                elements:
                    for (int n = 0; n < 100; n++) sum += q[i][n] * k[j][n];
                    scores[i][j] = sum;
                }
        }
    """
    kernel = on(load(text), "xcu55c-fsvh2892-2L-e", 5)
    kernel.vitis = "2022.2"
    found = check(kernel, memories=True)
    elements = loop(found, "elements")
    assert loop(found, "rows").note == loop(found, "columns").note == ONE
    assert elements.ii == 4
    assert loop(found, "rows").latency == elements.depth + 4 * (8 * 8 * 100 - 1)


@pytest.mark.parametrize(("pragma", "joined"), [("", True), ("#pragma HLS loop_flatten off", False)])
def test_a_pragma_keeps_loops_apart(load: Load, pragma: str, joined: bool) -> None:
    text = f"""
        extern "C" void top(const int in[16][16], int out[16][16]) {{
        rows:
            for (int i = 0; i < 16; i++) {{
            elements:
                for (int j = 0; j < 16; j++) {{
        {pragma}
                    out[i][j] = in[i][j];
                }}
            }}
        }}
    """
    assert (loop(check(load(text), memories=True), "rows").note == ONE) == joined
