"""Windows over rows that are wider than an engine's window, or whose kernel is: commands that go along the rows.

An image of one row is read as one of a column: bands are then parts of the row, and a kernel too long is cut by its
positions (parts.py). Of other images rows are first copied to a map in which each is an image of its own, with rows of
padding above and below. The blocks of the rows under a window lie one behind the other there: to a command they are
channels of one row, so all of a kernel is one sum. A depthwise sum becomes a product by a matrix with zeros, block by
block. A maximum is computed along the rows first. Then the vector side interleaves the pixels of as many rows as the
kernel has, and a second command takes their maximum.

Rows of a result may begin within a line. Such a command begins with the line, and what it writes in front of its row is
overwritten by the command of the row above, which stands behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import gcd, lcm
from typing import Any, Protocol

import torch

from fpga_dynamo.codegen.requantize import channels
from fpga_dynamo.ir.view import Buffer, ceil_div
from fpga_dynamo.ir.weights import Expression, WeightBuffer

from .choose import DoesNotFitError, tiled
from .command import NO_OPERAND, CommandGeometry, MacCommand, Operation, WeightKind
from .cycles import PARAMS_LINES
from .layout import packed_params
from .maps import Map, MapImages
from .parts import CommandPart, TransposedKernel
from .sizes import CHANNELS, EngineSizes
from .vector import VectorCommand, interleaved

_ROWS, MOST_IMAGES, _PIXELS = 1 << 20, (1 << 12) - 1, 1 << 23
"""What a command counts: rows of an image; images, steps, kernels and paddings; pixels of all blocks (check.hpp)."""
_ONE, _INFINITY = 0x3F80_0000, 0x7F80_0000
"""Bits of floats."""


@dataclass(frozen=True)
class Made:
    """What a command is made with: who answers lines of params and of weights, and its products.

    begin: of the launch's list, where what it waits for was counted.
    """

    params: Callable[[MacCommand, int], int]
    weight: Callable[[CommandPart], int] | None = None
    macs: int = 0
    begin: int = 0


class Writer(Protocol):
    """What commands are written with here: an emitter (emitter.py)."""

    @property
    def sizes(self) -> EngineSizes: ...
    @property
    def written_so_far(self) -> int: ...
    def place(self, of: Map) -> int: ...
    def after(self, of: Map) -> int: ...
    def written(self, of: Map) -> None: ...
    def put(self, buffer: Buffer) -> int: ...
    def pack(
        self,
        layout: Callable[..., torch.Tensor],
        params: tuple[Any, ...],
        operands: Sequence[Expression | None],
        count: int,
        name: str = "",
    ) -> WeightBuffer: ...
    def cut(
        self,
        command: MacCommand,
        made: Made,
        *,
        block: int = 0,
        transposed: TransposedKernel | None = None,
        ordered: bool = False,
    ) -> None: ...
    def vector(self, command: VectorCommand, x: MapImages, out: MapImages, params: int, other: MapImages) -> None: ...


def is_too_wide(command: MacCommand, sizes: EngineSizes) -> bool:
    """Whether the least part (parts.py) is, by its row or by the positions of its kernel's row."""
    if command.second_operand_is_map or command.heads != (1, 1):
        return False
    c = tiled(command, sizes)
    by_rows = sizes.partial_sums and c.operation is Operation.MULTIPLY
    together = 1 if c.one_to_one or c.out_blocks * CHANNELS <= c.group_out else c.in_blocks
    kernel = (1 if by_rows else c.kernel[0], c.kernel[1])
    g = CommandGeometry(replace(c, kernel=kernel, band_rows=1, set_tiles=1), sizes)
    return g.taps > sizes.taps or g.block_rows * together > sizes.window_rows


def tile_width(command: MacCommand, x: MapImages, out: MapImages, made: Made, emitter: Writer) -> None:
    """Appends the commands for one that :func:`is_too_wide`, whose input is not folded. Raises DoesNotFitError."""
    c, transposed = command, TransposedKernel(0 if command.one_to_one else command.group_out)
    if c.in_height == c.out_height == c.kernel[0] == 1 and c.padding[0] == 0:
        return emitter.cut(_counted(_along(c)), made, transposed=transposed)
    made = replace(made, macs=made.macs // c.images)
    for image in range(c.images):
        one = replace(c, images=1, input=c.input + image * c.input_image, output=c.output + image * c.output_image)
        if c.has_residual:
            one = replace(one, residual=c.residual + image * c.residual_image)
        if c.operation is Operation.MAXIMUM and c.kernel[0] > 1:
            _maxima(one, x, out, made, emitter)
        elif c.one_to_one and c.kernel[0] > 1:
            for block in range(c.in_blocks):
                rows = _rows_apart(one, x, block, 1, c.dilation[0], emitter)
                part = replace(one, weight_kind=WeightKind.PACKED, out_blocks=1, group_out=CHANNELS)
                _of_rows(part, rows, CHANNELS, out, made, emitter, block, transposed)
        else:
            several = c.kernel[0] > 1
            rows = _rows_apart(one, x, 0, c.in_blocks, c.dilation[0] if several else 1, emitter)
            of_row = c.in_blocks * CHANNELS if several else c.group_in
            one = replace(one, group_out=c.out_blocks * CHANNELS) if several else one
            _of_rows(one, rows, of_row, out, made, emitter, 0, transposed)
    return None


def _along(c: MacCommand) -> MacCommand:
    """A command over the rows of an image as over columns of one pixel in width."""
    of_image = replace(c, in_height=c.in_width, in_width=1, out_height=c.out_width, out_width=1)
    of_kernel = replace(of_image, kernel=(c.kernel[1], 1), stride=(c.stride[1], 1))
    return replace(of_kernel, padding=(c.padding[1], 0), dilation=(c.dilation[1], 1))


def _counted(command: MacCommand) -> MacCommand:
    """The command. Raises DoesNotFitError if it has more than an engine counts."""
    c = command
    if c.in_height >= _ROWS or c.out_height >= _ROWS:
        raise DoesNotFitError(f"has {max(c.in_height, c.out_height)} pixels in a row, and the engine supports {_ROWS}")
    if (most := max(c.images, *c.kernel, *c.stride, *c.dilation, *c.padding)) > MOST_IMAGES:
        raise DoesNotFitError(
            f"has {most} rows, or a kernel, stride or padding of that size, and the engine supports {MOST_IMAGES}"
        )
    return c


# --- rows of the input ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """Rows of an image, each an image of `map`: row `first` + q is the image q % apart * each + q // apart."""

    map: Map
    first: int
    apart: int
    each: int

    def image(self, q: int) -> int:
        return q % self.apart * self.each + q // self.apart


def _rows_apart(c: MacCommand, x: MapImages, block: int, blocks: int, apart: int, emitter: Writer) -> _Rows:
    """The rows under c's windows, of some blocks; those that are so far apart lie one behind the other."""
    count = (c.out_height - 1) * c.stride[0] + (c.kernel[0] - 1) * c.dilation[0] + 1
    each, beat, width = ceil_div(count, apart), emitter.sizes.beat, c.in_width
    rows = Map(apart * each, width, blocks * CHANNELS, emitter.sizes, f"rows of {x.map.name}")
    found = _Rows(rows, -c.padding[0], apart, each)
    plane = ceil_div(c.in_height * width, beat)
    at = emitter.place(rows)
    # Rows that begin alike within a line, and whose images are equally far apart.
    step = lcm(beat // gcd(width, beat), apart)
    wanted = [row for row in range(c.in_height) if 0 <= row - found.first < count]
    pixels = c.in_height * width
    at_once = blocks if pixels < _ROWS and blocks * pixels < _PIXELS else 1
    for begin in wanted[:step]:
        own = range(begin, wanted[-1] + 1, step)
        for first in range(0, blocks, at_once):
            line, lead = divmod(begin * width, beat)
            if len(own) == 1:  # pixels that are there already are counted from the image's begin
                line, lead = 0, begin * width
            copy = replace(
                _copy(c, emitter.sizes),
                in_blocks=at_once,
                # As many as make the plane from one block to the next, of one block as many as there are.
                in_height=pixels if at_once > 1 or len(own) == 1 else lead + width,
                padding=(-lead, 0),
                out_blocks=at_once,
                out_height=width,
                images=len(own),
                input=c.input + (block + first) * plane + line,
                input_image=step * width // beat,
                input_after=emitter.after(x.map),
                output=at + found.image(begin - found.first) * rows.image_lines + first * rows.plane,
                output_image=step // apart * rows.image_lines,
                out_plane=rows.plane,
            )
            emitter.cut(_counted(copy), _ones(at_once, emitter))
    outside = sorted(found.image(q) for q in range(count) if not 0 <= found.first + q < c.in_height)
    for _, run in groupby(enumerate(outside), lambda pair: pair[1] - pair[0]):
        images = [image for _, image in run]
        filling = replace(
            _copy(c, emitter.sizes),
            in_blocks=blocks,
            padding=(-1, 0),  # below an image of one row
            out_blocks=blocks,
            out_height=width,
            images=len(images),
            input=at,
            output=at + images[0] * rows.image_lines,
            output_image=rows.image_lines,
        )
        emitter.cut(_counted(filling), _ones(blocks, emitter))
    emitter.written(rows)
    return found


def _copy(c: MacCommand, sizes: EngineSizes) -> MacCommand:
    """What gives each word as it is, and outside the input what `c` has there."""
    low, high = (_INFINITY | 1 << 31, _INFINITY) if sizes.is_float else (-128, 127)
    return MacCommand(operation=Operation.MAXIMUM, pad=c.pad, low=low, high=high)


def _ones(blocks: int, emitter: Writer) -> Made:
    """Parameters of so many blocks that change nothing."""
    words = PARAMS_LINES * CHANNELS * blocks
    pack = emitter.pack(pack_ones, (blocks * CHANNELS, emitter.sizes.is_float), [], words, "scales of 1")
    return Made(lambda cut, first: emitter.put(pack) + cut.params)


def pack_ones(params: tuple[Any, ...]) -> torch.Tensor:
    """int32 or float32 [block][offset, scale, bias][16]: nothing, 1, nothing. params: channels, whether of floats."""
    count, floats = params
    if not floats:
        return packed_params(channels(torch.ones(count), 0.0, 128.0)).view(torch.int32)
    rows = torch.tensor([0.0, 1.0, 0.0]).view(1, PARAMS_LINES, 1)
    return rows.expand(count // CHANNELS, PARAMS_LINES, CHANNELS).flatten()


# --- rows of the result -----------------------------------------------------------------------------------------------


def _of_rows(
    c: MacCommand,
    rows: _Rows,
    of_row: int,
    out: MapImages,
    made: Made,
    emitter: Writer,
    block: int,
    transposed: TransposedKernel,
) -> None:
    """Products of windows over rows that lie apart. of_row: channels of a group in a row. block: of the output."""
    several = c.kernel[0] > 1
    along = replace(
        _along(c),
        in_blocks=rows.map.blocks * (c.kernel[0] if several else 1),
        group_in=of_row * (c.kernel[0] if several else 1),
    )
    _write_rows(along, c, rows, c.stride[0], out, made, emitter, block, transposed)


def _write_rows(
    along: MacCommand,
    c: MacCommand,
    rows: _Rows,
    step_down: int,
    out: MapImages,
    made: Made,
    emitter: Writer,
    block: int = 0,
    transposed: TransposedKernel | None = None,
) -> None:
    """Commands along rows, each for the rows of c's result that begin alike within a line, the last ones first.

    step_down: rows of the input from one of the result to the next.
    """
    beat, plane = emitter.sizes.beat, c.out_plane or ceil_div(c.out_height * c.out_width, emitter.sizes.beat)
    step = lcm(beat // gcd(c.out_width, beat), rows.apart // gcd(step_down, rows.apart))
    step = min(step, c.out_height)
    of = rows.map
    for begin in reversed(range(step)):
        images = len(range(begin, c.out_height, step))
        line, lead = divmod(begin * c.out_width, beat)
        line += block * plane
        first, next_ = rows.image(begin * step_down), rows.image((begin + step) * step_down)
        own = replace(
            along,
            out_height=lead + c.out_width,
            padding=(along.padding[0] + lead * along.stride[0], 0),
            images=images,
            input=emitter.place(of) + first * of.image_lines,
            input_image=(next_ - first) * of.image_lines if images > 1 else 0,
            input_after=emitter.after(of),
            output=c.output + line,
            output_image=step * c.out_width // beat,
            residual=c.residual + line if c.has_residual else NO_OPERAND,
            residual_image=step * c.out_width // beat,
            residual_after=c.residual_after and c.residual_after + emitter.written_so_far - made.begin,
            out_plane=plane,
        )
        part = replace(made, macs=made.macs * images // c.out_height)
        emitter.cut(_counted(own), part, block=block, transposed=transposed, ordered=begin < step - 1)
    emitter.written(out.map)


def _maxima(c: MacCommand, x: MapImages, out: MapImages, made: Made, emitter: Writer) -> None:
    """Maxima along each row, and of the rows under a window."""
    if not emitter.sizes.interleaves:
        raise DoesNotFitError("has max pooling over rows wider than the window, which needs a vector side")
    blocks, (taps, _) = c.in_blocks, c.kernel
    rows = _rows_apart(c, x, 0, blocks, 1, emitter)
    count, width, wide = rows.each, c.out_width, blocks * CHANNELS
    largest = Map(count, width, wide, emitter.sizes, f"maxima along {rows.map.name}")
    along = replace(
        _along(replace(c, out_plane=0)),
        # What the maxima's own parameters and limits make of them comes last.
        **{name: getattr(_copy(c, emitter.sizes), name) for name in ("flags", "zero", "low", "high")},
        images=count,
        input=emitter.place(rows.map),
        input_image=rows.map.image_lines,
        input_after=emitter.after(rows.map),
        output=emitter.place(largest),
        output_image=largest.image_lines,
    )
    emitter.cut(_counted(along), _ones(blocks, emitter))
    emitter.written(largest)

    def in_turn(first: int, behind: int) -> tuple[MapImages, tuple[int, int]]:
        """Of each row of the result so many rows under its window, pixel by pixel; and the step from row to row."""
        if behind - first == 1:
            found = MapImages(largest, c.out_height, wide, 1, width, image=first * c.dilation[0])
            return found, (c.stride[0] * largest.image_lines, largest.plane)
        middle = (first + behind) // 2
        (one, step), (other, other_step) = in_turn(first, middle), in_turn(middle, behind)
        to = Map(c.out_height, width * (behind - first), wide, emitter.sizes, f"rows under windows of {x.map.name}")
        command = replace(
            interleaved(one.pixels, other.pixels, (middle - first, behind - middle)),
            heads=(c.out_height, blocks),
            input_head=step,
            other_head=other_step,
            output_head=(to.image_lines, to.plane),
        )
        made_of = MapImages(to, c.out_height, wide, 1, to.pixels)
        emitter.vector(command, one, made_of, 0, other)
        return made_of, (to.image_lines, to.plane)

    under = in_turn(0, taps)[0].map
    down = replace(_along(c), in_height=under.pixels, kernel=(taps, 1), stride=(taps, 1), padding=(0, 0))
    down = replace(down, dilation=(1, 1))
    _write_rows(down, c, _Rows(under, 0, 1, c.out_height), 1, out, made, emitter)
