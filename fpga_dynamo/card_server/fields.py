"""Fields of a request, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fpga_dynamo._native import card_protocol
from fpga_dynamo.errors import DeviceError

MOST = card_protocol.MOST_BYTES


class Fields:
    """The head of a request. Each method raises DeviceError for a field that is missing or of another kind."""

    def __init__(self, head: Mapping[str, Any]) -> None:
        self._head = head

    def number(self, name: str, most: int = MOST) -> int:
        """A number from 0 to `most`."""
        value = self._head.get(name)
        if type(value) is not int or not 0 <= value <= most:
            raise DeviceError(f"field '{name}' of a request must be a number from 0 to {most}, not {_shown(value)}")
        return value

    def text(self, name: str) -> str:
        value = self._head.get(name)
        if not isinstance(value, str) or len(value) > card_protocol.MOST_TEXT or not value.isprintable():
            raise DeviceError(f"field '{name}' of a request must be text, not {_shown(value)}")
        return value

    def digest(self, name: str = "digest") -> str:
        value = self._head.get(name)
        hexadecimal = isinstance(value, str) and len(value) == card_protocol.DIGEST_CHARACTERS and value.isalnum()
        if not isinstance(value, str) or not hexadecimal:
            raise DeviceError(f"field '{name}' of a request must be a digest, not {_shown(value)}")
        return value

    def flag(self, name: str) -> bool:
        return self._head.get(name) is True

    def has(self, name: str) -> bool:
        return name in self._head

    def pieces(self, name: str) -> list[tuple[int, int]]:
        """Bytes, and offset in a buffer, of each piece."""
        rows = self._list(name)
        if any(not isinstance(row, list) or len(row) != 2 or not all(map(_is_size, row)) for row in rows):
            raise DeviceError(f"field '{name}' of a request must be a list of [bytes, offset]")
        return [(nbytes, offset) for nbytes, offset in rows]

    def numbers(self, name: str) -> list[int]:
        """A list of numbers; empty if there is no such field."""
        rows = self._list(name) if name in self._head else []
        if not all(map(_is_size, rows)):
            raise DeviceError(f"field '{name}' of a request must be a list of numbers")
        return list(rows)

    def arguments(self) -> dict[int, Any]:
        """Values by the index of a kernel's argument."""
        table = self._head.get("arguments")
        if not isinstance(table, dict) or not all(key.isascii() and key.isdigit() and len(key) < 6 for key in table):
            raise DeviceError("field 'arguments' of a request must be an object with indices as its names")
        return {int(key): value for key, value in table.items()}

    def _list(self, name: str) -> Sequence[Any]:
        value = self._head.get(name)
        if not isinstance(value, list):
            raise DeviceError(f"field '{name}' of a request must be a list, not {_shown(value)}")
        return value


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST


def _shown(value: Any) -> str:
    return repr(value)[:80] if isinstance(value, (str, int, float, bool, type(None))) else f"a {type(value).__name__}"
