"""Parameters of the hardware engine's products: offset, scale and bias of each channel, and behind them the table.

A command that works channel by channel may be cut into parts, each of which finds the parameters of its own channels
at its own line, and its table behind those.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch

from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.view import Buffer
from fpga_dynamo.ir.weights import WeightBuffer
from fpga_dynamo.lowering.ops.quantised.epilogue import QuantizedEpilogue
from fpga_dynamo.lowering.ops.quantised.packing import PARAMETERS, pack_one_scale, pack_parameters

LAYOUTS: dict[str, Callable[..., torch.Tensor]] = {
    "pack_parameters": pack_parameters,
    "pack_one_scale": pack_one_scale,
}
_BLOCK = PARAMETERS * CHANNELS
"""Words of a block of channels."""


def engine_params(
    constants: Buffer, end: QuantizedEpilogue, emitter: EngineEmitter
) -> Callable[[MacCommand, int], int]:
    """What answers the line of a cut command's parameters. constants: those of all channels."""

    def line(cut: MacCommand, first: int) -> int:
        assert isinstance(constants, WeightBuffer)
        if end.table is None:
            return emitter.put(constants) + cut.params
        pack, blocks = constants.pack, cut.out_blocks
        own = TableParameters(pack.layout.__name__, pack.params, cut.params // PARAMETERS, blocks, end.table)
        words = blocks * _BLOCK + len(end.table) // 4
        name = f"{constants.name} and table of {end.last.name}"
        return emitter.put(emitter.pack(pack_with_table, own, pack.operands, words, name))

    return line


@dataclass(frozen=True)
class TableParameters:
    """Settings of :func:`pack_with_table`. layout: the name in LAYOUTS of what packs all channels by `channels`."""

    layout: str
    channels: Hashable
    first: int
    blocks: int
    table: tuple[int, ...]


def pack_with_table(settings: TableParameters, *operands: torch.Tensor | None) -> torch.Tensor:
    """int32: the parameters of `blocks` blocks of channels from block `first` on, and 256 bytes behind them."""
    words = LAYOUTS[settings.layout](settings.channels, *operands)
    begin, end = settings.first * _BLOCK, (settings.first + settings.blocks) * _BLOCK
    entries = torch.tensor(settings.table, dtype=torch.uint8).view(torch.int32)
    return torch.cat([words.view(torch.int32)[begin:end], entries])
