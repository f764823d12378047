"""Where the calls of a long command run: in threads of this process, or on the hosts of a Ray cluster."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeVar

from fpga_dynamo.errors import FpgaError

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkerDiedError(FpgaError):
    """The process that ran a call ended, on each attempt."""


class Executor(Protocol):
    """Runs calls elsewhere. A context: leaving it waits for what runs, or ends it."""

    in_flight: int
    """Calls that it is given at once: those that run, and those that wait until others end."""

    def submit(self, call: Callable[[Item], Result], item: Item, /) -> Future[Result]: ...

    def __enter__(self) -> Any: ...

    def __exit__(self, *exception: Any) -> Any: ...


class Threads(ThreadPoolExecutor):
    """Threads of this process, for calls that release the interpreter's lock."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.in_flight = 2 * count


def as_ended(
    executor: Executor, call: Callable[[Item], Result], items: Iterable[Item]
) -> Generator[tuple[Item, Future[Result]]]:
    """Yields each item as its call ends, in any order. Closing the iterator cancels the calls that have not begun."""
    waiting: dict[Future[Result], Item] = {}
    remaining = iter(items)
    try:
        while True:
            for item in itertools.islice(remaining, executor.in_flight - len(waiting)):
                waiting[executor.submit(call, item)] = item
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future
    finally:
        for future in waiting:
            future.cancel()
