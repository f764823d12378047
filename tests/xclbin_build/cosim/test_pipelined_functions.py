"""Functions with a pragma `pipeline`: their runs start as far apart as their interval."""

from __future__ import annotations

import itertools

from .conftest import Outcome, Simulate

SQUARES = """
    #include <hls_stream.h>
    void top(hls::stream<int>& in, hls::stream<int>& out) {
    #pragma HLS pipeline II=INTERVAL
        int sum = 0;
        for (int i = 0; i < 4; i++) sum += i;
        out.write(in.read() * 3 + sum);
    }
"""
CALLS = """
    #include <hls_stream.h>
    #include <cstdio>
    void top(hls::stream<int>& in, hls::stream<int>& out);
    int main() {
        hls::stream<int> in("in"), out("out");
        int sum = 0;
        for (int call = 0; call < 10; call++) {
            in.write(call);
            top(in, out);
            sum += out.read();
        }
        std::printf("sum %d\\n", sum);
        return sum == 195 ? 0 : 3;
    }
"""


def distances(done: Outcome) -> set[int]:
    """Cycles between the starts of calls, but for the first, which waits for the bench."""
    starts = [call["start"] for call in done.found["calls"][1:]]
    return {later - earlier for earlier, later in itertools.pairwise(starts)}


def test_calls_of_the_top_start_an_interval_apart(simulate: Simulate) -> None:
    every = simulate(SQUARES.replace("INTERVAL", "1"), CALLS)
    assert every.status == 0 and "sum 195" in every.bench and distances(every) == {1}
    fifth = simulate(SQUARES.replace("INTERVAL", "5"), CALLS)
    assert distances(fifth) == {5} and fifth.found["cycles"] - every.found["cycles"] == 9 * 4
    plain = simulate(SQUARES.replace("#pragma HLS pipeline II=INTERVAL", ""), CALLS)
    assert min(distances(plain)) > 1


REGION = """
    #include <hls_stream.h>
    static void first(hls::stream<int>& in, hls::stream<int>& a) {
    #pragma HLS pipeline II=3
        a.write(in.read() + 1);
    }
    static void second(hls::stream<int>& a, hls::stream<int>& out) {
    #pragma HLS pipeline II=7
        out.write(a.read() * 3);
    }
    void top(hls::stream<int>& in, hls::stream<int>& out) {
    #pragma HLS dataflow
        hls::stream<int> a("a");
        first(in, a);
        second(a, out);
    }
"""


def test_runs_of_a_process_start_an_interval_apart(simulate: Simulate) -> None:
    done = simulate(REGION, CALLS.replace("195", "165"))
    assert done.status == 0
    spans = done.process("second")["spans"]
    assert done.process("second")["runs"] == 10
    assert {later[0] - earlier[0] for earlier, later in itertools.pairwise(spans[2:])} == {7}
    assert all(begin <= end for begin, end in spans)
