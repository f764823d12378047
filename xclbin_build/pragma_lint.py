"""Mistakes in `#pragma HLS` that a C++ compiler passes over: unknown words, and names that do not exist; with what
structure_lint.py finds."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .cpp_lexer import lex
from .design import Design
from .errors import did_you_mean as nearest_of
from .generate import user_directories
from .hls.pragma import Pragma, parse
from .hls.pragma_table import KINDS, REQUIRED, Kind
from .hls.source import functions_in, opening_of
from .hls.tokens import Token, tokens
from .includes import files_of
from .structure_lint import mistakes
from .trusted_path import printable

_NAME = re.compile(r"[&*]*\s*([A-Za-z_]\w*)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_PRAGMA = re.compile(r"#\s*pragma\s+(\w+)")
_OTHERS = {"ap", "sds", "accel", "omp", "gcc", "clang", "stdc", "once", "pack", "hls"}
_NEAR = 0.6  # of difflib, below which a word is no misspelling of HLS


@dataclass(frozen=True)
class Finding:
    """A mistake. text: a sentence without its end, and what was meant."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def check_design(design: Design) -> list[Finding]:
    """Mistakes in the user's own kernels and cores of a design, with their headers."""
    files = [path for kernel in design.kernels for path in kernel.files]
    files += [core.header for core in design.cores if core.user]
    return check_files(files, user_directories(design))


def check_files(files: Iterable[Path], folders: Sequence[Path] = ()) -> list[Finding]:
    """Mistakes in sources and the headers that they reach in `folders` and beside them."""
    read = {path: _tokens(path) for path in files_of(files, folders) if path.is_file()}
    words = {item.text for items in read.values() for item in items if item.kind == "word"}
    found = [finding for path, items in read.items() for finding in _check(path, items, words)]
    structure = mistakes({printable(path): items for path, items in read.items()})
    found += [Finding(mistake.file, mistake.line, mistake.text) for mistake in structure]
    return sorted(found, key=lambda one: (one.file, one.line))


def _tokens(path: Path) -> list[Token]:
    return tokens(path.read_text(errors="replace"))


def _check(path: Path, items: list[Token], words: set[str]) -> Iterator[Finding]:
    name = printable(path)
    functions = functions_in(items)
    for index, item in enumerate(items):
        if item.kind != "hls":
            continue
        pragma = parse(item.text.replace("\\\n", " "), name, item.line)
        if pragma is None:
            yield Finding(name, item.line, "a '#pragma HLS' without a kind has no effect; name one, such as pipeline.")
            continue
        around = [place for place in functions if place[1] <= index <= place[2]]
        inner = max(around, key=lambda place: place[1], default=None)
        for text in _mistakes(pragma, items, inner, words):
            yield Finding(name, item.line, text)
    yield from _misspelled(path, name)


def _misspelled(path: Path, name: str) -> Iterator[Finding]:
    """`#pragma HSL ...`: another word in the place of HLS."""
    text = path.read_text(errors="replace")
    for kind, match in lex(text):
        head = _PRAGMA.match(match[0]) if kind == "directive" else None
        if head and head[1].lower() not in _OTHERS:
            near = difflib.SequenceMatcher(None, head[1].upper(), "HLS").ratio()
            if near >= _NEAR and len(head[1]) <= 4:
                line = text.count("\n", 0, match.start()) + 1
                yield Finding(name, line, f"'#pragma {head[1]}' has no effect; did you mean 'HLS'?")


def _mistakes(
    pragma: Pragma, items: list[Token], function: tuple[str, int, int] | None, words: set[str]
) -> Iterator[str]:
    kind = KINDS.get(pragma.kind)
    if kind is None:
        yield f"unknown pragma '{pragma.kind}'; {did_you_mean(pragma.kind, KINDS)}"
        return
    yield from _unknown(pragma, kind)
    required = REQUIRED.get(pragma.kind)
    if required and pragma.value(required) is None:
        yield f"'{pragma.kind}' has no effect without {required}=NAME; name the {required}."
    if function is None:
        return
    inside = {item.text for item in _of_function(items, function) if item.kind == "word"}
    port = _base(pragma.options.get("port"))
    if port and port != "return" and pragma.kind == "interface":
        parameters = {item.text for item in _parameters(items, function[1]) if item.kind == "word"}
        if port not in parameters and parameters:
            yield f"function '{function[0]}' has no argument '{port}'; {did_you_mean(port, parameters)}"
    variable = _base(pragma.options.get("variable"))
    if variable and variable not in ("return", "this") and variable not in inside | words:
        yield f"there is no variable '{variable}' in function '{function[0]}'; {_near(variable, inside)}"


def _unknown(pragma: Pragma, kind: Kind) -> Iterator[str]:
    known = kind.options | kind.words
    for name, value in pragma.options.items():
        if name not in kind.options:
            yield f"'{pragma.kind}' has no option '{name}'; {did_you_mean(name, known)}"
        elif name in kind.values and _WORD.fullmatch(value) and value.lower() not in kind.values[name]:
            yield f"'{pragma.kind}' does not accept {name}={value}; {did_you_mean(value.lower(), kind.values[name])}"
    for word in sorted(pragma.words - kind.words):
        if word in kind.options:
            yield f"the option '{word}' of '{pragma.kind}' has no value; write {word}=VALUE."
        else:
            yield f"'{pragma.kind}' does not accept '{word}'; {did_you_mean(word, known)}"


def _of_function(items: list[Token], function: tuple[str, int, int]) -> list[Token]:
    """The tokens of a function, with those of its parameters."""
    first = next((at for at in range(function[1] - 1, -1, -1) if items[at].text in (";", "}", "{")), 0)
    return items[first : function[2] + 1]


def _parameters(items: list[Token], brace: int) -> list[Token]:
    """The tokens between the brackets of the parameters in front of a function's body."""
    end = brace - 1
    while end > 0 and items[end].text != ")":
        if items[end].text in (";", "{", "}"):
            return []
        end -= 1
    return items[opening_of(items, end) + 1 : end]


def _base(name: str | None) -> str:
    """The variable that an expression such as `*buffer`, `state.rows` or `tile[0]` begins with."""
    found = _NAME.match(name or "")
    return found[1] if found else ""


def _near(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"did you mean '{close[0]}'?" if close else "name one that is declared there."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The name that was meant: one of the same letters, such as m_axi for axim, before the nearest one."""
    names = sorted(known)
    same = next((name for name in names if _letters(name) == _letters(word)), None)
    return f"did you mean '{same}'?" if same else nearest_of(word, names)


def _letters(name: str) -> list[str]:
    return sorted(name.replace("_", ""))
