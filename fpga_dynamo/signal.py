"""Signal processing on the card, function by function; see docs/signal.md.

``fpga_dynamo.signal.fft(x)`` is ``torch.fft.fft(x)`` on a compute unit or a PS thread. The functions are those of one
:class:`Accelerators`, made on first use with the xclbin of the recipe "signal"; make another one for other options.
"""

from __future__ import annotations

import functools
from typing import Any

from fpga_dynamo.tools.accelerators import Accelerators

__all__ = [
    "Accelerators", "add", "conj", "conj_multiply", "conv2d", "default", "fft", "fft2", "ifft", "ifft2", "irfft",
    "magnitude", "matmul", "multiply", "rfft", "subtract",
]  # fmt: skip


@functools.cache
def default() -> Accelerators:
    """The accelerators behind the functions of this module."""
    return Accelerators()


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(default(), name)
    raise AttributeError(f"module 'fpga_dynamo.signal' has no attribute {name!r}")
