"""Who wrote an entry: each carries a code that only a process with this user's key can make (HMAC-SHA-256).

A checksum finds damage, but whoever can write a file can write its checksum. What an entry says (which weights a
command reads, what it computes) cannot be told right from wrong without lowering the graph again, so that it has to
come from this package. The key is a file of 32 random bytes that only its owner can read.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import json
import logging
import os
import secrets
import stat
import tempfile
from typing import Any

from fpga_dynamo.cache import store
from fpga_dynamo.cache.plain import CorruptError
from xclbin_build.trusted_path import weakness

log = logging.getLogger(__name__)

KEY_VARIABLE = "FPGA_DYNAMO_CACHE_KEY"
"""The file of a key that several users or machines share, so that their artifacts are good for each other."""

_BYTES = 32
_FIELD = "seal"


def serialise(key: str, header: dict[str, Any], raw: bytes = b"") -> bytes:
    """The content of a file, with the code that says that this user's process has made it."""
    return store.serialise(key, {**header, _FIELD: _code(header, raw)}, raw)


def check(header: dict[str, Any], raw: bytes | memoryview) -> None:
    """Raises :class:`CorruptError` unless :func:`serialise` has made the header with the same key, for these bytes."""
    given = str(header.get(_FIELD)).encode(errors="replace")
    if not hmac.compare_digest(given, _code(header, raw).encode()):
        raise CorruptError(
            f"it was not written with this user's key ({_path()}); for entries of other users or machines have "
            f"{KEY_VARIABLE} name the key file that they share"
        )


def _code(header: dict[str, Any], raw: bytes | memoryview) -> str:
    rest = {name: item for name, item in header.items() if name not in (_FIELD, "key")}
    text = json.dumps(rest, separators=(",", ":"), sort_keys=True).encode()
    code = hmac.new(_key(_path()), len(text).to_bytes(8, "little") + text, hashlib.sha256)
    code.update(raw)
    return code.hexdigest()


def _path() -> str:
    # Not in the folder of the entries: that one may be on a file system which several users or machines write to.
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.environ.get(KEY_VARIABLE) or os.path.join(config, "fpga_dynamo", "cache.key")


@functools.cache
def _key(path: str) -> bytes:
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        log.warning("compiled programs are kept for this process only: the key %s cannot be used: %s", path, error)
        return secrets.token_bytes(_BYTES)
    try:
        return _create(path)
    except (OSError, ValueError) as error:
        log.warning("compiled programs are kept for this process only: the key %s cannot be made: %s", path, error)
        return secrets.token_bytes(_BYTES)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        if (weak := weakness(path)) is not None:
            raise ValueError(str(weak))
        if os.fstat(file.fileno()).st_mode & stat.S_IROTH:
            raise ValueError("others can read it; run 'chmod 600'")
        content = file.read(_BYTES + 1)
    if len(content) != _BYTES:
        raise ValueError(f"it has to have {_BYTES} bytes")
    return content


def _create(path: str) -> bytes:
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".", dir=folder)  # only its owner can read it
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
    return _read(path)
