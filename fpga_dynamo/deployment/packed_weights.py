"""weights.bin: packed parameters as the card gets them, then constants that cross as tensors."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from fpga_dynamo.deployment.errors import ExportError
from fpga_dynamo.ir.dtypes import OutOfRangeError
from fpga_dynamo.ir.elements import BEAT_BYTES
from fpga_dynamo.ir.weights import NotExactError, NotFiniteError, Pack, WeightBuffer


@dataclass(frozen=True)
class Layout:
    """Where all of a model's weights lie in weights.bin.

    places: of each buffer its begin in beats. packed_bytes: what the card gets. constants: their begins in bytes.
    """

    places: Mapping[WeightBuffer, int]
    packs: Sequence[tuple[Pack, int]]
    packed_bytes: int
    constants: Sequence[int]
    bytes: int


def plan(weights: Sequence[WeightBuffer], constants: Sequence[torch.Tensor]) -> Layout:
    """Places for packs, equal ones once, and for constants behind them."""
    places: dict[WeightBuffer, int] = {}
    packs: dict[tuple[object, ...], tuple[Pack, int]] = {}
    beats = 0
    for buffer in weights:
        key = (buffer.pack.key, *buffer.pack.sources)
        if key not in packs:
            packs[key] = (buffer.pack, beats)
            beats += buffer.pack.beats
        places[buffer] = packs[key][1]
    begins = []
    end = beats * BEAT_BYTES
    for tensor in constants:
        begins.append(end)
        end += -(-tensor.nbytes // BEAT_BYTES) * BEAT_BYTES
    return Layout(places, list(packs.values()), beats * BEAT_BYTES, begins, end)


def content(layout: Layout, tensors: Mapping[Node, torch.Tensor], constants: Sequence[torch.Tensor]) -> torch.Tensor:
    """The bytes of weights.bin. Raises :class:`ExportError` for parameters that the card cannot hold."""
    made = torch.zeros(layout.bytes, dtype=torch.uint8)
    for pack, place in layout.packs:
        write_pack(made, pack, place, tensors)
    for tensor, begin in zip(constants, layout.constants, strict=True):
        if tensor.numel():
            made[begin : begin + tensor.nbytes] = tensor.contiguous().flatten().view(torch.uint8)
    return made


def write_pack(made: torch.Tensor, pack: Pack, place: int, tensors: Mapping[Node, torch.Tensor]) -> None:
    """Packs into `made`, the bytes of weights.bin, from beat `place` on. Raises as :func:`content`."""
    try:
        flat = pack.build(tensors)
    except (NotFiniteError, NotExactError, OutOfRangeError) as error:
        raise ExportError(f"the card cannot hold the parameters of the model: {error}") from error
    begin = place * BEAT_BYTES
    made[begin : begin + flat.nbytes] = flat.view(torch.uint8)


def checksum(data: bytes | memoryview) -> str:
    """CRC-32 as the document has it."""
    return f"{zlib.crc32(data):08x}"
