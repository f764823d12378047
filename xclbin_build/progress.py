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
def shown(what: str, *, quiet: bool = False, stages: bool = False) -> Iterator[Callback]:
    """Shows on stderr that `what` is being built, until the context is left; gives what is to be called as steps end.

    With `quiet` nothing is shown. stages: the steps take minutes to hours, so each has its name and a line.
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
                running = f", {step}" if stages else ""
                bar.update(task, completed=done, total=total, steps=f"{done} of {total} steps{running}")

            yield update
        return
    began = told = time.monotonic()
    before = ""
    console.print(f"building {what}")

    def tell(done: int, total: int, step: str) -> None:
        nonlocal told, before
        now = time.monotonic()
        if (stages and step != before) or now - told >= REPEATED:
            told, before = now, step
            running = f", {step}" if stages else ""
            console.print(f"building {what}: {done} of {total} steps{running}, {now - began:.0f} s")

    yield tell
    console.print(f"built {what} in {time.monotonic() - began:.0f} s")
