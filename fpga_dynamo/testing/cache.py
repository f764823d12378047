"""Compiled programs kept in a folder that is empty at first, so that a test knows what is compiled and what is read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock


@contextmanager
def empty_program_cache() -> Iterator[Path]:
    """While it lasts, programs are kept in an empty folder, which it gives, even where the environment wants none kept.

    It changes the process, not one thread.
    """
    from fpga_dynamo.cache import store

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with (
            mock.patch.object(store, "directory", lambda **_: place),
            mock.patch.object(store, "size_limit", lambda: store.DEFAULT_MEBIBYTES << 20),
        ):
            yield place
