"""How Vitis HLS schedules loops, as reports of `benchmarks/hls_development.jsonl` show it; each case is the shape of a
loop there."""

from __future__ import annotations

import pytest

from tests.xclbin_build.check.conftest import Load
from tests.xclbin_build.check.test_reported import loop
from xclbin_build.check.loops import check
from xclbin_build.check.run import check_source
from xclbin_build.hls.frontend import Kernel

PORTS = """
    #pragma HLS interface m_axi port = in bundle = a
    #pragma HLS interface m_axi port = out bundle = b
"""


def interval(kernel: Kernel, name: str, *, memories: bool = False) -> int | None:
    return loop(check(kernel, memories=memories), name).ii


@pytest.mark.parametrize(("condition", "ii"), [("", 1), ("if (i % 3)", 8)])
def test_what_is_no_burst_is_a_request_for_each_element(load: Load, condition: str, ii: int) -> None:
    """HanderRi/AMD-Pervasive-AI (2022.2): ports widen for bursts only."""
    text = f"""
        extern "C" void top(const short* in, int* out, int n) {{{PORTS}
        blocks:
            for (int i = 0; i < n; i++) {{
                int sum = 0;
                {condition} for (int k = 0; k < 8; k++) sum += in[8 * i + k];
                out[i] = sum;
            }}
        }}
    """
    assert interval(load(text), "blocks") == ii


@pytest.mark.parametrize(
    ("fields", "ii"), [("at[n].x = i; at[n].y = v; at[n].z = 1;", 3), ("at[n] = {i, v, 1, 0};", 1)]
)
def test_fields_that_are_written_one_by_one_are_requests(load: Load, fields: str, ii: int) -> None:
    """Boxes of vlad-acs/AC_proj_39 (2025.2), whose number depends on data."""
    text = f"""
        struct Box {{ int x, y, z, w; }};
        extern "C" void top(const int* in, Box* at) {{
        #pragma HLS interface m_axi port = in bundle = a
        #pragma HLS interface m_axi port = at bundle = b
            int n = 0;
        boxes:
            for (int i = 0; i < 64; i++) {{
                int v = in[i];
                if (v > 7) {{
                    {fields}
                    n++;
                }}
            }}
        }}
    """
    assert interval(load(text), "boxes") == ii


@pytest.mark.parametrize(("bits", "ii"), [(24, 16), (32, 1)])
def test_a_port_of_24_bits_is_not_widened(load: Load, bits: int, ii: int) -> None:
    """Rows of asandeep1/FPGA_ECE8893 (2025.1), whatever max_widen_bitwidth says."""
    text = f"""
        #include <ap_int.h>
        void top(ap_int<{bits}> in[1024], int out[64]) {{
        #pragma HLS interface m_axi port = in bundle = a max_widen_bitwidth = 512
        rows:
            for (int i = 0; i < 64; i++) {{
        #pragma HLS pipeline II = 1
                int sum = 0;
                for (int k = 0; k < 16; k++) sum += in[16 * i + k];
                out[i] = sum;
            }}
        }}
    """
    assert interval(load(text), "rows", memories=True) == ii


SEARCH = """
    extern "C" void top(const int in[64], int* out) {
        int kept[64];
        for (int i = 0; i < 64; i++) kept[i] = in[i] + 1;
        int j = in[0] & 63;
    search:
        do j = (j - 1) & 63; while (kept[j] == 0);
        *out = j;
    }
"""


def test_an_iteration_reads_once_it_is_known_that_there_is_one(load: Load) -> None:
    """The next length in XiangzhongDeng's Huffman (2021.2): 2; a loop that waits for a port in the Vivado flow:
    AAHLS_LabC, 10. The Vitis flow expects memory to take 64 cycles more (UG1399), unless a pragma says otherwise."""
    assert interval(load(SEARCH), "search", memories=True) == 2
    text = """
        extern "C" void top(const char* in, int* out, int n) {
        #pragma HLS interface m_axi port = in bundle = a
            int at = 0;
        rows:
            while (in[at + 2] == n) at += 11;
            *out = at;
        }
    """
    assert interval(load(text), "rows", memories=True) == 10
    assert interval(load(text), "rows") == 73
    assert interval(load(text.replace("bundle = a", "bundle = a latency = 20")), "rows") == 29


def test_a_sum_in_memory_waits_for_the_write_to_be_answered(load: Load) -> None:
    """heterogeneous-vitis-apps (2024.1): 149, of which 71 and 68 are requests of a read and answers of a write."""
    text = """
        extern "C" void top(int* total, int n) {
        #pragma HLS interface m_axi port = total bundle = a
        sums:
            for (int i = 0; i < n; i++) total[n] = (total[n] ^ 5) + i;
        }
    """
    assert 140 <= (interval(load(text), "sums") or 0) <= 150
    assert 12 <= (interval(load(text), "sums", memories=True) or 0) <= 20


@pytest.mark.parametrize(("column", "recurrence"), [("id", False), ("id + 1", True)])
def test_columns_that_differ_never_meet(load: Load, column: str, recurrence: bool) -> None:
    """Johnnyjax/Cholesky_HPC (2023.2): the columns behind one are updated by that one."""
    text = f"""
        extern "C" void top(const float in[64], float out[64], unsigned id) {{
            float mid[16][16];
            for (int i = 0; i < 64; i++) mid[i >> 4][i & 15] = in[i];
        rows:
            for (unsigned i = id + 1; i < 16; i++) {{
            columns:
                for (unsigned j = id + 1; j < 16; j++) {{
        #pragma HLS pipeline II = 1
                    mid[j][i] = mid[j][i] - mid[j][{column}] * mid[i][{column}];
                }}
            }}
            for (int i = 0; i < 64; i++) out[i] = mid[i >> 4][i & 15];
        }}
    """
    assert ((interval(load(text), "columns", memories=True) or 0) > 2) == recurrence


def test_what_an_iteration_writes_before_it_reads_comes_from_no_other(load: Load) -> None:
    """Windows of Anderson-Wu/AAHLS_LABC_Canny (2022.1): clang has products of more than 64 bits in memory."""
    text = """
        #include <ap_fixed.h>
        typedef ap_fixed<43, 20> value;
        void top(const value in[64], value out[64], value a, value b, value c) {
            value x = 0, y = 0;
        window:
            for (int i = 0; i < 64; i++) {
        #pragma HLS pipeline II = 1
                value now = in[i];
                value sum = 0;
                sum += now * a;
                sum += x * b;
                sum += y * c;
                y = x;
                x = now;
                out[i] = sum;
            }
        }
    """
    assert interval(load(text), "window", memories=True) == 1


def test_a_sum_that_begins_anew_is_added_last(load: Load) -> None:
    """Centroids of McKelvey-Engineering-CSE/adapt_fpga (2021.1): 16 values and what was there, in 16 bits."""
    adds = " + ".join(f"in[i][{k}]" for k in range(16))
    text = f"""
        extern "C" void top(const short in[64][16], short out[64]) {{
        #pragma HLS array_partition variable = in complete dim = 2
            short sum = 0;
        sums:
            for (int i = 0; i < 64; i++) {{
                sum = (short)((in[i][0] > 9 ? sum : 0) + {adds});
                out[i] = sum;
            }}
        }}
    """
    assert interval(load(text), "sums", memories=True) == 1


@pytest.mark.parametrize(("pragma", "ii"), [("#pragma HLS pipeline II = 1", 1), ("", 5)])
def test_windows_are_divided_where_a_pragma_pipelines(load: Load, pragma: str, ii: int) -> None:
    """3 x 3 of AC_proj_39 (2025.2): cyclic in both dimensions; where nobody asks, two ports are two."""
    text = f"""
        extern "C" void top(const int in[34], int out[32]) {{
            static int kept[34][34];
            for (int i = 0; i < 34; i++) for (int j = 0; j < 34; j++) kept[i][j] = in[j] + i;
            for (int i = 0; i < 32; i++) {{
            window:
                for (int j = 0; j < 32; j++) {{
        {pragma}
                    int sum = 0;
                    for (int k = 0; k < 9; k++) {{
        #pragma HLS unroll
                        sum += kept[i + k / 3][j + k % 3];
                    }}
                    out[j] = sum;
                }}
            }}
        }}
    """
    assert interval(load(text), "window", memories=True) == ii


def test_what_an_earlier_iteration_has_read_is_read_again(load: Load) -> None:
    """Derpanieux/SHA-2-Accel-Vitis-HLS (2025.1): four reads and a write of two ports."""
    text = """
        void top(const unsigned in[16], unsigned out[64]) {
            for (int i = 0; i < 16; i++) out[i] = in[i];
        words:
            for (int i = 16; i < 64; i++) out[i] = (out[i - 2] ^ 5) + out[i - 7] + (out[i - 15] ^ 3) + out[i - 16];
        }
    """
    assert interval(load(text), "words", memories=True) == 3


def test_assertions_make_no_logic(load: Load) -> None:
    """Huffman again: a copy with two assertions has an interval of 1."""
    text = """
        #include <cassert>
        extern "C" void top(const int in[64], int out[64], int limit) {
            static int kept[64];
            for (int i = 0; i < 64; i++) kept[i] = in[i];
        copy:
            for (int i = 0; i < 64; i++) {
                out[i] = kept[i];
                assert(kept[i] <= limit);
            }
        }
    """
    assert interval(load(text), "copy", memories=True) == 1


def test_a_function_that_is_not_there_is_named(load: Load) -> None:
    text = "int other(int); void top(const int a[8], int b[8]) { for (int i = 0; i < 8; i++) b[i] = other(a[i]); }"
    assert any("'other' is not defined in the source" in note for note in check(load(text), memories=True).notes)


def test_processes_that_are_templates_are_found(tmp_path_factory: pytest.TempPathFactory) -> None:
    """ayumiohno/mnist_depthwise_hls (2022.1)."""
    path = tmp_path_factory.mktemp("region") / "region.cpp"
    path.write_text("""
        #include <hls_stream.h>
        template <int N> void scale(hls::stream<int>& in, hls::stream<int>& out) {
        values:
            for (int i = 0; i < 64; i++) out.write(in.read() * N);
        }
        void top(hls::stream<int>& in, hls::stream<int>& out) {
        #pragma HLS dataflow
            hls::stream<int> between;
            scale<3>(in, between);
            scale<5>(between, out);
        }
    """)
    assert [part.name for part in check_source(path, "top")] == ["scale<3>", "scale<5>"]
