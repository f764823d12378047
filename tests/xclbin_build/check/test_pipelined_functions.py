"""Functions with a pragma `pipeline`: a row each, with the interval between two calls and what limits it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xclbin_build.check.loops import Check, Loop
from xclbin_build.check.run import Checked, check_source
from xclbin_build.cli import main

PART = "xczu3eg-sbva484-1-e"


def checked(tmp_path: Path, text: str, *, flow: str = "vivado") -> Checked:
    path = tmp_path / "kernel.cpp"
    path.write_text(text)
    found = Checked(check_source(path, "top", clock_ns=10, part=PART, flow=flow))
    assert not [part.note for part in found.parts if part.check is None]
    return found


def check_of(tmp_path: Path, text: str, *, flow: str = "vivado") -> Check:
    (part,) = checked(tmp_path, text, flow=flow).parts
    assert part.check is not None
    return part.check


def function(tmp_path: Path, text: str, *, flow: str = "vivado") -> Loop:
    """The only pipelined function."""
    (found,) = check_of(tmp_path, text, flow=flow).functions
    return found


SUM = """
int top(const int x[64]) {
#pragma HLS interface ap_memory port = x
#pragma HLS pipeline II = 1
    int s = 0;
    for (int i = 0; i < 64; i++) s += x[i];
    return s;
}
"""


def test_ports_of_a_memory_limit_the_interval_of_the_top(tmp_path: Path) -> None:
    check = check_of(tmp_path, SUM)
    (found,) = check.functions
    assert (found.name, found.line, found.ii, found.target_ii, found.kind) == ("top", 2, 32, 1, "memory")
    assert "64 reads" in found.limit and found.depth == 33 and check.latency == 32
    assert not check.loops  # it is unrolled
    split = SUM.replace("#pragma HLS pipe", "#pragma HLS array_partition variable = x complete\n#pragma HLS pipe")
    assert function(tmp_path, split).ii == 1
    assert function(tmp_path, SUM.replace("II = 1", "II = 40")).ii == 40


def test_a_pragma_that_is_off_pipelines_nothing(tmp_path: Path) -> None:
    assert not check_of(tmp_path, SUM.replace("II = 1", "off")).functions


def test_a_bundle_limits_the_interval(tmp_path: Path) -> None:
    text = """
    extern "C" void top(const int* x, int* y) {
    #pragma HLS interface m_axi port = x bundle = in
    #pragma HLS interface m_axi port = y bundle = out
    #pragma HLS pipeline II = 1
        y[0] = x[5] + x[9] + x[0];
    }
    """
    found = function(tmp_path, text, flow="vitis")
    assert (found.ii, found.kind) == (3, "m_axi") and "'in'" in found.limit


STATIC = """
static float total(float v) {
#pragma HLS pipeline II = 1
    static float sum = 0;
    sum += v;
    return sum;
}
void top(const float x[64], float out[64]) {
    for (int i = 0; i < 64; i++) {
    #pragma HLS pipeline off
        out[i] = total(x[i]);
    }
}
"""


def test_what_a_static_variable_carries_limits_the_interval(tmp_path: Path) -> None:
    """A float sum in a function that is called: as a float sum in a loop (II 4 of this part at 10 ns)."""
    found = function(tmp_path, STATIC)
    assert (found.name, found.ii, found.kind) == ("total", 4, "recurrence") and "fadd" in found.limit
    assert function(tmp_path, STATIC.replace("static float sum", "float sum")).ii == 1
    integer = STATIC.replace("float", "int")
    assert function(tmp_path, integer).ii == 1


def test_a_table_that_calls_write_and_read_limits_the_interval(tmp_path: Path) -> None:
    text = """
    int top(unsigned char pixel) {
    #pragma HLS pipeline II = 1
        static int bins[256];
        return ++bins[pixel];
    }
    """
    found = function(tmp_path, text)
    assert (found.ii, found.kind) == (2, "recurrence") and "bins" in found.limit


LAYER = """
template <int N, int REUSE> void dense(const short x[N], int out[N], const short w[N * N]) {
#pragma HLS pipeline II = REUSE
    int sums[N];
#pragma HLS array_partition variable = sums complete
    for (int j = 0; j < N; j++) sums[j] = 0;
    for (int i = 0; i < N; i++) {
    #pragma HLS pipeline
        for (int j = 0; j < N; j++) sums[j] += x[i] * w[i * N + j];
    }
    for (int j = 0; j < N; j++) out[j] = sums[j];
}
void top(const short x[8], int out[8], const short w[64]) {
#pragma HLS array_partition variable = out complete
#pragma HLS array_partition variable = x complete
    short local[64];
#pragma HLS array_partition variable = local cyclic factor = BANKS
    for (int i = 0; i < 64; i++) local[i] = w[i];
    dense<8, 4>(x, out, local);
}
"""


def test_pragmas_of_the_caller_hold_in_a_called_function(tmp_path: Path) -> None:
    """And the loops in it unroll, also those with a pragma of their own (XFORM 203-505)."""
    check = check_of(tmp_path, LAYER.replace("BANKS", "16"))
    (found,) = check.functions
    assert (found.name, found.ii, found.target_ii, found.kind) == ("dense", 4, 4, "pragma")
    assert [loop.line for loop in check.loops] == [18]
    (slow,) = check_of(tmp_path, LAYER.replace("BANKS", "4")).functions
    assert (slow.ii, slow.kind) == (8, "memory")


def test_processes_of_a_region_may_be_pipelined_functions_without_loops(tmp_path: Path) -> None:
    text = """
    #include <hls_stream.h>
    static void twice(hls::stream<int>& a, hls::stream<int>& b) {
    #pragma HLS pipeline II = 1
        b.write(a.read() + a.read());
    }
    static void once(hls::stream<int>& a, hls::stream<int>& b) {
    #pragma HLS pipeline II = 1
        b.write(a.read() * 3);
    }
    void top(hls::stream<int>& a, hls::stream<int>& c) {
    #pragma HLS dataflow
        hls::stream<int> b;
        twice(a, b);
        once(b, c);
    }
    """
    found = checked(tmp_path, text)
    rows = {part.name: [(one.name, one.ii, one.kind) for one in part.check.rows] for part in found.parts if part.check}
    assert rows == {"twice": [("twice", 2, "stream")], "once": [("once", 1, "")]}
    assert [miss.loop.name for miss in found.misses] == ["twice"] and found.passes is False


VARIABLE = """
int top(const int x[64], int n) {
#pragma HLS pipeline
    int s = 0;
tail:
    for (int i = 0; i < n; i++) s += x[i];
    return s;
}
"""


def test_a_loop_with_a_variable_bound_keeps_a_function_from_being_pipelined(tmp_path: Path) -> None:
    found = checked(tmp_path, VARIABLE)
    (miss,) = found.misses
    assert miss.loop.ii is None and "'tail' is not unrolled" in miss.loop.note and "HLS 214-187" in miss.loop.note
    called = VARIABLE.replace("int top", "static int sum") + "int top(const int x[64]) { return sum(x, 6); }\n"
    assert function(tmp_path, called).ii == 3  # the bound is a constant where it is called


def test_a_function_with_a_result_by_reference_and_members(tmp_path: Path) -> None:
    """State in members counts as that in static variables; the result of a structure is written through a pointer."""
    text = """
    struct pair { float sum, last; int more[4]; };
    struct filter {
        float carried = 0;
        pair operator()(float v, bool keep) {
        #pragma HLS pipeline II = 1
            if (keep) carried += v;
            pair found = {carried, v, {1, 2, 3, 4}};
            return found;
        }
    };
    void top(const float x[8], float out[8]) {
        static filter one;
        for (int i = 0; i < 8; i++) {
        #pragma HLS pipeline off
            pair found = one(x[i], i & 1);
            out[i] = found.sum - found.last;
        }
    }
    """
    found = function(tmp_path, text)
    assert found.name == "operator()" and found.kind == "recurrence" and (found.ii or 0) >= 4


def test_the_command_reports_and_misses_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kernel.cpp"
    path.write_text(SUM)
    command = ["check", str(path), "--top", "top", "--platform", "u250"]
    assert main([*command, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    (row,) = document["parts"][0]["functions"]
    assert (row["name"], row["ii"], row["asked"], row["limited_by"]) == ("top", 32, 1, "memory")
    assert document["misses"][0]["loop"] == "top" and document["passes"] is False
    assert main(command) == 1
    text = capsys.readouterr().out
    assert "0 pipelined loops and 1 pipelined functions, 1 with a larger II" in text and "calls" in text
    path.write_text(SUM.replace("II = 1", "II = 32"))
    assert main(command) == 0
