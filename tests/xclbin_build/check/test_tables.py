"""Arrays that are filled with constants are tables (UG1399, "Implementing ROMs"), and others are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.xclbin_build.check.conftest import Load
from xclbin_build.check.loops import check
from xclbin_build.check.run import check_source
from xclbin_build.hls import tables

FILL = """
    #include <cmath>
    void fill(short t[256]) {
    fill_table:
        for (int i = 0; i < 256; i++) t[i] = (short)(std::exp(i / 64.0) * 100);
    }
    extern "C" void top(const int x[512], int y[512], int n) {
"""
LOOK = """
    look:
        for (int i = 0; i < 512; i++) {
    #pragma HLS pipeline II = 1
            y[i] = table[x[i] & 255] + table[(x[i] >> 8) & 255] + table[(x[i] >> 16) & 255];
        }
"""


def intervals(load: Load, body: str) -> dict[str, int | None]:
    return {loop.name: loop.ii for loop in check(load(f"{FILL}{body}\n}}")).loops}


@pytest.mark.parametrize("storage", ["", "static "])
def test_a_function_that_fills_a_table_is_no_loop_and_three_reads_a_cycle_are_none_too_many(
    load: Load, storage: str
) -> None:
    found = check(load(f"{FILL}{storage}short table[256]; fill(table); {LOOK}}}"))
    assert {loop.name: loop.ii for loop in found.loops} == {"look": 1}
    assert any("is filled with constants only" in note for note in found.notes)


def test_a_table_may_be_filled_where_it_is_read_each_time_and_by_loops_in_each_other(load: Load) -> None:
    found = intervals(
        load,
        """
    rows:
        for (int r = 0; r < 8; r++) {
            int table[16][16];
            for (int i = 0; i < 16; i++)
                for (int j = i; j < 16; j++) table[i][j] = i < 3 ? i * j + 1 : 7;
    look:
            for (int i = 0; i < 64; i++) y[64 * r + i] = table[x[64 * r + i] & 15][i & 15];
        }""",
    )
    assert set(found) == {"rows", "look"}  # which become one, as nothing else stands between them


@pytest.mark.parametrize(
    "body",
    [
        f"short table[256]; fill(table); {LOOK} table[n & 255] = 0; y[0] += table[n >> 8 & 255];",
        f"short table[256]; for (int i = 0; i < 512; i++) y[i] = table[x[i] & 255]; fill(table); {LOOK}",
        f"short table[256]; if (n > 3) fill(table); {LOOK}",
        f"short table[256]; fill_table: for (int i = 0; i < 256; i++) table[i] = i * n; {LOOK}",
        f"short table[256]; fill_table: for (int i = 0; i < n; i++) table[i] = i * i; {LOOK}",
        f"short table[256]; fill_table: for (int i = 0; i < 256; i++) table[n & 255] = i; {LOOK}",
        f"short table[256]; fill_table: for (int i = 0; i < 256; i++) table[i] = x[i]; {LOOK}",
        f"short table[256]; fill(table); for (int i = 0; i < 256; i++) if (x[i] > 3) table[i] = 5; {LOOK}",
        f"int other[256]; for (int i = 0; i < 256; i++) other[i] = x[i]; short table[256];"
        f"fill_table: for (int i = 0; i < 256; i++) table[i] = other[255 - i]; {LOOK}",
        "int table[256]; for (int r = 0; r < 2; r++) { fill_table: for (int i = 0; i < 256; i++) table[i] = i * i + r;"
        "look: for (int i = 0; i < 256; i++) y[256 * r + i] = table[x[256 * r + i] & 255]; }",
    ],
    ids=["changed", "read-before", "not-always", "scaled", "ends", "place", "copied", "in-part", "array", "counter"],
)  # fmt: skip
def test_what_depends_on_anything_else_is_filled_by_its_loop(load: Load, body: str) -> None:
    assert "fill_table" in intervals(load, body)


REGION = """
    #include <hls_stream.h>
    int weights[64] = {1, 2, 3};
    void products(hls::stream<int>& in, hls::stream<int>& out, int w[64]) {
    multiply:
        for (int i = 0; i < 16; i++) {
    #pragma HLS pipeline II = 1
            int x = in.read();
            int sum = 0;
            for (int j = 0; j < 4; j++) sum += x * w[(x >> j) & 63];
            out.write(sum);
        }
    }
    void changes(int w[64], int by) { w[by & 63] += by; }
    extern "C" void top(hls::stream<int>& in, hls::stream<int>& out, int by) {
    #pragma HLS dataflow
        products(in, out, weights);
        CHANGED
    }
"""


@pytest.mark.parametrize(
    ("changed", "ii"),
    [("", 1), ("changes(weights, by);", 2), ("weights[by & 63] = by;", 2), ("weights[3] = by;", 2)],
    ids=["not", "by-a-function", "in-place", "at-a-constant-place"],
)
def test_a_global_that_nothing_writes_is_a_table_where_it_is_passed(tmp_path: Path, changed: str, ii: int) -> None:
    (tmp_path / "top.cpp").write_text(REGION.replace("CHANGED", changed))
    found = [loop for part in check_source(tmp_path / "top.cpp", "top") if part.check for loop in part.check.loops]
    assert [loop.ii for loop in found if loop.name == "multiply"] == [ii]


def test_registers_are_left_to_be_values(load: Load) -> None:
    kernel = load("""
        extern "C" void top(const int x[64], int y[64]) {
            int weights[8];
        #pragma HLS array_partition variable = weights complete
            for (int i = 0; i < 8; i++) {
        #pragma HLS unroll
                weights[i] = i + 1;
            }
            for (int i = 0; i < 64; i++) {
        #pragma HLS pipeline
                int sum = 0;
                for (int j = 0; j < 8; j++) sum += weights[j] * (x[i] >> j);
                y[i] = sum;
            }
        }
    """)
    assert tables.TABLE not in kernel.module.text
    assert not any(i.opcode == "mul" and "%" in i.operands[1] for i in kernel.function.instructions())
