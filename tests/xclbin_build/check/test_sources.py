"""Sources as users of Vitis HLS have them: what AMD's headers allow, and designs of several sources."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.xclbin_build.check.conftest import Load
from xclbin_build.check.run import CheckedPart, check_source
from xclbin_build.cli import main
from xclbin_build.hls import clang
from xclbin_build.hls.clang import SourceError
from xclbin_build.hls.translation import compile_sources

MACROS = [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "W2", "S2", "I2", "SA", "SB", "IA", "IB", "ID", "DEST", "IN", "OUT", "DEPTH"]


def test_a_source_may_define_what_it_likes_in_front_of_headers(load: Load) -> None:
    defines = "\n".join(f"#define {name} 64" for name in MACROS)
    names = sorted({path.name for folder in clang.HEADERS for path in folder.glob("*.h")})
    includes = "\n".join(f"#include <{name}>" for name in names)
    load(f'{defines}\n{includes}\nextern "C" void top(int* out) {{ *out = N; }}')


def test_numbers_that_keep_bits_apart_where_they_wrap_around(load: Load) -> None:
    load("""
        #include <ap_fixed.h>
        extern "C" void top(float in, float* out) { *out = ap_fixed<8, 4, AP_RND, AP_WRAP, 2>(in) + 1; }
    """)


def test_a_core_that_nothing_is_known_of_may_be_included_but_not_called(load: Load) -> None:
    include = "#include <hls_fft.h>\n"
    load(f'{include} extern "C" void top(int* out) {{ *out = 1; }}')
    with pytest.raises(SourceError, match=r"no member named 'fft' in namespace 'hls'"):
        load(f'{include} extern "C" void top(int* out) {{ hls::fft<int>(out); }}')


def test_tasks_by_the_macros_of_amds_header(load: Load) -> None:
    load("""
        #include <hls_task.h>
        void doubles(hls::stream<int>& in, hls::stream<int>& out) { out.write(2 * in.read()); }
        extern "C" void top(hls::stream<int>& in, hls::stream<int>& out) {
            HLS_TASK_STREAM<int> between;
            HLS_TASK first(doubles, in, between);
            HLS_TASK second(doubles, between, out);
        }
    """)


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("ap_fixed<8, 4>", -128, 127), ("ap_ufixed<8, 4>", 0, -1), ("ap_int<8>", -128, 127), ("ap_uint<8>", 0, -1)],
)
def test_limits_of_a_type(load: Load, kind: str, least: int, most: int) -> None:
    kernel = load(f"""
        #include "utils/x_hls_utils.h"
        typedef {kind} type;
        extern "C" void top(type* least, type* most, float* f) {{
            *least = hls::numeric_limits<type>::min();
            *most = hls::numeric_limits<type>::max();
            *f = hls::numeric_limits<float>::max();
        }}
    """)
    stored = {i.pointer: i.operands[0] for i in kernel.function.instructions() if i.opcode == "store"}
    assert stored == {"%least": str(least), "%most": str(most), "%f": "0x47EFFFFFE0000000"}


def test_ap_int_alone_has_fixed_point_numbers_too(load: Load) -> None:
    load("""
        #include <ap_int.h>
        template <int W, int I, ap_q_mode Q, ap_o_mode O>
        void doubled(ap_fixed<W, I, Q, O>& x) { x = x + x; }
        extern "C" void top(ap_fixed<16, 8, AP_RND>* x) { doubled(*x); }
    """)


def test_a_constant_function_with_a_pragma_stays_one(load: Load) -> None:
    kernel = load("""
        template <class T>
        constexpr T shares(T all, T each) {
        #pragma HLS INLINE
            return (all + each - 1) / each;
        }
        extern "C" void top(const int in[96], int out[96]) {
            int kept[shares(96, 4)][4];
        #pragma HLS array_partition variable = kept complete dim = 2
            for (int i = 0; i < 96; i++) kept[i / 4][i % 4] = in[i];
            for (int i = 0; i < 96; i++) out[i] = kept[(95 - i) / 4][i % 4];
        }
    """)
    assert [array.name for array in kernel.arrays.values() if array.partitions] == ["kept"]


def test_bits_of_a_wide_word_are_assigned(load: Load) -> None:
    load("""
        #include <ap_int.h>
        extern "C" void top(ap_uint<192>* word, int x) { word->range(15, 8) = x; }
    """)


FILES = {
    "top.cpp": """
        #include "parts.h"
        static int scaled(int x) { return 3 * x; }
        extern "C" void top(const int in[64], int out[64]) {
            int kept[64];
        #pragma HLS array_partition variable = kept cyclic factor = 2
            fill(in, kept);
        gather:
            for (int i = 0; i < 64; i++) {
        #pragma HLS pipeline II = 1
                out[i] = scaled(kept[63 - i]) + table[i];
            }
        }
    """,
    "parts.cpp": """
        #include "parts.h"
        static int scaled(int x) { return 5 * x; }
        int table[64] = {1, 2, 3};
        void fill(const int in[64], int kept[64]) {
        spread:
            for (int i = 0; i < 64; i += 4) {
        #pragma HLS pipeline II = 2
                for (int j = 0; j < 4; j++) kept[i + j] = scaled(in[i]);
            }
        }
    """,
    "parts.h": "extern int table[64]; void fill(const int in[64], int kept[64]);",
}


@pytest.fixture
def design(tmp_path: Path) -> Path:
    """A folder with a design of two sources, each of which has a `scaled` of its own; parts.h has no guard."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


def loops(parts: list[CheckedPart]) -> dict[str, int | None]:
    return {loop.name: loop.ii for part in parts if part.check for loop in part.check.loops}


def test_sources_of_a_design_are_linked(design: Path) -> None:
    found = check_source(design / "top.cpp", "top", others=[design / "parts.cpp"])
    assert loops(found) == {"spread": 2, "gather": 1}
    whole = compile_sources(design / "top.cpp", design / "parts.cpp")
    assert {pragma.kind for pragma in whole.source.pragmas.values()} == {"array_partition", "pipeline"}
    assert len(whole.source.pragmas) == 3 and len(whole.source.loops) == 3


def test_a_function_of_another_source_is_checked_by_its_name(design: Path) -> None:
    assert loops(check_source(design / "top.cpp", "fill", others=[design / "parts.cpp"])) == {"spread": 2}


def test_what_two_sources_define_is_told(design: Path) -> None:
    (design / "again.cpp").write_text("int table[64];")
    with pytest.raises(SourceError, match=r"rejects the sources: .*'table'.*multiply defined"):
        check_source(design / "top.cpp", "top", others=[design / "parts.cpp", design / "again.cpp"])


def test_the_command_takes_several_sources(design: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(design / "top.cpp"), str(design / "parts.cpp")]) == 0
    assert "spread" in (shown := capsys.readouterr().out) and "gather" in shown
    assert main(["check", str(design / "top.cpp"), str(design / "none.cpp")]) != 0
    assert "source '" in capsys.readouterr().err
