"""Files that are written as a whole: whoever reads sees the old content or the new one, also after a full disk."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .trusted_path import is_own


def write(
    path: str | Path, content: str | bytes, *, mode: int | None = None, durable: bool = False, code: bool = False
) -> None:
    """Writes a file; text is UTF-8; bytes of paths that are not UTF-8 are kept.

    mode, durable, code: as for :func:`opened`. Raises OSError, and the file is as before.
    """
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    with opened(path, mode=mode, durable=durable, code=code) as file:
        file.write(data)


@contextlib.contextmanager
def opened(
    path: str | Path, *, mode: int | None = None, durable: bool = False, code: bool = False
) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` when the block ends, and is deleted if it ends by an exception.

    mode: of the file; by default that of the file before, else 666 without the bits of the umask.
    durable: wait until the content is on the disk.
    code: only the owner may write to the file, whatever the umask is.

    A link that belongs to this user or to root is followed. A device such as /dev/stdout is written to directly.
    """
    if _is_stream(os.fspath(path)):
        with open(path, "wb") as direct:
            yield direct
        return
    place = _follow_links(os.fspath(path))
    try:
        before = os.lstat(place)
    except FileNotFoundError:
        before = None
    if mode is None and before is not None and stat.S_ISREG(before.st_mode):
        mode = stat.S_IMODE(before.st_mode)
    temporary = os.path.join(os.path.dirname(place), f".{secrets.token_hex(8)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None or code:
                wanted = stat.S_IMODE(os.fstat(handle).st_mode) if mode is None else mode
                os.fchmod(handle, wanted & ~0o022 if code else wanted)
            yield file
            file.flush()
            if durable:
                os.fsync(handle)
        os.replace(temporary, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_changed(path: Path, text: str) -> None:
    """Writes a file of this text, unless it is there: its time of change stays. Raises OSError."""
    data = text.encode("utf-8", "surrogateescape")
    if path.is_symlink() or not path.is_file() or path.read_bytes() != data:
        write(path, data)


def symlink(target: Path, path: Path) -> None:
    """Makes `path` a link to `target`; what else is there is replaced."""
    if not path.is_symlink() or os.readlink(path) != os.fspath(target):
        temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
        temporary.symlink_to(target)
        os.replace(temporary, path)


def _is_stream(path: str) -> bool:
    """Whether a path leads to a pipe, a device or an open file rather than to a place where a file can be."""
    if os.path.abspath(path).startswith(("/dev/fd/", "/dev/std", "/proc/")):
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _follow_links(path: str) -> str:
    """Where the links at the end of a path lead. Those of other users count as files, which nobody else replaces."""
    for _ in range(40):
        try:
            status = os.lstat(path)
        except OSError:
            return path
        if not stat.S_ISLNK(status.st_mode) or not is_own(status):
            return path
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return path
