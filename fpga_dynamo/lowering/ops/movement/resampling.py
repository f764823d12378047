"""Image resize: nearest and bilinear.

Core's description, pattern, legality and commands; core: hls_kernels/cores/move/resample.hpp,
tests: tests/lowering/test_resampling.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, refuse_float
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.records import Resample
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.calls import image
from fpga_dynamo.lowering.ops.images import from_image_to_image, images_floats, images_parts, result_vectors
from fpga_dynamo.lowering.ops.io_scales import FLOATS, InputOutputScales
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone
from fpga_dynamo.lowering.tracing.strides import smallest

RESAMPLE = CORES.add(
    Core[Resample](
        Resample.opcode, lambda c, target: 4 * result_vectors(c), images_floats, images_parts, zero_copy=True
    )
)
"""A vector of the result is made of four of the image."""

NEAREST = (aten.upsample_nearest2d.default, aten.upsample_nearest2d.vec)
BILINEAR = (aten.upsample_bilinear2d.default, aten.upsample_bilinear2d.vec)


def check_resize(match: Match, graph: GraphInfo) -> str | None:
    source = operand(match.root, 0)
    return refuse_float(source, "input") or refuse_float(match.root, "result")


def _given_factors(node: Node) -> tuple[float | None, float | None]:
    """Scale factors (height, width) that the user gave, which PyTorch uses instead of the ratio of sizes."""
    position = 3 if node.target in BILINEAR else 2
    if node.target in (aten.upsample_nearest2d.vec, aten.upsample_bilinear2d.vec):
        factors = argument(node, "scale_factors", position)
        return (None, None) if factors is None else (factors[0], factors[1])
    return argument(node, "scales_h", position), argument(node, "scales_w", position + 1)


def aligns_corners(node: Node) -> bool:
    return node.target in BILINEAR and bool(argument(node, "align_corners", 2))


def resize_scales(node: Node, image: Sequence[int], result: Sequence[int]) -> tuple[float, ...]:
    """The step in `image` (height, width) that a step in `result` is, as eager mode's kernels compute it.

    An equal size copies, whatever factor is given; so does nearest resizing repeat every pixel for twice the size.
    """

    def scale(size_in: int, size_out: int, given: float | None) -> float:
        if size_out == size_in:
            return 1.0
        if node.target in NEAREST and size_out == 2 * size_in:
            return 0.5
        if aligns_corners(node):
            return (size_in - 1) / (size_out - 1) if size_out > 1 else 0.0
        return 1.0 / given if given is not None and given > 0 else size_in / size_out

    return tuple(scale(*sizes) for sizes in zip(image, result, _given_factors(node), strict=True))


def lower_resize(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    return [emit_resize(emitter, node, emitter.view(operand(node, 0)), node)]


def emit_resize(emitter: Emitter, node: Node, x: View, root: Node, ends: InputOutputScales = FLOATS) -> View:
    """The command of `node`, from the image `x` to one for the value of `root`."""
    x = emitter.channels_last(x)
    out = emitter.image(root, element=ends.element)
    command = Resample(
        mode=emitter.target.enums["RESAMPLE_BILINEAR" if node.target in BILINEAR else "RESAMPLE_NEAREST"],
        align_corners=int(aligns_corners(node)),
        scale=resize_scales(node, x.shape[2:], out.shape[2:]),
        **from_image_to_image(x, out),
        **ends.fields(x, out, emitter),
    )
    emitter.command(command, reads=[x], writes=[out])
    return out


def _resized(x: torch.Tensor, size: Sequence[int], *_: Any) -> torch.Tensor:
    return aten.upsample_nearest2d.default(x, smallest(size))


PATTERNS = (
    Pattern(
        name="resize",
        anchors=(*NEAREST, *BILINEAR),
        match=anchor_alone,
        check=check_resize,
        lower=lower_resize,
        opcodes=frozenset({"resample", "move"}),
        in_place=True,
        operators={
            aten.upsample_nearest2d.default: Operator(lambda t: image(t, [16, 16]), laid_out=_resized),
            aten.upsample_nearest2d.vec: Operator(lambda t: image(t, [16, 16], None)),
            aten.upsample_bilinear2d.default: Operator(lambda t: image(t, [16, 16], False), laid_out=_resized),
            aten.upsample_bilinear2d.vec: Operator(lambda t: image(t, [16, 16], False, None)),
        },
    ),
)
