"""`xclbin-build --uninitialized`: reads of variables without a value end a run with file and line, others do not."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.xclbin_build.test_vpp import Card
from xclbin_build import ToolchainError
from xclbin_build.cli import main
from xclbin_build.toolchain import isa as isas
from xclbin_build.toolchain import uninitialized
from xclbin_build.toolchain.places import with_places


def _clang_is_missing() -> bool:
    try:
        uninitialized.find_clang(isas.native())
    except ToolchainError:
        return True
    return False


needs_clang = pytest.mark.skipif(_clang_is_missing(), reason="needs clang: apt-get install clang-19")
VALUES = np.arange(64, dtype=np.int32)
HEAD = "#include <ap_int.h>\n#include <cmath>\n#include <hls_stream.h>\n"
KERNEL = HEAD + 'extern "C" void k(const int* a, int* b, int n) {{\n    {body}\n}}\n'
FIRST_LINE = 6  # of the bodies below in one kernel, each in a line of its own, which an argument chooses
FOUND = {
    "int t[64]; for (int i = 1; i < n; i++) t[i] = a[i]; for (int i = 0; i < n; i++) b[i] = t[i];":
        "wrote to argument 'b' an uninitialized value of 't'",
    "int last; for (int i = 0; i < n; i++) if (a[i] > 99) last = a[i]; b[40] = 2 * last;":
        "wrote to argument 'b' an uninitialized value",
    "int u[4]; u[0] = a[0]; b[n / 64] = a[1]; if (u[n / 64] > 5) b[1] = 1;":
        "used an uninitialized value of 'u'",
    "int at[2]; at[0] = 1; b[at[n / 64]] = 3;": "used an uninitialized value of 'at'",
    "ap_int<20> x[2]; x[0] = 1; b[41] = x[n / 64];": "wrote to argument 'b' an uninitialized value",
    "struct { int low, high; } s[2]; s[0].low = 1; s[n / 64].high = 2; b[42] = s[n / 64].low + s[1].high;":
        "wrote to argument 'b' an uninitialized value of 's'",
}  # fmt: skip
FINE = [
    "int t[64]; for (int i = 0; i < n; i++) t[i] = a[i]; for (int i = 0; i < n; i++) b[i] = t[i];",
    # A window whose first rows are no numbers yet moves them along, and does not use them.
    "int w[3]; for (int i = 0; i < n; i++) { w[2] = w[1]; w[1] = w[0]; w[0] = a[i]; b[i] = i < 2 ? 0 : w[2]; }",
    "ap_uint<20> x; x.range(9, 0) = a[1]; x.range(19, 10) = a[2]; b[0] = x; for (int i = 1; i < n; i++) b[i] = x;",
    "ap_uint<512> x; for (int i = 0; i < 16; i++) x.range(32 * i + 31, 32 * i) = a[i]; "
    "for (int i = 0; i < n; i++) b[i] = x.range(32 * (i % 16) + 31, 32 * (i % 16)).to_int();",
    "int e; double m = std::frexp(a[3], &e); for (int i = 0; i < n; i++) b[i] = e + (m > 0);",
    "struct { char c; int x; } s; s.c = 1; s.x = a[1]; auto t = s; for (int i = 0; i < n; i++) b[i] = t.x + t.c;",
    "char text[20]; snprintf(text, sizeof text, \"%d\", n); for (int i = 0; i < n; i++) b[i] = text[0];",
]  # fmt: skip
STREAMED = (
    HEAD
    + """
static void sums(const int* a, hls::stream<int>& s, int n) {
    int last;
    for (int i = 0; i < n; i++) {
        if (a[i] > 1000) last = a[i];
        s.write(a[i]);
    }
    s.write(last);
}
static void store(hls::stream<int>& s, int* b, int n) {
    for (int i = 0; i < n; i++) b[i] = s.read();
    s.read();
}
extern "C" void k(const int* a, int* b, int n) {
#pragma HLS dataflow
    hls::stream<int> s("s");
    sums(a, s, n);
    store(s, b, n);
}
"""
)


def run(folder: Path, source: str, values: np.ndarray = VALUES) -> tuple[str, str, np.ndarray]:
    """The state and the error of a run, and what is in `b`."""
    (folder / "k.cpp").write_text(source)
    words = [str(folder / "k.cpp"), "-k", "k", "--uninitialized", "-q", "-o", str(folder / "k.xclbin")]
    assert main(words) == 0
    card = Card(folder / "k.xclbin")
    kernel = card.kernel("k")
    a, b = card.buffer(kernel, 0, values), card.buffer(kernel, 1, 0 * VALUES)
    done = kernel(a, b, 64)
    return done.wait(20000).name, done.error, card.content(b, VALUES)


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> Card:
    """A card with a kernel of all bodies."""
    folder = tmp_path_factory.mktemp("bodies")
    cases = "".join(f"case {i}: {{ {body} }} break;\n" for i, body in enumerate([*FOUND, *FINE]))
    head = 'extern "C" void k(const int* a, int* b, int n, int which) {\nswitch (which) {\n'
    (folder / "k.cpp").write_text(f"{HEAD}{head}{cases}}}\n}}\n")
    words = [str(folder / "k.cpp"), "-k", "k", "--uninitialized", "-q", "-o", str(folder / "k.xclbin")]
    assert main(words) == 0
    return Card(folder / "k.xclbin")


def chosen(card: Card, which: int) -> tuple[str, str]:
    """The state and the error of a run of a body."""
    kernel = card.kernel("k")
    done = kernel(card.buffer(kernel, 0, VALUES), card.buffer(kernel, 1, 0 * VALUES), 64, which)
    return done.wait(20000).name, done.error


@needs_clang
@pytest.mark.parametrize("body", FOUND)
def test_an_uninitialized_read_ends_the_run(bodies: Card, body: str) -> None:
    which = list(FOUND).index(body)
    state, error = chosen(bodies, which)
    assert state == "ERT_CMD_STATE_ERROR"
    assert FOUND[body] in error and f"(k.cpp:{FIRST_LINE + which})" in error


@needs_clang
@pytest.mark.parametrize("body", FINE)
def test_what_is_not_used_or_written_by_others_is_no_error(
    bodies: Card, body: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert chosen(bodies, len(FOUND) + FINE.index(body)) == ("ERT_CMD_STATE_COMPLETED", "")
    assert "warning" not in capfd.readouterr().err


@needs_clang
def test_an_element_of_a_stream_is_checked(tmp_path: Path) -> None:
    state, error, _ = run(tmp_path, STREAMED)
    assert state == "ERT_CMD_STATE_ERROR"
    assert "wrote to stream 's' an uninitialized value of 'last' (k.cpp:11)" in error
    state, error, result = run(tmp_path, STREAMED, VALUES + 1000)
    assert (state, error) == ("ERT_CMD_STATE_COMPLETED", "")
    np.testing.assert_array_equal(result, VALUES + 1000)


@needs_clang
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("for (int i = 2; i < n; i++) b[i] = a[i];", "has left a gap in argument 'b': byte 0 was never written"),
        ("if (n < 5) b[0] = a[0];", "has not written to argument 'b'"),
        ("for (int i = 2; i < n; i++) b[i] += a[i];", ""),
    ],
)
def test_results_that_are_never_written_are_a_warning(
    tmp_path: Path, body: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    state, error, _ = run(tmp_path, KERNEL.format(body=body))
    assert (state, error) == ("ERT_CMD_STATE_COMPLETED", "")
    said = capfd.readouterr().err
    assert words in said if words else "warning" not in said


def test_without_clang_a_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cpp").write_text(KERNEL.format(body="b[0] = a[0];"))
    which = shutil.which
    own = lambda name, path=None: None if name.startswith("clang-") else which(name, path=path)  # noqa: E731
    monkeypatch.setattr(uninitialized.shutil, "which", own)
    words = [str(tmp_path / "k.cpp"), "-k", "k", "--uninitialized", "-q", "-o", str(tmp_path / "k.xclbin")]
    assert main(words) == 2
    assert "error: --uninitialized requires clang 16 to 19, which was not found" in capsys.readouterr().err


def test_the_option_is_for_the_emulator(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--target", "hw", "--platform", "u250", "--uninitialized"]) == 2
    assert "--uninitialized has no effect here" in capsys.readouterr().err


def test_places_name_the_line_of_a_check_and_follow_inline_functions() -> None:
    assembly = (
        '\t.text\n\t.file\t1 "/user" "k.cpp"\n\t.loc\t1 7 3 is_stmt 1\n\tcallq\t__msan_warning@PLT\n'
        '\t.section\t.text._Z1fv,"axG",@progbits,_Z1fv,comdat\n\t.loc\t1 9 1\n'
        "\tcallq\t__msan_chain_origin@PLT # note\n\tcallq\tother@PLT\n\t.loc\t1 0 1\n\tcallq\t__msan_warning@PLT\n"
    )
    made = with_places(assembly)
    assert made.startswith(assembly.partition("\t.section")[0] + ".Lfpga_place_0:\n")
    own, inline = made.split('.section\tfpga_places,"a",@progbits')[1].split(
        '.section\tfpga_places,"aG",@progbits,_Z1fv,comdat'
    )
    assert ".Lfpga_place_0-." in own and "\t.long\t7\n" in own
    assert ".Lfpga_place_1-." in inline and "\t.long\t9\n" in inline
    assert ".Lfpga_place_2-." not in made  # code of several lines
    assert made.count(".Lfpga_place_1:") == 1 and '.asciz\t"k.cpp"' in made
