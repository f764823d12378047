"""Entries on disk: one file each, named by its key, checksummed, replaced as a whole, the least recently used dropped.

A file is MAGIC, the SHA-256 of the rest, the length of a JSON text, that text, and raw bytes. The text repeats the key,
so that a file under another's name is not taken for it. Whatever is wrong with a file, it is as if it were not there,
but for a warning; the next compilation writes it again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fpga_dynamo.cache.plain import CorruptError
from xclbin_build import atomic_file
from xclbin_build.cache import folder, place
from xclbin_build.trusted_path import weakness

log = logging.getLogger(__name__)

LIMIT_VARIABLE = "FPGA_DYNAMO_PROGRAM_CACHE"
DEFAULT_MEBIBYTES = 256
MAGIC = b"fpga_dynamo/1\n\0\0"
_CHECKSUM = slice(len(MAGIC), len(MAGIC) + 32)
_BODY = _CHECKSUM.stop
_SUFFIX = ".program"
_FOLDER = "programs"
_FORGOTTEN = 3600.0
"""Seconds after which a temporary file is one that a dead process has left."""


@dataclass(frozen=True)
class Entry:
    """What a file holds: a JSON object and raw bytes."""

    header: dict[str, Any]
    raw: memoryview


def size_limit() -> int:
    """Bytes that all entries may take; 0 turns the cache off. From the environment, else 256 MiB."""
    given = os.environ.get(LIMIT_VARIABLE, "")
    try:
        return int(float(given) * (1 << 20)) if given else DEFAULT_MEBIBYTES << 20
    except (ValueError, OverflowError):
        _warn_once(f"{LIMIT_VARIABLE}={given!r} is not a number of MiB; the default, {DEFAULT_MEBIBYTES}, is used")
        return DEFAULT_MEBIBYTES << 20


def directory(*, create: bool = False) -> Path:
    """Where the entries are; it need not exist unless `create` asks for it."""
    return folder(_FOLDER) if create else place(_FOLDER)


def read(key: str) -> tuple[Entry, bytes] | None:
    """The entry called `key` and its file's content, or None; counts as a use of it."""
    try:
        path = _path(key)
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.info("a compiled program cannot be read: %s", error)
        return None
    try:
        weak = weakness(path)
        if weak is not None:
            raise CorruptError(str(weak))
        entry = parse(key, content)
    except CorruptError as error:
        report_unusable(key, error)
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return entry, content


def parse(key: str, content: bytes) -> Entry:
    """Raises :class:`CorruptError` if `content` is not, bit for bit, what was written under `key`."""
    if content[: len(MAGIC)] != MAGIC:
        raise CorruptError("it is not a cache entry, or an entry of another version")
    body = memoryview(content)[_BODY:]
    if hashlib.sha256(body).digest() != content[_CHECKSUM]:
        raise CorruptError("its checksum is wrong")
    length = int.from_bytes(body[:8], "little")
    try:
        header = json.loads(bytes(body[8 : 8 + length]))
    except (ValueError, RecursionError) as error:
        raise CorruptError("its header is not JSON") from error
    if not isinstance(header, dict) or header.get("key") != key:
        raise CorruptError("it belongs to another key")
    return Entry(header, body[8 + length :])


def serialise(key: str, header: dict[str, Any], raw: bytes = b"") -> bytes:
    """The content of a file."""
    text = json.dumps({"key": key, **header}, separators=(",", ":")).encode()
    body = b"".join((len(text).to_bytes(8, "little"), text, raw))
    return b"".join((MAGIC, hashlib.sha256(body).digest(), body))


def write(key: str, content: bytes) -> bool:
    """Puts an entry in its place as a whole; whoever reads sees the old one or the new one. False if it could not."""
    limit = size_limit()
    if len(content) > limit:
        return False
    try:
        path = directory(create=True) / _path(key).name
        atomic_file.write(path, content, mode=0o600)
        _evict(path.parent, limit, keep=path)
    except OSError as error:
        log.info("a compiled program is not kept for other processes: %s", error)
        return False
    return True


def report_unusable(key: str, error: Exception) -> None:
    """Warns of an entry that is ignored: a damaged one (CorruptError), or one that another error has come of."""
    why = str(error) if isinstance(error, CorruptError) else f"{type(error).__name__}: {error}"
    warnings.warn(f"the cached program {_path(key)} is ignored and compiled again: {why}", RuntimeWarning, stacklevel=2)


def _path(key: str) -> Path:
    if not key.isalnum():
        raise CorruptError(f"not a key: {key!r:.80}")
    return directory() / f"{key}{_SUFFIX}"


def _evict(folder: Path, limit: int, keep: Path) -> None:
    """Deletes the entries that have not been used for longest until the rest takes `limit` bytes at most."""
    found: list[tuple[float, int, str]] = []
    with os.scandir(folder) as listing:
        for item in listing:
            with contextlib.suppress(FileNotFoundError):  # another process evicts, too
                status = item.stat()
                if item.name.endswith(_SUFFIX):
                    found.append((status.st_mtime, status.st_size, item.path))
                elif item.name.endswith(".tmp") and time.time() - status.st_mtime > _FORGOTTEN:
                    os.unlink(item.path)
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= limit:
            break
        if path != str(keep):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            total -= size


_warned: set[str] = set()


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, RuntimeWarning, stacklevel=3)
