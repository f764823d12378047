"""Winograd's method for convolutions that the cost model would not give it to, so that small models test it too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

TILE_SIZES = (2, 4)

NOISE = 2.0**-18
"""What the method may change a convolution's result by, as a share of its largest number: 32 ulp of float32."""


@contextmanager
def winograd_everywhere(tile_size: int) -> Iterator[None]:
    """While it lasts, every convolution that Winograd's method can do is compiled with tiles of this size (2 or 4).

    Compiled programs do not say so in their names: use it with a disk cache of its own (see
    :func:`fpga_dynamo.testing.cache.empty_program_cache`) or none. It changes the process, not one thread.
    """
    from fpga_dynamo.lowering.ops.convolution import winograd

    if tile_size not in TILE_SIZES:
        raise ValueError(f"tiles of Winograd's method have a side of {' or '.join(map(str, TILE_SIZES))}")
    chosen = winograd.fastest_tile
    winograd.fastest_tile = lambda common, target: tile_size
    try:
        yield
    finally:
        winograd.fastest_tile = chosen
