"""What one sees while an xclbin is built: a line on stderr, nothing on stdout, nothing for one that is there."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import xclbin_build
from xclbin_build import progress

RECIPE = Path(__file__).parent / "data" / "user.toml"
ROOT = Path(xclbin_build.__file__).parents[1]
CARD = f"""
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.cards.card import xclbin_path
xclbin_path(Options(recipe={str(RECIPE)!r}))
"""
WHAT = re.escape(f"the emulator's xclbin, first time only (recipe {RECIPE})")


def run(*command: str, cache: Path, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "FPGA_DYNAMO_CACHE": str(cache), "TERM": "xterm", "COLUMNS": "200"}
    environment = {name: value for name, value in environment.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True
    )


def on_a_terminal(*command: str, cache: Path) -> tuple[str, str]:
    """stdout, and what a terminal gets as stderr."""
    mine, theirs = pty.openpty()
    try:
        done = run(*command, cache=cache, stderr=theirs)
    finally:
        os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(mine, 1 << 16)
        except OSError:  # its other end is closed
            break
        if not part:
            break
        seen += part
    os.close(mine)
    assert done.returncode == 0, seen
    return done.stdout, seen.decode()


@pytest.mark.slow
@pytest.mark.extended
def test_the_first_xclbin_is_announced_and_a_cached_one_is_not(tmp_path: Path) -> None:
    first = run("-c", CARD, cache=tmp_path)
    assert (first.returncode, first.stdout) == (0, "")
    said = rf"building {WHAT}\n(building {WHAT}: \d+ of \d+ steps, \d+ s\n)*built {WHAT} in \d+ s\n"
    assert re.fullmatch(said, first.stderr), first.stderr
    again = run("-c", CARD, cache=tmp_path)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.extended
def test_a_terminal_has_a_line_that_counts(tmp_path: Path) -> None:
    stdout, seen = on_a_terminal("-c", CARD, cache=tmp_path)
    assert stdout == "" and re.search(WHAT, seen) and re.search(r"[1-5] of 5 steps", seen) and "0:00:0" in seen
    assert on_a_terminal("-c", CARD, cache=tmp_path) == ("", "")


def test_the_command_shows_the_same(tmp_path: Path) -> None:
    command = ["-m", "xclbin_build", "--recipe", str(RECIPE), "-o", str(tmp_path / "x.xclbin")]
    done = run(*command, cache=tmp_path)
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (0, "") and lines[0].startswith("building ") and "uuid" in lines[-1]
    assert run(*command, "-q", cache=tmp_path).stderr == ""


def test_lines_are_repeated_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress.shown("a card [x]") as step:
        for done in range(1, 32):
            now = 3.0 * done
            step(done, 31, "an object")
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and lines[0] == "building a card [x]" and lines[-1] == "built a card [x] in 93 s"
    assert lines[1:4] == [f"building a card [x]: {n} of 31 steps, {3 * n} s" for n in (4, 8, 12)]
    assert len(lines) == 2 + 7
