"""`xclbin-build` called as v++ is: sources, kernels, configuration files, and kernels that streams connect."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fpga_dynamo.runtime.drivers import emulated as pyxrt
from xclbin_build import cli
from xclbin_build.axlf import read

TO, FROM = pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE
N = 512

READER = """#include <ap_axi_sdata.h>
#include <hls_stream.h>
static int helper(int x) { return x; }
int shared_name(int x) { return helper(x); }
extern "C" void reader(const int* in, hls::stream<ap_axiu<32, 0, 0, 0>>& out, int n) {
#pragma HLS interface m_axi port = in bundle = gmem0
#pragma HLS interface axis port = out
    for (int i = 0; i < n; i++) {
        ap_axiu<32, 0, 0, 0> beat;
        beat.data = shared_name(in[i]);
        out.write(beat);
    }
}
"""
ADDER = """#include <ap_axi_sdata.h>
#include <hls_stream.h>
extern "C" void adder(hls::stream<ap_axiu<32, 0, 0, 0>>& in, hls::stream<ap_axiu<32, 0, 0, 0>>& out) {
#pragma HLS interface axis port = in
#pragma HLS interface axis port = out
#pragma HLS interface ap_ctrl_none port = return
    ap_axiu<32, 0, 0, 0> beat = in.read();
    beat.data += ADDED;
    out.write(beat);
}
"""
WRITER = """#include <ap_axi_sdata.h>
#include <hls_stream.h>
int shared_name(int x) { return 2 * x; }  // not the reader's
extern "C" void writer(hls::stream<ap_axiu<32, 0, 0, 0>>& in, int* out, int n) {
#pragma HLS interface m_axi port = out bundle = gmem1
    for (int i = 0; i < n; i++) out[i] = shared_name(in.read().data.to_int());
}
"""
CONFIG = """# three kernels in a row
debug=1
[connectivity]
nk=reader:1:read_all
sp=read_all.m_axi_gmem0:DDR[1]
sp=writer_1.out_r:HBM[0:3]
stream_connect=read_all.out:adder_1.in:8
sc=adder_1.out:writer_1.in
[profile]
data=all:all:all
"""


def xclbin_build(folder: Path, *words: str) -> int:
    return cli.main([*words, "-o", str(folder / "k.xclbin")])


@pytest.fixture
def pipeline(tmp_path: Path) -> list[str]:
    """Words of a command line that compiles and links three kernels in a row."""
    for name, text in (("reader", READER), ("adder", ADDER), ("writer", WRITER)):
        (tmp_path / f"{name}.cpp").write_text(text)
    (tmp_path / "link.cfg").write_text(CONFIG)
    words = [word for name in ("reader", "adder", "writer") for word in (str(tmp_path / f"{name}.cpp"), "-k", name)]
    return ["--target", "sw_emu", *words, "--config", str(tmp_path / "link.cfg"), "-DADDED=5", "--save-temps"]


class Card:
    def __init__(self, path: Path) -> None:
        self.device = pyxrt.device(0)
        self.uuid = self.device.load_xclbin(str(path))

    def kernel(self, name: str) -> pyxrt.kernel:
        return pyxrt.kernel(self.device, self.uuid, name)

    def buffer(self, kernel: pyxrt.kernel, index: int, content: np.ndarray) -> pyxrt.bo:
        made = pyxrt.bo(self.device, content.nbytes, pyxrt.bo.flags.normal, kernel.group_id(index))
        made.write(content.tobytes(), 0)
        made.sync(TO, content.nbytes, 0)
        return made

    def content(self, buffer: pyxrt.bo, like: np.ndarray) -> np.ndarray:
        buffer.sync(FROM, like.nbytes, 0)
        return np.frombuffer(buffer.read(like.nbytes, 0), like.dtype)


def test_kernels_in_a_row_run_at_the_same_time(
    tmp_path: Path, pipeline: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert xclbin_build(tmp_path, *pipeline) == 0
    assert "without effect here: --save-temps, debug, profile.data" in capsys.readouterr().err
    manifest = read(tmp_path / "k.xclbin").manifest
    assert manifest["streams"] == [
        {"source": "read_all.out", "destination": "adder_1.in", "depth": 8},
        {"source": "adder_1.out", "destination": "writer_1.in", "depth": 16},
    ]
    card = Card(tmp_path / "k.xclbin")
    reader, writer = card.kernel("reader"), card.kernel("writer")
    values, empty = np.arange(N, dtype=np.int32), np.full(N, -1, np.int32)
    source, target = card.buffer(reader, 0, values), card.buffer(writer, 1, empty)
    for _ in range(3):  # what a run has left in the streams would be in the next
        runs = [writer(None, target, N), reader(source, None, N)]
        assert [run.wait(10000).name for run in runs] == ["ERT_CMD_STATE_COMPLETED"] * 2, [run.error for run in runs]
        np.testing.assert_array_equal(card.content(target, empty), 2 * (values + 5))


def test_tasks_between_kernels_run_on(tmp_path: Path, pipeline: list[str]) -> None:
    """A kernel of nothing but tasks goes on as long as the xclbin is loaded, and does not keep a CPU busy."""
    head, _, _ = ADDER.partition('extern "C"')
    beats = "hls::stream<ap_axiu<32, 0, 0, 0>>"
    (tmp_path / "adder.cpp").write_text(f"""#include <hls_task.h>
{head}typedef {beats} beats;
static void add(beats& in, beats& out) {{
    ap_axiu<32, 0, 0, 0> beat = in.read();
    beat.data += ADDED;
    out.write(beat);
}}
static void pass(beats& in, beats& out) {{ out.write(in.read()); }}
extern "C" void adder({beats}& in, {beats}& out) {{
#pragma HLS interface ap_ctrl_none port = return
    hls_thread_local beats middle("middle");
    hls_thread_local hls::task first(add, in, middle);
    hls_thread_local hls::task second(pass, middle, out);
}}
""")
    assert xclbin_build(tmp_path, *pipeline) == 0
    card = Card(tmp_path / "k.xclbin")
    reader, writer = card.kernel("reader"), card.kernel("writer")
    values, empty = np.arange(N, dtype=np.int32), np.full(N, -1, np.int32)
    source, target = card.buffer(reader, 0, values), card.buffer(writer, 1, empty)
    for _ in range(2):
        runs = [writer(None, target, N), reader(source, None, N)]
        assert [run.wait(10000).name for run in runs] == ["ERT_CMD_STATE_COMPLETED"] * 2, [run.error for run in runs]
        np.testing.assert_array_equal(card.content(target, empty), 2 * (values + 5))
    before = time.process_time()
    time.sleep(1.0)
    assert time.process_time() - before < 0.5


def test_a_kernel_whose_partner_has_not_been_started_waits(tmp_path: Path, pipeline: list[str]) -> None:
    assert xclbin_build(tmp_path, *pipeline) == 0
    card = Card(tmp_path / "k.xclbin")
    writer, reader = card.kernel("writer"), card.kernel("reader")
    values = np.arange(4, dtype=np.int32)
    target, source = card.buffer(writer, 1, values), card.buffer(reader, 0, values)
    waiting = writer(None, target, 4)
    assert waiting.wait(50).name == "ERT_CMD_STATE_TIMEOUT"
    reader(source, None, 4).wait(5000)
    assert waiting.wait(5000).name == "ERT_CMD_STATE_COMPLETED"
    waiting = writer(None, target, 4)
    assert waiting.wait(20).name == "ERT_CMD_STATE_TIMEOUT"
    waiting.abort()
    assert waiting.wait(5000).name == "ERT_CMD_STATE_ABORT"
    with pytest.raises(Exception, match="no control registers"):
        card.kernel("adder")(None, None)


def test_each_compute_unit_has_its_own_bank(tmp_path: Path) -> None:
    source = tmp_path / "add.cpp"
    source.write_text(
        'extern "C" void add(const int* a, int* b, int n) { for (int i = 0; i < n; i++) b[i] = a[i] + 1; }\n'
    )
    words = [str(source), "-k", "add", "--connectivity.nk", "add:2", "--connectivity.sp", "add_2.a:PLRAM[1]"]
    assert xclbin_build(tmp_path, *words) == 0
    card = Card(tmp_path / "k.xclbin")
    one, two = card.kernel("add:{add_1}"), card.kernel("add:{add_2}")
    assert one.group_id(0) != two.group_id(0) and one.group_id(1) == two.group_id(1)
    values = np.arange(16, dtype=np.int32)
    a, b = card.buffer(two, 0, values), card.buffer(two, 1, values)
    assert two(a, b, 16).wait(5000).name == "ERT_CMD_STATE_COMPLETED"
    np.testing.assert_array_equal(card.content(b, values), values + 1)


def test_sources_headers_and_macros_of_a_makefile(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "part.h").write_text("int part(int);\ntypedef int number;\n")
    (tmp_path / "part.cpp").write_text('#include "part.h"\nint part(int v) { return v + FACTOR; }\n')
    head = '#include "part.h"\nextern "C" void k(const number* a, number* o, number n) '
    (tmp_path / "k.cpp").write_text(head + "{ for (int i = 0; i < n; i++) o[i] = part(a[i]); }\n")
    sources = [str(tmp_path / "k.cpp"), str(tmp_path / "part.cpp")]
    flags = ["-I", str(tmp_path / "inc"), "-D", "FACTOR=5"]
    assert xclbin_build(tmp_path, "-t", "sw_emu", "-k", "k", *flags, *sources) == 0
    card = Card(tmp_path / "k.xclbin")
    kernel = card.kernel("k")
    values = np.arange(16, dtype=np.int32)
    a, o = card.buffer(kernel, 0, values), card.buffer(kernel, 1, values)
    assert kernel(a, o, 16).wait(5000).name == "ERT_CMD_STATE_COMPLETED"
    np.testing.assert_array_equal(card.content(o, values), values + 5)


CHECKED = {
    "int t[64] = {}; b[0] = t[n];": "used index 64 of an array of type 'int [64]'",
    "b[0] = a[0] / (n - 64);": "divided an integer by zero",
    "b[0] = 1 << n;": "shifted a value of type 'int' by 64",
}


@pytest.mark.parametrize("body", CHECKED)
def test_undefined_behaviour_ends_a_run_with_file_and_line(tmp_path: Path, body: str) -> None:
    (tmp_path / "k.cpp").write_text(f'extern "C" void k(const int* a, int* b, int n) {{\n    {body}\n}}\n')
    values = np.arange(64, dtype=np.int32)
    for flags, expected in (([], True), (["--no-sanitize"], False)):
        assert xclbin_build(tmp_path, str(tmp_path / "k.cpp"), "-k", "k", *flags) == 0
        card = Card(tmp_path / "k.xclbin")
        kernel = card.kernel("k")
        run = kernel(card.buffer(kernel, 0, values), card.buffer(kernel, 1, values), 64)
        state = run.wait(5000).name
        if expected:
            assert state == "ERT_CMD_STATE_ERROR"
            assert CHECKED[body] in run.error and "(k.cpp:2:" in run.error
        else:
            assert "k.cpp" not in run.error


def test_local_variables_beyond_the_stack_are_named(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text("""extern "C" void k(const int* a, int* b, int n) {
    int local[4 * 1024 * 1024];
    for (int i = 0; i < n; i++) local[i] = a[i];
    for (int i = 0; i < n; i++) b[i] = local[n - 1 - i];
}
""")
    assert xclbin_build(tmp_path, str(tmp_path / "k.cpp"), "-k", "k") == 0
    card = Card(tmp_path / "k.xclbin")
    kernel = card.kernel("k")
    values = np.arange(64, dtype=np.int32)
    run = kernel(card.buffer(kernel, 0, values), card.buffer(kernel, 1, values), 64)
    assert run.wait(5000).name == "ERT_CMD_STATE_ERROR"
    assert re.search(r"local variables overflow its thread's stack of \d+ MiB; make large arrays static", run.error)


WRONG: list[tuple[Sequence[str], str]] = [
    (["k.cpp"], "-k is missing"),
    (["k.cpp", "-k", "other"], 'does not define \'extern "C" void other'),
    (["-k", "k"], "has no sources in front of it"),
    (["k.xo", "-k", "k"], "'.xo' files are what Vitis has made of sources"),
    (["k.txt", "-k", "k"], "a kernel's source ends in"),
    (["-c", "k.cpp", "-k", "k"], "v++ compiles in a step of its own"),
    (["k.cpp", "-k", "k", "--recipe", "single"], "exclude each other"),
    (["k.cpp", "-k", "k", "--connectivity.sp", "k_2.a:DDR[0]"], "no compute unit 'k_2'"),
    (["k.cpp", "-k", "k", "--connectivity.sp", "k_1.z:DDR[0]"], "memory for 'z', which is not a pointer argument"),
    (["k.cpp", "-k", "k", "--connectivity.sp", "k_1.a:DDR[9]"], "no bank 'DDR[9]'"),
    (["k.cpp", "-k", "k", "--connectivity.sp", "k_1.a:HBM[3:1]"], "names no range"),
    (["k.cpp", "-k", "k", "--connectivity.nk", "m:2"], "no kernel 'm'"),
    (["k.cpp", "-k", "k", "--connectivity.nk", "k:0"], "must be 1 to 60"),
    (["k.cpp", "-k", "k", "--connectivity.nk", "k:2:one"], "as many different names"),
    (["k.cpp", "-k", "k", "--connectivity.sc", "k_1.a"], "connects nothing"),
    (["k.cpp", "-k", "k", "--connectivity.sc", "k_1.a:k_1.b"], "is not a stream of a compute unit"),
    (["k.cpp", "-k", "k", "--config", "no.cfg"], "no.cfg cannot be read"),
    (["k.cpp", "-k", "k", "--config", "bad.cfg"], "bad.cfg:2: unknown key 'spp' of [connectivity]"),
    (["k.cpp", "-k", "k", "-k", "k"], "names a kernel twice"),
    (["s.cpp", "-k", "s"], "the stream 's_1.x' is connected to nothing"),
    (["k.cpp", "-k", "k", "-D", "A=`x`"], "the macro"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_what_is_wrong_gets_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.cpp").write_text('extern "C" void k(const int* a, int* b, int n) { b[0] = a[n]; }\n')
    Path("s.cpp").write_text(
        '#include <hls_stream.h>\nextern "C" void s(hls::stream<int>& x, int* b) { b[0] = x.read(); }\n'
    )
    Path("bad.cfg").write_text("[connectivity]\nspp=k_1.a:DDR[0]\n")
    assert xclbin_build(tmp_path, *words) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.startswith("error: ") and "Traceback" not in said


def test_values_and_structures_are_passed_by_value(tmp_path: Path) -> None:
    code = """#include <ap_int.h>
#include <complex>
struct settings { int n; float gain; short added; };
extern "C" void k(const float* in, float* out, settings s, std::complex<float> z, const settings& t, ap_uint<3> bits) {
    for (int i = 0; i < s.n; i++) out[i] = s.gain * in[i] + z.imag() + t.added + bits.to_int();
}
"""
    (tmp_path / "k.cpp").write_text(code)
    assert xclbin_build(tmp_path, str(tmp_path / "k.cpp"), "-k", "k") == 0
    assert [a["offset"] for a in read(tmp_path / "k.xclbin").manifest["kernels"][0]["args"]] == [
        0x10, 0x1C, 0x28, 0x38, 0x44, 0x54,
    ]  # fmt: skip
    card = Card(tmp_path / "k.xclbin")
    kernel = card.kernel("k")
    values = np.arange(8, dtype=np.float32)
    source, target = card.buffer(kernel, 0, values), card.buffer(kernel, 1, values)
    one, two = struct.pack("ifhxx", 8, 2.0, 5), struct.pack("ifhxx", 0, 0.0, 7)
    run = kernel(source, target, one, struct.pack("ff", 1.0, 100.0), two, 0xFD)  # of 3 bits: 5
    assert run.wait(5000).name == "ERT_CMD_STATE_COMPLETED", run.error
    np.testing.assert_array_equal(card.content(target, values), 2 * values + 112)
    with pytest.raises(Exception, match=r"'s'.*has 12 bytes, not 3"):
        kernel(source, target, b"abc", bytes(8), two, 0)
