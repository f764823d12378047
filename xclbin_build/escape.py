"""Text that goes into another language: one function for each that the package writes.

Words of a shell are `shlex.join`, XML is xml.etree, JSON is json. Where no text of a language means what is wanted, as
for a line break in ninja, the function raises BuildError. Which characters names may have at all is in `names.py`.
"""

from __future__ import annotations

import re

from .errors import BuildError

_PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\?')


def cpp_string(text: str) -> str:
    """A C++ string literal, with its quotes, of the text's bytes; paths need not be UTF-8."""
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(byte) if byte in _PLAIN else f"\\{byte:03o}" for byte in data) + '"'


def cpp_comment(text: str) -> str:
    """Text for a comment that ends with its line."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    return shown.rstrip("\\")


def ninja_value(text: str) -> str:
    """The value of a variable in a ninja file. Raises BuildError for a line break or a zero."""
    return re.sub(r"^ ", "$ ", _one_line(text).replace("$", "$$"))


def ninja_path(path: str) -> str:
    """A path in a `build` line of a ninja file. Raises BuildError for a line break or a zero."""
    return re.sub(r"([$ :])", r"$\1", _one_line(path))


def config_value(text: str) -> str:
    """A word in a configuration file of v++, which has no quotes. Raises BuildError for one that it would cut."""
    if not re.fullmatch(r"[\w.\[\]:/+-]*", text, re.ASCII):
        raise BuildError(
            f"{text!r} has characters that a configuration file of v++ cannot contain; choose another name."
        )
    return text


def _one_line(text: str) -> str:
    lost = re.search(r"[\n\r\0]", text)
    if lost:
        raise BuildError(
            f"{text!r} has the character {lost[0]!r}, which a ninja file cannot contain; choose another name."
        )
    return text
