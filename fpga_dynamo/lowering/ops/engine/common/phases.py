"""Images that are put together of others, word by word: phases of a transposed convolution, parts behind each other.

A word, 16 channels of a pixel, is what an engine's vector side moves; two maps are interleaved by one command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map, MapImages
from fpga_dynamo.codegen.engine.vector import interleaved


def interleave(
    x: MapImages, other: MapImages, out: MapImages, turns: tuple[int, int], rows: int, emitter: EngineEmitter
) -> None:
    """A command by which each of `rows` runs of `out` is so many pixels of `x`, then of `other`, and so on in turn."""
    command = interleaved(x.pixels, other.pixels, turns, rows)
    command = replace(
        command,
        heads=(x.images, x.blocks),
        input_head=(x.map.image_lines, x.map.plane),
        other_head=(other.map.image_lines, other.map.plane),
        output_head=(out.map.image_lines, out.map.plane),
    )
    emitter.vector(command, x, out, 0, other)


def image_of_phases(phases: Sequence[Sequence[MapImages]], out: MapImages, emitter: EngineEmitter) -> None:
    """Commands by which `out` is made of its phases.

    Of phase (r, s), of n rows of m phases, the pixel (i, j) becomes (i n + r, j m + s).
    """
    rows = [_put_together(row, out if len(phases) == 1 else None, emitter, down=False) for row in phases]
    _put_together(rows, out, emitter, down=True)


def _put_together(
    parts: Sequence[MapImages], out: MapImages | None, emitter: EngineEmitter, *, down: bool
) -> MapImages:
    """Pixels of a row, or rows of an image (`down`), in turn. out: where they go, a map of their own if left out."""
    made = parts[0]
    for count, part in enumerate(parts[1:], 1):
        height, width = (made.height + part.height, made.width) if down else (made.height, made.width + part.width)
        last = count == len(parts) - 1
        to = out if last and out is not None else _map(made, height, width, emitter)
        turn = made.width if down else 1
        interleave(made, part, to, (count * turn, turn), 1 if down else height, emitter)
        made = to
    return made


def _map(like: MapImages, height: int, width: int, emitter: EngineEmitter) -> MapImages:
    made = Map(like.images, height * width, like.channels, emitter.sizes, like.map.name)
    return MapImages(made, like.images, like.channels, height, width)


def concatenate_pixels(
    parts: Sequence[MapImages], sizes: Sequence[int], out: MapImages, rows: int, emitter: EngineEmitter
) -> None:
    """Commands by which each of `rows` runs of `out` is `sizes` pixels of the parts, one behind the other."""
    made, size = parts[0], sizes[0]
    for count, (part, more) in enumerate(zip(parts[1:], sizes[1:], strict=True), 2):
        to = out if count == len(parts) else _map(made, rows, size + more, emitter)
        interleave(made, part, to, (size, more), rows, emitter)
        made, size = to, size + more
