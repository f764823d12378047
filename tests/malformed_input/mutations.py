"""Documents with one wrong value each, and what a command must do with them."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

MISSING = object()


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


WRONG: dict[str, Any] = {
    "missing": MISSING,
    "null": None,
    "text": "two words",
    "empty text": "",
    "true": True,
    "zero": 0,
    "negative": -3,
    "huge": 10**30,
    "huge float": 1e300,
    "not a number": math.nan,
    "infinite": math.inf,
    "list": [1, "x"],
    "empty list": [],
    "table": {"x": 1},
    "empty table": {},
    "nested": _nested(200),
    "control characters": "a\nb\x1b[31m\x00",
    "markup": "[red]x[/nope]",
    "no Unicode": "\ud800",
    "path": "../../etc/passwd",
    "a long text": "x" * 70_000,
}
"""What stands in for a value. TOML has no null and no lone surrogates: `to_toml` refuses them."""

Path_ = tuple[str | int, ...]


def paths(value: Any, prefix: Path_ = ()) -> Iterator[Path_]:
    """The path of each value in a document; of a list the first and the last entry stand for all."""
    if prefix:
        yield prefix
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*prefix, key))
    elif isinstance(value, list):
        for index in sorted({0, len(value) - 1} if value else ()):
            yield from paths(value[index], (*prefix, index))


def replaced(document: Any, path: Path_, value: Any) -> Any:
    """A copy with another value at a path, or without it for MISSING."""
    made = copy.deepcopy(document)
    *parents, last = path
    where = made
    for key in parents:
        where = where[key]
    if value is MISSING:
        del where[last]
    else:
        where[last] = value
    return made


def mutants(document: Any, every: int = 1, offset: int = 0) -> Iterator[tuple[str, Any]]:
    """Every n-th pair of a path and a wrong value: what was done, and the document with it."""
    number = offset
    for path in paths(document):
        for name, value in WRONG.items():
            number += 1
            if number % every == 0:
                yield f"{'.'.join(map(str, path))}: {name}", replaced(document, path, value)


def run(
    main: Callable[[Sequence[str]], int], arguments: Sequence[str], capsys: pytest.CaptureFixture[str], what: str
) -> int:
    """The exit status, which is 0, 1 or 2; 2 comes with one printable sentence and no traceback."""
    try:
        status = main(list(arguments))
    except SystemExit as error:  # argparse
        status = int(error.code or 0) if isinstance(error.code, int | None) else 99
        out, err = capsys.readouterr()
        assert status in (0, 2) and (status == 0 or "error:" in err), (what, err)
        return status
    except BaseException as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    out, err = capsys.readouterr()
    assert status in (0, 1, 2), (what, status)
    assert "Traceback" not in err + out and "internal error" not in err, (what, err)
    if status == 2:
        lines = [line for line in err.splitlines() if line and "the emulator's xclbin, first time" not in line]
        assert len(lines) == 1 and len(lines[0]) < 2000, (what, err)
        assert lines[0].isprintable() and len(lines[0].split()) > 3, (what, err)
    return status


def to_toml(document: dict[str, Any]) -> str:
    """TOML of tables, lists and values. Raises ValueError for what TOML cannot express."""
    lines = []
    for key, value in document.items():
        lines.append(f"{_text(key)} = {_inline(value)}")
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    if value is None:
        raise ValueError("TOML has no null")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)} = {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, float):
        text = repr(value).replace("e+", "e")
        return text if not text.isdigit() else text + ".0"
    return str(value) if isinstance(value, int) else _text(value)


def _text(text: str) -> str:
    if re.search("[\ud800-\udfff]", text):
        raise ValueError("TOML has no lone surrogates")
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\u{ord(c):04x}" for c in text) + '"'
