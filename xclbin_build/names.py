"""Which characters names in recipes, platforms, contracts and headers may have.

They reach C++, ninja files, shell scripts, XML and v++'s configuration. The readers of the files check them against the
kinds below (`Table.name`, `check`), with a message that names file and key; `escape.py` writes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .declaration import KEYWORDS
from .errors import RecipeError
from .schema import shown


@dataclass(frozen=True)
class Kind:
    """What a name must match as a whole, and that in words."""

    pattern: str
    rule: str
    of_code: bool = False
    most: int = 255  # characters

    def allows(self, name: str) -> bool:
        fits = re.fullmatch(self.pattern, name) is not None and name.isprintable()
        return fits and not (self.of_code and name in KEYWORDS)


IDENTIFIER = Kind("[A-Za-z_][A-Za-z0-9_]*", "an identifier of ASCII letters that is not a C++ keyword", of_code=True)
KERNEL = Kind(
    "[A-Za-z][A-Za-z0-9_]{0,28}", "a C identifier of at most 29 characters that is not a keyword", of_code=True
)
TEXT = Kind(".*", "one line of printable characters")
TITLE = Kind(".+", "one line of printable characters")
PLATFORM = Kind("[A-Za-z0-9_.~/][A-Za-z0-9_.~/+-]*", "the name of a platform, or its path, without spaces or quotes")
BANK = Kind(
    r"[A-Za-z][A-Za-z0-9_]*(\[[0-9]+(:[0-9]+)?\](\.[0-9]+(\.RAMA)?)?)?",
    "letters, digits and '_', optionally with a number or a range of numbers in brackets",
)
PORT = Kind(r"([A-Za-z_]\w*\.)?[A-Za-z_]\w*", "an argument's name, or UNIT.ARGUMENT for one compute unit's")
MACRO = Kind(
    r"[A-Za-z_][A-Za-z0-9_]*(=[^\"\\`$;|&<>]*)?", "NAME or NAME=VALUE, without quotes and the shell's own characters"
)
FILE = Kind(
    r"(?!-)[^\"\\]+", "a path of printable characters without '\"' and '\\' that does not begin with '-'", most=4096
)
WORD = Kind(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", "letters, digits, '_', '.', '+' and '-'")


def check(name: str, kind: Kind, where: str) -> str:
    """The name. Raises RecipeError, with `where` first, for one that is not of the kind."""
    if not kind.allows(name):
        raise RecipeError(f"{where} must be {kind.rule}, not {shown(name)}.")
    if len(name) > kind.most:
        raise RecipeError(f"{where} must have at most {kind.most} characters, not {len(name)}.")
    return name
