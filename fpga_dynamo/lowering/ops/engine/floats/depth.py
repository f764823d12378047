"""Products of floats that are too deep for an engine's memories, in pieces, each of which adds to those before.

A piece has some of the input's blocks of channels, and gets the results of the pieces before as what its epilogue adds;
limits are the last one's. So no sums of 32 bits need a way to memory. A float32 engine rounds once more a piece than it
would have; one of bfloat16 rounds what lies between two pieces to 16 bits, as eager does between two layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch.fx import Node

from fpga_dynamo.codegen.engine.choose import DoesNotFitError
from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map, MapImages
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.view import ceil_div
from fpga_dynamo.lowering.ops.engine.common.images import WeightLine
from fpga_dynamo.lowering.ops.engine.floats.epilogue import WITHOUT_LIMITS, FloatEpilogue, parameters


def emit(
    command: MacCommand,
    x: MapImages,
    y: MapImages,
    end: FloatEpilogue,
    bias: Node | None,
    weights: Callable[[int, int], WeightLine],
    residual: MapImages | None,
    macs: int,
    emitter: EngineEmitter,
) -> None:
    """The command, in as few pieces as fit. weights: of channels from the first to before the second.

    Raises DoesNotFitError for one that is no sum over all channels, or whose piece of one block is too much.
    """

    def in_pieces(pieces: int) -> None:
        blocks, before = ceil_div(x.blocks, pieces), residual
        for first in range(0, x.blocks, blocks):
            count, begin = min(blocks, x.blocks - first), first * CHANNELS
            channels = min(x.channels - begin, count * CHANNELS)
            of = command if pieces == 1 else replace(command, in_blocks=count, group_in=channels)
            to = y
            if first + count < x.blocks:
                of = replace(of, **WITHOUT_LIMITS)
                between = Map(y.images, y.pixels, y.channels, emitter.sizes, f"{end.last.name} from channel {begin} on")
                to = MapImages(between, y.images, y.channels, y.height, y.width)
            emitter.mac(
                of,
                replace(x, block=x.block + first, channels=channels),
                to,
                parameters(end, bias, y.channels, emitter, shifted=first == 0),
                weights(begin, begin + channels),
                residual=before,
                macs=macs * count // x.blocks,
            )
            before = to

    dense = not (command.folded or command.one_to_one) and command.group_in == x.channels
    pieces = 1
    while True:
        try:
            return in_pieces(pieces)
        except DoesNotFitError:
            if not dense or pieces >= x.blocks:
                raise
            pieces *= 2
