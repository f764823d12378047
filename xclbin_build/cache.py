"""The per-user cache: build directories and finished xclbins, safe to use from several processes and threads.

It lies in $FPGA_DYNAMO_CACHE, else in $XDG_CACHE_HOME/fpga_dynamo, else in ~/.cache/fpga_dynamo, and may be deleted
at any time when no build is running. Code is loaded from it, so only this user and root may be able to write there;
otherwise a folder of this user's in the temporary directory takes its place, with a warning.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from .errors import BuildError
from .trusted_path import Weakness, printable, weakness

_lock = threading.Lock()
_instead: dict[tuple[Path, int], Path] = {}
"""What takes the place of a cache that others can write to, by cache and user."""


class CacheError(BuildError, OSError):
    """There is no place for a cache, or it cannot be written to."""


def root() -> Path:
    """The cache's directory, which need not exist. Nobody but this user and root can write to it."""
    chosen = _chosen()
    instead = _instead.get((chosen, os.geteuid()))
    if instead is not None:
        return instead
    weak = weakness(chosen)
    return chosen if weak is None else _replacement(chosen, weak)


def place(*parts: str) -> Path:
    """Where :func:`folder` makes a directory, which need not exist: what was written there is read there."""
    directory = root().joinpath(*parts)
    weak = weakness(directory)
    return directory if weak is None else _replacement(_chosen(), weak).joinpath(*parts)


def folder(*parts: str) -> Path:
    """A directory in the cache, made if need be, that nobody but this user and root can write to."""
    directory = _make_directory(place(*parts))
    weak = weakness(directory)
    if weak is not None:
        directory = _make_directory(_replacement(_chosen(), weak).joinpath(*parts))
        if (weak := weakness(directory)) is not None:
            raise CacheError(f"{weak}; delete it, or set FPGA_DYNAMO_CACHE to a folder of your own.")
    return directory


def digest(parts: Iterable[str | bytes]) -> str:
    """A name that follows from the parts, whose limits count: ("ab", "c") and ("a", "bc") differ."""
    total = hashlib.sha256()
    for part in parts:
        # A path need not be UTF-8.
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()[:32]


def build_directory(key: str) -> Path:
    """Where objects of the build `key` are kept; made if need be."""
    return folder("build", key)


def xclbin_path(key: str) -> Path:
    """Where the finished xclbin `key` is, or goes to."""
    return folder("xclbin") / f"{key}.xclbin"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Holds the lock of a file or directory in the cache against other processes and threads; gives its descriptor.

    flock belongs to the open file, so threads, which open it separately, exclude each other too. When a process dies,
    its lock is released as soon as the processes that inherited the descriptor have ended.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(lock, error) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            raise _unusable(lock, error) from error
        yield handle
    finally:
        os.close(handle)


def _chosen() -> Path:
    chosen = os.environ.get("FPGA_DYNAMO_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).absolute() if base else Path.home() / ".cache") / "fpga_dynamo"


def _replacement(chosen: Path, weak: Weakness) -> Path:
    """The directory in place of a cache that others can write to. Warns, once."""
    key = chosen, os.geteuid()
    with _lock:
        if key in _instead:
            return _instead[key]
        _instead[key] = private = _private()
    warnings.warn(
        f"the cache {printable(chosen)} is not used, because {weak}: others could put code there. {printable(private)} "
        "is used instead; run 'chmod go-w', or set FPGA_DYNAMO_CACHE to a folder of your own.",
        RuntimeWarning,
        stacklevel=3,
    )
    return private


def _private() -> Path:
    """A directory of this user's, the same for all his processes if nobody has taken its name."""
    for base in dict.fromkeys([tempfile.gettempdir(), "/tmp", "/var/tmp"]):
        if not os.path.isdir(base) or weakness(base) is not None:
            continue
        own = Path(base) / f"fpga_dynamo-{os.geteuid()}"
        with contextlib.suppress(OSError):
            own.mkdir(mode=0o700, exist_ok=True)
            if weakness(own) is None:
                return own
        with contextlib.suppress(OSError):
            made = Path(tempfile.mkdtemp(prefix="fpga_dynamo-", dir=base))
            atexit.register(_delete, made, os.getpid())
            return made
    raise CacheError(
        "no folder for the cache is safe from writes by other users; set FPGA_DYNAMO_CACHE to a folder of your own."
    )


def _delete(directory: Path, process: int) -> None:
    """At the end of a process; its children, who end, too, leave the directory alone."""
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)


def _make_directory(directory: Path) -> Path:
    """Makes a directory and those above it, for this user alone."""
    try:
        missing = []
        above = directory
        while not above.is_dir():
            missing.append(above)
            above = above.parent
        for each in reversed(missing):
            each.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise _unusable(directory, error) from error
    return directory


def _unusable(path: Path, error: OSError) -> CacheError:
    return CacheError(
        f"the cache cannot be used: {printable(path)}: {error.strerror or error}; "
        "set FPGA_DYNAMO_CACHE to a writable directory."
    )
