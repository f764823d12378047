"""The token of a card server: where it is read from, and how each end proves that it has it.

The token is the key of an HMAC over random numbers of both ends, so that it never crosses the network.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fpga_dynamo._native import card_protocol
from fpga_dynamo.errors import OptionError
from xclbin_build.trusted_path import is_own, printable, weakness

_LEAST, _MOST = card_protocol.LEAST_TOKEN, card_protocol.MOST_TOKEN
_MAKE = "make one with: (umask 077; openssl rand -hex 32 > FILE)"


def read_private(path: str | Path, what: str) -> bytes:
    """The content of a file that nobody but this user and root can read or change. what: for messages.

    Raises OptionError for a file that cannot be read, and for one that others can read or change.
    """
    where = f"{what} {printable(path)}"
    try:
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(_MOST + 1) if stat.S_ISREG(status.st_mode) else None
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise OptionError(f"{where} cannot be read: {reason}; {_MAKE}") from error
    if content is None:
        raise OptionError(f"{where} is no regular file; {_MAKE}")
    if not is_own(status) or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise OptionError(
            f"{where} can be read by others (mode {stat.S_IMODE(status.st_mode):o}); it must be yours, with mode 600"
        )
    if (found := weakness(path)) is not None:
        raise OptionError(f"{where} can be changed by others: {found}; move it to a folder of your own")
    return content


def read_token(path: str | Path) -> bytes:
    """The token in a file, without the white space around it. Raises OptionError as :func:`read_private`."""
    token = read_private(path, "token file").strip()
    if not _LEAST <= len(token) <= _MOST:
        raise OptionError(
            f"token file {printable(path)} has {len(token)} characters, and a token has {_LEAST} to {_MOST}; {_MAKE}"
        )
    return token


def nonce() -> str:
    """A random number, as text."""
    return secrets.token_hex(card_protocol.NONCE_BYTES)


def proof(token: bytes, who: str, numbers: Mapping[str, str]) -> str:
    """What only somebody with the token can say. who: "client" or "server"; numbers: each end's random number."""
    message = "|".join((who, numbers["client"], numbers["server"]))
    return hmac.new(token, message.encode(), "sha256").hexdigest()


def is_proof(given: Any, token: bytes, who: str, numbers: Mapping[str, str]) -> bool:
    """Whether `given` is the proof; takes as long for any text."""
    return isinstance(given, str) and given.isascii() and hmac.compare_digest(given, proof(token, who, numbers))


def is_nonce(given: Any) -> bool:
    """Whether `given` is text that :func:`nonce` may have made."""
    return isinstance(given, str) and given.isascii() and len(given) == 2 * card_protocol.NONCE_BYTES
