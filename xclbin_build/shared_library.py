"""Shared objects of a few C++ sources that other packages load: built at their first use, and kept in the cache."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .cache import digest, folder, locked
from .errors import ToolchainError
from .progress import shown
from .toolchain import compiler, process
from .trusted_path import weakness


def built_once(
    kind: str,
    what: str,
    key: Sequence[str | bytes],
    sources: Callable[[Path], Sequence[Path]],
    flags: Sequence[str],
    link: Sequence[str],
) -> Path:
    """The shared object `kind`/`key` of the cache, which is built with a line of progress if it is not there.

    what: its name in that line. key: all that it is made from but the compiler and `flags`, which count too.
    sources: the files to compile, given a directory for those that have to be written. link: options of the linker.
    Raises BuildError if there is no compiler, or if it rejects a source.
    """
    name = digest([kind, compiler.find_compiler().version, *flags, *link, *key])
    path = folder(kind) / f"{name}.so"
    if not _usable(path):
        with locked(path):
            if not _usable(path):
                _build(path, what, sources, flags, link)
    return path


def _usable(path: Path) -> bool:
    return path.is_file() and weakness(path) is None


def _build(
    path: Path, what: str, sources: Callable[[Path], Sequence[Path]], flags: Sequence[str], link: Sequence[str]
) -> None:
    with (
        shown(f"{what}, first time only") as progress,
        tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as name,
        ThreadPoolExecutor(os.cpu_count()) as team,
    ):
        files = sources(Path(name))
        objects = [Path(name) / f"{i}.o" for i in range(len(files))]
        for done, source in enumerate(team.map(lambda file, out: _compile(file, out, flags), files, objects), 1):
            progress(done, len(files) + 1, source.name)
        compiler.shared_object(["-shared", *map(str, objects), *link], path)
        progress(len(files) + 1, len(files) + 1, path.name)


def _compile(source: Path, target: Path, flags: Sequence[str]) -> Path:
    call = [*compiler.find_compiler().command, *flags, "-c", str(source), "-o", str(target)]
    result = process.run(call, timeout=process.time_limit())
    if result.status:
        words = "\n".join(result.output.splitlines()[:20])
        raise ToolchainError(f"the compiler rejected {source.name}:\n{words or f'it ended with {result.status}'}")
    return source
