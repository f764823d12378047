"""Stops a policy's decision that does not end: one faulty run does not stop a study of many."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from fpga_dynamo.runtime.scheduling.policies import Policy
from fpga_dynamo.tools.soc.tables import StudyError

LIMIT = 30.0
"""Seconds of one decision; a decision on a thousand tasks takes milliseconds."""


class _Endless(BaseException):
    """Raised in the thread of a decision that takes too long. No Exception: a policy may catch those in its loop."""


@contextmanager
def limited(policy: Policy, limit: float = LIMIT) -> Iterator[None]:
    """Within this context, StudyError ends a call of `policy.assign` that takes more than `limit` seconds.

    The call has to be in the thread that entered the context, in code in Python: what is written in C is not stopped.
    """
    thread, lock, over = threading.get_ident(), threading.Lock(), threading.Event()
    begun: list[float] = []
    assign = policy.assign

    def watched(*arguments: Any) -> Any:
        begun.append(monotonic())
        try:
            return assign(*arguments)
        finally:
            with lock:
                begun.clear()

    def watch() -> None:
        while not over.wait(min(limit / 4, 1.0)):
            with lock:
                if begun and monotonic() - begun[0] > limit:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Endless))

    policy.assign = watched  # type: ignore[method-assign,assignment]
    watcher = threading.Thread(target=watch, name="soc watchdog", daemon=True)
    watcher.start()
    try:
        yield
    except _Endless:
        raise StudyError(
            f"policy {policy.name!r} was stopped: one of its decisions took more than {limit:g} s; `assign` must return"
        ) from None
    finally:
        over.set()
        watcher.join()
        del policy.assign
