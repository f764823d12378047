"""Signal processing on the card, function by function; see docs/signal.md.

``fpga_dynamo.signal.fft(x)`` is ``torch.fft.fft(x)`` on a compute unit or a PS thread. The functions are those of one
:class:`Accelerators` with the xclbin of the recipe "signal", which is built when it is first needed; make another one
for other options.
"""

from fpga_dynamo.tools.accelerators import Accelerators

default = Accelerators()
"""The accelerators behind the functions of this module."""

fft, ifft, rfft, irfft, fft2, ifft2 = (
    default.fft,
    default.ifft,
    default.rfft,
    default.irfft,
    default.fft2,
    default.ifft2,
)
multiply, conj_multiply, add, subtract = default.multiply, default.conj_multiply, default.add, default.subtract
conj, magnitude, matmul, conv2d = default.conj, default.magnitude, default.matmul, default.conv2d

__all__ = [
    "Accelerators",
    "add",
    "conj",
    "conj_multiply",
    "conv2d",
    "default",
    "fft",
    "fft2",
    "ifft",
    "ifft2",
    "irfft",
    "magnitude",
    "matmul",
    "multiply",
    "rfft",
    "subtract",
]
