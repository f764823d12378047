"""The axes of a convolution of one, two or three dimensions, transposed or not, as those of plain ones.

A transposed convolution with stride s is s plain ones with stride 1, its *phases*. The outputs o with o mod s = r sum
over the taps k for which s divides o + padding - dilation k. Each tap is multiplied by the input at that number divided
by s. So no product with an inserted zero is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch.fx import Node

from fpga_dynamo.ir.graph import argument, operand, shape
from fpga_dynamo.ir.view import ceil_div
from fpga_dynamo.lowering.tracing.backward import each_axis


@dataclass(frozen=True)
class Axis:
    """One axis: output i of `count`, at place first + i step of the result, is the sum over t of the weights taps[t]
    times the input at i stride - padding + t dilation, which is zero outside of the image."""

    taps: tuple[int, ...]
    stride: int
    padding: int
    dilation: int
    count: int
    first: int = 0
    step: int = 1

    def trivial(self, size: int) -> bool:
        """Whether an output is the input of the same place times a weight, for an image of `size`."""
        return len(self.taps) == 1 and (self.stride, self.padding, self.step, self.count) == (1, 0, 1, size)

    def inside(self, size: int) -> bool:
        """Whether all inputs lie within an image of `size`."""
        last = (self.count - 1) * self.stride - self.padding + (len(self.taps) - 1) * self.dilation
        return self.padding <= 0 and last < size


def axes(node: Node) -> list[list[Axis]]:
    """For each axis of the images of an `aten.convolution`, outermost first, its phases."""
    kernel, size = shape(operand(node, 1))[2:], shape(node)[2:]
    stride, padding, dilation = (
        each_axis(argument(node, name, i), len(size)) for i, name in ((3, "stride"), (4, "padding"), (5, "dilation"))
    )
    rows = zip(kernel, stride, padding, dilation, size, strict=True)
    if argument(node, "transposed", 6):
        return [_phases(*row) for row in rows]
    return [[Axis(tuple(range(k)), s, p, d, out)] for k, s, p, d, out in rows]


def _phases(kernel: int, stride: int, padding: int, dilation: int, out: int) -> list[Axis]:
    found = []
    for phase in range(min(stride, out)):
        taps = [k for k in reversed(range(kernel)) if (phase + padding - dilation * k) % stride == 0]
        between = dilation // math.gcd(dilation, stride)
        count = ceil_div(out - phase, stride)
        # Without any tap: the first one, for windows that lie outside of the image.
        before = -((phase + padding - dilation * taps[0]) // stride) if taps else count
        found.append(Axis(tuple(taps) or (0,), 1, before, between, count, phase, stride))
    return found
