"""Cycles that can be worked out by hand, and deadlocks."""

from __future__ import annotations

from .conftest import Simulate

HEAD = "#include <hls_stream.h>\n"
BENCH = """
    #include <cstdio>
    void top(const int in[64], int out[64]);
    int main() {
        int in[64], out[64] = {};
        for (int call = 0; call < CALLS; call++) {
            for (int i = 0; i < 64; i++) in[i] = i + call;
            top(in, out);
        }
        std::printf("last %d\\n", out[63]);
        return out[63] == EXPECTED ? 0 : 3;
    }
"""
FEED = """
    static void feed(const int in[64], hls::stream<int>& a) {
        for (int i = 0; i < 64; i++) {
    #pragma HLS pipeline II=1
            a.write(in[i]);
        }
    }
"""
DRAIN = """
    static void drain(hls::stream<int>& a, int out[64]) {
        for (int i = 0; i < 64; i++) {
    #pragma HLS pipeline II=DRAIN_II
            out[i] = a.read();
        }
    }
"""


def bench(expected: int, calls: int = 1) -> str:
    return BENCH.replace("CALLS", str(calls)).replace("EXPECTED", str(expected))


REGION = """
    void top(const int in[64], int out[64]) {
    #pragma HLS dataflow
        hls::stream<int> a("a");
        feed(in, a);
        drain(a, out);
    }
"""


def test_two_pipelines_overlap(simulate: Simulate) -> None:
    # feed: state 1, then writes in cycles 2 to 65 (a load before each). drain reads from cycle 3 on, one a cycle: 66 is
    # the last, and its iteration has two stages.
    done = simulate(HEAD + FEED + DRAIN + REGION, bench(63), "-D", "DRAIN_II=1")
    assert done.status == 0 and "last 63" in done.bench
    assert done.found["cycles"] == 68
    assert done.found["cycles_min"] == done.found["cycles_max"] == 68
    assert done.process("drain")["waits"] == [{"for": "a", "to": "read", "cycles": 2}]
    assert done.fifo("a")["occupancy"] == 2  # an element is read in the cycle in which the next is written


def test_a_slow_reader_stalls_its_writer(simulate: Simulate) -> None:
    # drain reads in 3, 6, ..., 192. The writer has two places ahead of it.
    done = simulate(HEAD + FEED + DRAIN + REGION, bench(63), "-D", "DRAIN_II=3")
    assert done.found["cycles"] == 3 + 63 * 3 + 2
    assert done.fifo("a")["occupancy"] == 2 and done.fifo("a")["smallest_depth"] == 1
    assert done.process("feed")["waits"][0]["for"] == "a"
    assert 61 * 2 <= done.process("feed")["waits"][0]["cycles"] <= 63 * 2


def test_a_deeper_stream_does_not_help_a_slow_reader(simulate: Simulate) -> None:
    region = REGION.replace('a("a");', 'a("a");\n    #pragma HLS stream variable=a depth=64')
    done = simulate(HEAD + FEED + DRAIN + region, bench(63), "-D", "DRAIN_II=3")
    assert done.found["cycles"] == done.found["cycles_any_depth"] == 3 + 63 * 3 + 2
    assert done.fifo("a")["occupancy"] > 40 and done.fifo("a")["smallest_depth"] == 1


def test_arrays_are_two_blocks(simulate: Simulate) -> None:
    # fill of call n + 2 waits for drain of call n. Each process takes 1 + 64 + 2 cycles, and a cycle between runs.
    kernel = """
        static void fill(const int in[64], int t[64]) {
            for (int i = 0; i < 64; i++) {
        #pragma HLS pipeline II=1
                t[i] = in[i];
            }
        }
        static void empty(const int t[64], int out[64]) {
            for (int i = 0; i < 64; i++) {
        #pragma HLS pipeline II=1
                out[i] = 2 * t[i];
            }
        }
        void top(const int in[64], int out[64]) {
        #pragma HLS dataflow
            int t[64];
            fill(in, t);
            empty(t, out);
        }
    """
    one = simulate(kernel, bench(126))
    each = one.process("fill")["busy"]
    assert each == one.process("empty")["busy"] == 67
    assert one.found["cycles"] == 2 * each
    four = simulate(kernel, bench(132, calls=4))
    assert four.found["interval"] == each + 1
    assert four.found["cycles"] == 5 * each + 3


def test_a_depth_that_resolves_a_deadlock(simulate: Simulate) -> None:
    kernel = (
        HEAD
        + """
        static void split(const int in[64], hls::stream<int>& a, hls::stream<int>& b) {
            for (int i = 0; i < 64; i++) {
                a.write(in[i]);
                b.write(in[i]);
            }
        }
        static void sum(hls::stream<int>& a, hls::stream<int>& s) {
            int total = 0;
            for (int i = 0; i < 64; i++) total += a.read();
            s.write(total);
        }
        static void join(hls::stream<int>& s, hls::stream<int>& b, int out[64]) {
            const int total = s.read();
            for (int i = 0; i < 64; i++) out[i] = total - b.read();
        }
        void top(const int in[64], int out[64]) {
        #pragma HLS dataflow
            hls::stream<int> a("a"), b("b"), s("s");
            split(in, a, b);
            sum(a, s);
            join(s, b, out);
        }
    """
    )
    done = simulate(kernel, bench(2016 - 63))
    assert done.status == 1 and done.found["cycles"] is None
    deadlock = done.found["deadlock"]
    waits = {(one["process"], one["waits_to"], one["fifo"]) for one in deadlock["cycle"]}
    assert waits == {("split", "write", "b"), ("sum", "read", "a"), ("join", "read", "s")}
    assert all(one["file"].endswith("kernel.cpp") and one["line"] for one in deadlock["cycle"])
    # b holds all 64 elements, or those but the one that is read while the last is written.
    assert deadlock["resolved_by"] == {"b": 64}
    deeper = kernel.replace('s("s");', 's("s");\n#pragma HLS stream variable=b depth=64')
    resolved = simulate(deeper, bench(2016 - 63))
    assert resolved.status == 0 and resolved.found["cycles"] == deadlock["cycles_then"]
    assert simulate(deeper.replace("depth=64", "depth=63"), bench(2016 - 63)).found["deadlock"]


def test_a_deadlock_that_no_depth_resolves(simulate: Simulate) -> None:
    kernel = (
        HEAD
        + """
        static void ping(const int in[64], hls::stream<int>& a, hls::stream<int>& b) {
            for (int i = 0; i < 64; i++) a.write(in[i] + b.read());
        }
        static void pong(hls::stream<int>& a, hls::stream<int>& b, int out[64]) {
            for (int i = 0; i < 64; i++) {
                out[i] = a.read();
                b.write(out[i]);
            }
        }
        void top(const int in[64], int out[64]) {
        #pragma HLS dataflow
            hls::stream<int> a("a"), b("b");
            ping(in, a, b);
            pong(a, b, out);
        }
    """
    )
    done = simulate(kernel, bench(0))
    assert done.status == 1
    assert done.found["deadlock"]["resolved_by"] is None
    assert {one["process"] for one in done.found["deadlock"]["cycle"]} == {"ping", "pong"}


def test_feedback_keeps_the_order_of_the_source(simulate: Simulate) -> None:
    kernel = (
        HEAD
        + """
        static void ask(const int in[64], int out[64], hls::stream<int>& to, hls::stream<int>& from) {
            for (int i = 0; i < 64; i++) {
                to.write(in[i]);
                out[i] = from.read();
            }
        }
        static void answer(hls::stream<int>& to, hls::stream<int>& from) {
            for (int i = 0; i < 64; i++) from.write(2 * to.read());
        }
        void top(const int in[64], int out[64]) {
        #pragma HLS dataflow
            hls::stream<int> to("to"), from("from");
            ask(in, out, to, from);
            answer(to, from);
        }
    """
    )
    done = simulate(kernel, bench(126))
    assert done.status == 0 and done.found["deadlock"] is None
    assert done.found["cycles"] > 2 * 64


def test_a_failing_bench_gives_its_status(simulate: Simulate) -> None:
    assert simulate(HEAD + FEED + DRAIN + REGION, bench(1), "-D", "DRAIN_II=1").status == 3
