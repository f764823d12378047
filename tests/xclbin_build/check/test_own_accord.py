"""What Vitis HLS does of its own accord with loops and arrays that carry no pragma, as the checker has it.

Each case is the shape of a loop of which a published report says what became of it (`automatic.py`, `storage.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.xclbin_build.check.conftest import Load
from xclbin_build.check.loops import Check, Loop, check
from xclbin_build.check.run import check_source

SOFTMAX = """
    extern "C" void top(float x[12][12], float out[12][12]) {
        float sums[12];
        float kept[12][12];
    copy_rows:
        for (int i = 0; i < 12; i++) {
        copy:
            for (int j = 0; j < 12; j++) kept[i][j] = x[i][j];
        }
    clear:
        for (int i = 0; i < 12; i++) sums[i] = 0;
    sum_rows:
        for (int i = 0; i < 12; i++) {
        sum:
            for (int j = 0; j < 12; j++) sums[i] += kept[i][j];
        }
    divide_rows:
        for (int i = 0; i < 12; i++) {
        divide:
            for (int j = 0; j < 12; j++) out[i][j] = kept[i][j] / sums[i];
        }
    }
"""
PRODUCTS = """
    extern "C" void top(const int x[64][16], const int y[16], int out[64]) {
        int row[128];
    rows:
        for (int i = 0; i < 64; i++) {
    ASKED
            row[i] = x[i][0] + y[0];
        }
    windows:
        for (int i = 0; i < 48; i++) {
    ASKED
            int sum = 0;
            for (int k = 0; k < 12; k++) {
    #pragma HLS unroll
                sum += row[i + 3 * k];
            }
            out[i] = sum;
        }
    }
"""
LANES = """
    #include <ap_int.h>
    extern "C" void top(const ap_uint<128>* in, signed char* out) {
    #pragma HLS interface m_axi port = in bundle = a
    #pragma HLS interface m_axi port = out bundle = b
        signed char kept[4][256];
    #pragma HLS array_partition variable = kept dim = 1 complete
    fill:
        for (int i = 0; i < 64; i++) {
    #pragma HLS pipeline II = 1
            const ap_uint<128> beat = in[i];
            for (int j = 0; j < 16; j++) {
    #pragma HLS unroll
                const int at = i * 16 + j;
                kept[at >> 8][at & 255] = (signed char)beat.range(j * 8 + 7, j * 8).to_int();
            }
        }
    drain:
        for (int i = 0; i < 1024; i++) {
    #pragma HLS pipeline II = 1
            out[i] = kept[i >> 8][i & 255];
        }
    }
"""
REGION = """
    static void load(const int* in, int kept[256]) {
    load_all:
        for (int i = 0; i < 256; i++) {
    #pragma HLS pipeline II = 1
            kept[i] = in[i];
        }
    }
    static void pairs(int kept[256], int* out) {
    add_pairs:
        for (int i = 0; i < 64; i++) {
    #pragma HLS pipeline II = 1
            out[i] = kept[3 * i] + kept[3 * i + 5] + kept[3 * i + 10] + kept[3 * i + 15];
        }
    }
    extern "C" void top(const int* in, int* out) {
    #pragma HLS interface m_axi port = in bundle = a
    #pragma HLS interface m_axi port = out bundle = b
    #pragma HLS dataflow
        int kept[256];
    PARTITION
        load(in, kept);
        pairs(kept, out);
    }
"""


def loop(found: Check, name: str) -> Loop:
    return next(loop for loop in found.loops if loop.name == name)


def test_a_perfect_nest_flattens_and_another_unrolls(load: Load) -> None:
    """HeteroCL_Transformer's softmax: a row of 12 unrolls where its loop reads an element that stays the same."""
    found = check(load(SOFTMAX), memories=True)
    assert (loop(found, "copy").ii, loop(found, "copy").trips) == (1, (12, 12))
    assert loop(found, "copy_rows").note == "flattened with 'copy'"
    names = {one.name for one in found.loops}
    assert "sum" not in names and "divide" not in names
    assert loop(found, "divide_rows").ii == 6  # 12 elements of a row to write, two ports


@pytest.mark.parametrize(("asked", "ii"), [("", 1), ("#pragma HLS pipeline II = 1", 6)])
def test_copies_of_an_array_count_where_no_interval_is_asked_for(load: Load, asked: str, ii: int) -> None:
    found = loop(check(load(PRODUCTS.replace("ASKED", asked)), memories=True), "windows")
    assert found.ii == ii
    assert loop(check(load(PRODUCTS.replace("ASKED", asked)), memories=True, inferred=False), "windows").ii == 6


def test_neighbours_that_are_written_together_are_interleaved(load: Load) -> None:
    """Marui-9/swiglu: 16 bytes of a beat, in a bank that is only known at run time."""
    kernel = load(LANES)
    assert loop(check(kernel), "fill").ii == 1
    fill = loop(check(load(LANES), inferred=False), "fill")
    assert fill.ii == 8 and fill.kind == "memory"


def test_an_array_with_a_storage_of_its_own_is_interleaved_too(load: Load) -> None:
    """The same logs: `x_local_1` is a ram_1p of LUTs, and has 16 banks in each of its 8."""
    kept = "signed char kept[4][256];\n"
    text = LANES.replace(kept, kept + "    #pragma HLS bind_storage variable = kept type = ram_1p\n")
    assert loop(check(load(text)), "fill").ii == 1
    assert loop(check(load(text), inferred=False), "fill").ii == 16


@pytest.mark.parametrize(
    ("partition", "ii"), [("", 2), ("#pragma HLS array_partition variable = kept cyclic factor = 4", 1)]
)
def test_an_array_between_processes_is_a_memory_with_the_regions_pragmas(
    tmp_path: Path, partition: str, ii: int
) -> None:
    path = tmp_path / "top.cpp"
    path.write_text(REGION.replace("PARTITION", partition))
    load, pairs = check_source(path, "top")
    assert load.check is not None and pairs.check is not None
    (read,) = loop(load.check, "load_all").bursts
    assert (read.port, read.bundle, read.inferred) == ("in", "a", True)
    assert loop(pairs.check, "add_pairs").ii == ii


def test_bytes_count_as_elements(load: Load) -> None:
    """Four bytes a word of a memory of bytes are four writes."""
    found = check(load("""
        #include <stdint.h>
        extern "C" void top(const uint32_t in[256], uint8_t out[1024]) {
        take_apart:
            for (int i = 0; i < 256; i++)
                for (int b = 0; b < 4; b++) out[4 * i + b] = in[i] >> 8 * b;
        }
        """), memories=True)  # fmt: skip
    assert loop(found, "take_apart").ii == 2


def test_a_short_loop_that_may_end_early_unrolls(load: Load) -> None:
    found = check(load("""
        extern "C" void top(const unsigned in[256], unsigned out[256]) {
        words:
            for (int i = 0; i < 256; i++) {
                unsigned first = 0;
                for (int b = 0; b < 16; b++) {
                    if (in[i] >> b & 1) {
                        first = b;
                        break;
                    }
                }
                out[i] = first;
            }
        }
        """), memories=True)  # fmt: skip
    assert [one.name for one in found.loops] == ["words"] and loop(found, "words").ii == 1


def test_a_while_loop_keeps_its_name_across_continue(load: Load) -> None:
    found = check(load("""
        extern "C" void top(const int* in, int* out, int n) {
            int left = n, i = 0, row = 0;
        walk:
            while (left > 0) {
        #pragma HLS pipeline II = 1
                out[i] = in[i];
                if (++i < 100) continue;
                i = 0;
                if (++row < 7) continue;
                row = 0;
                left--;
            }
        }
        """))  # fmt: skip
    assert [(one.name, one.target_ii) for one in found.loops] == [("walk", 1)]


def test_a_loop_that_would_be_too_much_code_is_left_out_with_a_sentence(load: Load) -> None:
    found = check(load("""
        extern "C" void top(const float* in, float* out) {
        vast:
            for (int i = 0; i < 1024; i++) {
        #pragma HLS pipeline II = 1
                float sum = 0;
                for (int j = 0; j < 512; j++)
                    for (int k = 0; k < 512; k++) sum += in[(i * 7 + j) * 512 + k] * 0.5f;
                out[i] = sum;
            }
        small:
            for (int i = 0; i < 64; i++) {
        #pragma HLS pipeline II = 1
                out[i + 1024] = in[i];
            }
        }
        """))  # fmt: skip
    vast = loop(found, "vast")
    assert vast.ii is None and "instructions after unrolling" in vast.note
    assert loop(found, "small").ii is not None


@pytest.mark.parametrize("storage", ["", "#pragma HLS bind_storage variable = kept type = ram_2p impl = bram"])
def test_a_row_that_is_read_side_by_side_is_divided_whatever_its_storage(load: Load, storage: str) -> None:
    """A tile of a matrix of kevin33713371's 2024_FALL_NTU_AAHLS_SP (2022.1): 64 neighbours, reported 1."""
    text = f"""
        extern "C" void top(const float x[197 * 64], float out[16 * 64], int first) {{
            static float kept[197][64];
        {storage}
            float tile[16][64];
        #pragma HLS array_partition variable = tile dim = 2 complete
            for (int i = 0; i < 197 * 64; i++) kept[i / 64][i % 64] = x[i];
        rows:
            for (int i = 0; i < 16; i++) {{
        #pragma HLS pipeline
                for (int j = 0; j < 64; j++) tile[i][j] = first + i < 197 ? kept[first + i][j] : 0.0f;
            }}
            for (int i = 0; i < 16 * 64; i++) out[i] = tile[i / 64][i % 64];
        }}
    """
    assert next(one for one in check(load(text), memories=True).loops if one.name == "rows").ii == 1


@pytest.mark.parametrize(("kind", "ii"), [("block factor = 8", 4), ("cyclic factor = 8", 2), ("block factor = 3", 16)])
def test_blocks_behind_steps_of_whole_blocks_lie_apart(load: Load, kind: str, ii: int) -> None:
    """Halves of a row of Muxucao0812/Crypto (2024.1) in 8 banks of 8 elements: 32 in 4 banks of two ports, reported 4.
    What is written beside it is divided, too, as a pragma unrolls the loop."""
    text = f"""
        extern "C" void top(const int x[64], int out[64]) {{
            int row[64], other[64];
        #pragma HLS array_partition variable = row {kind}
        #pragma HLS bind_storage variable = row type = ram_t2p
            for (int i = 0; i < 64; i++) row[i] = x[i];
        halves:
            for (int i = 0; i < 64; i++) {{
        #pragma HLS unroll factor = 32
                other[i] = row[i] * row[i];
            }}
            for (int i = 0; i < 64; i++) out[i] = other[i];
        }}
    """
    assert next(one for one in check(load(text), memories=True).loops if one.name == "halves").ii == ii


@pytest.mark.parametrize(("declared", "ii"), [("*in", 4), ("in[512]", 1)])
def test_what_has_no_known_size_is_not_divided_completely(load: Load, declared: str, ii: int) -> None:
    """`absorb_word_loop` of j1hye0n's sha3_256_hls (2024.2): 4, by 8 reads of two ports."""
    found = check(
        load(f"""
        static unsigned long word(const unsigned char* x) {{
        #pragma HLS inline
        #pragma HLS array_partition variable = x complete dim = 1
            unsigned long r = 0;
            for (int i = 0; i < 8; i++) {{
        #pragma HLS unroll
                r |= (unsigned long)x[i] << (8 * i);
            }}
            return r;
        }}
        extern "C" void top(const unsigned char {declared}, unsigned long out[64]) {{
        words:
            for (int i = 0; i < 64; i++) {{
        #pragma HLS pipeline II = 1
                out[i] = word(&in[8 * i]);
            }}
        }}
    """),
        memories=True,
    )
    assert loop(found, "words").ii == ii
