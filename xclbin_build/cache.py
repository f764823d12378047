"""The per-user cache: build directories and finished xclbins, safe to use from several processes and threads.

It lies in $FPGA_DYNAMO_CACHE, else in $XDG_CACHE_HOME/fpga_dynamo, else in ~/.cache/fpga_dynamo, and may be deleted
at any time when no build is running.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from .errors import BuildError


def root() -> Path:
    """The cache's directory, which need not exist."""
    chosen = os.environ.get("FPGA_DYNAMO_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fpga_dynamo"


def digest(parts: Iterable[str | bytes]) -> str:
    """A name that follows from the parts, whose limits count: ("ab", "c") and ("a", "bc") differ."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()[:32]


def build_directory(key: str) -> Path:
    """Where objects of the build `key` are kept; made if need be."""
    return _made(root() / "build" / key)


def xclbin_path(key: str) -> Path:
    """Where the finished xclbin `key` is, or goes to."""
    return _made(root() / "xclbin") / f"{key}.xclbin"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock of a file or directory in the cache against other processes and threads.

    flock belongs to the open file, so threads, which open it anew, exclude each other too; a process that dies lets go.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        handle = open(lock, "wb")  # noqa: SIM115 - closed below, by which it is unlocked
    except OSError as error:
        raise _unusable(lock, error) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _made(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(directory, error) from error
    return directory


def _unusable(path: Path, error: OSError) -> BuildError:
    return BuildError(
        f"the cache cannot be used: {path}: {error.strerror or error}; set FPGA_DYNAMO_CACHE to a writable directory."
    )
