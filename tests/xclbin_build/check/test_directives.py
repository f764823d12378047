"""Directives of Tcl scripts and configuration files have the effect of pragmas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xclbin_build.cli import main
from xclbin_build.hls.directives import of_config, of_tcl
from xclbin_build.hls_project import load

KERNEL = """
static int product(int a, int b) {
    return a * b;
}
void top(const int x[64], int out[64], int table[64]) {
    int copy[64];
fill:
    for (int i = 0; i < 64; i++) copy[i] = table[i];
rows:
    for (int i = 0; i < 16; i++) {
        int sum = 0;
        for (int j = 0; j < 4; j++) {
            sum += product(copy[4 * i + j], N);
        }
        out[i] = sum;
    }
}
"""
TCL = """
open_project demo
set_top top
add_files kernel.cpp -cflags "-DN=3"
open_solution first
set_part {xczu3eg-sbva484-1-e}
create_clock -period 10 -name default
set_directive_pipeline -II 9 "top/rows"
open_solution second
source directives.tcl
csynth_design
"""
DIRECTIVES = """
set_directive_pipeline -II 1 "top/rows"
set_directive_pipeline -off "top/fill"
"""


def rows(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str) -> dict[str, dict[str, Any]]:
    (tmp_path / "kernel.cpp").write_text(KERNEL)
    (tmp_path / name).write_text(text)
    main(["check", str(tmp_path / name), "--json"])
    found = json.loads(capsys.readouterr().out)
    return {row["name"]: row for part in found["parts"] for row in (*part["loops"], *part["functions"])}


def test_a_script_sets_part_clock_and_pipelines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "directives.tcl").write_text(DIRECTIVES)
    found = rows(tmp_path, capsys, "run_hls.tcl", TCL)
    assert not found["fill"]["pipelined"]
    assert (found["rows"]["asked"], found["rows"]["ii"]) == (1, 1)  # Vitis HLS divides the array of its own accord
    split = 'set_directive_array_partition -type block -factor 2 "top" copy\n'
    (tmp_path / "directives.tcl").write_text(DIRECTIVES + split)
    found = rows(tmp_path, capsys, "run_hls.tcl", TCL)
    assert (found["rows"]["ii"], found["rows"]["limited_by"]) == (2, "memory")
    component = load(tmp_path / "run_hls.tcl")[0]
    assert (component.part, component.clock_ns) == ("xczu3eg-sbva484-1-e", 10.0)


CONFIG = """
part=xczu3eg-sbva484-1-e
[hls]
clock=100MHz
syn.file=kernel.cpp
syn.top=top
syn.cflags=-DN=3
syn.directive.pipeline=top/rows II=1 rewind
syn.directive.array_partition=top copy type=block factor=2 dim=1
"""


def test_a_configuration_sets_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(tmp_path, capsys, "hls_config.cfg", CONFIG)
    assert (found["rows"]["asked"], found["rows"]["ii"]) == (1, 2) and found["fill"]["pipelined"]
    fast = CONFIG.replace("syn.directive.array", "#")
    assert rows(tmp_path, capsys, "hls_config.cfg", fast)["rows"]["ii"] == 1
    assert load(tmp_path / "hls_config.cfg")[0].clock_ns == 10.0


def test_functions_unrolling_and_interfaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = CONFIG.replace("pipeline=top/rows II=1 rewind", "pipeline=top II=40")
    found = rows(tmp_path, capsys, "hls_config.cfg", config)
    assert found.keys() == {"top"} and (found["top"]["asked"], found["top"]["ii"]) == (40, 40)
    config = CONFIG.replace("rows II=1 rewind", "fill II=1\nsyn.directive.unroll=top/fill factor=8")
    assert rows(tmp_path, capsys, "hls_config.cfg", config)["fill"]["ii"] == 4
    config += "syn.directive.interface=top table mode=ap_memory storage_type=ram_1p\n"
    assert rows(tmp_path, capsys, "hls_config.cfg", config)["fill"]["ii"] == 8


def test_a_location_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kernel.cpp").write_text(KERNEL)
    for location, words in (("top/columns", "no loop 'columns' in a function 'top'"), ("other", "no function 'other'")):
        (tmp_path / "hls_config.cfg").write_text(CONFIG.replace("top/rows", location))
        assert main(["check", str(tmp_path / "hls_config.cfg")])
        assert words in capsys.readouterr().err
    assert main(["check", str(tmp_path / "hls_config.cfg"), str(tmp_path / "kernel.cpp")])
    assert "alone" in capsys.readouterr().err


def test_directives_are_pragmas() -> None:
    made = of_tcl("set_directive_array_partition", ["-type", "complete", "-dim", "1", "ns::dpc<4>", "window"])
    assert made is not None and (made.function, made.loop) == ("dpc", "")
    assert made.options == "type=complete dim=1 variable=window"
    made = of_config("syn.directive.unroll", "skip_exit_check factor=4 dut/L1")
    assert made is not None and (made.function, made.loop, made.options) == ("dut", "L1", "skip_exit_check factor=4")
    made = of_config("syn.directive.interface", "mode=ap_hs interrupt=16 register dut input")
    assert made is not None and made.options == "mode=ap_hs interrupt=16 register port=input"
    made = of_tcl("set_directive_pipeline", ["-off", "kernel/Row"])
    assert made is not None and made.pragma("", 0).words == {"off"}
    assert of_tcl("set_directive_top", ["-name", "a", "a"]) is None and of_config("syn.directive.new", "a") is None
