"""Designs that ask for the state of a FIFO: what they do depends on time, as in hardware."""

from __future__ import annotations

from .conftest import Simulate

DROPPING = """
    #include <hls_stream.h>
    static void feed(const int in[64], hls::stream<int>& a, int& dropped) {
        int lost = 0;
        for (int i = 0; i < 64; i++) {
    #pragma HLS pipeline II=1
            if (!a.write_nb(in[i])) lost++;
        }
        dropped = lost;
        a.write(-1);
    }
    static void drain(hls::stream<int>& a, int& sum) {
        int total = 0;
        while (true) {
    #pragma HLS pipeline II=4
            const int value = a.read();
            if (value < 0) break;
            total += value;
        }
        sum = total;
    }
    void top(const int in[64], int& dropped, int& sum) {
    #pragma HLS dataflow
        hls::stream<int> a("a");
    #pragma HLS stream variable=a depth=DEPTH
        feed(in, a, dropped);
        drain(a, sum);
    }
"""
BENCH = """
    #include <cstdio>
    void top(const int in[64], int& dropped, int& sum);
    int main() {
        int in[64], dropped = 0, sum = 0;
        for (int i = 0; i < 64; i++) in[i] = i;
        top(in, dropped, sum);
        std::printf("%d %d\\n", dropped, sum);
    }
"""


def test_writes_that_fail_as_in_hardware(simulate: Simulate) -> None:
    # Elements 0, 1, 2 and then each fourth: 2 + 4 n, as a place is free in the cycle behind a read.
    done = simulate(DROPPING.replace("DEPTH", "2"), BENCH)
    kept = [0, 1, *range(2, 64, 4)]
    assert done.bench.split() == [str(64 - len(kept)), str(sum(kept))]
    assert any("states of FIFOs" in note for note in done.found["notes"])


def test_a_deep_fifo_drops_nothing(simulate: Simulate) -> None:
    done = simulate(DROPPING.replace("DEPTH", "64"), BENCH)
    assert done.bench.split() == ["0", str(sum(range(64)))]


ARBITER = """
    #include <hls_stream.h>
    static void fast(const int in[16], hls::stream<int>& a) {
        for (int i = 0; i < 16; i++) {
    #pragma HLS pipeline II=2
            a.write(in[i]);
        }
    }
    static void slow(const int in[16], hls::stream<int>& b) {
        for (int i = 0; i < 16; i++) {
    #pragma HLS pipeline II=8
            b.write(100 + in[i]);
        }
    }
    static void merge(hls::stream<int>& a, hls::stream<int>& b, int out[32]) {
        int n = 0;
        while (n < 32) {
    #pragma HLS pipeline II=1
            int value;
            if (a.read_nb(value) || b.read_nb(value)) out[n++] = value;
        }
    }
    void top(const int in[16], const int more[16], int out[32]) {
    #pragma HLS dataflow
        hls::stream<int> a("a"), b("b");
        fast(in, a);
        slow(more, b);
        merge(a, b, out);
    }
"""


def test_arbitration_by_arrival(simulate: Simulate) -> None:
    # Of b one element comes for four of a.
    done = simulate(ARBITER, """
        #include <cstdio>
        void top(const int in[16], const int more[16], int out[32]);
        int main() {
            int in[16], out[32];
            for (int i = 0; i < 16; i++) in[i] = i;
            top(in, in, out);
            for (int value : out) std::printf("%d ", value);
        }
    """)  # fmt: skip
    order = [int(word) for word in done.bench.split()]
    assert order[:10] == [0, 100, 1, 2, 3, 4, 101, 5, 6, 7]
    assert order[-12:] == list(range(104, 116))
