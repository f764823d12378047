"""Writes a build.ninja and runs ninja on it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ToolchainError

# Called as (edges finished, edges in all, what has just finished); not at all when there is nothing to do.
Progress = Callable[[int, int, str], None]

_STATUS = "[%f/%t] "
_LINE = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")
_ERROR_LINES = 40


@dataclass(frozen=True)
class Unit:
    """A translation unit, as a path in the build directory, and its compiler's flags."""

    source: str
    flags: Sequence[str]

    @property
    def object(self) -> str:
        return str(Path(self.source).with_suffix(".o"))


def write(
    path: Path, compiler: Sequence[str], units: Sequence[Unit], output: str, link_flags: Sequence[str] = ()
) -> None:
    """Writes the ninja file `path`: compiles the units side by side and links them to the shared object `output`.

    Paths in it are relative to the directory of the file.
    """
    lines = [
        "ninja_required_version = 1.5",
        f"cxx = {_escaped(shlex.join(compiler))}",
        "",
        "rule compile",
        "  command = $cxx $flags -MD -MF $out.d -c $in -o $out",
        "  description = compile $name",
        "  depfile = $out.d",
        "  deps = gcc",
        "",
        "rule link",
        "  command = $cxx -shared -Wl,--build-id=none -Wl,-s $flags $in -o $out",
        "  description = link $name",
        "",
    ]
    for unit in units:
        lines += [
            f"build {_escaped_path(unit.object)}: compile {_escaped_path(unit.source)}",
            f"  flags = {_escaped(shlex.join(unit.flags))}",
            f"  name = {Path(unit.source).name}",
        ]
    lines += [
        f"build {_escaped_path(output)}: link {' '.join(_escaped_path(unit.object) for unit in units)}",
        f"  flags = {_escaped(shlex.join(link_flags))}",
        f"  name = {Path(output).name}",
        f"default {_escaped_path(output)}",
        "",
    ]
    text = "\n".join(lines)
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def run(path: Path, progress: Progress | None = None) -> int:
    """Brings the default target of the ninja file `path` up to date; returns how many edges ran.

    Raises ToolchainError with the compiler's words when an edge fails.
    """
    command = [find(), "-C", str(path.parent), "-f", path.name]
    environment = dict(os.environ, NINJA_STATUS=_STATUS)
    edges, output = 0, []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, env=environment,
        errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            match = _LINE.match(line.rstrip())
            if not match:
                output.append(line.rstrip())
                continue
            edges = int(match[1])
            if progress is not None:
                progress(edges, int(match[2]), match[3])
    if process.returncode:
        words = [line for line in output if line and not line.startswith("ninja: Entering")]
        raise ToolchainError("the compiler refused the sources:\n" + "\n".join(words[:_ERROR_LINES]))
    return edges


def find() -> str:
    """Path of ninja: that of the Python package `ninja`, else the one on PATH.

    In this order, because an environment that is activated at times has two ninjas on PATH in turns: two versions do
    not read each other's logs, and would compile everything again.
    """
    try:
        import ninja
    except ImportError:
        on_path = shutil.which("ninja")
        if on_path is None:
            raise ToolchainError(
                "ninja is needed to build kernels and was not found; install it with 'pip install ninja'."
            ) from None
        return on_path
    return str(Path(ninja.BIN_DIR) / "ninja")


def _escaped(text: str) -> str:
    return text.replace("$", "$$")


def _escaped_path(path: str) -> str:
    return re.sub(r"([$ :])", r"$\1", path)
