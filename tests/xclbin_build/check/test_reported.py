"""Rules read off the reports of `benchmarks/hls_development.jsonl`; each case is the shape of a loop there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.xclbin_build.check.conftest import Load
from xclbin_build import qor
from xclbin_build.check.loops import NOT_PIPELINED, Check, Loop, check
from xclbin_build.check.run import Checked, check_source


def loop(found: Check, name: str) -> Loop:
    return next(loop for loop in found.loops if loop.name == name)


def refused(found: Check, name: str) -> list[str]:
    return [burst.why for burst in loop(found, name).bursts if not burst.inferred]


PITCH = """
    extern "C" void top(const int* in, int* out, int rows, int pitch) {
    #pragma HLS interface m_axi port = in bundle = a
    #pragma HLS interface m_axi port = out bundle = b
        for (int i = 0; i < rows; i++) {
        row:
            for (int j = 0; j < pitch; j++) out[INDEX] = in[pitch * i + j];
        }
    }
"""


def test_rows_of_a_pitch_known_at_run_time_are_bursts(load: Load) -> None:
    """gbmanske/INOVAME's sum of matrices (2023.2): where a row begins stays the same in the loop over it."""
    assert refused(check(load(PITCH.replace("INDEX", "pitch * i + j"))), "row") == []
    (column,) = refused(check(load(PITCH.replace("INDEX", "pitch * j + i"))), "row")
    assert "constant step per iteration" in column


def test_lines_that_write_side_by_side_are_one_burst(load: Load) -> None:
    """Four results in four lines of dfs_accel (mp6160-riscv-dfs-accelerator, 2024.1)."""
    text = """
        extern "C" void top(const int* in, int* out, int n) {
        #pragma HLS interface m_axi port = in bundle = a
        #pragma HLS interface m_axi port = out bundle = b
            out[0] = n;
            out[1] = n + 1;
            out[2] = n + 2;
            out[9] = n + 3;
        }
    """
    found = check(load(text)).bursts
    assert sorted((len(burst.indices), burst.inferred) for burst in found) == [(1, False), (3, True)]


@pytest.mark.parametrize(
    ("memories", "pragma", "ii"),
    [(False, "", 1), (True, "", 16), (True, "max_widen_bitwidth = 128", 1), (False, "max_widen_bitwidth = 64", 2)],
)
def test_a_port_that_is_not_widened_takes_a_beat_for_each_element(
    load: Load, memories: bool, pragma: str, ii: int
) -> None:
    """dfs_accel again: 16 bytes of an iteration are 16 beats in the Vivado flow, which widens no port by default."""
    text = f"""
        extern "C" void top(const unsigned char* in, int* out, int n) {{
        #pragma HLS interface m_axi port = in bundle = a {pragma}
        #pragma HLS interface m_axi port = out bundle = b
        words:
            for (int i = 0; i < n; i++) {{
        #pragma HLS pipeline
                int sum = 0;
                for (int k = 0; k < 16; k++) sum += in[16 * i + k];
                out[i] = sum;
            }}
        }}
    """
    assert loop(check(load(text), memories=memories), "words").ii == ii


@pytest.mark.parametrize(("factor", "ii"), [(5, 1), (2, 1), (1, 2)])
def test_neighbours_go_to_banks_of_their_own_wherever_an_iteration_begins(load: Load, factor: int, ii: int) -> None:
    """Tianze0918/lab4 and Gpayton787/CS133_Lab4 (2023.2): four floats a cycle into 228 columns of 5 banks."""
    text = f"""
        extern "C" void top(const int in[57][4], int out[228]) {{
            int kept[2][228];
        #pragma HLS array_partition variable = kept cyclic factor = {factor} dim = 2
        #pragma HLS bind_storage variable = kept type = ram_t2p
        fill:
            for (int i = 0; i < 57; i++) {{
        #pragma HLS pipeline II = 1
                for (int k = 0; k < 4; k++) kept[i & 1][4 * i + k] = in[i][0] + k;
            }}
            for (int i = 0; i < 228; i++) out[i] = kept[0][i];
        }}
    """
    assert loop(check(load(text), memories=True, inferred=False), "fill").ii == ii


@pytest.mark.parametrize(("place", "ii"), [("", 1), ("static ", 3)])
def test_what_lasts_from_call_to_call_is_not_copied(load: Load, place: str, ii: int) -> None:
    """Pooling of larm60/ECE8893 (2022.1): five reads a window of an array outside of the function, two ports."""
    text = f"""
        extern "C" void top(const int in[200], int out[60]) {{
            {place}int kept[200];
            for (int i = 0; i < 200; i++) kept[i] = in[i];
        windows:
            for (int i = 0; i < 60; i++) {{
                int most = -1000;
                for (int k = 0; k < 5; k++) most = kept[3 * i + k] > most ? kept[3 * i + k] : most;
                out[i] = most;
            }}
        }}
    """
    assert loop(check(load(text), memories=True), "windows").ii == ii


def test_arrays_of_a_global_structure_are_memories(load: Load) -> None:
    """dfs_accel: its engine is a structure outside of the functions; what was visited is read, then written."""
    text = """
        struct Engine { int keys[512]; int count[512]; };
        static Engine engine;
        extern "C" void top(const int* in, int* out, int n) {
        #pragma HLS interface m_axi port = in bundle = a
        #pragma HLS interface m_axi port = out bundle = b
            Engine &e = engine;
            for (int i = 0; i < 512; i++) e.keys[i] = in[i];
        histogram:
            for (int i = 0; i < n; i++) e.count[e.keys[i] & 511] += 1;
            for (int i = 0; i < 512; i++) out[i] = e.count[i];
        }
    """
    found = loop(check(load(text)), "histogram")
    assert found.ii == 2 and "count" in found.limit and not found.note


def test_a_table_of_constants_is_read_as_often_as_asked(load: Load) -> None:
    """Codes of CSE237C_FinalProject (2021.1): 31 reads of one table in a cycle."""
    table = ", ".join(str(n * n % 251) for n in range(512))
    text = f"""
        static const int table[512] = {{{table}}};
        extern "C" void top(const int in[64], int out[64]) {{
        look_up:
            for (int i = 0; i < 64; i++) {{
        #pragma HLS pipeline II = 1
                int sum = 0;
                for (int k = 0; k < 8; k++) sum += table[(in[i] + 17 * k) & 511];
                out[i] = sum;
            }}
        }}
    """
    assert loop(check(load(text), memories=True), "look_up").ii == 1


def test_short_loops_unroll_as_long_as_all_of_them_are_short(load: Load) -> None:
    """Farhan-wrld's first layer (2025.2): 26 x 26 places of 9 products: the 9 unroll, the 26 stay."""
    text = """
        extern "C" void top(const int in[784], const int bias[8], int out[8][26][26]) {
        channels:
            for (int c = 0; c < 8; c++) {
            rows:
                for (int i = 0; i < 26; i++) {
                columns:
                    for (int j = 0; j < 26; j++) {
                        int sum = bias[c];
                        for (int ki = 0; ki < 3; ki++)
                            for (int kj = 0; kj < 3; kj++) sum += in[(i + ki) * 28 + j + kj];
                        out[c][i][j] = sum;
                    }
                }
            }
        }
    """
    assert loop(check(load(text), memories=True), "columns").ii == 5  # 9 reads, two ports


def test_a_loop_of_one_iteration_is_none(load: Load) -> None:
    """Kernels of 1 x 1 of sharc-lab/FPGA_ECE8893 (2022.1): a burst goes on over them."""
    text = """
        extern "C" void top(const int weights[64][1][1], int out[64]) {
        #pragma HLS interface m_axi port = weights bundle = a
        filters:
            for (int f = 0; f < 64; f++)
                for (int i = 0; i < 1; i++)
                    for (int j = 0; j < 1; j++) out[f] = weights[f][i][j];
        }
    """
    found = check(load(text), memories=True)
    assert [one.name for one in found.loops] == ["filters"] and refused(found, "filters") == []


VECTORS = """
    struct vector { int lanes[16]; };
    extern "C" void top(const vector in[16], int out[256]) {
        static int kept[256];
    fill:
        for (int i = 0; i < 16; i++) {
    #pragma HLS pipeline
            vector one = in[i];
            for (int k = 0; k < 16; k++) kept[16 * i + k] = one.lanes[k];
        }
        for (int i = 0; i < 256; i++) out[i] = kept[i];
    }
"""


@pytest.mark.parametrize("vitis", ["", "2024.1", "2022.2"])
def test_what_an_iteration_writes_side_by_side_is_interleaved(load: Load, vitis: str) -> None:
    """`outbuf` of smithwaterman (HLStrans, 2022.2), "cyclic factor=3"; `engine` of dfs_accel (2024.1)."""
    kernel = load(VECTORS)
    kernel.vitis = vitis
    assert loop(check(kernel), "fill").ii == 1


def test_a_row_that_an_iteration_writes_is_divided_completely(load: Load) -> None:
    """`frame_buffer` and `z_buffer` of rendering (HLStrans, 2022.2), "complete dim=2": 256 writes, 1."""
    text = """
        extern "C" void top(int value, int out[256]) {
            static int frame[256][256];
        rows:
            for (int i = 0; i < 256; i++) {
        #pragma HLS pipeline
                for (int j = 0; j < 256; j++) frame[i][j] = value;
            }
            for (int i = 0; i < 256; i++) out[i] = frame[i][value];
        }
    """
    assert loop(check(load(text), memories=True), "rows").ii == 1


STAYS = """
    extern "C" void top(const int* in, int* out, int n) {
    #pragma HLS interface m_axi port = in bundle = a
    #pragma HLS interface m_axi port = out bundle = b
    rows:
        for (int i = 0; i < 64; i++) {
    PRAGMA
            int sum = 0;
        columns:
            for (int j = 0; j < n; j++) sum += in[64 * i + j];
            out[i] = sum;
        }
    }
"""


def test_a_loop_with_one_in_it_that_stays_misses_what_is_asked_of_it(tmp_path: Path) -> None:
    path = tmp_path / "top.cpp"
    path.write_text(STAYS.replace("PRAGMA", ""))
    plain = Checked(check_source(path, "top"))
    assert plain.passes is True  # nobody asks
    rows = next(one for part in plain.parts if part.check for one in part.check.loops if one.name == "rows")
    assert rows.ii is None
    assert rows.note.startswith(f"{NOT_PIPELINED}: inner loop 'columns' is not unrolled, because its trip count")
    contract = tmp_path / "qor.toml"
    contract.write_text("[loop.rows]\nii = 1\ndepth = 9\nwhy = 'a sum'\n")
    (miss,) = Checked(check_source(path, "top", contract=qor.load(contract))).misses
    assert (miss.loop.name, miss.by) == ("rows", "contract")
    path.write_text(STAYS.replace("PRAGMA", "#pragma HLS pipeline II = 1"))
    (miss,) = Checked(check_source(path, "top")).misses
    assert (miss.loop.name, miss.by, miss.loop.ii) == ("rows", "pragma", None)


def test_a_port_is_not_asked_before_it_is_known_that_the_loop_goes_on(load: Load) -> None:
    """serialization of AAHLS_LabC (2022.1): what is read decides whether there is another iteration."""
    text = """
        extern "C" void top(const int* in, int* out) {
        #pragma HLS interface m_axi port = in bundle = a
        #pragma HLS interface m_axi port = out bundle = b
            int at = 0;
        search:
            while (in[at] != 7) at += 11;
            out[0] = at;
        }
    """
    found = loop(check(load(text)), "search")
    assert found.kind == "recurrence" and found.ii is not None and found.ii > 6
