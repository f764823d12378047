"""What happens after an internal error: the graph falls back to eager mode, and a reproduction is saved.

:func:`or_else` is the one place at which that is decided; whatever compiles a graph, packs its weights or binds it to
sizes goes through it. The file that is saved: observe/reproduction.py.

Tests want no fallback: :func:`count` raises the error there. Each error is counted, raised or not.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from fpga_dynamo.errors import FpgaError, InternalError
from fpga_dynamo.ir.dtypes import OutOfRangeError
from fpga_dynamo.ir.weights import NotEvaluatedError, NotExactError, NotFiniteError
from fpga_dynamo.runtime.observe import counters
from fpga_dynamo.runtime.observe.reproduction import Case, save
from fpga_dynamo.torch_internals.dynamo import DYNAMO_ERRORS

log = logging.getLogger(__name__)

T = TypeVar("T")

_EXPECTED = (
    *DYNAMO_ERRORS,
    IndexError,  # what eager raises for a dimension that a tensor has not; Dynamo hands it on
    OutOfRangeError,  # data that the card does not take
    NotFiniteError,
    NotExactError,
    NotEvaluatedError,
)

_raising: set[object] = set()
"""One for each block of :func:`raising` that has not ended. Threads of the scheduler see it too."""


def or_else(make: Callable[[], T], instead: Callable[[str], T], case: Case) -> T:
    """What `make` returns; after an internal error what `instead` makes of the reason, with a warning.

    Errors that name a user's mistake pass, those by which Dynamo breaks a graph do, and all do under ``strict=True``
    and where :func:`count` raises it.
    """
    try:
        return make()
    except Exception as error:
        if not is_internal(error):
            raise
        count(error)
        if case.options.strict:
            raise
        return instead(report(error, case))


def count(error: Exception) -> None:
    """Counts an internal error that the caller has a fallback for; raises it within :func:`raising`, and where the
    environment says so."""
    counters.add(internal_errors=1)
    if _raising or os.environ.get("FPGA_DYNAMO_INTERNAL_ERRORS") == "raise":
        raise error


def is_internal(error: Exception) -> bool:
    """Whether it is the compiler that is to blame for `error`, not who uses it."""
    if isinstance(error, FpgaError):
        return isinstance(error, InternalError)
    return not isinstance(error, _EXPECTED)


def report(error: Exception, case: Case) -> str:
    """Saves the reproduction of an internal error and warns of it; returns the reason why the graph is eager mode's."""
    lines = str(error).strip().splitlines()
    why = f"compiling it failed with {type(error).__name__}: {lines[0] if lines else ''}"
    try:
        where = f"{save(error, case)} reproduces this; please attach it to a report"
    except Exception as other:  # of whatever kind: the program goes on
        where = f"no reproduction could be saved ({type(other).__name__}: {other})"
    warnings.warn(f"a graph falls back to eager mode, because {why}. {where}", RuntimeWarning, stacklevel=3)
    log.info("internal error", exc_info=error)
    return why


@contextmanager
def raising() -> Iterator[None]:
    """While it lasts, internal errors are raised, in whichever thread they happen."""
    token = object()
    _raising.add(token)
    try:
        yield
    finally:
        _raising.discard(token)
