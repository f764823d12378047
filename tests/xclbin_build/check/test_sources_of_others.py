"""Designs in somebody else's checkout: which there are, and what becomes of them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks import hls_sources

SCRIPT = """
set name scale
# add_files other.cpp
open_project p
add_files src/$name.cpp -cflags "-DFACTOR=3 -I headers"
add_files -tb bench.cpp
set_top $name
"""
SCALE = """
#include "names.hpp"
void scale(const int in[8], int out[8]) {
    for (int i = 0; i < 8; i++) {
#pragma HLS pipeline II = 1
        out[i] = FACTOR * in[i];
    }
}
"""
KERNEL = """
#include <hls_stream.h>
extern "C" {
void good(int* out) {
#pragma HLS interface m_axi port = out
    *out = 1;
}
// void not_one(int* out)
static void nor_this(int* out) { *out = 2; }
void bad(hls::stream<int>& in, int* out) { *out = in.read(); }
}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        "scripted/run.tcl": SCRIPT, "scripted/src/scale.cpp": SCALE, "scripted/headers/names.hpp": "",
        "scripted/bench.cpp": "int main() {}", "kernels/k.cpp": KERNEL, "kernels/host.cpp": "int main() {}",
        "kernels/run.tcl": "puts nothing",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_designs_of_scripts_and_kernels(checkout: Path) -> None:
    scale, good, bad = hls_sources.designs(checkout)
    folder = checkout / "scripted"
    assert (scale.top, scale.sources, scale.kernel) == ("scale", (folder / "src/scale.cpp",), False)
    assert {f"-I{folder / 'headers'}", "-DFACTOR=3"} <= set(scale.options)
    assert [(d.top, d.kernel) for d in (good, bad)] == [("good", True), ("bad", True)]


def test_what_becomes_of_them(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hls_sources.main([str(checkout), "--build", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "checked: 3 of 3" in told
    assert "built for the emulator: 1 of 2" in told
    assert "kernels/k.cpp bad: error: the stream 'bad_1.in' is connected to nothing" in told


def test_a_source_that_is_refused_has_its_reason(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "scripted/src/scale.cpp").write_text("#include <nowhere.h>\n" + SCALE)
    hls_sources.main([str(checkout), "--each", "1"])
    told = capsys.readouterr().out
    assert "scripted/src/scale.cpp scale: error" in told and "nowhere.h" in told and "checked: 1 of 2" in told


def test_what_is_not_done_in_time_leaves_nothing_running(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool, left = checkout / "tool", checkout / "pid"
    tool.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {left}\nwait\n")
    tool.chmod(0o755)
    monkeypatch.setattr(hls_sources, "_TOOL", tool)
    design = next(hls_sources.designs(checkout))
    assert hls_sources.checked(design, 2.0) == "not done after 2 s"
    status = Path("/proc", left.read_text().strip(), "stat")
    for _ in range(100):
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":  # which init takes away
            return
        time.sleep(0.05)
    pytest.fail("what the tool had started goes on")
