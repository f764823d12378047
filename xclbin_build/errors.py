"""The errors of xclbin_build. Every message is a sentence that names the thing at fault and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BuildError(Exception):
    """Something in the way of a build: base of the errors below."""


class RecordError(BuildError, ValueError):
    """A header whose command records, enums or core line cannot be understood."""


class RecipeError(BuildError, ValueError):
    """A recipe or platform file that asks for something impossible or unknown."""


class ToolchainError(BuildError, RuntimeError):
    """A compiler that is missing, or that refused the sources."""


class XclbinError(ValueError):
    """A file that is no xclbin, a damaged one, or one that this version cannot use."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The tail of an "unknown name" message: the nearest known name, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"known: {', '.join(names)}." if names else "no value is allowed here."
