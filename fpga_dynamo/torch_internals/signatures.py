"""Whether a function is still the one that is known."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any


def wrong_parameters(name: str, function: Callable[..., Any] | None, expected: Sequence[str]) -> Iterator[str]:
    """In what a function is not the one that takes these parameters: it is missing, or asks for others."""
    if function is None:
        yield f"there is no {name}"
        return
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # native functions may have no signature
        return
    names = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    if names != list(expected):
        yield f"{name} has the parameters {', '.join(names) or 'nothing'}, not {', '.join(expected)}"
