"""Which compute unit wrote which lines of the maps: so a command knows whether it has to wait for its peers."""

from __future__ import annotations

from collections.abc import Iterator

from fpga_dynamo.ir.view import ceil_div

from .command import MacCommand, Peers, WeightKind
from .sizes import CHANNELS, EngineSizes
from .vector import VectorCommand

_Run = tuple[int, int]


class Owners:
    """Of each line the unit that wrote it last."""

    def __init__(self, sizes: EngineSizes) -> None:
        self._sizes = sizes
        self._owner = bytearray()  # of each line 1 + the unit; 0: the host

    def peers(self, command: MacCommand | VectorCommand, unit: int) -> Peers:
        """The operands of which others than `unit` have made a part."""
        found = Peers.NONE
        for operand, runs in _reads(command, self._sizes):
            if any(set(self._owner[first : first + count]) - {0, unit + 1} for first, count in runs):
                found |= operand
        return found

    def wrote(self, command: MacCommand | VectorCommand, unit: int) -> None:
        for first, count in _writes(command, self._sizes):
            missing = first + count - len(self._owner)
            if missing > 0:
                self._owner.extend(bytes(missing))
            self._owner[first : first + count] = bytes([unit + 1]) * count


def _heads(command: MacCommand | VectorCommand, base: int, step: tuple[int, int]) -> Iterator[int]:
    for outer in range(command.heads[0]):
        for inner in range(command.heads[1]):
            yield base + outer * step[0] + inner * step[1]


def _reads(command: MacCommand | VectorCommand, sizes: EngineSizes) -> Iterator[tuple[Peers, Iterator[_Run]]]:
    c = command
    if isinstance(c, VectorCommand):
        first, second, _ = c.planes(sizes)
        if c.gathers:
            yield Peers.INPUT, _words(c, sizes)
        else:
            yield Peers.INPUT, _rows(c, c.input, c.input_head, first)
        if c.has_other:
            yield Peers.RESIDUAL, _rows(c, c.other, c.other_head, second)
        return
    yield Peers.INPUT, _input(c, sizes)
    if c.has_residual:
        yield Peers.RESIDUAL, _output(c, c.residual, c.residual_head, c.residual_image, sizes)
    if c.second_operand_is_map:
        yield Peers.WEIGHT, _operand(c, sizes)


def _writes(command: MacCommand | VectorCommand, sizes: EngineSizes) -> Iterator[_Run]:
    c = command
    if isinstance(c, VectorCommand):
        return _rows(c, c.output, c.output_head, c.planes(sizes)[2])
    return _output(c, c.output, c.output_head, c.output_image, sizes)


def _rows(c: VectorCommand, base: int, step: tuple[int, int], lines: int) -> Iterator[_Run]:
    for at in _heads(c, base, step):
        for block in range(c.blocks):
            yield at + block * (c.plane or lines), lines


def _words(c: VectorCommand, sizes: EngineSizes) -> Iterator[_Run]:
    """The lines in which a gather's words lie."""
    for at in _heads(c, c.input, c.input_head):
        first = at // sizes.beat
        yield first, ceil_div(at + c.taken[0], sizes.beat) - first


def _input(c: MacCommand, sizes: EngineSizes) -> Iterator[_Run]:
    row = c.in_width * c.pixel_channels
    plane = ceil_div(c.in_height * row, sizes.line_elements)
    top = -c.padding[0]
    behind = min(c.in_height, top + (c.out_height - 1) * c.stride[0] + (c.kernel[0] - 1) * c.dilation[0] + 1)
    begin = max(top, 0) * row // sizes.line_elements
    end = ceil_div(max(behind, 0) * row, sizes.line_elements)
    for at in _heads(c, c.input, c.input_head):
        for image in range(c.images):
            for block in range(c.in_blocks):
                yield at + image * c.input_image + block * plane + begin, max(end - begin, 0)


def _output(c: MacCommand, base: int, step: tuple[int, int], image_step: int, sizes: EngineSizes) -> Iterator[_Run]:
    pixels = c.out_height * c.out_width
    lines = pixels if c.stores_32_bits else ceil_div(pixels, sizes.beat)
    for at in _heads(c, base, step):
        for image in range(c.images):
            for block in range(c.out_blocks):
                yield at + image * image_step + block * (c.out_plane or lines), lines


def _operand(c: MacCommand, sizes: EngineSizes) -> Iterator[_Run]:
    """K: of each block of steps all output channels. V: of each block of output channels all steps."""
    block = CHANNELS * CHANNELS // sizes.line_elements
    transposed = c.weight_kind is WeightKind.TRANSPOSED
    runs, length = (c.out_blocks, c.tile_depth) if transposed else (c.tile_depth, c.out_blocks)
    for at in _heads(c, c.weight, c.weight_head):
        for run in range(runs):
            yield at + run * c.weight_plane, min(length * block, c.weight_plane or length * block)
