"""Discrete Fourier transforms: ATen's complex to complex, real to complex and complex to real, over any dimensions.

Pattern and legality; commands: transform.py, plan.py; core: hls_kernels/cores/fft,
tests: tests/lowering/test_fourier.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, refuse_number, shape
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.view import View, numel
from fpga_dynamo.lowering.ops.signal.plan import Factors
from fpga_dynamo.lowering.ops.signal.transform import Dft, emit_dft, refuse_points
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone

_TO_REAL = aten._fft_c2r.default
_FROM_REAL = aten._fft_r2c.default


def _dims(node: Node) -> list[int]:
    rank = len(shape(operand(node, 0)))
    return [d % rank for d in argument(node, "dim", 1)]


def _points(node: Node, dim: int) -> int:
    """Points of the transform along `dim`: of the result where that is real, else of the input."""
    source = node if node.target is _TO_REAL else operand(node, 0)
    return shape(source)[dim]


def _scale(node: Node) -> float:
    """What all results are multiplied by: ATen's normalization is 0 (none), 1 (by the root of the count), 2 (by it)."""
    count = numel([_points(node, dim) for dim in _dims(node)])
    return (1.0, float(count) ** -0.5, 1.0 / count)[argument(node, "normalization", 2)]


def check_fourier(match: Match, graph: GraphInfo) -> str | None:
    """Why the card cannot transform it, or None."""
    node = match.root
    if why := refuse_number(operand(node, 0), "input") or refuse_number(node, "result"):
        return why
    if not _dims(node):
        return "a transform over no dimension is not supported"
    most = graph.target.tiles.get("FFT_POINTS", 0)
    return next((why for dim in _dims(node) if (why := refuse_points(_points(node, dim), most))), None)


def lower_fourier(match: Match, emitter: Emitter) -> Sequence[View]:
    """A transform for each dimension, the last one first, but to floating-point values last."""
    node = match.root
    dims, scale = _dims(node), _scale(node)
    view = emitter.view(operand(node, 0))
    inverse = node.target is _TO_REAL or (node.target is not _FROM_REAL and not argument(node, "forward", 3))
    order = dims if node.target is _TO_REAL else dims[::-1]  # ATen's half spectrum is along the last of them
    for i, dim in enumerate(order):
        points, given = _points(node, dim), view.shape[dim]
        half = node.target is _TO_REAL and i == len(order) - 1
        given = min(given, points // 2 + 1) if half else given
        dft = Dft(
            points=points,
            given=given,
            wanted=shape(node)[dim],
            inverse=inverse,
            real=half,
            scale=scale if i == len(order) - 1 else 1.0,
            before=Factors((("half", (points,)),), given) if half else None,
        )
        view = emit_dft(emitter, view, dim, dft)
    return [view]


_FACTS = {
    aten._fft_c2c.default: Operator(lambda t: ((t(4, 32), [1], 0, True), {}), passes=6, steps=12),
    aten._fft_r2c.default: Operator(lambda t: ((t(4, 32), [1], 0, True), {}), passes=6, steps=12),
    aten._fft_c2r.default: Operator(lambda t: ((t(4, 17), [1], 2, 32), {}), passes=6, steps=12),
}

PATTERNS = (
    Pattern(
        "fourier",
        tuple(_FACTS),
        anchor_alone,
        check_fourier,
        lower_fourier,
        frozenset({"fft", "move"}),
        operators=_FACTS,
    ),
)
