"""Memory behind ports, tasks, blocks, and what the command writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xclbin_build import csim
from xclbin_build.cli import main

from .conftest import Simulate

COPY = """
    #include <hls_stream.h>
    static void load(const int* in, hls::stream<int>& a) {
        for (int i = 0; i < 64; i++) a.write(in[i]);
    }
    static void store(hls::stream<int>& a, int* out) {
        for (int i = 0; i < 64; i++) out[i] = a.read() + 1;
    }
    extern "C" void top(const int* in, int* out) {
    #pragma HLS interface m_axi port=in bundle=g0
    #pragma HLS interface m_axi port=out bundle=g1
    #pragma HLS dataflow
        hls::stream<int> a("a");
        load(in, a);
        store(a, out);
    }
"""
BENCH = """
    extern "C" void top(const int* in, int* out);
    int main() {
        int in[64], out[64];
        for (int i = 0; i < 64; i++) in[i] = i;
        top(in, out);
        return out[63] == 64 ? 0 : 1;
    }
"""


def test_what_the_program_is_told(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its schedule and memory, where its results go, and whether to search depths however long that takes."""
    told: list[dict[str, str]] = []
    run_bench = csim.run_bench

    def run(*args: Any, variables: dict[str, str], **named: Any) -> int:
        told.append(variables)
        return run_bench(*args, variables=variables, **named)

    monkeypatch.setattr(csim, "run_bench", run)
    assert simulate(COPY, BENCH, "--fifo-depths").status == 0
    (variables,) = told
    assert set(variables) == {"FPGA_COSIM_SCHEDULE", "FPGA_COSIM_RESULT", "FPGA_COSIM_MEMORY", "FPGA_COSIM_DEPTHS"}


def test_memory_has_a_range(simulate: Simulate, tmp_path: Path) -> None:
    files = tmp_path / "trace.json", tmp_path / "page.html"
    done = simulate(COPY, BENCH, "--trace", str(files[0]), "--html", str(files[1]))
    assert done.status == 0
    # A request of 71 states in front of the loop, 64 elements, and a response of 68 states behind the last one.
    assert 71 + 64 + 68 < done.found["cycles"] < 71 + 64 + 68 + 16
    assert done.found["cycles_min"] == done.found["cycles"] < done.found["cycles_max"]
    events = json.loads(files[0].read_text())["traceEvents"]
    assert {event["args"]["name"] for event in events if event["name"] == "thread_name"} == {"load", "store"}
    assert any(event["name"] == "waits to read a" for event in events)
    assert "<svg" in files[1].read_text() and "store" in files[1].read_text()


TASK = """
    #include <hls_task.h>
    #include <hls_stream.h>
    #include <hls_streamofblocks.h>
    typedef int block[16];
    static void add(hls::stream<int>& a, hls::stream<int>& b) { b.write(a.read() + 1); }
    static void feed(const int in[64], hls::stream<int>& a) {
        for (int i = 0; i < 64; i++) a.write(in[i]);
    }
    static void gather(hls::stream<int>& b, hls::stream_of_blocks<block>& blocks) {
        for (int g = 0; g < 4; g++) {
            hls::write_lock<block> lock(blocks);
            block& own = lock;
            for (int i = 0; i < 16; i++) own[i] = b.read();
        }
    }
    static void reverse(hls::stream_of_blocks<block>& blocks, int out[64]) {
        for (int g = 0; g < 4; g++) {
            hls::read_lock<block> lock(blocks);
            const block& own = lock;
            for (int i = 0; i < 16; i++) out[16 * g + i] = own[15 - i];
        }
    }
    void top(const int in[64], int out[64]) {
    #pragma HLS dataflow
        hls_thread_local hls::stream<int> a("a"), b("b");
        hls::stream_of_blocks<block> blocks;
        feed(in, a);
        hls_thread_local hls::task t(add, a, b);
        gather(b, blocks);
        reverse(blocks, out);
    }
"""


def test_a_task_and_blocks(simulate: Simulate) -> None:
    done = simulate(TASK, """
        #include <cstdio>
        void top(const int in[64], int out[64]);
        int main() {
            int in[64], out[64];
            for (int i = 0; i < 64; i++) in[i] = i;
            for (int call = 0; call < 2; call++) top(in, out);
            return out[0] == 16 && out[63] == 49 ? 0 : 1;
        }
    """)  # fmt: skip
    assert done.status == 0 and done.found["deadlock"] is None
    assert done.fifo("a")["elements"] == done.fifo("b")["elements"] == 128
    assert done.process("reverse")["runs"] == 2
    # reverse reads a block while gather writes the next one: less than one behind the other.
    first = done.found["calls"][0]
    assert 64 + 16 < first["latency"] < 2 * (64 + 16)


def test_sentences(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text("void top(int* x) { *x = 1; }\n")
    bench = tmp_path / "tb.cpp"
    bench.write_text("int main() { return 0; }\n")
    words = ["cosim", str(source), "--tb", str(bench)]
    assert main(words) == 2
    assert "name the top function: -k TOP." in capfd.readouterr().err
    assert main([*words, "-k", "other"]) == 2
    assert "no source defines 'other'" in capfd.readouterr().err
    assert main([*words, "-k", "top"]) == 2
    assert "the test bench has not called 'top'" in capfd.readouterr().err
