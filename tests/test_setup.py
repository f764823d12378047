"""`make setup` says what the machine lacks before it downloads anything, and recovers once that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STUB = """#!/bin/sh
case "$2" in
    *ensurepip*) exit {venv} ;;
    *Python.h*) exit {headers} ;;
    *version_info*) echo python3.99 ;;
    *) echo "$@" >> {log}; exit 1 ;;
esac
"""


def setup(folder: Path, *tools: str, venv: int = 0, headers: int = 0) -> subprocess.CompletedProcess[str]:
    """`make setup` of an environment in `folder`, on a machine that has these tools and a Python like that."""
    programs = folder / "bin"
    programs.mkdir()
    for tool in ("sh", "make", "find", "env", *tools):
        found = shutil.which(tool)
        assert found is not None, tool
        (programs / tool).symlink_to(found)
    (programs / "python3").write_text(STUB.format(venv=venv, headers=headers, log=folder / "log"))
    (programs / "python3").chmod(0o755)
    command = ["make", "-C", str(ROOT), "setup", f"VENV={folder / 'venv'}"]
    return subprocess.run(command, env={**os.environ, "PATH": str(programs)}, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("tools", "venv", "headers", "missing"),
    [
        ((), 0, 0, "g++"),
        (("g++",), 1, 0, "python3-venv"),
        (("g++",), 0, 1, "python3-dev"),
        ((), 1, 1, "g++ python3-venv python3-dev"),
    ],
)
def test_what_is_missing_is_named_first(
    tools: tuple[str, ...], venv: int, headers: int, missing: str, tmp_path: Path
) -> None:
    done = setup(tmp_path, *tools, venv=venv, headers=headers)
    assert done.returncode and f"apt-get install {missing};" in done.stderr
    assert not (tmp_path / "log").exists() and not (tmp_path / "venv").exists()


def test_an_environment_without_pip_is_made_again(tmp_path: Path) -> None:
    """What `python3 -m venv` leaves where ensurepip is missing."""
    half_made = tmp_path / "venv" / "bin" / "python"
    half_made.parent.mkdir(parents=True)
    half_made.write_text("#!/bin/sh\nexit 1\n")
    half_made.chmod(0o755)
    assert setup(tmp_path, "g++").returncode
    assert (tmp_path / "log").read_text().split() == ["-m", "venv", str(tmp_path / "venv")]
