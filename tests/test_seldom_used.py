"""What the docs name and no other test uses: options of both commands, recipes, and a compiler of another kind."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

import xclbin_build
from fpga_dynamo.tools import cli
from tests.marks import EXTENDED
from xclbin_build import axlf, platform, recipe
from xclbin_build.build import load_design
from xclbin_build.cli import main as xclbin_main
from xclbin_build.flow import vitis
from xclbin_build.manifest import decode, describe, encode
from xclbin_build.toolchain import gxx

USER = Path(__file__).parent / "xclbin_build" / "data" / "user.toml"
SOC = Path(__file__).parents[1] / "examples" / "soc"

ENGINES = (
    "engine-kv260", "engine-kv260-bf16", "engine-kv260-fp32", "engine-kv260-gather",
    "engine-u250", "engine-u250-4cu", "engine-u250-bf16",
    "engine-u250-fp32", "engine-u280", "engine-u50", "engine-u55c", "engine-vck190", "engine-zcu102",
    "engine-zcu102-bf16", "engine-zcu102-fp32",
)  # fmt: skip
PLATFORMS = ("emu", "kv260", "u250", "u280", "u50", "u55c", "vck190", "zcu102")


def test_these_are_all_engines_and_platforms() -> None:
    assert [name for name in recipe.names() if name.startswith("engine-")] == list(ENGINES)
    assert platform.names() == list(PLATFORMS)


@pytest.mark.parametrize("name", ENGINES)
def test_sources_and_manifest_of_each_engine(name: str, tmp_path: Path) -> None:
    design = load_design(name)
    files = [Path(file).name for file in vitis.write_sources(design, "hw", tmp_path)]
    assert "link.cfg" in files and "build.sh" in files
    manifest = decode(encode(describe(design, "hw", "")))
    (kernel,) = manifest["kernels"]
    words = name.split("-")
    element = {"bf16": "bfloat16", "fp32": "float32"}.get(words[-1], "int8")
    assert (manifest["platform"]["name"], kernel["engine"]["element"]) == (words[1], element)
    assert len(kernel["compute_units"]) == (4 if words[-1] == "4cu" else 1)


@pytest.mark.parametrize("name", PLATFORMS)
def test_each_platform_describes_itself(name: str) -> None:
    card = platform.load(name)
    table = card.table()
    assert table["name"] == name and bool(card.regions) == (name != "emu")
    assert all(bank["bytes"] for bank in card.bank_table())


def test_isa_and_plan_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--isa, --plan and --quiet reach the build."""
    asked: list[object] = []

    def build(design: object, target: str, output: Path, **given: object) -> Path:
        asked.extend([given["isa"], given["plan"]])
        axlf.write(output, axlf.Axlf({axlf.Section.USER_METADATA: encode(describe(load_design(USER), "hw", ""))}))
        return output

    monkeypatch.setattr("xclbin_build.cli.build_design", build)
    output = tmp_path / "a.xclbin"
    line = ["--recipe", str(USER), "--isa", "x86-64-v2", "--plan", "x86-64-v4", "--output", str(output), "--quiet"]
    assert xclbin_main(line) == 0
    assert asked == ["x86-64-v2", "x86-64-v4"] and output.exists()


def test_a_design_that_does_not_fit_is_written_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check_fit(_: object) -> None:
        raise xclbin_build.BuildError("it does not fit.")

    monkeypatch.setattr("xclbin_build.cli.check_fit", check_fit)
    line = ["--target", "hw", "--recipe", "engine-u50", "--sources-only", str(tmp_path / "out")]
    assert xclbin_main(line) == 2 and "it does not fit" in capsys.readouterr().err
    assert xclbin_main([*line, "--no-fit-check"]) == 0 and (tmp_path / "out" / "build.sh").exists()


@pytest.mark.skipif(shutil.which("clang-19") is None and "LLVM_BIN" not in os.environ, reason="needs clang 19")
def test_options_of_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--include, --define, --all, --contract and --process change what is checked and shown."""
    (tmp_path / "sizes").mkdir()
    (tmp_path / "sizes" / "sizes.h").write_text("#define STEPS COUNT\n")
    source, contract = tmp_path / "top.cpp", tmp_path / "other.toml"
    source.write_text(
        '#include "sizes.h"\nextern "C" void top(const int* in, int* out) {\n    int sum = 0;\nsums:\n'
        "    for (int i = 0; i < STEPS; i++) {\n#pragma HLS pipeline II = 1\n        sum += in[i];\n    }\n"
        "    out[0] = sum;\n}\n"
    )
    line = ["check", str(source), "--include", str(tmp_path / "sizes"), "--define", "COUNT=64", "--all", "--json"]
    assert xclbin_main(line) == 0
    (loop,) = json.loads(capsys.readouterr().out)["parts"][0]["loops"]
    assert (loop["name"], loop["trips"], loop["asked_by"]) == ("sums", [64, 64], "pragma")
    contract.write_text('[loop.sums]\nii = 1\ndepth = 8\nwhy = "an addition"\n')
    assert xclbin_main([*line, "--contract", str(contract)]) == 0
    (loop,) = json.loads(capsys.readouterr().out)["parts"][0]["loops"]
    assert loop["asked_by"] == "contract"
    assert xclbin_main([*line, "--process", "no_such_process"]) == 2
    assert "no_such_process" in capsys.readouterr().err


def _soc_files(folder: Path) -> list[str]:
    from tests.malformed_input.mutations import to_toml
    from tests.malformed_input.test_study_files import GRAPH, SYSTEM, WORKLOAD

    (folder / "graph.json").write_text(json.dumps(GRAPH))
    (folder / "times.txt").write_text("0.001\n")
    (folder / "system.toml").write_text(to_toml(SYSTEM))
    (folder / "workload.toml").write_text(to_toml(WORKLOAD))
    return ["soc", "run", str(folder / "system.toml"), str(folder / "workload.toml")]


def test_a_study_with_another_rate_and_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = _soc_files(tmp_path)
    shown = []
    for more in (["--virtual"], ["--virtual", "--rate", "50"], ["--virtual", "--seed", "5"]):
        assert cli.main([*line, *more]) == 0
        shown.append(capsys.readouterr().out)
    assert len(set(shown)) == 3


def test_a_study_in_real_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = _soc_files(tmp_path)
    paced = [*line, "--real", "--paced", "--rate", "2000"]
    assert cli.main(paced) == 2 and "real time does not support `channels`" in capsys.readouterr().err
    system = tmp_path / "system.toml"
    system.write_text(system.read_text().replace('"channels" = 2, ', ""))
    assert cli.main(paced) == 0
    assert "real time" in capsys.readouterr().out


def test_a_sweep_as_parquet_needs_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so before anything is run; with pyarrow the files have the rows of the CSV files."""
    _soc_files(tmp_path)
    (tmp_path / "sweep.toml").write_text('system = "system.toml"\nworkload = "workload.toml"\n')
    line = ["soc", "sweep", str(tmp_path), "--out", str(tmp_path / "out"), "--parquet", "--jobs", "1"]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        assert cli.main(line) == 2 and "fpga_dynamo[soc]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    parquet = pytest.importorskip("pyarrow.parquet")
    assert cli.main(line) == 0
    rows = (tmp_path / "out" / "runs.csv").read_text().splitlines()
    assert parquet.read_table(tmp_path / "out" / "runs.parquet").num_rows == len(rows) - 1


@pytest.mark.parametrize("name", [pytest.param("ops.md", marks=EXTENDED)])
def test_a_written_page_is_what_a_check_expects(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    assert cli.main(["ops", "--markdown", str(path)]) == 0
    assert cli.main(["ops", "--check", str(path)]) == 0
    path.write_text(path.read_text() + "more\n")
    assert cli.main(["ops", "--check", str(path)]) == 1


def test_the_environment_of_the_process_that_plays_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FPGA_DYNAMO_XRT=process: what XRT's driver is told, and what would be preferred to it is removed."""
    from fpga_dynamo.runtime.drivers import sw_emu

    names = ("EMULATION_SOCKETID", "XILINX_VITIS", "EMCONFIG_PATH", "SDACCEL_EM_RUN_DIR", "FPGA_DYNAMO_MODEL_STATUS")
    for name in (*names, "USER"):
        monkeypatch.setenv(name, "before")
    monkeypatch.delenv("USER")
    monkeypatch.setenv("XILINX_OPENCL", "/elsewhere")
    (tmp_path / sw_emu.MODEL).write_text("")
    sw_emu.prepare(tmp_path)
    assert "XILINX_OPENCL" not in os.environ and os.environ["USER"]
    assert str(os.getpid()) in os.environ["EMULATION_SOCKETID"]
    assert Path(os.environ["FPGA_DYNAMO_MODEL_STATUS"]).stat().st_size == sw_emu.STATUS_BYTES
    assert (Path(os.environ["EMCONFIG_PATH"]) / "emconfig.json").is_file()


def test_where_xrt_finds_its_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """XILINX_XRT is set where it is missing, and kept where the user has set it."""
    from types import SimpleNamespace

    from fpga_dynamo.runtime.drivers import xrt_environment

    binding = SimpleNamespace(library_directory=str(tmp_path / "lib"), __file__=str(tmp_path / "_xrt.so"))
    monkeypatch.setenv("FPGA_DYNAMO_XRT", "card")
    for before in (None, "/opt/own"):
        monkeypatch.setattr(xrt_environment, "_prepared", None)
        monkeypatch.delenv("XILINX_XRT", raising=False)
        if before is not None:
            monkeypatch.setenv("XILINX_XRT", before)
        assert xrt_environment.prepare(binding) == "card"
        assert os.environ["XILINX_XRT"] == before if before else os.environ["XILINX_XRT"]


@pytest.mark.parametrize("scales", [pytest.param("float", marks=EXTENDED), pytest.param("pow2", marks=EXTENDED)])
def test_estimate_with_either_kind_of_scales(
    scales: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torchao")
    (tmp_path / "estimated.py").write_text(
        "import torch\nfrom torch import nn\n"
        "def make():\n    return nn.Sequential(nn.Conv2d(16, 16, 3)), torch.randn(1, 16, 9, 9)\n"
    )
    monkeypatch.chdir(tmp_path)
    line = ["estimate", "estimated.py:make", "--platform", "u250", "--scales", scales, "--cus", "2", "--sizes-only"]
    assert cli.main([*line, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cus"] == 2 and found["latency_ms"] > 0


@pytest.mark.parametrize("tile", [pytest.param("2", marks=EXTENDED), pytest.param("4", marks=EXTENDED)])
def test_fuzz_with_winograd(tile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["fuzz", "--winograd", tile, "--examples", "3", "--seed", "1"]) == 0


def _clang() -> str | None:
    return next((path for name in ("clang++-19", "clang++") if (path := shutil.which(name))), None)


@pytest.mark.skipif(_clang() is None, reason="needs clang++")
def test_clang_is_found_as_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """$CXX chooses it."""
    monkeypatch.setenv("CXX", str(_clang()))
    assert "clang" in gxx.find_compiler().version.lower()


@pytest.mark.xfail(strict=True, reason="the cores' vector code uses __builtin_shuffle, which clang++ does not have")
@pytest.mark.parametrize("name", [pytest.param("user", marks=EXTENDED)])
@pytest.mark.skipif(_clang() is None, reason="needs clang++")
def test_clang_builds_the_kernels(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(_clang()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FPGA_DYNAMO_CACHE", raising=False)
    output = xclbin_build.build("emu", USER.with_name(f"{name}.toml"), output=tmp_path / "a.xclbin", isa="x86-64-v2")
    assert axlf.read(output).manifest["recipe"] == name
    assert b"clang" in axlf.read(output).sections[axlf.Section.BITSTREAM].lower()  # .comment
