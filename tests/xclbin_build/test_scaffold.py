"""`xclbin-build new`: what it writes builds, passes and is short."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hls_kernels
from xclbin_build import RecipeError
from xclbin_build.cli import main
from xclbin_build.scaffold import write

ENVIRONMENT = dict(os.environ)
"""Of the test run: its cache has the emulator's xclbin, which takes minutes."""

LINES = {"kernel": 60, "core": 100}
"""A scaffold has less than that in all."""


@pytest.mark.parametrize("kind", sorted(LINES))
def test_scaffolds_pass_as_they_are(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "made" / "here"
    assert main(["new", kind, "gain", "-o", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert f"wrote {folder / 'gain.toml'}" in shown and "python model.py" in shown
    texts = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert sum(text.count("\n") for text in texts.values()) < LINES[kind]
    assert not any("@NAME@" in text or max(map(len, text.splitlines())) > 120 for text in texts.values())
    run = subprocess.run([sys.executable, "model.py"], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1].startswith("same answer as ")


def test_bench_of_a_core(tmp_path: Path) -> None:
    write("core", "gain", tmp_path)
    command = ["g++", "-std=c++17", "-Wno-psabi", "-Wno-unknown-pragmas", "-I", str(hls_kernels.ROOT), "gain_tb.cpp"]
    for flags in ([], ["-Wall", "-Wextra"]):
        subprocess.run([*command, *flags, "-o", "bench"], cwd=tmp_path, check=True)
        assert subprocess.run(["./bench"], cwd=tmp_path).returncode == 0
    header = tmp_path / "gain.hpp"
    header.write_text(header.read_text().replace("vec16(c.factor) * x", "x"))
    subprocess.run([*command, "-o", "bench"], cwd=tmp_path, check=True)
    assert subprocess.run(["./bench"], cwd=tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        ("kernel", "lambda", "'lambda' has another meaning in C++, Python or the files"),
        ("kernel", "int", "the name must be a C identifier"),
        ("kernel", "../x", "the name must be a C identifier"),
        ("core", "gemm", "'gemm' is a built-in core"),
    ],
)
def test_names_that_cannot_be_used(kind: str, name: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as raised:
        write(kind, name, tmp_path)
    assert str(raised.value).startswith(sentence) and not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text("mine\n")
    assert main(["new", "kernel", "gain", "-o", str(tmp_path)]) == 2
    assert "model.py exists already; choose another name" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["model.py"]
