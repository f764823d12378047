"""Dataflow regions of plain kernels on the emulator: the rewritten text, and what happens when processes wait."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.xclbin_build.test_amd_headers import run
from xclbin_build.dataflow import rewritten

N = 64

PRODUCER = """
#include <hls_stream.h>
static void split(const int* in, hls::stream<int>& a, hls::stream<int>& b, int n) {
    for (int i = 0; i < n; i++) { a.write(in[i]); b.write(in[i]); }
}
static void sums(hls::stream<int>& a, hls::stream<int>& o, int n) {
    for (int g = 0; g < n / 16; g++) {
        int values[16], sum = 0;
        for (int i = 0; i < 16; i++) { values[i] = a.read(); sum += values[i]; }
        for (int i = 0; i < 16; i++) o.write(values[i] + sum);
    }
}
static void join(hls::stream<int>& o, hls::stream<int>& b, int* out, int n) {
    for (int i = 0; i < n; i++) out[i] = o.read() + b.read();
}
extern "C" void k(const int* in, int* out, int n) {
#pragma HLS dataflow
    hls::stream<int> a("a"), b("b"), o("o");
DEPTH
    split(in, a, b, n);
    sums(a, o, n);
    join(o, b, out, n);
}
"""


def numbers() -> np.ndarray:
    return np.arange(1, N + 1, dtype=np.int32)


def poison() -> np.ndarray:
    return np.full(N, -7, np.int32)


def test_a_deadlock_is_named_with_its_processes_and_fifos(tmp_path: Path) -> None:
    """`b` is full before `sums` has what it needs for its first result."""
    state, error = run(tmp_path, PRODUCER.replace("DEPTH", ""), numbers(), poison(), N)
    assert state == "ERT_CMD_STATE_ERROR"
    for words in (
        "split waits to write 'b', which is full (depth 2",
        "sums waits to read 'a'",
        "join waits to read 'o'",
    ):
        assert words in error


def test_a_depth_that_is_large_enough_ends_the_deadlock(tmp_path: Path) -> None:
    out = poison()
    code = PRODUCER.replace("DEPTH", "#pragma HLS STREAM variable = b depth = 16")
    assert run(tmp_path, code, numbers(), out, N) == ("ERT_CMD_STATE_COMPLETED", "")
    groups = numbers().reshape(-1, 16)
    np.testing.assert_array_equal(out.reshape(-1, 16), 2 * groups + groups.sum(1, keepdims=True))


KERNELS = {
    "feedback": """
static void there(const int* in, int* out, hls::stream<int>& go, hls::stream<int>& back, int n) {
    for (int i = 0; i < n; i++) { go.write(in[i]); out[i] = back.read(); }
}
static void twice(hls::stream<int>& go, hls::stream<int>& back, int n) {
    for (int i = 0; i < n; i++) back.write(go.read() * 2);
}
extern "C" void k(const int* in, int* out, int n) {
#pragma HLS DATAFLOW
    hls::stream<int> go, back;
    there(in, out, go, back, n);
    twice(go, back, n);
}""",
    "an array between processes": """
static void feed(const int* in, hls::stream<int>& s, int n) { for (int i = 0; i < n; i++) s.write(in[i]); }
static void fill(hls::stream<int>& s, int table[64], int n) { for (int i = 0; i < n; i++) table[i] = s.read(); }
static void drain(int table[64], int* out, int n) { for (int i = 0; i < n; i++) out[i] = 2 * table[n - 1 - i]; }
static void turn(int* out, int n) {
    for (int i = 0; i < n / 2; i++) { int t = out[i]; out[i] = out[n - 1 - i]; out[n - 1 - i] = t; }
}
static void region(const int* in, int* out, int n) {
#pragma HLS dataflow
    hls::stream<int> s("s");
    int table[64];
    feed(in, s, n);
    fill(s, table, n);
    drain(table, out, n);
}
extern "C" void k(const int* in, int* out, int n) { region(in, out, n); turn(out, n); }""",
    "processes of an unrolled loop": """
template <int ADDED> static void add(hls::stream<int>& a, hls::stream<int>& b, int n) {
    for (int i = 0; i < n; i++) b.write(a.read() + ADDED);
}
static void feed(const int* in, hls::stream<int>& s, int n) { for (int i = 0; i < n; i++) s.write(in[i]); }
extern "C" void k(const int* in, int* out, int n) {
#pragma HLS dataflow
    hls::stream<int> s[5], last;
    feed(in, s[0], n);
    for (int i = 0; i < 4; i++) {
#pragma HLS UNROLL
        add<0>(s[i], s[i + 1], n);
    }
    add<0>(s[4], last, n);
    for (int i = 0; i < n; i++) out[i] = 2 * last.read();
}""",
    "tasks": """
#include <hls_task.h>
static void add_one(hls::stream<int>& a, hls::stream<int>& b) { b.write(a.read() + 1); }
static void other(hls::stream<int>& b, hls::stream<int>& c) { c.write(2 * b.read() - 2); }
static void feed(const int* in, hls::stream<int>& a, int n) { for (int i = 0; i < n; i++) a.write(in[i]); }
static void store(hls::stream<int>& c, int* out, int n) { for (int i = 0; i < n; i++) out[i] = c.read(); }
extern "C" void k(const int* in, int* out, int n) {
#pragma HLS dataflow
    hls_thread_local hls::stream<int> a("a"), b("b"), c("c");
    feed(in, a, n);
    hls_thread_local hls::task first(add_one, a, b);
    hls_thread_local hls::task second(other, b, c);
    store(c, out, n);
}""",
    "reads that do not block": """
static void feed(const int* in, hls::stream<int>& s, hls::stream<bool>& end, int n) {
    for (int i = 0; i < n; i++) s.write(in[i]);
    end.write(true);
}
static void take(hls::stream<int>& s, hls::stream<bool>& end, int* out) {
    bool over = false, last;
    for (int at = 0; !(over && s.empty());) {
        int x;
        if (s.read_nb(x)) out[at++] = 2 * x;
        if (!over && end.read_nb(last)) over = last;
    }
}
extern "C" void k(const int* in, int* out, int n) {
#pragma HLS dataflow
    hls::stream<int, 4> s("s");
    hls::stream<bool> end("end");
    feed(in, s, end, n);
    take(s, end, out);
}""",
    "a region in each iteration of a loop": """
static void feed(const int* in, hls::stream<int>& s) { for (int i = 0; i < 8; i++) s.write(in[i]); }
static void store(hls::stream<int>& s, int* out) { for (int i = 0; i < 8; i++) out[i] = 2 * s.read(); }
extern "C" void k(const int* in, int* out, int n) {
    for (int i = 0; i < n / 8; i++) {
#pragma HLS dataflow
        hls::stream<int> s;
        feed(in + 8 * i, s);
        store(s, out + 8 * i);
    }
}""",
    "streams by a name of their own, and in a structure": """
typedef hls::stream<int, 4> numbers;
struct pair { numbers one, two; };
static void feed(const int* in, pair& p, int n) {
    for (int i = 0; i < n; i++) { p.one.write(in[i]); p.two.write(in[i]); }
}
static void add(pair& p, numbers& sums, int n) {
    for (int i = 0; i < n; i++) sums.write(p.one.read() + p.two.read());
}
static void store(numbers& sums, int* out, int n) { for (int i = 0; i < n; i++) out[i] = sums.read(); }
extern "C" void k(const int* in, int* out, int n) {
#pragma HLS dataflow
    pair p;
    numbers sums("sums");
    feed(in, p, n);
    add(p, sums, n);
    store(sums, out, n);
}""",
    "blocks that two processes use in turn": """
#include <hls_streamofblocks.h>
typedef int block[8];
static void fill(const int* in, hls::stream_of_blocks<block>& s, int n) {
    for (int b = 0; b < n / 8; b++) {
        hls::write_lock<block> lock(s);
        block& place = lock;
        for (int i = 0; i < 8; i++) place[i] = in[8 * b + i];
    }
}
static void drain(hls::stream_of_blocks<block>& s, int* out, int n) {
    for (int b = 0; b < n / 8; b++) {
        hls::read_lock<block> lock(s);
        block& place = lock;
        for (int i = 0; i < 8; i++) out[8 * b + i] = 2 * place[i];
    }
}
extern "C" void k(const int* in, int* out, int n) {
#pragma HLS dataflow
    hls::stream_of_blocks<block> s;
    fill(in, s, n);
    drain(s, out, n);
}""",
    "functions one after the other, without a region": """
extern "C" void k(const int* in, int* out, int n) {
    static hls::stream<int> s;
    for (int i = 0; i < n; i++) s << in[i];
    for (int i = 0; i < n; i++) out[i] = 2 * s.read();
}""",
    "names its processes itself, with an array": """
#include "sim/dataflow.hpp"
static void feed(const int* in, hls::stream<int>& s, int n) { for (int i = 0; i < n; i++) s.write(in[i]); }
static void fill(hls::stream<int>& s, int table[64], int n) { for (int i = 0; i < n; i++) table[i] = s.read(); }
static void drain(int table[64], int* out, int n) { for (int i = 0; i < n; i++) out[i] = 2 * table[i]; }
extern "C" void k(const int* in, int* out, int n) {
#pragma HLS dataflow
    hls::stream<int> s("s");
    int table[64];
    DATAFLOW_BEGIN(k);
    PROCESS(k, feed(in, s, n));
    PROCESS(k, fill(s, table, n));
    PROCESS(k, drain(table, out, n));
}""",
}


@pytest.mark.parametrize("name", KERNELS)
def test_processes_run_side_by_side(tmp_path: Path, name: str) -> None:
    out = poison()
    code = KERNELS[name] if "sim/dataflow.hpp" in KERNELS[name] else "#include <hls_stream.h>\n" + KERNELS[name]
    assert run(tmp_path, code, numbers(), out, N) == ("ERT_CMD_STATE_COMPLETED", "")
    np.testing.assert_array_equal(out, 2 * numbers())


def test_a_region_in_a_header_is_one_too(tmp_path: Path) -> None:
    body, _, top = PRODUCER.replace("DEPTH", "").partition('extern "C"')
    (tmp_path / "region.hpp").write_text("#pragma once\n" + body + "static" + top.replace(" k(", " region("))
    code = '#include "region.hpp"\nextern "C" void k(const int* in, int* out, int n) { region(in, out, n); }\n'
    state, error = run(tmp_path, code, numbers(), poison(), N)
    assert state == "ERT_CMD_STATE_ERROR" and "region" in error and "split waits to write 'b'" in error


def test_two_writers_of_a_stream_are_named(tmp_path: Path) -> None:
    code = """#include <hls_stream.h>
static void feed(const int* in, hls::stream<int>& s, int n) { for (int i = 0; i < n; i++) s.write(in[i]); }
static void more(const int* in, hls::stream<int>& s, int n) { for (int i = 0; i < n; i++) s.write(in[i]); }
static void store(hls::stream<int>& s, int* out, int n) { for (int i = 0; i < n; i++) out[i] = s.read(); }
extern "C" void k(const int* in, int* out, int n) {
#pragma HLS dataflow
    hls::stream<int> s("s");
    feed(in, s, n);
    more(in, s, n);
    store(s, out, n);
}"""
    state, error = run(tmp_path, code, numbers(), poison(), N)
    assert state == "ERT_CMD_STATE_ERROR" and "'s' is written by two processes, 'feed' and 'more'" in error


def test_elements_that_nobody_reads_are_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = """#include <hls_stream.h>
extern "C" void k(const int* in, int* out, int n) {
    hls::stream<int> rest("rest");
    for (int i = 0; i < n; i++) rest.write(in[i]);
    for (int i = 0; i < n / 2; i++) out[i] = rest.read();
}"""
    assert run(tmp_path, code, numbers(), poison(), N)[0] == "ERT_CMD_STATE_COMPLETED"
    assert "'rest' ends with 32 element(s) in it that nobody has read" in capfd.readouterr().err


def test_what_is_no_region_is_left_alone() -> None:
    for text in ("void f() { g(); }", "#pragma HLS pipeline\nvoid f() { g(); }", "// #pragma HLS dataflow\nint x;"):
        assert rewritten(text) == text


def test_what_declares_nothing_shared_is_left_alone() -> None:
    """A type, a value in brackets, a cast, a return out of a block: the processes do not wait for each other."""
    text = rewritten("""void top(const int* in, int* out, int n) {
#pragma HLS dataflow
  struct pair { int one; };
  int size(n), twice{2 * n};
  (void)n;
  hls::stream<int> s{"s"};
  if (n < 0) { return; }
  load(in, s, size);
  store(s, out, twice, n);
}""")
    lines = text.splitlines()
    assert lines[2:5] == ["  struct pair { int one; };", "  int size(n), twice{2 * n};", "  (void)n;"]
    assert lines[5].endswith('::sim::declare(fpga_region_1, s, 0, "s");')
    assert "{ fpga_region_2.join(); fpga_region_1.join(); return; }" in lines[6]
    assert "array_name" not in text


def test_lines_keep_their_numbers() -> None:
    for code in KERNELS.values():
        assert rewritten(code).count("\n") == code.count("\n")


def test_each_kind_of_statement_of_a_region() -> None:
    text = rewritten("""void top(const int* in, int* out, int n) {
#pragma HLS DATAFLOW
  hls::stream<ap_uint<32> > s[N + 1];
#pragma HLS STREAM variable=s depth=8
  int buffer[64]; const int m = n * 2;
  ns::load<N, (3 > 2)>(in, s[0], m);
  again: for (int k = 0; k < m; k++) buffer[k] = s[N].read();
  store(buffer, out);
  if (n > 3) { f(in); } else g(out);
  return;
}""")
    lines = text.splitlines()
    assert lines[0].endswith('::sim::region fpga_region_1("top");')
    assert lines[2].endswith('::sim::declare(fpga_region_1, s, 8, "s");')
    assert lines[4] == "  int buffer[64]; const int m = n * 2;"
    assert lines[5].startswith('  fpga_region_1.run("ns::load", [&] { ns::load<N, (3 > 2)>(in, s[0], m); }')
    assert lines[6].startswith("  again: fpga_region_1.run") and '::sim::array_name(buffer, "buffer")' in lines[6]
    assert lines[7].startswith('  fpga_region_1.run("store", [&] { store(buffer, out); }, {::sim::array_name(buffer')
    assert 'else fpga_region_1.run("g", [&] { g(out); });' in lines[8] and "fpga_region_2.join(); }" in lines[8]
    assert lines[9] == "  { fpga_region_1.join(); return; }"
    assert lines[10] == "fpga_region_1.join(); }"
