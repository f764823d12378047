"""Reads TOML and JSON files of a user: whatever is wrong with the text is a DocumentError with a short reason."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .schema import shown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_BYTES = 256 << 20
MOST_DEPTH = 64
_REASON = 300  # characters


class DocumentError(ValueError):
    """A file that cannot be read, has another format, or holds text that nothing could show."""


def read_toml(path: Path) -> dict[str, Any]:
    """The table of a TOML file."""
    found: dict[str, Any] = _read(path, tomllib.loads, "TOML")
    return found


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    return _read(path, json.loads, "JSON")


def read_text(path: Path) -> str:
    """The text of a file, which may be a pipe or a device: it ends after MOST_BYTES or is refused."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise DocumentError(f"it is larger than {MOST_BYTES >> 20} MiB")
        return content.decode().replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise DocumentError(error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"byte {error.start} is not UTF-8") from error
    except DocumentError:
        raise
    except ValueError as error:  # a zero in the path
        raise DocumentError(str(error)) from error


def _read(path: Path, parse: Callable[[str], Any], format_: str) -> Any:
    text = read_text(path)
    try:
        value = parse(text)
    except RecursionError as error:
        raise DocumentError(f"it is nested more than {MOST_DEPTH} deep") from error
    except ValueError as error:
        words = " ".join(str(error).split())
        raise DocumentError(f"it is not valid {format_}: {words[:_REASON]}") from error
    _check_values(value)
    return value


def _check_values(document: Any) -> None:
    """Refuses deep nesting, control characters and lone surrogates, in keys and values alike."""
    level = [document]
    for _ in range(MOST_DEPTH):
        following: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                following += [*value, *value.values()]
            elif isinstance(value, list):
                following += value
            elif isinstance(value, str) and not all(c.isprintable() or c in "\n\t" for c in value):
                raise DocumentError(f"the text {shown(value)} has a character that is not printable")
        level = following
        if not level:
            return
    raise DocumentError(f"it is nested more than {MOST_DEPTH} deep")
