"""The address of a card at the other end of a network: ``tcp://host:port/0``, or ``tls://host:port/0``."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from fpga_dynamo.errors import OptionError

_SCHEMES = ("tcp", "tls")
_FILES = ("token-file", "ca-file")
_FORM = "tcp://HOST:PORT/INDEX (tls://... for a server with --tls-cert)"
_MOST_INDEX = 1 << 31


@dataclass(frozen=True)
class DeviceAddress:
    """Card `index` of a server.

    token_file, ca_file: names of the file with the token, and of the certificate that signs the server's; "" stands
    for $FPGA_DYNAMO_TOKEN_FILE and $FPGA_DYNAMO_CA_FILE.
    """

    scheme: str
    host: str
    port: int
    index: int = 0
    token_file: str = ""
    ca_file: str = ""

    @property
    def endpoint(self) -> str:
        """Host and port, for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def driver(self) -> str:
        """The address without the index: the name of the driver that goes there."""
        files = zip(_FILES, (self.token_file, self.ca_file), strict=True)
        query = "&".join(f"{name}={quote(file)}" for name, file in files if file)
        return f"{self.scheme}://{self.endpoint}{'?' if query else ''}{query}"


def is_address(name: str) -> bool:
    """Whether the name of a device or driver is meant as an address."""
    return "://" in name


def parse(text: str) -> DeviceAddress:
    """Reads an address. Raises OptionError, which says what is wrong, for other text."""
    try:
        parts = urlsplit(text)
        host, port, index = parts.hostname, parts.port, int(parts.path.strip("/") or "0")
        files = _files(parts)
    except ValueError:
        host, port, index, files = None, None, -1, None
    if files is None or not host or not port or parts.scheme not in _SCHEMES or parts.username or parts.fragment:
        raise OptionError(f"device {text!r} is no address of a card: expected {_FORM}")
    if not 0 <= index < _MOST_INDEX:
        raise OptionError(f"device {text!r}: {index} is not the index of a card")
    return DeviceAddress(parts.scheme, unquote(host), port, index, *(files[name] for name in _FILES))


def _files(parts: SplitResult) -> dict[str, str] | None:
    """The files that the address names; None if it names anything else."""
    given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    if any(name not in _FILES or not value for name, value in given) or len(dict(given)) != len(given):
        return None
    return dict.fromkeys(_FILES, "") | dict(given)
