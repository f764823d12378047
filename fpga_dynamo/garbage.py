"""The garbage collector stands still while much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cyclic collection while it lasts: each would walk all that a compilation has made so far, and free none of it.

    The collector belongs to the process; whoever has turned it off already keeps it off.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
