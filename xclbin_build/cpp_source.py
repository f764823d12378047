"""C++ sources as tokens, as the preprocessor leaves them: as much of it as reading declarations takes.

Comments and line breaks are gone, conditions on names are decided, macros without parameters are expanded, and headers
that lie beside the file stand in the place of their `#include`. What cannot be decided without a compiler (an `#if` of
something else than integers and macros) counts as true; what a macro with parameters would become is not known.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .cpp_lexer import is_word, lex

_PREDEFINED = ("__cplusplus", "__GNUC__", "__linux__", "__unix__")
_ARITHMETIC = (
    ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.boolop, ast.unaryop, ast.cmpop,
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor, ast.RShift,
)  # fmt: skip
_MOST_CHARACTERS = 2000
_MOST_EXPANSIONS = 64  # one within the other: more is a macro that names itself


@dataclass
class TokenizedSource:
    """Tokens of a file and of the headers beside it; `functions`: macros with parameters, which are not expanded."""

    tokens: list[str] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)


def read(path: Path, include: Sequence[Path] = (), define: Sequence[str] = ()) -> TokenizedSource:
    """The tokens of the file `path`. include: where else headers are; define: macros, `NAME` or `NAME=VALUE`.

    Raises OSError or UnicodeDecodeError if it cannot be read; a header that cannot is left out.
    """
    reader = _Reader(include)
    for macro in define:
        name, _, value = macro.partition("=")
        reader.macros[name] = [match[0] for _, match in lex(value or "1")]
    reader.add(path, path.read_text(encoding="utf-8-sig"))
    return TokenizedSource(reader.tokens, {name for name, body in reader.macros.items() if body is None})


class _Reader:
    def __init__(self, include: Sequence[Path] = ()) -> None:
        self.tokens: list[str] = []
        self._include = include
        self.macros: dict[str, list[str] | None] = {name: ["1"] for name in _PREDEFINED}
        self._seen: set[Path] = set()

    def add(self, path: Path, text: str) -> None:
        self._seen.add(path.resolve())
        conditions, holds = _Conditions(), True
        for kind, match in lex(re.sub(r"\\[^\S\n]*\n", "", text)):
            if kind != "directive":
                if holds:
                    self.tokens += self._expand_macros([match[0]]) if match[0] in self.macros else (match[0],)
                continue
            words = [word[0] for _, word in lex(match[0][1:])]
            if words and not conditions.directive(words[0], words[1:], self.macros) and holds:
                self._directive(match[0], words[0], words[1:], path)
            holds = conditions.hold

    def _directive(self, text: str, name: str, rest: list[str], path: Path) -> None:
        if name == "define" and rest:
            # The parenthesis of a macro with parameters follows its name without a space.
            with_parameters = re.match(r"#\s*define\s+\w+\(", text)
            self.macros[rest[0]] = None if with_parameters else rest[1:]
        elif name == "undef" and rest:
            self.macros.pop(rest[0], None)
        elif name == "include" and rest and rest[0].startswith('"'):
            candidates = [folder / rest[0].strip('"') for folder in (path.parent, *self._include)]
            header = next((file for file in candidates if file.is_file()), None)
            if header is not None and header.resolve() not in self._seen:
                try:
                    text = header.read_text(encoding="utf-8-sig")
                except (OSError, UnicodeDecodeError):
                    return
                self.add(header, text)

    def _expand_macros(self, tokens: list[str], depth: int = 0) -> list[str]:
        result: list[str] = []
        for token in tokens:
            body = self.macros.get(token)
            if body is None or token in _PREDEFINED or depth == _MOST_EXPANSIONS:
                result.append(token)
            else:
                result += self._expand_macros([word for word in body if word != token], depth + 1)
        return result


class _Conditions:
    """The `#if`s around a place: for each whether its present branch holds, and whether one has held."""

    def __init__(self) -> None:
        self._stack: list[tuple[bool, bool]] = []

    @property
    def hold(self) -> bool:
        return all(holds for holds, _ in self._stack)

    def directive(self, name: str, rest: list[str], macros: dict[str, list[str] | None]) -> bool:
        """Takes in a directive; whether it was one of a condition."""
        if name in ("if", "ifdef", "ifndef"):
            holds = _holds(name, rest, macros)
            self._stack.append((holds, holds))
        elif name in ("else", "elif", "endif"):
            if self._stack:
                _, held = self._stack.pop()
                if name != "endif":
                    holds = not held and (name == "else" or _holds("if", rest, macros))
                    self._stack.append((holds, held or holds))
        else:
            return False
        return True


def _holds(name: str, rest: list[str], macros: dict[str, list[str] | None]) -> bool:
    if name != "if":
        return (bool(rest) and rest[0] in macros) == (name == "ifdef")
    value = _value(rest, macros)
    return value is None or value != 0


def _value(words: Sequence[str], macros: Mapping[str, list[str] | None]) -> int | None:
    """The integer that an `#if`'s expression comes to; None for one that is not made of integers and macros alone."""
    text = _in_python(words, macros, _MOST_EXPANSIONS)
    try:
        tree = ast.parse(text, mode="eval")
        if len(text) > _MOST_CHARACTERS or not all(isinstance(node, _ARITHMETIC) for node in ast.walk(tree)):
            return None
        return int(eval(compile(tree, "#if", "eval"), {"__builtins__": {}}))
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
        return None


def _in_python(words: Sequence[str], macros: Mapping[str, list[str] | None], depth: int) -> str:
    """An expression of the preprocessor in Python's words. A name that is not a macro is 0."""
    parts: list[str] = []
    at = 0
    while at < len(words):
        word, behind = words[at], list(words[at + 1 : at + 4])
        if word == "defined":
            name = behind[1] if behind[:1] == ["("] else "".join(behind[:1])
            at += 3 if behind[:1] == ["("] else 1
            parts.append(str(int(name in macros)))
        elif word in "&|" and behind[:1] == [word]:
            parts.append({"&": " and ", "|": " or "}[word])
            at += 1
        elif word == "!":
            parts.append("!=" if behind[:1] == ["="] else " not ")
            at += behind[:1] == ["="]
        elif is_word(word):
            body = macros.get(word) or ["0"]
            parts.append(f"({_in_python(body, macros, depth - 1)})" if depth else "0")
        else:
            parts.append(word.rstrip("uUlL").replace("'", "") if word[0].isdigit() and "x" not in word else word)
        at += 1
    return "".join(parts).replace("/", "//")
