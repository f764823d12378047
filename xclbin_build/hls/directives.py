"""Directives of a Tcl script or a configuration file: pragmas that stand outside of the sources.

    set_directive_pipeline -II 2 "top/rows"                             syn.directive.pipeline=top/rows II=2
    set_directive_array_partition -type cyclic -factor 4 "top" table    syn.directive.array_partition=top table factor=4

A location is a function, or a function and a loop by its label or by the name that Vitis HLS gives it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .pragma import Pragma, parse
from .pragma_table import KINDS
from .tokens import Token, closing, statement_end

TCL, CONFIG = "set_directive_", "syn.directive."
_DECLARED_BEFORE = re.compile(r"[\w>*&,\]]+")
_DECLARED_BEHIND = ("[", ";", "=", ",", "(", "{")


@dataclass(frozen=True)
class Directive:
    """kind: as of a pragma. function, loop: its location; loop is "" for the whole function. options: as they stand in
    a pragma. text: as it is written, for messages."""

    kind: str
    function: str
    loop: str
    options: str
    text: str

    def pragma(self, file: str, line: int) -> Pragma:
        """The directive as a pragma of a place in the source."""
        found = parse(f"{self.kind} {self.options}", file, line)
        assert found is not None  # it has a kind
        return found


def of_tcl(command: str, values: Sequence[str]) -> Directive | None:
    """The directive of a command of Tcl; None for one that says nothing of loops and variables."""
    kind = command.removeprefix(TCL)
    words: list[str] = []
    at = 0
    while at < len(values):
        word = values[at]
        name = word[1:].lower()
        if not re.match(r"-[A-Za-z]", word):
            words.append(word)
        elif (kind in KINDS and name in KINDS[kind].words) or at + 1 == len(values):
            words.append(name + "=")
        else:
            at += 1
            words.append(f"{name}={values[at]}")
        at += 1
    return _made(kind, words, " ".join((command, *values)))


def of_config(key: str, value: str) -> Directive | None:
    """The directive of a line of a configuration file; None for one that says nothing of loops and variables."""
    kind = key.removeprefix(CONFIG)
    known = KINDS[kind].words if kind in KINDS else frozenset()
    words = [word + "=" if word.lower() in known else word for word in value.split()]
    return _made(kind, words, f"{key}={value}")


def _made(kind: str, words: Sequence[str], text: str) -> Directive | None:
    """words: options as `name=value`, words without a value as `name=`, then the location and perhaps a variable."""
    places = [word for word in words if "=" not in word]
    if kind not in KINDS or kind == "top" or not places:
        return None
    options = [word.removesuffix("=") for word in words if "=" in word]
    if len(places) > 1:
        options.append(f"{'port' if kind == 'interface' else 'variable'}={places[1]}")
    function, _, loop = places[0].partition("/")
    plain = re.sub(r"<.*", "", function).rpartition("::")[2]
    return Directive(kind, plain, loop.rpartition("/")[2], " ".join(options), text)


def place_in_function(pragma: Pragma, items: list[Token], start: int, end: int) -> int:
    """Before which token of a function's body a pragma can stand: behind the declaration of its variable, if that is
    in the body. start, end: of the body's braces."""
    name = re.split(r"\W", pragma.variable or "", maxsplit=1)[0]
    for index in range(start + 1, end - 1):
        if items[index].text != name or not name or items[index].kind != "word":
            continue
        if _DECLARED_BEFORE.fullmatch(items[index - 1].text) and items[index + 1].text in _DECLARED_BEHIND:
            return statement_end(items, index) + 1
    return start + 1


def place_in_loop(items: list[Token], start: int) -> int | None:
    """Before which token of a loop's body a pragma can stand; None without braces. start: of the loop's first word."""
    body = start + 1
    if items[start].text != "do":
        body = closing(items, start + 1) + 1
    return body + 1 if items[body].text == "{" else None
