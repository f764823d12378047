"""Packages that only some commands need: the extras of pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fpga_dynamo.errors import FpgaError


@contextmanager
def extra(what: str, name: str) -> Iterator[None]:
    """Within this context a module that is missing is an FpgaError, which names the extra that `what` needs."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise FpgaError(f"{what} needs {error.name}: pip install 'fpga_dynamo[{name}]'") from error
