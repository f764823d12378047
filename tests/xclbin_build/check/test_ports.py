"""What waits at ports, tables and arrays that processes are given; each case is the shape of a loop in a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.xclbin_build.check.conftest import Load
from xclbin_build.check.loops import Check, Loop, check
from xclbin_build.check.run import check_source
from xclbin_build.hls import scev


def loop(found: Check, name: str) -> Loop:
    return next(loop for loop in found.loops if loop.name == name)


def processes(tmp_path: Path, text: str) -> dict[str, Loop]:
    """Loops of the processes of a region, in the Vivado flow."""
    path = tmp_path / "kernel.cpp"
    path.write_text(text)
    parts = check_source(path, "top", clock_ns=10, flow="vivado")
    assert not [part.note for part in parts if part.check is None]
    return {loop.name: loop for part in parts if part.check for loop in part.check.loops}


SUM = """
    extern "C" void top(int* a, const int* b, int n) {
    #pragma HLS interface m_axi port = a bundle = a
    #pragma HLS interface m_axi port = b bundle = b
    sum:
        for (int i = 0; i < n; i++) {
        #pragma HLS pipeline
        PRAGMA
            STATEMENT
        }
    }
"""


def test_a_sum_at_a_port_waits_for_its_response(load: Load) -> None:
    """`a[i] += b[i]` of Analog-CIM (FPGA_ECE8893, 2022.1) and syr2k (Taffo-VitisHLS, 2022.2): 16 and 15, although no
    iteration reads what another one writes."""
    text = SUM.replace("STATEMENT", "a[i] += b[i];")
    found = loop(check(load(text.replace("PRAGMA", "")), memories=True), "sum")
    assert found.ii in (15, 16) and found.kind == "recurrence"
    told = text.replace("PRAGMA", "#pragma HLS dependence variable = a inter false")
    assert loop(check(load(told), memories=True), "sum").ii == 1
    other = SUM.replace("STATEMENT", "a[i] = b[i];").replace("PRAGMA", "")
    assert loop(check(load(other), memories=True), "sum").ii == 1


COEFFICIENTS = """
    extern "C" void top(const int* in, const int* coefficients, int* out) {
    #pragma HLS interface m_axi port = in bundle = in
    #pragma HLS interface m_axi port = coefficients bundle = gmem
    #pragma HLS interface m_axi port = out bundle = BUNDLE
    filter:
        for (int i = 0; i < 100; i++) {
        #pragma HLS pipeline
            out[i] = in[i] * (coefficients[0] ^ coefficients[2] ^ coefficients[5]);
        }
    }
"""


@pytest.mark.parametrize(("bundle", "ii"), [("gmem", 3), ("out", 1)])
def test_what_a_loop_reads_again_from_the_bundle_that_it_writes(load: Load, bundle: str, ii: int) -> None:
    """Coefficients of edgedetect (heterogeneous-vitis-apps, 2024.1): nine of the 18 reads of an iteration."""
    assert loop(check(load(COEFFICIENTS.replace("BUNDLE", bundle))), "filter").ii == ii


def test_an_array_behind_axi_lite_has_one_port(load: Load) -> None:
    """`fir_n11_strm` of asdshawn/2024-NTU-SPAAHLS (2022.1): 11 coefficients, 11 cycles. Without a size it is a
    register, as in MergeSortVitisVivado."""
    text = """
        extern "C" void top(int taps[16], const int* in, int* out) {
        #pragma HLS interface s_axilite port = taps
        #pragma HLS interface ap_memory port = in
        #pragma HLS interface ap_memory port = out
        fir:
            for (int i = 0; i < 64; i++) {
            #pragma HLS pipeline
                int sum = 0;
                for (int k = 0; k < 4; k++) sum += in[i] * taps[((k + 1) * i + 5 * k) & 15];
                out[i] = sum;
            }
        }
    """
    assert loop(check(load(text), memories=True), "fir").ii == 4
    assert loop(check(load(text.replace("taps[16]", "*taps")), memories=True), "fir").ii == 2


def test_a_memory_that_a_condition_chooses(load: Load) -> None:
    """Two halves of a double buffer whose rows are registers' banks (kabazoka's matrix_mul, 2022.1): each choice has
    its own address."""
    text = """
        extern "C" void top(const int* in, int* out, bool odd) {
        #pragma HLS interface ap_memory port = in
        #pragma HLS interface ap_memory port = out
            int even_rows[8][64], odd_rows[8][64];
        #pragma HLS array_partition variable = even_rows complete dim = 1
        #pragma HLS array_partition variable = odd_rows complete dim = 1
        fill:
            for (int i = 0; i < 512; i++) {
            #pragma HLS pipeline
                even_rows[i / 64][i % 64] = in[i];
                odd_rows[i / 64][i % 64] = in[i] + 1;
            }
        sum:
            for (int j = 0; j < 64; j++) {
            #pragma HLS pipeline II = 1
                int sum = 0;
                for (int k = 0; k < 8; k++) sum += (odd ? odd_rows[k][j] : even_rows[k][j]) * (k + 3);
                out[j] = sum;
            }
        }
    """
    assert loop(check(load(text), memories=True), "sum").ii == 1


REGION = """
    static const int table[64] = {3, 1, 4, 1, 5, 9, 2, 6};
    void read(const int in[256], int* to) {
    rows:
        for (int i = 0; i < 256; i += 8) {
        #pragma HLS pipeline
            int sum = 0;
            for (int k = 0; k < 8; k++) sum += in[i + k];
            to[i / 8] = sum;
        }
    }
    void weigh(const int* weights, const int* from, int out[32]) {
    products:
        for (int i = 0; i < 32; i++) {
        #pragma HLS pipeline II = 1
            int sum = 0;
            for (int k = 0; k < 6; k++) sum += from[i] * weights[(7 * k + i * k) & 63];
            out[i] = sum;
        }
    }
    void top(int in[256], int out[32]) {
    #pragma HLS array_reshape variable = in type = cyclic factor = 8 dim = 1
        int sums[32];
    #pragma HLS dataflow
        read(in, sums);
        weigh(table, sums, out);
    }
"""


def test_pragmas_and_tables_that_processes_are_given(tmp_path: Path) -> None:
    """A region's parameter that a pragma reshapes (AAHLS_labC_Harris, 2022.1: 8 reads, 1), and a table of constants,
    which is read as often as asked for in a process, too."""
    found = processes(tmp_path, REGION)
    assert found["rows"].ii == 1
    assert found["products"].ii == 1
    variable = REGION.replace("static const int table", "static int table")
    written = variable.replace("read(in, sums);", "table[in[0] & 63] = 1; read(in, sums);")
    assert processes(tmp_path, variable)["products"].ii == 1
    assert processes(tmp_path, written)["products"].ii == 3
    assert processes(tmp_path, REGION.replace("#pragma HLS array_reshape", "//"))["rows"].ii == 4


def test_rows_and_columns_of_a_counter_are_the_counter() -> None:
    counter = "{0,+,1}<%loop>"
    row, column = f"(128 * ({counter} /u 32))", f"(4 * (zext i5 (trunc i32 {counter} to i5) to i64))"
    assert scev.linear(f"({row} + {column} + %a)") == {"#loop": 4, "%a": 1}
    assert scev.linear(f"((2 * {row}) + {column} + %a)") != {"#loop": 4, "%a": 1}
