"""Resources of kernels from their sources; without clang 19 these are skipped."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from xclbin_build.estimate import source
from xclbin_build.estimate.source import signed_digits
from xclbin_build.estimate.usage import Usage
from xclbin_build.hls import clang, frontend
from xclbin_build.hls.operators import Operators, product_dsps
from xclbin_build.hls.resources import Resources

OPERATORS = Operators(10.0)


@pytest.fixture(autouse=True)
def _clang() -> None:
    if not clang.available():
        pytest.skip("clang 19 is not installed")


def count(tmp_path: Path, text: str, ii: int = 1, top: str = "top") -> dict[str, Usage]:
    path = tmp_path / "kernel.cpp"
    path.write_text(textwrap.dedent(text))
    kernel = frontend.load(path, top)
    return source.ResourceCount(kernel, OPERATORS).count({loop.header: ii for loop in kernel.flow.innermost()})


def taken(use: Usage) -> Resources:
    return use.resources(OPERATORS)


def test_units_are_shared_within_the_initiation_interval(tmp_path: Path) -> None:
    text = """
        void top(const float a[1024], const float b[1024], float out[1024]) {
            for (int i = 0; i < 1024; i++) out[i] = a[i] * a[i] + b[i] * b[i];
        }
    """
    assert dict(count(tmp_path, text)[""].units) == {"fmul": 2, "fadd": 1}
    assert dict(count(tmp_path, text, ii=2)[""].units) == {"fmul": 1, "fadd": 1}


def test_loops_that_follow_each_other_share_units_and_not_products_of_integers(tmp_path: Path) -> None:
    text = """
        void top(const float a[1024], const int b[1024], float out[1024], int most[1024]) {
            for (int i = 0; i < 1024; i++) { out[i] = a[i] * 3.0f; most[i] = b[i] * b[1023 - i]; }
            for (int i = 0; i < 1024; i++) { out[i] *= a[i]; most[i] *= b[i]; }
        }
    """
    use = count(tmp_path, text)[""]
    assert dict(use.units) == {"fmul": 1}
    assert sum(use.multipliers.values()) == 2
    assert taken(use).dsp == 3 + 2 * 3


def test_operators_are_as_narrow_as_what_they_work_on(tmp_path: Path) -> None:
    text = """
        #include <cstdint>
        void top(const int8_t a[1024], const int16_t b[1024], int out[1024]) {
            for (int i = 0; i < 1024; i++) out[i] = a[i] * b[i];
        }
    """
    use = count(tmp_path, text)[""]
    assert [sorted(widths[:2]) for widths in use.multipliers] == [[8, 16]]
    assert taken(use).dsp == 1


def test_sums_of_products_lie_in_their_dsps(tmp_path: Path) -> None:
    text = """
        #include <cstdint>
        void top(const int16_t a[1024], const int16_t b[1024], int out[1024]) {{
            for (int i = 0; i < 1024; i++) out[i] = a[i] * b[i] {};
        }}
    """
    alone, summed = (taken(count(tmp_path, text.format(rest))[""]) for rest in ("", "+ a[1023 - i]"))
    assert summed.dsp == alone.dsp == 1
    assert summed.lut - alone.lut < 25  # the address alone: a sum of 32 bits would take 39


def test_rows_that_are_no_power_of_two_long_take_a_multiplier(tmp_path: Path) -> None:
    text = """
        void top(const float a[1000][{0}], float out[{0}]) {{
            for (int j = 0; j < {0}; j++) {{
                float sum = 0;
                for (int i = 0; i < 1000; i++) sum += a[i][j];
                out[j] = sum;
            }}
        }}
    """
    assert taken(count(tmp_path, text.format(900))[""]).dsp == 2 + 1
    assert taken(count(tmp_path, text.format(1024))[""]).dsp == 2
    assert taken(count(tmp_path, text.format(768))[""]).dsp == 2  # 512 + 256: an addition


def test_partitions_make_memories_of_their_own(tmp_path: Path) -> None:
    text = """
        void top(const float in[4096], float out[4096]) {{
            float local[4096];
        {}
            for (int i = 0; i < 4096; i++) local[i] = in[4095 - i];
            for (int i = 0; i < 4096; i++) out[i] = local[i ^ 5];
        }}
    """
    assert taken(count(tmp_path, text.format(""))[""]).bram36 == 4
    parts = "#pragma HLS array_partition variable = local cyclic factor = 16"
    assert taken(count(tmp_path, text.format(parts))[""]).bram36 == 8
    stored = "#pragma HLS bind_storage variable = local type = ram_2p impl = uram"
    assert taken(count(tmp_path, text.format(stored))[""]).uram == 1


def test_processes_of_a_dataflow_region_are_told_apart(tmp_path: Path) -> None:
    text = """
        void scale(const float in[1024], float middle[1024]) {
            for (int i = 0; i < 1024; i++) middle[i] = in[i] * 3.0f;
        }
        void both(const float middle[1024], float out[1024]) {
            for (int i = 0; i < 1024; i++) out[i] = middle[i] * middle[i] + 1.0f;
        }
        inline void run(const float in[1024], float out[1024]) {
        #pragma HLS inline
            float middle[1024];
            scale(in, middle);
            both(middle, out);
        }
        void top(const float in[1024], float out[1024]) {
        #pragma HLS dataflow
            run(in, out);
        }
    """
    uses = count(tmp_path, text)
    assert dict(uses["scale"].units) == {"fmul": 1}
    assert dict(uses["both"].units) == {"fmul": 1, "fadd": 1}


@pytest.mark.parametrize(
    ("a", "b", "out", "count"),
    [
        (9, 8, 17, 0), (9, 11, 20, 1), (16, 5, 21, 1), (27, 18, 45, 1), (32, 32, 32, 3), (32, 32, 64, 4),
        (3, 30, 33, 0),
    ],
)  # fmt: skip
def test_products_take_as_many_dsps_as_in_reports(a: int, b: int, out: int, count: int) -> None:
    assert product_dsps(a, b, out) == count


def test_signed_digits() -> None:
    assert [signed_digits(n) for n in (0, 1, 7, 900, 1024, -3)] == [0, 1, 2, 3, 1, 2]


DENSE = """
    template <int R> void dense(const short x[12], int out[11], const short w[132]) {
    #pragma HLS pipeline II = R
        int sums[11];
    #pragma HLS array_partition variable = sums complete
        for (int j = 0; j < 11; j++) sums[j] = 0;
        for (int i = 0; i < 12; i++)
            for (int j = 0; j < 11; j++) sums[j] += x[i] * w[i * 11 + j];
        for (int j = 0; j < 11; j++) out[j] = sums[j];
    }
    extern "C" void top(const short x[12], int out[11], const short w[132], const float* a, float* b, int n) {
    #pragma HLS array_partition variable = x complete
    #pragma HLS array_partition variable = w complete
    #pragma HLS array_partition variable = out complete
        dense<1>(x, out, w);
    others:
        for (int i = 0; i < n; i++) b[i] = a[i] * a[i];
    }
"""


def test_a_pipelined_function_shares_products_within_its_interval(tmp_path: Path) -> None:
    """A dense layer of hls4ml has 34 DSPs at an interval of 4, of 132 products."""
    text = DENSE.replace("n; i++) b", "8; i++) b")
    assert taken(count(tmp_path, text)[""]).dsp == 132 + 3  # and the product of floats
    assert taken(count(tmp_path, text.replace("dense<1>", "dense<4>"))[""]).dsp == 33 + 3
    loop = text.replace("j++) out[j]", "j++) for (int k = 0; k < x[0]; k++) out[j]")  # is not unrolled: no pipeline
    assert taken(count(tmp_path, loop.replace("dense<1>", "dense<4>"))[""]).dsp == 132 + 3


def test_products_of_a_pipelined_loop_share_its_interval(tmp_path: Path) -> None:
    text = """
        void top(const short a[1024], const short b[1024], int out[1024]) {
            for (int i = 0; i < 1024; i++) out[i] = (a[i] * a[i] ^ b[i] * b[i]) ^ (a[i] * b[i]);
        }
    """
    assert taken(count(tmp_path, text)[""]).dsp == 3
    assert taken(count(tmp_path, text, ii=2)[""]).dsp == 2
