"""3x3 convolution by Winograd's minimal filtering: transformed tiles, multiplied by transformed weights.

The core's description, weight packing and commands with either size of tiles; core: hls_kernels/cores/winograd,
tests: tests/lowering/test_winograd.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.records import Winograd
from fpga_dynamo.ir.sizes.size import larger
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.tuning import PLAIN_WINOGRAD
from fpga_dynamo.ir.view import VEC, align, ceil_div
from fpga_dynamo.lowering.ops.convolution.implementation import (
    Convolution,
    ConvolutionShape,
    ImageSizes,
    Implementation,
)
from fpga_dynamo.lowering.ops.convolution.parts import append, ends, packed_bias, panels_of
from fpga_dynamo.lowering.ops.packing import channel_factors, in_place, packed_panels, panel_vectors

POINTS: dict[int, tuple[float, ...]] = {2: (0.0, 1.0, -1.0), 4: (0.0, 0.625, -0.625, 1.5, -1.5)}
"""Finite interpolation points by tile size, those of hls_kernels/cores/winograd/transform.hpp; infinity is the last."""

SLICE_TILES, SLICE_PANELS = 16, 2
"""What a slice is at least worth: each reads its panels' weights, the most of the memory traffic, and transforms its
tiles' patches, which one panel alone would hardly pay for."""


# --- core -------------------------------------------------------------------------------------------------------------


def _cycles(c: Winograd, target: Target) -> float:
    """Steps of the MAC array, overlapped loads of weights, and the transforms.

    The weights are the larger half for images of few tiles. What they weigh against each other: ir/tuning.py.
    """
    costs, rows = target.tuning.winograd or PLAIN_WINOGRAD, target.tiles["ROWS"]
    channels, vectors, elements = c.in_channels, c.vectors, _elements(c)
    panels, tiles = panels_of(c), _tiles(c)
    block = max(block_of(c.tile_size, channels, vectors, target), 1)
    products = elements * tiles / rows * panels * channels * costs.step
    weights = elements * panels * channels * vectors * ceil_div(tiles, rows * block) * costs.weight
    transforms = elements * tiles * (ceil_div(channels, VEC) + panels * vectors) * costs.transform
    overlap = max(products, weights) + min(products, weights) * costs.exposed
    return overlap + transforms + costs.start * elements


def _floats(c: Winograd, target: Target) -> int:
    inputs = c.batch * c.in_channels * c.in_height * c.in_width
    outputs = c.batch * c.out_channels * c.out_height * c.out_width
    weights = _elements(c) * c.in_channels * panels_of(c) * c.vectors * VEC
    return inputs + outputs + weights


def _parts(c: Winograd, target: Target) -> int:
    parts: int = larger(2, ceil_div(_tiles(c), SLICE_TILES) * ceil_div(panels_of(c), SLICE_PANELS))
    return parts


def _tiles(c: Winograd) -> int:
    size = c.tile_size
    return c.batch * ceil_div(c.out_height, size) * ceil_div(c.out_width, size)


def _elements(c: Winograd) -> int:
    """Of a transformed tile."""
    return (c.tile_size + 2) ** 2


def block_of(tile_size: int, channels: int, vectors: int, target: Target) -> int:
    """Groups of ROWS tiles that the core works on together (cores/winograd); 0 if its local arrays hold none."""
    tiles, elements = target.tiles, (tile_size + 2) ** 2
    bank = tiles["WINOGRAD_INPUT_FLOATS"] // tiles["ROWS"] // VEC * VEC
    patches = (bank // elements - VEC) // align(channels)
    products = (tiles["WINOGRAD_PRODUCT_FLOATS"] // (elements * VEC) - 1) // vectors
    return max(min(patches, products // tiles["ROWS"]), 0)


WINOGRAD = CORES.add(Core[Winograd](Winograd.opcode, _cycles, _floats, _parts, zero_copy=True, propagates_nan=True))
"""A number that is not finite reaches every result of its tiles."""


# --- packing ----------------------------------------------------------------------------------------------------------


def weight_transform(tile_size: int) -> torch.Tensor:
    """G, float64 of [tile_size + 2, 3]: row p evaluates a filter at point p, scaled as Lagrange's formula has it."""
    points = POINTS[tile_size]
    rows = []
    for i, p in enumerate(points):
        distances = 1.0
        for j, other in enumerate(points):
            distances *= p - other if j != i else 1.0
        rows.append([1.0 / distances, p / distances, p * p / distances])
    return torch.tensor([*rows, [0.0, 0.0, 1.0]], dtype=torch.float64)


def pack_transformed(params: tuple[Any, ...], weight: torch.Tensor, *tensors: torch.Tensor | None) -> torch.Tensor:
    """G g G^T as [panel][element][input channel][16 vectors], output channels padded with zeros."""
    tile_size, vectors, eps = params
    factors = channel_factors(eps, weight, *tensors)
    weight, taps = in_place(None, weight.to(torch.float32))
    transform = weight_transform(tile_size)
    return packed_panels(weight, taps, factors, VEC * vectors, transform, meets_zeros=True).flatten()


# --- implementations --------------------------------------------------------------------------------------------------


def _can(s: ConvolutionShape, target: Target, tile_size: int) -> str | None:
    if target.tuning.winograd is None:
        return "the option 'winograd' is off"
    if not s.static:
        return "weights change between calls, and transforming them costs more than one call gains"
    if s.groups != 1 or s.form is not None:
        return "grouped convolutions and slices of a parameter are not supported"
    if not all(len(a.taps) == 3 and a.stride == a.dilation == 1 and a.padding <= 2 for a in (s.height, s.width)):
        return "only 3x3 kernels of stride 1, dilation 1 and padding of at most 2 are supported"
    if min(*s.source, *s.result) < 1:
        return "the image has no pixels"
    channels, most = s.source[1], target.tiles["K_BLOCK"]
    if not VEC <= channels <= most:
        return f"input has {channels} channels; the core supports {VEC} to {most}"
    if block_of(tile_size, channels, _vectors(s, target), target) < 1:
        return f"the core's local arrays hold no patches of {channels} channels"
    return None


def _vectors(s: ConvolutionShape, target: Target) -> int:
    return panel_vectors(s.result[1], target.tiles["MAX_VECTORS"])


class _Sizes(ImageSizes):
    tile_size: int
    in_channels: int
    out_channels: int
    vectors: int


def _sizes(s: ConvolutionShape, target: Target, tile_size: int) -> _Sizes:
    in_channels, out_channels = s.channels
    return {
        **s.images,
        "tile_size": tile_size,
        "in_channels": in_channels,
        "out_channels": out_channels,
        "vectors": _vectors(s, target),
    }


def _emit(c: Convolution, emitter: Emitter, tile_size: int) -> None:
    p, (in_channels, out_channels) = c.parameters, c.shape.channels
    vectors = _vectors(c.shape, emitter.target)
    elements, width = (tile_size + 2) ** 2, VEC * vectors
    w = emitter.pack(
        pack_transformed,
        (tile_size, vectors, p.eps),
        p.operands,
        ceil_div(out_channels, width) * elements * in_channels * width,
        f"{p.weight_name} [panel][{elements}][k][{width}]",
    )
    b = packed_bias(c, 1, width, emitter)
    command = Winograd(
        input=Operand.of(c.x),
        weight=Operand(w),
        bias=None if b is None else Operand(b),
        padding=(c.shape.height.padding, c.shape.width.padding),
        # A step that is never taken may be any number, but the core wants multiples of vectors.
        in_stride=tuple(0 if c.x.shape[axis] == 1 else c.x.strides[axis] for axis in (0, 2, 3)),
        **_sizes(c.shape, emitter.target, tile_size),
        **ends(c, emitter.target),
    )
    append(command, c, w, b, emitter, banded=False)


def _of_tile(tile_size: int, stays: float) -> Implementation:
    return Implementation(
        f"tiles of {tile_size}x{tile_size}",
        WINOGRAD.opcode,
        partial(_can, tile_size=tile_size),
        lambda s, target: Winograd(**_sizes(s, target, tile_size)),
        partial(_emit, tile_size=tile_size),
        stays,
        asked=lambda target: target.tuning.winograd_tile == tile_size,
    )


SMALL_TILES = _of_tile(2, stays=0.92)
"""The large tile rounds more coarsely and has more weights."""

LARGE_TILES = _of_tile(4, stays=1.0)
