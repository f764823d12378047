"""Pooling of 8-bit integers: maxima as they are, averages, means and sums by one rounding.

Patterns and commands; core: hls_kernels/cores/pool_int8, tests: tests/lowering/test_quantised.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.requantize import RequantizeError, channels
from fpga_dynamo.ir.dtypes import BYTES
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, normalise_dims, operand, refuse_value, shape, value
from fpga_dynamo.ir.quantised import Scale, dequantized, quantizes
from fpga_dynamo.ir.records import PoolInt8
from fpga_dynamo.ir.view import View, ceil_div
from fpga_dynamo.lowering.ops.images import from_image_to_image, images_floats, images_parts
from fpga_dynamo.lowering.ops.pooling import PoolWindow, pool_cycles, window_of
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_and_first_item, sole_user
from fpga_dynamo.torch_internals.dispatch import without_modes

MOST_DIVISORS = 6
"""Different numbers of pixels in windows that a record has room for."""


CORES.add(
    Core[PoolInt8](
        PoolInt8.opcode, pool_cycles, lambda c, target: images_floats(c, target) // 4, images_parts, zero_copy=True
    )
)


# --- maxima -----------------------------------------------------------------------------------------------------------


def match_maxima(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """Maxima of integers, whose places nobody asks for."""
    if value(operand(node, 0)).dtype not in BYTES:
        return None
    return anchor_and_first_item(pattern, node, graph)


def check_maxima(match: Match, graph: GraphInfo) -> str | None:
    return refuse_value(operand(match.nodes[0], 0), "input") or refuse_value(match.root, "result")


def lower_maxima(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.nodes[0]
    window = window_of(node, 2)
    out = _emit("POOL_MAX", operand(node, 0), match.root, window, {}, emitter)
    return [out]


# --- averages ---------------------------------------------------------------------------------------------------------

REDUCTIONS = (aten.mean.dim, aten.sum.dim_IntList)
_AVERAGES = (aten.avg_pool2d.default, aten._adaptive_avg_pool2d.default, *REDUCTIONS)


def match_average(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """The average of dequantised values that becomes integers again."""
    source = operand(node, 0)
    user = sole_user(node)
    if dequantized(source) is None or user is None or quantizes(user) is None or user in graph.claimed:
        return None
    return Match(pattern, (source, node, user), (user,))


def window_of_average(node: Node) -> PoolWindow | str:
    """Windows over height and width of an image; or why it is not that."""
    size = shape(operand(node, 0))
    if len(size) not in (3, 4):
        return "input is not a 3-D (CHW) or 4-D (NCHW) tensor"
    if not all(isinstance(n, int) for n in (*size[-2:], *shape(node))):
        return "images of dynamic size are not supported"
    if node.target not in REDUCTIONS:
        return window_of(node, 2)
    if reduced_dims(node) != (len(size) - 2, len(size) - 1):
        return "means and sums are supported over an image's height and width only"
    divisor = int(node.target is not aten.mean.dim)
    return PoolWindow(False, (size[-2], size[-1]), (1, 1), (0, 0), (1, 1), divisor=divisor)


def reduced_dims(node: Node) -> tuple[int, ...] | None:
    """The dimensions of a mean or sum, in order; None where the result has another type."""
    if argument(node, "dtype", 3) is not None:
        return None
    rank = len(shape(operand(node, 0)))
    return tuple(sorted(normalise_dims(argument(node, "dim", 1) or range(rank), rank)))


def check_average(match: Match, graph: GraphInfo) -> str | None:
    source, node, last = match.nodes
    window = window_of_average(node)
    if isinstance(window, str):
        return window
    found, scale = dequantized(source), quantizes(last)
    assert found is not None and scale is not None
    if why := refuse_value(found[0], "input") or refuse_value(last, "result"):
        return why
    made = divisor_scales(window, shape(found[0])[-2:], result_size(node), found[1], scale)
    return made if isinstance(made, str) else None


def result_size(node: Node) -> tuple[int, int]:
    if node.target in REDUCTIONS:
        return 1, 1
    size = shape(node)
    return size[-2], size[-1]


def window_divisors(window: PoolWindow, size: Sequence[int], out: Sequence[int]) -> list[list[int]]:
    """By what the sum of each window is divided, by rows and columns of the result."""
    rows, columns = (_counts(window, axis, size[axis], out[axis]) for axis in (0, 1))
    return [[_divisor(window, row, column) for column in columns] for row in rows]


def _divisor(window: PoolWindow, row: tuple[int, int], column: tuple[int, int]) -> int:
    place = int(window.count_include_pad)
    return window.divisor or max(row[place] * column[place], 1)


def _counts(window: PoolWindow, axis: int, size: int, out: int) -> list[tuple[int, int]]:
    """(pixels inside of the image, pixels that count) of the windows of an axis, as hls_kernels/cores/pool has them."""
    found = []
    for i in range(out):
        if window.adaptive:
            taps = ceil_div((i + 1) * size, out) - i * size // out
            found.append((taps, taps))
            continue
        step, start = window.dilation[axis], i * window.stride[axis] - window.padding[axis]
        first = ceil_div(-start, step) if start < 0 else 0
        last = min(window.kernel[axis], ceil_div(size - start, step)) if start < size else 0
        room = size + window.padding[axis] - start
        found.append((max(last - first, 0), min(window.kernel[axis], ceil_div(room, step)) if room > 0 else 0))
    return found


def divisor_scales(
    window: PoolWindow,
    size: Sequence[int],
    out: Sequence[int],
    source: Scale,
    result: Scale,
    *,
    with_halves: bool = False,
) -> dict[int, int] | str:
    """The scale of sums for each number that they may be divided by, as the record has it; or why it is refused.

    with_halves: whether averages that one product with it may round wrongly are accepted.
    """
    if window.divisor < 0:
        return "a negative divisor_override is not supported"
    most: dict[int, int] = {}
    rows, columns = (set(_counts(window, axis, size[axis], out[axis])) for axis in (0, 1))
    for row, column in itertools.product(rows, columns):
        divisor = _divisor(window, row, column)
        most[divisor] = max(most.get(divisor, 0), row[0] * column[0])
    if len(most) > MOST_DIVISORS:
        return f"windows of {len(most)} different sizes are not supported; the core holds {MOST_DIVISORS} divisors"
    scales = {}
    for divisor, pixels in most.items():
        if not with_halves and may_be_halves(source.scale / result.scale, divisor):
            return f"sums over {divisor} may lie halfway between two integers, which the core rounds wrongly"
        factor = source.scale / (result.scale * divisor)
        try:
            with without_modes():
                made = channels(torch.tensor([factor], dtype=torch.float64), 0.0, float(pixels * source.farthest))
                scales[divisor] = int(made.scale)
        except RequantizeError as error:
            return str(error)
    return scales


def may_be_halves(ratio: float, divisor: int) -> bool:
    """Whether sums times a power of two, divided by another number, may end in exactly a half.

    A product with the inverse, which is rounded, would miss those; other ratios give no halves that eager would hit.
    """
    mantissa, exponent = math.frexp(ratio)
    even = (divisor & -divisor).bit_length() - 1  # how often 2 divides it
    return mantissa == 0.5 and divisor != 1 << even and exponent - 1 < even


def lower_average(match: Match, emitter: Emitter) -> Sequence[View]:
    source, node, last = match.nodes
    found, scale, window = dequantized(source), quantizes(last), window_of_average(node)
    assert found is not None and scale is not None and isinstance(window, PoolWindow)
    integers, given = found
    scales = divisor_scales(window, shape(integers)[-2:], result_size(node), given, scale)
    assert isinstance(scales, dict)
    rest = [0] * (MOST_DIVISORS - len(scales))
    own = {
        "in_zero": given.zero,
        "out_zero": scale.zero,
        "out_low": scale.low,
        "out_high": scale.high,
        "divisors": (*scales, *rest),
        "scales": (*scales.values(), *rest),
    }
    return [_emit("POOL_AVERAGE", integers, last, window, own, emitter)]


# --- both -------------------------------------------------------------------------------------------------------------


def _emit(kind: str, source: Node, last: Node, window: PoolWindow, own: dict[str, Any], emitter: Emitter) -> View:
    """The command, of one image or a batch; the view of its result."""
    x = emitter.in_arena(emitter.integers(source))
    batched, element = len(x.shape) == 4, BYTES[value(last).dtype]
    x = emitter.channels_last(x if batched else x.unsqueeze(0))
    size = (*x.shape[:2], *(shape(last)[-2:] if len(shape(last)) == len(shape(source)) else (1, 1)))
    whole = batched and tuple(shape(last)) == size
    out = emitter.image(last, element=element) if whole else emitter.image(last, size, element=element)
    command = PoolInt8(
        kind=emitter.target.enums[kind],
        in_format=emitter.format_of(x),
        out_format=emitter.format_of(out),
        **from_image_to_image(x, out),
        **window.of(0, 1, divisor=window.divisor),
        **own,
    )
    emitter.command(command, reads=[x], writes=[out])
    if whole:
        return out
    for d in reversed(range(4)):  # what a mean leaves out, and the batch of one image
        if len(out.shape) > len(shape(last)) and out.shape[d] == 1 and (d > 1 or not batched):
            out = out.select(d, 0)
    return out


_OPCODES = frozenset({"pool_int8", "move"})

MAXIMA = Pattern(
    "maxima_int8",
    (aten.max_pool2d_with_indices.default,),
    match_maxima,
    check_maxima,
    lower_maxima,
    _OPCODES,
    in_place=True,
)

AVERAGE = Pattern(
    "average_int8",
    _AVERAGES,
    match_average,
    check_average,
    lower_average,
    _OPCODES,
    in_place=True,
)

PATTERNS = (AVERAGE, MAXIMA)
