"""`#pragma HLS`: its kind and options, as text."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Options that are words without a value, by which a loop or an array is meant.
_WORD = re.compile(r"([A-Za-z_]\w*)(\s*=\s*)?")


@dataclass(frozen=True)
class Pragma:
    """One `#pragma HLS`.

    kind: in lower case, such as `pipeline`. options: `name=value` in lower-case names; values are C++ expressions.
    words: options without a value, in lower case. file, line: where it stands.
    """

    kind: str
    options: dict[str, str]
    words: frozenset[str]
    file: str
    line: int

    def value(self, *names: str) -> str | None:
        """The first of the options that is given."""
        return next((self.options[name] for name in names if name in self.options), None)

    @property
    def variable(self) -> str | None:
        """The variable or port that it is about."""
        return self.value("variable", "port")

    @property
    def pipelines(self) -> bool:
        """Whether it asks for a pipeline."""
        return self.kind == "pipeline" and "off" not in self.words


def parse(text: str, file: str, line: int) -> Pragma | None:
    """The pragma behind `#pragma HLS`; None if there is nothing behind it."""
    head = re.match(r"\s*(\w+)", text)
    if not head:
        return None
    options, words = {}, []
    rest = text[head.end() :]
    at = 0
    while match := _WORD.search(rest, at):
        if match[2] is None:
            words.append(match[1].lower())
            at = match.end()
            continue
        end = _value_end(rest, match.end())
        options[match[1].lower()] = rest[match.end() : end].strip()
        at = max(end, match.end() + 1)
    return Pragma(head[1].lower(), options, frozenset(words), file, line)


def _value_end(text: str, start: int) -> int:
    """Where a value ends: at the first space outside of brackets behind which no operator goes on."""
    depth = 0
    at = start
    while at < len(text):
        c = text[at]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c.isspace() and depth == 0:
            before, after = text[start:at].rstrip(), text[at:].lstrip()
            if before and not (before[-1] in "+-*/%" or (after and after[0] in "+*/%")):
                return at
        at += 1
    return at
