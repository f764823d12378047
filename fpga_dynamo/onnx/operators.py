"""Operators of ONNX that compute: what PyTorch's function each is, in whatever version of the operator set.

Movements are in movement.py, operators of integers in quantized.py. Tests: tests/onnx/test_operators.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from fpga_dynamo.onnx.builder import Call, Translation, Value, dtype_of, shape_of


def _unary(function: Callable[..., Any], **settings: Any) -> Translation:
    return lambda c: c.add(function, c[0], **settings)


def _binary(function: Callable[..., Any]) -> Translation:
    return lambda c: c.add(function, c[0], c[1])


def _folded(function: Callable[..., Any]) -> Translation:
    """An operator of any number of operands."""

    def translate(c: Call) -> Value:
        result = c[0]
        for position in range(1, len(c.inputs)):
            result = c.add(function, result, c[position])
        return result

    return translate


def _divide(c: Call) -> Value:
    """Integers are divided towards zero."""
    if dtype_of(c[0]).is_floating_point:
        return c.add(torch.div, c[0], c[1])
    return c.add(torch.div, c[0], c[1], rounding_mode="trunc")


def _gelu(c: Call) -> Value:
    return c.add(F.gelu, c[0], approximate=_text(c.attribute("approximate", b"none")))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _clip(c: Call) -> Value:
    limits: list[Any] = []
    for position, name in ((1, "min"), (2, "max")):
        limit = c.constant(position)
        limits.append(c.attribute(name) if limit is None else limit.item())
    return c[0] if limits == [None, None] else c.add(torch.clamp, c[0], min=limits[0], max=limits[1])


def _hard_sigmoid(c: Call) -> Value:
    alpha, beta = c.attribute("alpha", 0.2), c.attribute("beta", 0.5)
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return c.add(F.hardsigmoid, c[0])
    return c.add(torch.clamp, c.add(torch.add, c.add(torch.mul, c[0], alpha), beta), min=0.0, max=1.0)


def _prelu(c: Call) -> Value:
    """PReLU of ONNX broadcasts its slope as any operand, PyTorch's has one for each channel."""
    below = c.add(torch.mul, c.add(torch.clamp, c[0], max=0.0), c[1])
    return c.add(torch.add, c.add(torch.relu, c[0]), below)


# Products


def _pads(c: Call, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> list[tuple[int, int]]:
    """(before, after) of each spatial dimension."""
    rank, automatic = len(kernel), _text(c.attribute("auto_pad", b"NOTSET"))
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        pads = []
        for size, k, stride, dilation in zip(shape_of(c[0])[2:], kernel, strides, dilations, strict=True):
            total = max((math.ceil(size / stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
            half = total // 2
            pads.append((half, total - half) if automatic == "SAME_UPPER" else (total - half, half))
        return pads
    given = list(c.attribute("pads", [0] * 2 * rank)) if automatic == "NOTSET" else [0] * 2 * rank
    return list(zip(given[:rank], given[rank:], strict=True))


def padded(c: Call, x: Value, pads: Sequence[tuple[int, int]], number: float) -> tuple[Value, list[int]]:
    """`x`, and the padding that is left for PyTorch's operator, which has the same before and after."""
    if all(before == after for before, after in pads):
        return x, [before for before, _ in pads]
    flat = [n for pair in reversed(pads) for n in pair]
    return c.add(F.pad, x, flat, "constant", number), [0] * len(pads)


_CONVOLUTIONS: tuple[Any, ...] = (F.conv1d, F.conv2d, F.conv3d)
_TRANSPOSED: tuple[Any, ...] = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def convolution(c: Call, x: Value, weight: Value, bias: Value | None) -> Value:
    """A convolution of these operands with the attributes of `c`."""
    kernel = list(shape_of(weight)[2:])
    rank = len(kernel)
    if not 1 <= rank <= 3:
        raise c.refuse(f"{rank} spatial dimensions are not supported; 1 to 3 are")
    strides, dilations = (list(c.attribute(name, [1] * rank)) for name in ("strides", "dilations"))
    x, padding = padded(c, x, _pads(c, kernel, strides, dilations), 0.0)
    return c.add(_CONVOLUTIONS[rank - 1], x, weight, bias, strides, padding, dilations, c.attribute("group", 1))


def _transposed_convolution(c: Call) -> Value:
    rank = len(shape_of(c[1])) - 2
    if not 1 <= rank <= 3:
        raise c.refuse(f"{rank} spatial dimensions are not supported; 1 to 3 are")
    strides, dilations = (list(c.attribute(name, [1] * rank)) for name in ("strides", "dilations"))
    more = list(c.attribute("output_padding", [0] * rank))
    if _text(c.attribute("auto_pad", b"NOTSET")) not in ("NOTSET", "VALID") or "output_shape" in c.attributes:
        raise c.refuse("auto_pad and output_shape are not supported; pads are")
    pads = _pads(c, list(shape_of(c[1])[2:]), strides, dilations)
    if any(before != after for before, after in pads):
        raise c.refuse("different pads before and after are not supported")
    padding, group = [before for before, _ in pads], c.attribute("group", 1)
    return c.add(_TRANSPOSED[rank - 1], c[0], c[1], c.get(2), strides, padding, more, group, dilations)


def gemm(c: Call, left: Value, right: Value, addend: Value | None) -> Value:
    """alpha left right + beta addend, with either operand transposed, by the attributes of `c`."""
    alpha, beta = float(c.attribute("alpha", 1.0)), float(c.attribute("beta", 1.0))
    if c.attribute("transA", 0):
        left = c.add(torch.t, left)
    if c.attribute("transB", 0) and alpha == 1.0 and (addend is None or (beta == 1.0 and len(shape_of(addend)) == 1)):
        return c.add(F.linear, left, right, addend)
    if c.attribute("transB", 0):
        right = c.add(torch.t, right)
    product = c.add(torch.matmul, left, right)
    product = product if alpha == 1.0 else c.add(torch.mul, product, alpha)
    if addend is None:
        return product
    return c.add(torch.add, product, addend if beta == 1.0 else c.add(torch.mul, addend, beta))


def _einsum(c: Call) -> Value:
    return c.add(torch.einsum, _text(c.attribute("equation")), *(c[i] for i in range(len(c.inputs))))


# Pooling, norms, softmax


def pool(c: Call, x: Value, kind: str) -> Value:
    """Average ("avg") or maximum ("max") over windows, by the attributes of `c`."""
    kernel = list(c.attribute("kernel_shape"))
    rank = len(kernel)
    strides, dilations = (list(c.attribute(name, [1] * rank)) for name in ("strides", "dilations"))
    if _text(c.attribute("storage_order", 0)) != "0" or c.outputs > 1:
        raise c.refuse("indices are not supported")
    counted, ceiling = bool(c.attribute("count_include_pad", 0)), bool(c.attribute("ceil_mode", 0))
    pads = _pads(c, kernel, strides, dilations)
    if kind == "max":
        x, padding = padded(c, x, pads, -math.inf)
        function: Any = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
        return c.add(function, x, kernel, strides, padding, dilations, ceiling)
    if any(before != after for before, after in pads) and not counted:
        raise c.refuse("an average with different pads before and after is not supported")
    if any(dilation != 1 for dilation in dilations):
        raise c.refuse("a dilated average is not supported")
    x, padding = padded(c, x, pads, 0.0)
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
    return c.add(function, x, kernel, strides, padding, ceiling, counted)


def global_pool(c: Call, x: Value, function: Callable[..., Any] = torch.mean) -> Value:
    return c.add(function, x, list(range(2, len(shape_of(x)))), True)


def _batch_norm(c: Call) -> Value:
    if c.attribute("training_mode", 0):
        raise c.refuse("training mode is not supported; export the model in eval mode")
    return c.add(F.batch_norm, c[0], c[3], c[4], c[1], c[2], False, 0.0, c.attribute("epsilon", 1e-5))


def _layer_norm(c: Call) -> Value:
    axis = c.attribute("axis", -1)
    return c.add(F.layer_norm, c[0], list(shape_of(c[0])[axis:]), c[1], c.get(2), c.attribute("epsilon", 1e-5))


def _instance_norm(c: Call) -> Value:
    settings: Any = {"weight": c[1], "bias": c[2], "eps": c.attribute("epsilon", 1e-5)}
    return c.add(F.instance_norm, c[0], **settings)


def _group_norm(c: Call) -> Value:
    return c.add(F.group_norm, c[0], c.attribute("num_groups"), c[1], c[2], c.attribute("epsilon", 1e-5))


def softmax(c: Call, x: Value, function: Callable[..., Any] = torch.softmax, opset: int | None = None) -> Value:
    """Before version 13 it is over all dimensions from `axis` on."""
    size = shape_of(x)
    old = (c.opset if opset is None else opset) < 13
    axis = c.attribute("axis", 1 if old else -1) % max(len(size), 1)
    if not old or axis == len(size) - 1:
        return c.add(function, x, axis)
    return c.add(torch.reshape, c.add(function, c.add(torch.flatten, x, axis), axis), list(size))


# Reductions


def _reduction(function: Callable[..., Any]) -> Translation:
    """A reduction over axes that newer versions have as an input."""

    def translate(c: Call) -> Value:
        axes = c.integers(1, "axes")
        rank = len(shape_of(c[0]))
        if not axes:
            if c.attribute("noop_with_empty_axes", 0):
                return c[0]
            axes = list(range(rank))
        return c.add(function, c[0], axes, keepdim=bool(c.attribute("keepdims", 1)))

    return translate


def _l2(x: Any, dims: list[int], keepdim: bool) -> Any:
    return torch.linalg.vector_norm(x, 2, dims, keepdim)


def _l1(x: Any, dims: list[int], keepdim: bool) -> Any:
    return torch.linalg.vector_norm(x, 1, dims, keepdim)


def _sum_of_squares(x: Any, dims: list[int], keepdim: bool) -> Any:
    return x.square().sum(dims, keepdim)


def _extreme(function: Callable[..., Any]) -> Translation:
    def translate(c: Call) -> Value:
        if c.attribute("select_last_index", 0):
            raise c.refuse("select_last_index is not supported")
        return c.add(function, c[0], c.attribute("axis", 0), bool(c.attribute("keepdims", 1)))

    return translate


def _cumulative_sum(c: Call) -> Value:
    axis = c.constant(1)
    if c.attribute("exclusive", 0) or c.attribute("reverse", 0) or axis is None:
        raise c.refuse("exclusive and reverse are not supported")
    return c.add(torch.cumsum, c[0], int(axis))


COMPUTING: dict[str, Translation] = {
    "Abs": _unary(torch.abs),
    "Add": _binary(torch.add),
    "And": _binary(torch.logical_and),
    "ArgMax": _extreme(torch.argmax),
    "ArgMin": _extreme(torch.argmin),
    "AveragePool": lambda c: pool(c, c[0], "avg"),
    "BatchNormalization": _batch_norm,
    "Ceil": _unary(torch.ceil),
    "Clip": _clip,
    "Conv": lambda c: convolution(c, c[0], c[1], c.get(2)),
    "ConvTranspose": _transposed_convolution,
    "Cos": _unary(torch.cos),
    "CumSum": _cumulative_sum,
    "Div": _divide,
    "Dropout": lambda c: c[0],
    "Einsum": _einsum,
    "Elu": lambda c: c.add(F.elu, c[0], c.attribute("alpha", 1.0)),
    "Equal": _binary(torch.eq),
    "Erf": _unary(torch.erf),
    "Exp": _unary(torch.exp),
    "Floor": _unary(torch.floor),
    "Gelu": _gelu,
    "Gemm": lambda c: gemm(c, c[0], c[1], c.get(2)),
    "GlobalAveragePool": lambda c: global_pool(c, c[0]),
    "GlobalMaxPool": lambda c: global_pool(c, c[0], torch.amax),
    "Greater": _binary(torch.gt),
    "GreaterOrEqual": _binary(torch.ge),
    "GroupNormalization": _group_norm,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _unary(F.hardswish),
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda c: c.add(F.leaky_relu, c[0], c.attribute("alpha", 0.01)),
    "Less": _binary(torch.lt),
    "LessOrEqual": _binary(torch.le),
    "Log": _unary(torch.log),
    "LogSoftmax": lambda c: softmax(c, c[0], torch.log_softmax),
    "MatMul": _binary(torch.matmul),
    "Max": _folded(torch.maximum),
    "MaxPool": lambda c: pool(c, c[0], "max"),
    "Min": _folded(torch.minimum),
    "Mish": _unary(F.mish),
    "Mod": lambda c: c.add(torch.fmod if c.attribute("fmod", 0) else torch.remainder, c[0], c[1]),
    "Mul": _binary(torch.mul),
    "Neg": _unary(torch.neg),
    "Not": _unary(torch.logical_not),
    "Or": _binary(torch.logical_or),
    "PRelu": _prelu,
    "Pow": _binary(torch.pow),
    "Reciprocal": _unary(torch.reciprocal),
    "ReduceL1": _reduction(_l1),
    "ReduceL2": _reduction(_l2),
    "ReduceMax": _reduction(torch.amax),
    "ReduceMean": _reduction(torch.mean),
    "ReduceMin": _reduction(torch.amin),
    "ReduceSum": _reduction(torch.sum),
    "ReduceSumSquare": _reduction(_sum_of_squares),
    "Relu": _unary(torch.relu),
    "Round": _unary(torch.round),
    "Selu": _unary(F.selu),
    "Sigmoid": _unary(torch.sigmoid),
    "Sign": _unary(torch.sign),
    "Sin": _unary(torch.sin),
    "Softmax": lambda c: softmax(c, c[0]),
    "Softplus": _unary(F.softplus),
    "Softsign": _unary(F.softsign),
    "Sqrt": _unary(torch.sqrt),
    "Sub": _binary(torch.sub),
    "Sum": _folded(torch.add),
    "Tanh": _unary(torch.tanh),
    "Where": lambda c: c.add(torch.where, c[0], c[1], c[2]),
    "Xor": _binary(torch.logical_xor),
}
