"""The command xclbin-build."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import xclbin_build
from xclbin_build import read
from xclbin_build.cli import main

DATA = Path(__file__).parent / "data"


def test_build_and_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "torch.xclbin"
    arguments = ["--target", "emu", "--recipe", str(DATA / "user.toml"), "--cu", "engine=3", "-o", str(output)]
    assert main(arguments) == 0
    assert str(read(output).uuid) in capsys.readouterr().err
    assert main(["info", str(output), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["uuid"] == str(read(output).uuid)
    assert [len(kernel["compute_units"]) for kernel in facts["manifest"]["kernels"]] == [3, 1]
    assert main(["info", str(output)]) == 0
    shown = capsys.readouterr().out
    for word in ("engine_3", "0x1420000", "accumulate", "DDR[1]", "16 GiB", "ROWS", "vadd", "0x5c"):
        assert word in shown


def test_program_runs_as_a_module(tmp_path: Path) -> None:
    output = tmp_path / "x.xclbin"
    command = [sys.executable, "-m", "xclbin_build", "-q", "--recipe", str(DATA / "user.toml"), "-o", str(output)]
    result = subprocess.run(command, cwd=Path(xclbin_build.__file__).parents[1], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert read(output).manifest["target"] == "emu"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "emo"], "--target emo is unknown; did you mean 'emu'?"),
        (["--recipe", "emulatr"], "unknown recipe 'emulatr'; did you mean 'emulator'?"),
        (["--recipe", str(DATA / "user.toml"), "--platform", "u251"], "did you mean 'u250'?"),
        (["--recipe", str(DATA / "user.toml"), "--cu", "engine"], "write KERNEL=COUNT"),
        (["--recipe", str(DATA / "user.toml"), "--sources-only", "x"], "it requires --target hw or hw_emu, not emu"),
        (["--recipe", str(DATA / "user.toml"), "-o", "/"], "/ is a directory; give the file's name, too"),
        (["--recipe", str(DATA / "user.toml"), "-o", str(DATA)], "is a directory; give the file's name, too"),
        (["--cu", "sequencer=\N{SUPERSCRIPT TWO}"], "write KERNEL=COUNT"),
        (["--cu", "sequencer=2", "--cu", "sequencer=3"], "--cu sequencer=3: sequencer=2 is also given; leave one out."),
        (["--target", "hw", "--recipe", "engine-u250", "--sources-only", __file__], "cannot be written: "),
        (
            ["--target", "hw", "--recipe", "emulator", "--platform", "u250", "--sources-only", "x"],
            "recipe 'emulator' does not fit platform 'u250'",
        ),
        (["info", "none.xclbin"], "none.xclbin cannot be read"),
        (["info", __file__], "is not an xclbin"),
    ],
)
def test_errors_are_one_line_and_status_2(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_wrong_usage_is_status_2() -> None:
    with pytest.raises(SystemExit) as exit:
        main(["--no-such-option"])
    assert exit.value.code == 2
