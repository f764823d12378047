"""The ways to compute a convolution of images, and which is taken: the fastest by its core's cycles."""

from __future__ import annotations

from collections.abc import Collection

from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering.ops.convolution.depthwise import BY_CHANNEL
from fpga_dynamo.lowering.ops.convolution.direct import DIRECT
from fpga_dynamo.lowering.ops.convolution.implementation import ConvolutionShape, Implementation
from fpga_dynamo.lowering.ops.convolution.product import PRODUCT
from fpga_dynamo.lowering.ops.convolution.winograd import LARGE_TILES, SMALL_TILES

IMPLEMENTATIONS: tuple[Implementation, ...] = (PRODUCT, BY_CHANNEL, DIRECT, SMALL_TILES, LARGE_TILES)
"""From what rounds least to what rounds most; of equally fast ones the first is taken."""


def choose(shape: ConvolutionShape, target: Target, opcodes: Collection[str]) -> Implementation | None:
    """The cheapest implementation of a convolution with commands of `opcodes`, or None."""
    able = [way for way in IMPLEMENTATIONS if way.opcode in opcodes and way.can(shape, target) is None]
    if len(able) < 2:
        return next(iter(able), None)
    asked = next((way for way in able if way.asked(target)), None)
    if asked is not None:
        return asked
    best, cycles = able[0], able[0].cycles(shape, target)
    for way in able[1:]:
        if cycles < best.settles:
            break
        found = way.cycles(shape, target)
        if found < best.stays * cycles:
            best, cycles = way, found
    return best
