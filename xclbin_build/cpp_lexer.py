"""Tokens of C and C++ sources, for every reader of sources: of declarations, and of loops in preprocessed text."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<space>\s+ | //[^\n]* | /\*.*?(?:\*/|\Z))
  | (?P<directive>\#(?:/\*.*?\*/|[^\n])*)
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
  | (?P<quoted>(?:u8|[uUL])?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'))
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<word>[^\W\d]\w*)
  | (?P<sign>::|->|\.\.\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def lex(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Kind and match of each token. Kinds: word, number, quoted, sign, and directive (a line that starts with #)."""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind != "space":
            yield "quoted" if kind in ("raw", "mark") else kind, match


def is_word(token: str) -> bool:
    """Whether a token is an identifier or keyword."""
    return token[0].isalpha() or token[0] == "_"
