"""What an extra brings along is asked for when it is needed, by one sentence that names the extra."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fpga_dynamo
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.tools import cli

SOC = Path(__file__).parents[1] / "examples" / "soc"
DRAWN_BY = (
    "fpga_dynamo.plotting",
    "fpga_dynamo.runtime.observe.gantt",
    "fpga_dynamo.tools.soc.figures",
    "fpga_dynamo.tools.soc.report",
)


@pytest.fixture
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in DRAWN_BY:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "resnet18", "--gantt", "a.png"],
        ["soc", "run", str(SOC / "system.toml"), str(SOC / "workload.toml"), "--gantt", "a.png"],
        ["soc", "report", "."],
    ],
)
def test_a_picture_needs_the_extra_plot(
    words: list[str],
    no_matplotlib: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is said before anything is run."""
    monkeypatch.chdir(tmp_path)
    try:
        status = cli.main(words)
    except SystemExit as ended:  # argparse
        status = int(ended.code or 0)
    error = " ".join(capsys.readouterr().err.split())
    assert status == 2 and "pictures need matplotlib" in error and "pip install 'fpga_dynamo[plot]'" in error
    assert "Traceback" not in error and not list(tmp_path.iterdir())


def test_grpc_needs_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "fpga_dynamo.serving.grpc_server", raising=False)
    monkeypatch.setitem(sys.modules, "tritonclient.grpc", None)
    (tmp_path / "model.json").touch()
    assert cli.main(["serve", str(tmp_path), "--grpc-port", "0"]) == 2
    assert "pip install 'fpga_dynamo[grpc]'" in " ".join(capsys.readouterr().err.split())


def test_serve_needs_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("fpga_dynamo.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    (tmp_path / "model.json").touch()
    assert cli.main(["serve", str(tmp_path)]) == 2
    assert "pip install 'fpga_dynamo[serve]'" in " ".join(capsys.readouterr().err.split())


def test_a_trace_is_recorded_and_saved_without_the_extra(no_matplotlib: None, tmp_path: Path) -> None:
    with fpga_dynamo.trace() as trace:
        pass
    assert trace.save(tmp_path / "trace.json").is_file()
    with pytest.raises(FpgaError, match=r"pip install 'fpga_dynamo\[plot\]'"):
        trace.gantt(tmp_path / "trace.png")
