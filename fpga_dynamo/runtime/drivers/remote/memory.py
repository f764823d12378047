"""Memory at an address, as a view that the network can read from and write to."""

from __future__ import annotations

import ctypes

ADDRESSABLE = (1 << 63) - 1


def view_of(address: int, nbytes: int) -> memoryview:
    """`nbytes` of this process's memory. Whoever asks keeps it alive."""
    return memoryview((ctypes.c_char * nbytes).from_address(address)).cast("B") if nbytes else memoryview(b"")
