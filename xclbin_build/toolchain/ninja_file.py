"""Writes a build.ninja and runs ninja on it.

A compiler may print without end, be killed, or succeed and write nothing. A script between ninja and the compiler
limits the printed text, reports the signal that ended the compiler, and deletes an earlier output before it starts.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ..atomic_file import write_changed
from ..errors import ToolchainError
from ..escape import ninja_path, ninja_value
from . import process

# Called as (edges finished, edges in all, what has just finished); not at all when there is nothing to do.
Progress = Callable[[int, int, str], None]

_STATUS = "[%f/%t] "
_LINE = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")
_ERROR_LINES = 40
_LINE_BYTES = 2000
_SCRIPT_NAME = "compile.sh"
_PLACES = Path(__file__).with_name("places.py")
_SCRIPT = f"""\
#!/bin/sh
# Made by xclbin_build. compile.sh OUTPUT COMMAND...: runs a compiler, and passes on what it prints up to a limit.

rm -f -- "$1"
shift
exec 4>&1
status=$({{ {{ "$@" 2>&1 3>&- 4>&-; echo $? >&3; }} | {{ head -c {process.OUTPUT_BYTES} >&4; cat >/dev/null; }} }} 3>&1)

if [ "$status" -gt 128 ]; then echo "the compiler was ended by signal $((status - 128))"; fi
exit "$status"
"""


@dataclass(frozen=True)
class TranslationUnit:
    """A translation unit, as a path in the build directory, and its compiler's flags.

    instrumented: it is compiled by `write`'s `clang`, with the lines of its checks (places.py).
    """

    source: str
    flags: Sequence[str]
    instrumented: bool = False

    @property
    def object(self) -> str:
        return str(Path(self.source).with_suffix(".o"))


def write(
    path: Path,
    compiler: Sequence[str],
    units: Sequence[TranslationUnit],
    output: str,
    link_flags: Sequence[str] = (),
    parts: Mapping[str, Sequence[str]] = MappingProxyType({}),
    clang: Sequence[str] = (),
) -> None:
    """Writes the ninja file `path`: compiles the units side by side and links them to the shared object `output`.

    parts: objects, and the sources of the units that each is made of; others see only what these export.
    clang: the compiler of instrumented units.
    Paths in it are relative to the directory of the file.
    """
    lines = [
        "ninja_required_version = 1.5",
        f"cxx = {ninja_value(shlex.join(compiler))}",
        "",
        "rule compile",
        f"  command = sh {_SCRIPT_NAME} $out $cxx $flags -MD -MF $out.d -c $in -o $out",
        "  description = compile $name",
        "  depfile = $out.d",
        "  deps = gcc",
        "",
        "rule link",
        f"  command = sh {_SCRIPT_NAME} $out $cxx -shared -Wl,--build-id=none -Wl,-s $flags $in -o $out",
        "  description = link $name",
        "",
    ]
    if parts:
        lines += [
            f"objcopy = {ninja_value(_objcopy(compiler))}",
            "",
            "rule part",
            f"  command = sh {_SCRIPT_NAME} $out $cxx -r -nostdlib -Wl,--force-group-allocation $in -o $out && "
            "$objcopy --localize-hidden $out",
            "  description = link $name",
            "",
        ]
    if clang:
        places = shlex.join([sys.executable, "-I", str(_PLACES)])
        lines += [
            f"clang = {ninja_value(shlex.join(clang))}",
            f"places = {ninja_value(places)}",
            "",
            "rule instrument",
            f"  command = sh {_SCRIPT_NAME} $out.s $clang $flags -MD -MF $out.d -MT $out -S $in -o $out.s && "
            f"$places $out.s && sh {_SCRIPT_NAME} $out $clang -c $out.s -o $out",
            "  description = compile $name",
            "  depfile = $out.d",
            "  deps = gcc",
            "",
        ]
    for unit in units:
        rule = "instrument" if unit.instrumented else "compile"
        lines += [
            f"build {ninja_path(unit.object)}: {rule} {ninja_path(unit.source)}",
            f"  flags = {ninja_value(shlex.join(unit.flags))}",
            f"  name = {ninja_value(Path(unit.source).name)}",
        ]
    objects = {unit.source: unit.object for unit in units}
    for part, sources in parts.items():
        lines += [
            f"build {ninja_path(part)}: part {' '.join(ninja_path(objects.pop(source)) for source in sources)}",
            f"  name = {ninja_value(Path(part).name)}",
        ]
    linked = [*objects.values(), *parts]
    lines += [
        f"build {ninja_path(output)}: link {' '.join(map(ninja_path, linked))}",
        f"  flags = {ninja_value(shlex.join(link_flags))}",
        f"  name = {ninja_value(Path(output).name)}",
        f"default {ninja_path(output)}",
        "",
    ]
    write_changed(path.with_name(_SCRIPT_NAME), _SCRIPT)
    write_changed(path, "\n".join(lines))


def _objcopy(compiler: Sequence[str]) -> str:
    """The compiler's own objcopy, which knows its architecture."""
    answer = process.run([*compiler, "-print-prog-name=objcopy"], timeout=process.time_limit(), errors=False)
    found = shutil.which(answer.output.strip())
    if found is None:
        raise ToolchainError("two kernels of your own in one xclbin need objcopy; install binutils.")
    return shlex.quote(found)


def run(path: Path, progress: Progress | None = None, keep_open: Sequence[int] = ()) -> int:
    """Brings the default target of the ninja file `path` up to date; returns how many edges ran.

    keep_open: descriptors of locks, which ninja and the compilers then hold, too, should this process be killed.
    Raises ToolchainError with the compiler's words when an edge fails, or takes longer than `process.time_limit()`.
    """
    command = [find(), "-C", str(path.parent), "-f", path.name]
    output = _Output(progress)
    status = process.follow(
        command, output.take, timeout=process.time_limit(), silence=True, keep_open=keep_open, umask=0o077,
        environment=dict(os.environ, NINJA_STATUS=_STATUS),
    )  # fmt: skip
    output.take(b"\n")
    if status:
        words = [line for line in output.words if line and not line.startswith("ninja: Entering")]
        raise ToolchainError(
            "the compiler rejected the sources:\n" + "\n".join(words or [f"ninja ended with {status}"])
        )
    return output.edges


class _Output:
    """What ninja prints: the edges that it has run, and the first lines, from the first failure on if there is one."""

    def __init__(self, progress: Progress | None) -> None:
        self.edges = 0
        self.words: list[str] = []
        self._progress = progress
        self._failed = False
        self._rest = b""

    def take(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_LINE_BYTES]
        for line in lines:
            self._line(line[:_LINE_BYTES].decode(errors="replace").rstrip())

    def _line(self, line: str) -> None:
        match = _LINE.match(line)
        if match:
            self.edges = int(match[1])
            if self._progress is not None:
                self._progress(self.edges, int(match[2]), match[3])
            return
        if line.startswith("FAILED:") and not self._failed:
            self._failed, self.words = True, []
        if len(self.words) < _ERROR_LINES:
            self.words.append(line)


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
