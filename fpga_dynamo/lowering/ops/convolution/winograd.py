"""3x3 convolution by Winograd's minimal filtering, where that is faster than the sum over the window.

The core's description, choice of the tile size, weight packing and command; core: hls_kernels/cores/winograd,
tests: tests/lowering/test_winograd.py. Everything around the convolution itself is as in convolution.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen import cost
from fpga_dynamo.codegen.core import CORES, Core, Fields
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, shape
from fpga_dynamo.ir.sizes.size import larger, values
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, View, align, ceil_div
from fpga_dynamo.lowering.ops.convolution.axes import axes
from fpga_dynamo.lowering.ops.convolution.commands import CONV2D, direct_panels
from fpga_dynamo.lowering.ops.convolution.convolution import (
    check_convolution,
    macs_convolution,
    match_convolution,
    parameters_of,
    residual_image,
)
from fpga_dynamo.lowering.ops.epilogue import Activation, activation, fields
from fpga_dynamo.lowering.ops.images import image_strides
from fpga_dynamo.lowering.ops.packing import channel_factors, in_place, pack_bias, packed_panels, panel_vectors
from fpga_dynamo.lowering.patterns import TABLE, Match, Pattern

POINTS: dict[int, tuple[float, ...]] = {2: (0.0, 1.0, -1.0), 4: (0.0, 0.625, -0.625, 1.5, -1.5)}
"""Finite interpolation points by tile size, those of hls_kernels/cores/winograd/transform.hpp; infinity is the last."""

WORTH = 0.95
"""Share of the direct convolution's cycles that Winograd may take: less gain is not worth its coarser rounding."""

WORTH_LARGE_TILE = 0.92
"""Share of the small tile's cycles that the large tile, which rounds more coarsely and has more weights, may take."""

SLICE_TILES, SLICE_PANELS = 16, 2
"""What a slice is at least worth: each reads its panels' weights, the most of the memory traffic, and transforms its
tiles' patches, which one panel alone would hardly pay for."""

SMALLEST = 8000
"""Cycles of a direct convolution below which nothing is to be gained."""


# --- core -------------------------------------------------------------------------------------------------------------


def _cycles(f: Fields, target: Target) -> float:
    """Steps of the MAC array, the weights that come from far meanwhile, and the transforms.

    The weights are the larger half for images of few tiles. What they weigh against each other: ir/tuning.py.
    """
    costs, rows = target.tuning.winograd, target.tiles["ROWS"]
    channels, vectors, elements = f["in_channels"], f["vectors"], _elements(f)
    panels, tiles = direct_panels(f), _tiles(f)
    block = max(block_of(f["tile_size"], channels, vectors, target), 1)
    products = elements * tiles / rows * panels * channels * costs.step
    weights = elements * panels * channels * vectors * ceil_div(tiles, rows * block) * costs.weight
    transforms = elements * tiles * (ceil_div(channels, VEC) + panels * vectors) * costs.transform
    overlap = max(products, weights) + min(products, weights) * costs.exposed
    return overlap + transforms + costs.start * elements  # type: ignore[no-any-return]


def _floats(f: Fields, target: Target) -> int:
    inputs = f["batch"] * f["in_channels"] * f["in_height"] * f["in_width"]
    outputs = f["batch"] * f["out_channels"] * f["out_height"] * f["out_width"]
    weights = _elements(f) * f["in_channels"] * direct_panels(f) * f["vectors"] * VEC
    return inputs + outputs + weights  # type: ignore[no-any-return]


def _parts(f: Fields, target: Target) -> int:
    parts: int = larger(2, ceil_div(_tiles(f), SLICE_TILES) * ceil_div(direct_panels(f), SLICE_PANELS))
    return parts


def _tiles(f: Fields) -> int:
    size = f["tile_size"]
    return f["batch"] * ceil_div(f["out_height"], size) * ceil_div(f["out_width"], size)  # type: ignore[no-any-return]


def _elements(f: Fields) -> int:
    """Of a transformed tile."""
    return (f["tile_size"] + 2) ** 2  # type: ignore[no-any-return]


def block_of(tile_size: int, channels: int, vectors: int, target: Target) -> int:
    """Groups of ROWS tiles that the core works on together (cores/winograd); 0 if its local arrays hold none."""
    tiles, elements = target.tiles, (tile_size + 2) ** 2
    bank = tiles["WINOGRAD_INPUT_FLOATS"] // tiles["ROWS"] // VEC * VEC
    patches = (bank // elements - VEC) // align(channels)
    products = (tiles["WINOGRAD_PRODUCT_FLOATS"] // (elements * VEC) - 1) // vectors
    return max(min(patches, products // tiles["ROWS"]), 0)


WINOGRAD = CORES.add(Core("winograd", _cycles, _floats, _parts, redirects=True, spreads=True))
"""A number that is not finite reaches every result of its tiles."""

OPCODES = frozenset({WINOGRAD.opcode, "move"})


# --- choice -----------------------------------------------------------------------------------------------------------


def match_winograd(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """The convolution with its epilogue, if Winograd's method is faster for it on a kernel of this card."""
    weight_stays = graph.is_static(operand(node, 1))  # transforming it costs more than is gained in one call
    if not weight_stays or not graph.target.kernels_for(OPCODES) or tile_size_of(node, graph.target) is None:
        return None
    return match_convolution(pattern, node, graph)


def tile_size_of(node: Node, target: Target) -> int | None:
    """Tile size of the fastest method for a convolution, by its cycles, or the one asked for; None: the direct sum."""
    source, weight, result = values((shape(operand(node, 0)), shape(operand(node, 1)), shape(node)))
    sizes = (*source, *weight, *result)
    if len(source) != 4 or not all(isinstance(size, int) for size in sizes) or min(sizes) < 1:
        return None
    if argument(node, "transposed", 6) or argument(node, "groups", 8) != 1:
        return None
    if not all(len(a.taps) == 3 and a.stride == a.dilation == 1 and a.padding <= 2 for (a,) in axes(node)):
        return None
    if weight[1] < VEC or weight[1] > target.tiles["K_BLOCK"]:
        return None
    common = {
        "batch": source[0],
        "groups": 1,
        "in_channels": weight[1],
        "in_height": source[2],
        "in_width": source[3],
        "out_channels": weight[0],
        "out_height": result[2],
        "out_width": result[3],
        "vectors": panel_vectors(weight[0], target.tiles["MAX_VECTORS"]),
    }
    return target.tuning.winograd_tile or fastest_tile(common, target)


def fastest_tile(common: dict[str, int], target: Target) -> int | None:
    """The choice by the cost model, from the fields that both records have."""
    direct = cost.cycles(CONV2D.opcode, {**common, "kernel": (3, 3)}, target)
    if direct < SMALLEST:
        return None
    best, limit = None, WORTH * direct
    for size in POINTS:
        if block_of(size, common["in_channels"], common["vectors"], target) < 1:
            continue
        cycles = cost.cycles(WINOGRAD.opcode, {**common, "tile_size": size}, target)
        if cycles < limit:
            best, limit = size, WORTH_LARGE_TILE * cycles
    return best


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


# --- command ----------------------------------------------------------------------------------------------------------


def lower_winograd(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.nodes[0]
    tile_size = tile_size_of(node, emitter.target)
    assert tile_size is not None, "the pattern has matched"
    parameters = parameters_of(match, emitter)
    act = activation(match.bound.get("activation")) or Activation()
    x = emitter.channels_last(emitter.in_arena(emitter.view(operand(node, 0))))
    y = emitter.image(match.root)
    residual = residual_image(match, emitter)
    batch, channels, out_height, out_width = y.shape
    in_channels = x.shape[1]
    vectors = panel_vectors(channels, emitter.target.tiles["MAX_VECTORS"])
    panels, width = ceil_div(channels, VEC * vectors), VEC * vectors
    elements = (tile_size + 2) ** 2
    w = emitter.pack(
        pack_transformed,
        (tile_size, vectors, parameters.eps),
        parameters.operands,
        panels * elements * in_channels * width,
        f"{parameters.weight_name} [panel][{elements}][k][{width}]",
    )
    b = None
    if parameters.has_bias:
        params = (1, width, parameters.eps, channels)
        b = emitter.pack(pack_bias, params, parameters.operands, panels * width, parameters.bias_name)
    emitter.command(
        WINOGRAD.opcode,
        reads=[x, residual, w, b],
        writes=[y],
        macs=macs_convolution(match),
        input=Operand.of(x),
        weight=Operand(w),
        bias=None if b is None else Operand(b),
        residual=None if residual is None else Operand.of(residual),
        output=Operand.of(y),
        tile_size=tile_size,
        batch=batch,
        in_channels=in_channels,
        in_height=x.shape[2],
        in_width=x.shape[3],
        out_channels=channels,
        out_height=out_height,
        out_width=out_width,
        padding=tuple(axis.padding for (axis,) in axes(node)),
        # A step that is never taken may be any number, but the core wants multiples of vectors.
        in_stride=tuple(0 if x.shape[axis] == 1 else x.strides[axis] for axis in (0, 2, 3)),
        out_stride=image_strides(y),
        residual_stride=(0, 0, 0) if residual is None else image_strides(residual),
        vectors=vectors,
        **fields(act, emitter.target.enums),
    )
    return [y]


TABLE.add(
    Pattern(
        name="winograd",
        anchors=(aten.convolution.default,),
        match=match_winograd,
        check=check_convolution,
        lower=lower_winograd,
        opcodes=OPCODES,
        macs=macs_convolution,
        in_place=True,
    ),
    first=True,
)
