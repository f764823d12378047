"""Normalisation that gives its statistics too, as training needs them, and its gradients: reductions and element-wise
commands around them.

Pattern, legality and commands; cores: hls_kernels/cores/reduce and pointwise, tests:
tests/lowering/test_backward.py.
Where nobody asks for the statistics, layer, group and instance norm are one command (normalization.py).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.micro import MicroProgram, Operand
from fpga_dynamo.ir.dtypes import HALVES
from fpga_dynamo.ir.graph import GraphInfo, arguments, aten, operand, refuse_float, refuse_value, shape, value
from fpga_dynamo.ir.operators import Operator, facts_among, first_of
from fpga_dynamo.ir.view import View, numel
from fpga_dynamo.lowering.ops.calls import image, images, per_channel, rows
from fpga_dynamo.lowering.ops.normalization.normalization import like_group_norm
from fpga_dynamo.lowering.ops.reduction.compose import deviations, elementwise, reduced, undefined_mean
from fpga_dynamo.lowering.patterns import Match, Pattern

_LAYER, _GROUP = aten.native_layer_norm.default, aten.native_group_norm.default
_INSTANCE, _BATCH = aten._native_batch_norm_legit.no_stats, aten._native_batch_norm_legit_functional.default
_LAYER_BACKWARD = aten.native_layer_norm_backward.default
_GROUP_BACKWARD = aten.native_group_norm_backward.default
_BATCH_BACKWARD = aten.native_batch_norm_backward.default
_EPS: dict[Any, int] = {_LAYER: 4, _GROUP: 7, _INSTANCE: 5, _BATCH: 7}
"""Position of eps among the arguments."""
_SQUARE_FITS = 1e18
"""A number whose square is a float32, beside which no eps counts."""


@dataclass(frozen=True)
class NormGeometry:
    """How a norm sees its input.

    shape: the input's, with the channels of a group norm split into (groups, channels of a group).
    dims: dimensions that one mean is taken over; parameter_dims: those that share an element of scale and shift.
    """

    shape: tuple[int, ...]
    dims: tuple[int, ...]
    parameter_dims: tuple[int, ...]

    def seen(self, view: View) -> View:
        """A tensor of the input's size, seen so."""
        if len(view.shape) == len(self.shape):
            return view
        step = view.strides[1]
        strides = (view.strides[0], step * self.shape[2], step, *view.strides[2:])
        return replace(view, shape=self.shape, strides=strides)

    def statistic(self, view: View) -> View:
        """A mean or inverse deviation, with sizes of 1 where it is the same."""
        return _among(view, self.shape, self.dims)

    def parameter(self, view: View) -> View:
        return _among(view, self.shape, self.parameter_dims)


def _among(view: View, size: Sequence[int], dims: Sequence[int]) -> View:
    found = view.reshape(tuple(1 if d in dims else n for d, n in enumerate(size)))
    assert found is not None, "sizes of 1 come and go freely"
    return found


def geometry(node: Node) -> NormGeometry:
    backward = node.target in (_LAYER_BACKWARD, _GROUP_BACKWARD, _BATCH_BACKWARD)
    size = shape(operand(node, 1 if backward else 0))
    rank = len(size)
    if node.target in (_LAYER, _LAYER_BACKWARD):
        kept = rank - len(arguments(node)[2 if backward else 1])
        return NormGeometry(size, tuple(range(kept, rank)), tuple(range(kept)))
    if node.target in (_GROUP, _GROUP_BACKWARD):
        groups = node.args[8 if backward else 6]
        assert isinstance(groups, int)
        grouped = (size[0], groups, size[1] // groups, *size[2:])
        inner = tuple(range(3, len(grouped)))
        return NormGeometry(grouped, (2, *inner), (0, *inner))
    others = (0, *range(2, rank))
    return NormGeometry(size, others, others)


def _match(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    items = [user for user in node.users if user.target is operator.getitem]
    used = [item for item in items if item.users]
    if not used or len(items) != len(node.users):
        return None
    return Match(pattern, (node, *items), tuple(used))


def _check(match: Match, graph: GraphInfo) -> str | None:
    node = match.nodes[0]
    saved = {5, 6} if _is_fixed(node) else set()  # of which nothing is read then, and which are empty
    for position, given in enumerate(node.args):
        if isinstance(given, Node) and position not in saved and (why := refuse_float(given, f"operand {given}")):
            return why
    if any(isinstance(given, Node) and value(given).dtype in HALVES for given in node.args):
        return "16-bit input is not supported: the dtype of the statistics differs between eager mode and tracing"
    if node.target is _BATCH and not node.args[5]:
        return "normalizing by running statistics (training=False) is not supported in a graph that also returns them"
    if len(shape(operand(node, 0))) < 2:
        return "a 1-D tensor is not supported"
    return next((why for output in match.outputs if (why := refuse_value(output))), None)


# --- formulas ---------------------------------------------------------------------------------------------------------


def _normalised(p: MicroProgram, x: Operand, mean: Operand, deviation: Operand) -> Operand:
    """(x - mean) / deviation, given 1 / deviation."""
    return p.op("MUL", p.op("SUB", x, mean), deviation)


def inverse_deviation(eps: float) -> Any:
    """1 / sqrt(variance + eps)"""
    return lambda p, variance: p.op("RSQRT", p.op("ADD", variance, eps))


def _square(p: MicroProgram, x: Operand) -> Operand:
    return p.op("MUL", x, x)


def _inverse(eps: float) -> Any:
    """The same by the square root of the variance, which itself may be beyond float32."""

    def formula(p: MicroProgram, spread: Operand) -> Operand:
        small = inverse_deviation(eps)(p, _square(p, spread))
        return p.op("WHERE", p.op("LT", spread, _SQUARE_FITS), small, p.op("DIV", 1.0, spread))

    return formula


def _moved(momentum: float, factor: float = 1.0) -> Any:
    """old * (1 - momentum) + new * factor * momentum"""
    return lambda p, old, new: p.op("FMA", new, momentum * factor, p.op("MUL", old, 1 - momentum))


def _moved_square(momentum: float, factor: float) -> Any:
    """The same of the square of `new`."""
    moved = _moved(momentum, factor)
    return lambda p, old, new: moved(p, old, _square(p, new))


def _product(p: MicroProgram, a: Operand, b: Operand) -> Operand:
    return p.op("MUL", a, b)


# --- forward ----------------------------------------------------------------------------------------------------------


def lower_norm(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.nodes[0]
    how = geometry(node)
    x = how.seen(emitter.view(operand(node, 0)))
    first = 2 if node.target is _LAYER else 1
    scale, shift = (
        how.parameter(emitter.view(p)) if isinstance(p, Node) else None for p in node.args[first : first + 2]
    )
    eps = float(arguments(node)[_EPS[node.target]])
    mean, spread = deviations(emitter, x, how.dims)
    deviation = elementwise(emitter, _inverse(eps), [spread])
    wanted = {item.args[1]: item for item in match.outputs}
    results: dict[Any, View] = {1: mean, 2: deviation}
    if 1 in wanted and node.target in (_LAYER, _GROUP):
        results[1] = undefined_mean(emitter, mean, spread)
    if 0 in wanted:
        results[0] = _affine(emitter, x, mean, deviation, scale, shift)
    if node.target is _BATCH:
        momentum, count = float(arguments(node)[6]), numel([x.shape[d] for d in how.dims])
        unbiased = count / (count - 1) if count > 1 else float("nan")
        for index, new, formula in ((3, mean, _moved(momentum)), (4, spread, _moved_square(momentum, unbiased))):
            if index in wanted:
                old = how.parameter(emitter.view(operand(node, index)))
                results[index] = elementwise(emitter, formula, [old, new])
    return [_in_shape(results[index], shape(item), emitter) for index, item in wanted.items()]


def _affine(emitter: Emitter, x: View, mean: View, deviation: View, scale: View | None, shift: View | None) -> View:
    def formula(p: MicroProgram, x: Operand, mean: Operand, deviation: Operand, *affine: Operand) -> Operand:
        y, rest = _normalised(p, x, mean, deviation), list(affine)
        if scale is not None:
            y = p.op("MUL", y, rest.pop(0))
        return p.op("ADD", y, rest.pop(0)) if shift is not None else y

    return elementwise(emitter, formula, [x, mean, deviation, *(v for v in (scale, shift) if v is not None)])


def _in_shape(view: View, wanted: tuple[int, ...], emitter: Emitter) -> View:
    """`view` in the shape that ATen gives the result: sizes of 1 left out, groups of channels merged."""
    found = view.reshape(wanted)
    if found is not None:
        return found
    out = emitter.tensor(wanted)
    same = out.reshape(view.shape)
    assert same is not None
    emitter.copy(view, same)
    return out


# --- backward ---------------------------------------------------------------------------------------------------------


def lower_norm_backward(match: Match, emitter: Emitter) -> Sequence[View]:
    """With z = (x - mean) / deviation and g = gradient * scale, means over the normalised dimensions:

    input: (g - mean(g) - z mean(g z)) / deviation;  scale: sum(gradient z);  shift: sum(gradient)
    """
    node = match.nodes[0]
    how = geometry(node)
    gradient, x = (how.seen(emitter.view(operand(node, i))) for i in (0, 1))
    mean, deviation, scale = _saved(node, how, emitter)
    wanted = {item.args[1]: item for item in match.outputs}
    moment = None  # gradient * z
    results: dict[Any, View] = {}
    shared = how.dims == how.parameter_dims  # the sums for scale and shift are those for the input's gradient
    needs = {1} | ({0} if shared else set())
    if needs & wanted.keys() and not (wanted.keys() == {0} and _is_fixed(node)):
        moment = elementwise(
            emitter, lambda p, g, *z: p.op("MUL", g, _normalised(p, *z)), [gradient, x, mean, deviation]
        )
        results[1] = reduced(emitter, "REDUCE_SUM", moment, how.parameter_dims)
    if 2 in wanted or (shared and 0 in wanted):
        results[2] = reduced(emitter, "REDUCE_SUM", gradient, how.parameter_dims)
    if 0 in wanted and _is_fixed(node):
        factor = deviation if scale is None else elementwise(emitter, _product, [deviation, scale])
        results[0] = elementwise(emitter, _product, [gradient, factor])
    elif 0 in wanted and shared:
        results[0] = _gradient_shared(emitter, how, gradient, x, mean, deviation, scale, results[1], results[2])
    elif 0 in wanted:
        results[0] = _gradient(emitter, how, gradient, x, mean, deviation, scale)
    return [_in_shape(results[index], shape(item), emitter) for index, item in wanted.items()]


def _is_fixed(node: Node) -> bool:
    """Whether the statistics are the running ones, which do not depend on the input."""
    return node.target is _BATCH_BACKWARD and not node.args[7]


def _saved(node: Node, how: NormGeometry, emitter: Emitter) -> tuple[View, View, View | None]:
    """Mean, inverse deviation, scale."""
    if node.target is _BATCH_BACKWARD:
        _, _, weight, running_mean, running_variance, mean, deviation, training, eps, _ = arguments(node)
        if not training:
            mean = running_mean
    elif node.target is _LAYER_BACKWARD:
        mean, deviation, weight = node.args[3:6]
    else:
        mean, deviation, weight = node.args[2:5]
    assert isinstance(mean, Node)
    scale = how.parameter(emitter.view(weight)) if isinstance(weight, Node) else None
    if _is_fixed(node):
        variance = how.statistic(emitter.view(running_variance))
        inverse = elementwise(emitter, inverse_deviation(float(eps)), [variance])
        return how.statistic(emitter.view(mean)), inverse, scale
    assert isinstance(deviation, Node)
    return how.statistic(emitter.view(mean)), how.statistic(emitter.view(deviation)), scale


def _gradient_shared(
    emitter: Emitter,
    how: NormGeometry,
    gradient: View,
    x: View,
    mean: View,
    deviation: View,
    scale: View | None,
    scale_sum: View,
    shift_sum: View,
) -> View:
    """Scale is a factor of the whole: (gradient - sum(gradient)/n - z sum(gradient z)/n) scale / deviation."""
    count = numel([how.shape[d] for d in how.dims])
    slope = elementwise(emitter, lambda p, s, d: p.op("MUL", p.op("MUL", s, d), 1 / count), [scale_sum, deviation])
    offset = elementwise(emitter, lambda p, s: p.op("MUL", s, 1 / count), [shift_sum])
    factor = deviation if scale is None else elementwise(emitter, _product, [deviation, scale])

    def formula(
        p: MicroProgram, g: Operand, x: Operand, mean: Operand, slope: Operand, offset: Operand, factor: Operand
    ) -> Operand:
        centred = p.op("SUB", p.op("SUB", g, offset), p.op("MUL", p.op("SUB", x, mean), slope))
        return p.op("MUL", centred, factor)

    return elementwise(emitter, formula, [gradient, x, mean, slope, offset, factor])


def _gradient(
    emitter: Emitter, how: NormGeometry, gradient: View, x: View, mean: View, deviation: View, scale: View | None
) -> View:
    g = gradient if scale is None else elementwise(emitter, _product, [gradient, scale])
    z_gradient = elementwise(emitter, lambda p, g, *z: p.op("MUL", g, _normalised(p, *z)), [g, x, mean, deviation])
    slope = reduced(emitter, "REDUCE_MEAN", z_gradient, how.dims)
    offset = reduced(emitter, "REDUCE_MEAN", g, how.dims)

    def formula(
        p: MicroProgram, g: Operand, x: Operand, mean: Operand, d: Operand, slope: Operand, offset: Operand
    ) -> Operand:
        z = _normalised(p, x, mean, d)
        return p.op("MUL", p.op("SUB", p.op("SUB", g, offset), p.op("MUL", z, slope)), d)

    return elementwise(emitter, formula, [g, x, mean, deviation, slope, offset])


_OPCODES = frozenset({"reduce", "pointwise", "move"})
_OPERATORS = {
    _BATCH: Operator(lambda t: image(t, *per_channel(t, 4), True, 0.1, 1e-5), laid_out=first_of(_BATCH)),
    _LAYER_BACKWARD: Operator(
        lambda t: rows(t, t(4, 16), [16], t(4, 1), t(4, 1), *per_channel(t, 2), [True, True, True])
    ),
    _GROUP_BACKWARD: Operator(
        lambda t: images(t, t(1, 4), t(1, 4), t(16), 1, 16, 64, 4, [True, True, True]),
        laid_out=lambda gradient, x, *_: like_group_norm(x),
    ),
    _BATCH_BACKWARD: Operator(
        lambda t: images(t, *per_channel(t, 5), True, 1e-5, [True, True, True]), laid_out=first_of(_BATCH_BACKWARD)
    ),
}
PATTERNS = tuple(
    Pattern(name, anchors, _match, _check, lower, _OPCODES, operators=facts_among(_OPERATORS, anchors))
    for name, anchors, lower in (
        ("norm_with_statistics", (_LAYER, _GROUP, _INSTANCE, _BATCH), lower_norm),
        ("norm_backward", (_LAYER_BACKWARD, _GROUP_BACKWARD, _BATCH_BACKWARD), lower_norm_backward),
    )
)
