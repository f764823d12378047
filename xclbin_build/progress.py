"""Progress of a build: a line on stderr, which a terminal updates in place and a file repeats from time to time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from .toolchain.ninja_file import Progress as Callback

REPEATED = 10.0
"""Seconds between two lines where there is no terminal."""


@contextmanager
def shown(what: str, *, quiet: bool = False) -> Iterator[Callback]:
    """Shows on stderr that `what` is being built, until the context is left; gives what is to be called as steps end.

    With `quiet` nothing is shown.
    """
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False, quiet=quiet)
    if console.is_terminal and not quiet:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[steps]}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(f"building {what}", total=None, steps="")

            def update(done: int, total: int, step: str) -> None:
                bar.update(task, completed=done, total=total, steps=f"{done} of {total} steps")

            yield update
        return
    began = told = time.monotonic()
    console.print(f"building {what}")

    def tell(done: int, total: int, step: str) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= REPEATED:
            told = now
            console.print(f"building {what}: {done} of {total} steps, {now - began:.0f} s")

    yield tell
    console.print(f"built {what} in {time.monotonic() - began:.0f} s")
