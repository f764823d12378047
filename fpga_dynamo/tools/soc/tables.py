"""Tables of toml files: reading them, and one sentence for what is wrong in them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fpga_dynamo.errors import FpgaError
from xclbin_build.documents import DocumentError, read_toml
from xclbin_build.schema import MOST, shown


class StudyError(FpgaError):
    """An invalid system, workload or sweep."""


def read(path: Path) -> dict[str, Any]:
    """A toml file's table; StudyError if it is missing or none."""
    try:
        return read_toml(path)
    except DocumentError as error:
        raise StudyError(f"cannot read {path}: {error}") from error


def known_keys(where: str, values: Mapping[str, Any], known: Iterable[str]) -> None:
    """StudyError for a key that means nothing."""
    known = tuple(known)
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise StudyError(f"{where}: unknown key {key!r}: {hint}known are {', '.join(known)}")


def table(where: str, values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key, {})
    if not isinstance(found, Mapping):
        raise StudyError(f"{where}: {key} must be a table, not {found!r}")
    return found


def number(where: str, values: Mapping[str, Any], key: str, default: float, most: float = MOST) -> float:
    """A finite number from 0 to `most`."""
    value = values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (0 <= value < math.inf):
        raise StudyError(f"{where}: {key} must be a finite number >= 0, not {shown(value)}")
    if value > most:
        raise StudyError(f"{where}: {key} must be at most {most:g}, not {shown(value)}")
    return float(value)


def whole(where: str, values: Mapping[str, Any], key: str, default: int, least: int, most: int) -> int:
    """A whole number from `least` to `most`."""
    value = values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise StudyError(f"{where}: {key} must be a whole number from {least} to {most:,}, not {shown(value)}")
    return value


def text(where: str, values: Mapping[str, Any], key: str, default: str) -> str:
    """A line of printable text."""
    value = values.get(key, default)
    if not isinstance(value, str) or not value.isprintable():
        raise StudyError(f"{where}: {key} must be a line of text, not {shown(value)}")
    return value
