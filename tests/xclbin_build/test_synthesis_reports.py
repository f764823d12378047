"""Reports of Vitis: read, held against contracts, shown, kept in the manifest, and used by the cost model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fpga_dynamo.codegen.engine import cycles
from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.target import EngineTarget, intervals_of
from fpga_dynamo.ir.target import Target
from tests.xclbin_build import fake_vitis
from tests.xclbin_build.fake_tools import LOOP, REPORT
from xclbin_build import ToolchainError, qor, read
from xclbin_build.build import load_design
from xclbin_build.check.run import Checked, CheckedPart
from xclbin_build.cli import main
from xclbin_build.flow import csynth, implementation
from xclbin_build.manifest import decode, describe, encode
from xclbin_build.synthesis import against

KERNEL = """extern "C" void vadd(const float* a, float* out, int count) {
#pragma HLS INTERFACE m_axi port=a bundle=gmem0
#pragma HLS INTERFACE m_axi port=out bundle=gmem1
copy:
    for (int i = 0; i < count; i++) {
#pragma HLS pipeline II=1
        out[i] = a[i];
    }
}
"""
TIMING = """
| Design Timing Summary
    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints      WHS(ns)
    -------      -------  ---------------------  -------------------      -------
     {slack}       0.000                      {failing}              2000000        0.010
"""
UTILIZATION = """
+----------------------------+--------+-------+------------+-----------+-------+
|          Site Type         |  Used  | Fixed | Prohibited | Available | Util% |
+----------------------------+--------+-------+------------+-----------+-------+
| CLB LUTs*                  | 117120 |     0 |          0 |    234240 | 50.00 |
| CLB Registers              | 150000 |     0 |          0 |    468480 | 32.02 |
| Block RAM Tile             |   99.5 |     0 |          0 |       144 | 69.10 |
| URAM                       |     46 |     0 |          0 |        64 | 71.88 |
| DSPs                       |    986 |     0 |          0 |      1248 | 79.01 |
"""
KERNELS = """
| Name         | LUT              | LUTAsMem       | REG              | BRAM         | URAM      | DSP         |
|--------------|------------------|----------------|------------------|--------------|-----------|-------------|
| Platform     | 107412 [  9.00%] |   0 [  0.00%]  | 144446 [  5.00%] |  229 [ 9.0%] | 0 [ 0.0%] |  10 [ 0.0%] |
|    vadd (1)  |   2201 [  0.20%] | 510 [  0.08%]  |   3311 [  0.15%] |  2.5 [ 0.1%] | 0 [ 0.0%] |   4 [ 0.0%] |
|       vadd_1 |   2201 [  0.20%] | 510 [  0.08%]  |   3311 [  0.15%] |  2.5 [ 0.1%] | 0 [ 0.0%] |   4 [ 0.0%] |
"""


def design(folder: Path) -> list[str]:
    """A recipe of one kernel, as words of a command line."""
    (folder / "vadd.cpp").write_text(KERNEL)
    (folder / "mine.toml").write_text('name = "mine"\n[kernel.vadd]\nsource = "vadd.cpp"\n')
    return ["--recipe", str(folder / "mine.toml"), "--platform", "u250"]


def reports(
    folder: Path, loops: dict[str, tuple[int, int]], estimated: float = 2.4, slack: str = "0.012", top: str = "vadd"
) -> Path:
    """A folder with reports of synthesis and implementation."""
    place = folder / "build" / f"{top}.hls" / "syn"
    place.mkdir(parents=True)
    text = "".join(LOOP.format(name, *figures) for name, figures in loops.items())
    (place / "csynth.xml").write_text(
        REPORT.format(release="2023.2", part="xcu250", top=top, target="3.33", estimated=estimated, loops=text)
    )
    (folder / "build" / "impl_1_timing_summary_routed.rpt").write_text(
        TIMING.format(slack=slack, failing=0 if float(slack) >= 0 else 17)
    )
    (folder / "build" / "impl_1_full_util_routed.rpt").write_text(UTILIZATION)
    (folder / "build" / "impl_1_kernel_util_routed.rpt").write_text(KERNELS)
    return folder / "build"


def test_reports_are_read(tmp_path: Path) -> None:
    folder = reports(tmp_path, {"copy": (1, 9)})
    (one,) = csynth.load(folder)
    assert (one.top, one.target_ns, one.estimated_ns, one.latency) == ("vadd", 3.33, 2.4, None)
    assert one.resources.table() == {"dsp": 2, "bram36": 2.5, "uram": 0, "lut": 800, "ff": 900}
    assert one.loops == (csynth.Loop("vadd", "copy", 1, 9, 32),)
    (timing,) = implementation.timing_in(folder)
    assert timing.slack_ns == 0.012 and timing.met
    whole, kernels = implementation.utilization_in(folder)
    assert whole.whole is not None and whole.whole.table() == {
        "dsp": 986, "bram36": 99.5, "uram": 46, "lut": 117120, "ff": 150000
    }  # fmt: skip
    assert set(kernels.kernels) == {"vadd"}
    assert kernels.kernels["vadd"].table() == {"dsp": 4, "bram36": 2.5, "uram": 0, "lut": 2201, "ff": 3311}


SUMMARY = """
== Synthesis Summary Report of 'vadd'
    * Version:        2023.1.1 (Build 1)
    * Project:        p
    * Solution:       s (Vitis Kernel Flow Target)
    * Target device:  xcu250-figd2104-2L-e
+ Performance & Resource Estimates:
    |     Modules & Loops | Issue|      | Latency | Latency| Iteration|         | Trip |          |
    | + vadd              | -| 0.10| -| -| -| -| -| no| 5 (~0%)| -| 900 (~0%)| 800 (~0%)| -|
    |  o copy             | -| 2.43| 100| 3.3e2| 9| 2| 32| yes| -| -| -| -| -|
"""


def test_a_text_report_serves_where_there_is_no_xml(tmp_path: Path) -> None:
    (tmp_path / "csynth.rpt").write_text(SUMMARY)
    assert csynth.load(tmp_path) == []
    (tmp_path / "vadd_csynth.rpt").write_text("    |ap_clk  |  3.33 ns|  2.433 ns|     0.90 ns|\n")
    (one,) = csynth.load(tmp_path)
    assert (one.top, one.target_ns, one.estimated_ns, one.version) == ("vadd", 3.33, 2.433, "2023.1")
    assert one.loops == (csynth.Loop("vadd", "copy", 2, 9, None),)


def test_a_damaged_report_is_a_sentence(tmp_path: Path) -> None:
    folder = reports(tmp_path, {})
    path = folder / "vadd.hls" / "syn" / "csynth.xml"
    path.write_text(path.read_text()[:300])
    with pytest.raises(ToolchainError, match=r"cannot be read: .*; synthesize the kernel again"):
        csynth.load(folder)


@pytest.mark.parametrize(
    ("loops", "estimated", "slack", "broken"),
    [
        ({"copy": (1, 9)}, 2.4, "0.012", []),
        ({"copy": (3, 9)}, 2.4, "0.012", ["vadd.copy: II 3 where the pragma requires 1."]),
        ({"VITIS_LOOP_1_1_copy": (2, 9)}, 2.4, "0.012", ["vadd.copy: II 2 where the pragma requires 1."]),
        ({}, 4.0, "0.012", ["vadd: synthesis estimates 4 ns for a clock of 3.33 ns."]),
        ({}, 2.4, "-0.213", ["impl_1_timing_summary_routed.rpt: timing is missed by 0.213 ns at 17 endpoints."]),
    ],
)
def test_reports_against_a_design(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], loops: dict[str, tuple[int, int]], estimated: float, slack: str,
    broken: list[str],
) -> None:  # fmt: skip
    words = design(tmp_path)
    folder = reports(tmp_path, loops, estimated, slack)
    assert main(["check", "--against", str(folder), *words, "--json"]) == int(bool(broken))
    found = json.loads(capsys.readouterr().out)
    assert found["broken"] == broken
    (row,) = [loop for loop in found["loops"] if loop["loop"] == "copy"]
    assert (row["asked"], row["checker"], row["synthesis"]) == (1, 1, next(iter(loops.values()))[0] if loops else None)
    assert set(found["resources"]["vadd"]) == {"estimate", "csynth", "implementation"}


def test_the_contract_of_an_engine_counts(tmp_path: Path) -> None:
    folder = reports(tmp_path, {"mac_steps": (2, 30), "of_no_contract": (4, 4)}, top="engine")
    contract = qor.Contract({"mac_steps": qor.LoopContract(1, 20, "")}, {})
    checked = Checked([CheckedPart("engine", "mac_array", None, contract)])
    found = against.compare(load_design("engine-kv260"), folder, checked, None)
    assert found.broken == ["engine.mac_steps: II 2 where the contract requires 1."]
    assert next(row for row in found.loops if row.loop == "mac_steps").depth_asked == 20


def test_comparison_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = design(tmp_path)
    assert main(["check", "--against", str(reports(tmp_path, {"copy": (2, 9)})), *words]) == 1
    said = capsys.readouterr().out
    assert "vadd.copy: II 2 where the pragma requires 1." in said and "implementation" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--against", "DIR"], "--against requires --recipe or --platform"),
        (["--against", "nowhere", "DESIGN"], "is not a folder"),
        (["--against", "EMPTY", "DESIGN"], "no report of the implementation was found: the folder has no report"),
        (["--against", "OTHER", "DESIGN"], "they are of vmul, and the recipe has vadd"),
    ],
)
def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    (tmp_path / "empty").mkdir()
    other = reports(tmp_path, {}, top="vmul")
    for path in other.glob("*.rpt"):
        path.unlink()
    names = {
        "DIR": [str(tmp_path)],
        "EMPTY": [str(tmp_path / "empty")],
        "OTHER": [str(other)],
        "DESIGN": design(tmp_path),
    }
    assert main(["check", *(piece for word in words for piece in names.get(word, [word]))]) == 2
    assert said in capsys.readouterr().err


def test_report_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, page = reports(tmp_path, {"copy": (2, 9)}), tmp_path / "page.html"
    assert main(["report", str(folder), "--json", "--html", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kernels"][0]["loops"] == [{"module": "vadd", "name": "copy", "ii": 2, "depth": 9}]
    assert found["timing"][0]["met"] and found["implementation"]["vadd"]["lut"] == 2201
    text = page.read_text()
    assert "<td>vadd.copy</td><td>2</td><td>9</td>" in text and "impl_1_timing_summary_routed.rpt" in text
    assert main(["report", str(reports(tmp_path / "slow", {}, slack="-1.0"))]) == 1
    assert "worst slack -1 ns" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "nowhere")]) == 2


def test_a_build_keeps_what_synthesis_achieved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch)
    fake.configure(loops={"vadd": {"copy": (2, 9)}})
    xclbin = tmp_path / "app.xclbin"
    words = ["--target", "hw", *design(tmp_path), "--no-fit-check", "-o", str(xclbin)]
    assert main(words) == 0
    expected = {"vadd": {"target_ns": 3.33, "estimated_ns": 2.4, "loops": {"copy": {"ii": 2, "depth": 9}}}}
    assert read(xclbin).manifest["synthesis"] == expected
    capsys.readouterr()
    assert main(["report", str(xclbin)]) == 0
    assert capsys.readouterr().out.splitlines()[1].strip() == "copy: II 2, depth 9"


def test_the_cost_model_uses_achieved_intervals() -> None:
    manifest = decode(encode(describe(load_design("engine-kv260"), "hw", "")))
    loops = {"mac_steps": {"ii": 2, "depth": 20}, "fill_folded": {"ii": 3, "depth": 9}, "input_lines": {"ii": 1}}
    slow = manifest | {"synthesis": {"engine": {"target_ns": 3.33, "estimated_ns": 3.0, "loops": loops}}}
    before, after = (EngineTarget.of_card(Target.from_manifest("", decode(encode(one)))) for one in (manifest, slow))
    assert before.sizes.intervals == () and dict(after.sizes.intervals) == {"array": 2, "fill": 3}
    assert intervals_of({}) == ()
    command = MacCommand(
        in_blocks=4, in_height=16, in_width=16, out_blocks=4, out_height=16, out_width=16, band_rows=16
    )
    one, two = (cycles.cycles(command, target.sizes, target.memory) for target in (before, after))
    assert (two.array, two.fill, two.load) == (2 * one.array, 3 * one.fill, one.load)
