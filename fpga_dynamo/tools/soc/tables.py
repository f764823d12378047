"""Tables of toml files: reading them, and one sentence for what is wrong in them."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

from fpga_dynamo.errors import FpgaError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class StudyError(FpgaError):
    """A system, workload or sweep that is none."""


def read(path: Path) -> dict[str, Any]:
    """A toml file's table; StudyError if it is missing or none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
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
        raise StudyError(f"{where}: {key} is a table, not {found!r}")
    return found


def number(where: str, values: Mapping[str, Any], key: str, default: float) -> float:
    """A finite number >= 0."""
    value = values.get(key, default)
    if isinstance(value, bool) or not (isinstance(value, Real) and 0 <= float(value) < math.inf):
        raise StudyError(f"{where}: {key} must be a finite number >= 0, not {value!r}")
    return float(value)
