"""Operators of ONNX on integers of 8 bits, as the operators that PyTorch's quantized graphs are made of.

QDQ models have QuantizeLinear and DequantizeLinear around operators of float32 values. Those of the QOperator format,
such as QLinearConv, become that operator between the same two. So both formats are the same graph here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from fpga_dynamo.onnx.builder import Call, Translation, Value, dtype_of, shape_of
from fpga_dynamo.onnx.operators import COMPUTING, convolution, gemm, global_pool, pool, softmax
from fpga_dynamo.onnx.types import torch_type
from fpga_dynamo.torch_internals.quantized import decomposed

_BYTES = (torch.int8, torch.uint8)
_SCALE, _MADE_OF, _WHOLE = "scale of integers", "what integers are made of", "integers as numbers"


def quantized(c: Call, x: Value, scale: Value, zero: Value | None, axis: int = 1) -> Value:
    """Integers that stand for `x`: x / scale, rounded half to even, plus zero, clamped."""
    dtype = torch_type(c.attribute("output_dtype", 0) or 2, str(c)) if zero is None else dtype_of(zero)
    if dtype not in _BYTES:
        raise c.refuse(f"quantization to {dtype} is not supported; int8 and uint8 are")
    _refuse_blocks(c)
    limits = torch.iinfo(dtype)
    if not isinstance(scale, Tensor) or isinstance(zero, Node):
        whole = c.add(torch.Tensor.to, torch.zeros((), dtype=dtype) if zero is None else zero, torch.int64)
        return c.add(decomposed.quantize_per_tensor.tensor, x, scale, whole, limits.min, limits.max, dtype)
    if scale.numel() == 1:
        settings = (float(scale), 0 if zero is None else int(zero), limits.min, limits.max, dtype)
        return _by_tensor(c, x, scale, zero, settings)
    zeros = _zeros_of(scale, zero)
    axis %= len(shape_of(x))
    return c.add(
        decomposed.quantize_per_channel.default, x, scale.reshape(-1), zeros, axis, limits.min, limits.max, dtype
    )


def _by_tensor(c: Call, x: Value, scale: Tensor, zero: Value | None, settings: tuple[Any, ...]) -> Value:
    """Integers that remember what they are made of."""
    made = c.add(decomposed.quantize_per_tensor.default, x, *settings)
    if isinstance(made, Node):
        made.meta |= {_SCALE: (scale, zero), _MADE_OF: (x, settings)}
    return made


def clip(c: Call) -> Any:
    """Clip; of integers, as Brevitas has it for fewer than 8 bits, they are rounded to the smaller range at once."""
    x = c.get(0)
    if not isinstance(x, Node) or _MADE_OF not in x.meta:
        return COMPUTING["Clip"](c)
    source, (number, offset, low, high, dtype) = x.meta[_MADE_OF]
    scale, zero = x.meta[_SCALE]
    least, most = (c.constant(position) for position in (1, 2))
    low = low if least is None else max(low, int(least))
    high = high if most is None else min(high, int(most))
    return _by_tensor(c, source, scale, zero, (number, offset, low, high, dtype))


def _limits(integers: Value) -> tuple[int, int]:
    """Of the integers that a value can be."""
    if isinstance(integers, Node) and _MADE_OF in integers.meta:
        low, high = integers.meta[_MADE_OF][1][2:4]
        return int(low), int(high)
    limits = torch.iinfo(dtype_of(integers))
    return limits.min, limits.max


def dequantized(c: Call, integers: Value, scale: Value, zero: Value | None, axis: int = 1) -> Value:
    """The numbers that integers stand for. Constants of 32 bits are biases, which are no integers to PyTorch."""
    _refuse_blocks(c)
    dtype = dtype_of(integers)
    if dtype is torch.int32 and isinstance(integers, Tensor) and isinstance(scale, Tensor):
        whole = integers if zero is None else integers - _constant(zero)
        return whole.float() * _along(scale, axis, integers.dim())
    if dtype not in _BYTES:
        raise c.refuse(f"values of {dtype} are not supported; int8 and uint8 are")
    if isinstance(integers, Tensor) and dtype is torch.uint8:
        # A weight of zero point 128 is symmetric: as int8 it can be one of a product's.
        whole = torch.zeros(1) if zero is None else _constant(zero)
        integers, zero, dtype = _signed(integers), _constant(whole).to(torch.int64) - 128, torch.int8
    low, high = _limits(integers)
    if not isinstance(scale, Tensor) or isinstance(zero, Node):
        number = c.add(torch.Tensor.to, torch.zeros((), dtype=dtype) if zero is None else zero, torch.int64)
        return c.add.node(decomposed.dequantize_per_tensor.tensor, integers, scale, number, low, high, dtype)
    if scale.numel() == 1:
        own = (float(scale), 0 if zero is None else int(zero), low, high, dtype)
        return c.add.node(decomposed.dequantize_per_tensor.default, integers, *own)
    axis %= len(shape_of(integers))
    zeros = _zeros_of(scale, zero)
    settings = (scale.reshape(-1), zeros, axis, low, high, dtype)
    return c.add.node(decomposed.dequantize_per_channel.default, integers, *settings)


def _signed(integers: Tensor) -> Tensor:
    return (integers.to(torch.int16) - 128).to(torch.int8)


def _constant(value: Value) -> Tensor:
    assert isinstance(value, Tensor)
    return value


def _zeros_of(scale: Tensor, zero: Value | None) -> Tensor:
    if zero is None:
        return torch.zeros(scale.numel(), dtype=torch.int64)
    return _constant(zero).reshape(-1).to(torch.int64).expand(scale.numel())


def _along(scale: Tensor, axis: int, rank: int) -> Tensor:
    if scale.numel() == 1:
        return scale.reshape(())
    return scale.reshape([-1 if d == axis % rank else 1 for d in range(rank)])


def _refuse_blocks(c: Call) -> None:
    if c.attribute("block_size", 0):
        raise c.refuse("a scale for each block is not supported; one per tensor or channel is")


def _scaled(c: Call, at: int, axis: int = 1) -> Value:
    """The operand whose integers, scale and zero point are the inputs from `at` on."""
    return dequantized(c, c[at], c[at + 1], c.get(at + 2), axis)


def _rounded(c: Call, x: Value, at: int) -> Value:
    """The result, whose scale and zero point are the inputs from `at` on."""
    return quantized(c, x, c[at], c.get(at + 1))


def _convolution(c: Call) -> Value:
    """QLinearConv: the bias has the scale of the sums."""
    bias = c.constant(8)
    if bias is not None:
        scale = _constant(c[1]).reshape(-1) * _constant(c[4]).reshape(-1)
        bias = bias.float() * scale
    return _rounded(c, convolution(c, _scaled(c, 0), _scaled(c, 3, axis=0), bias), 6)


def _gemm(c: Call) -> Value:
    """QGemm of onnxruntime: int32 is added in the scale of the sums; without a result's scale it is float32."""
    right_axis = 0 if c.attribute("transB", 0) else 1
    addend = c.constant(6)
    if addend is not None:
        scale = _constant(c[1]).reshape(-1) * _constant(c[4]).reshape(-1) * float(c.attribute("alpha", 1.0))
        addend = addend.float() * scale
    result = gemm(c, _scaled(c, 0), _scaled(c, 3, right_axis), addend)
    return result if c.get(7) is None else _rounded(c, result, 7)


def _of_one(function: Callable[[Call, Value], Value]) -> Translation:
    return lambda c: _rounded(c, function(c, _scaled(c, 0)), 3)


def _of_two(function: Callable[..., Any]) -> Translation:
    return lambda c: _rounded(c, c.add(function, _scaled(c, 0), _scaled(c, 3)), 6)


def _concat(c: Call) -> Value:
    parts = [_scaled(c, at) for at in range(2, len(c.inputs), 3)]
    return _rounded(c, c.add(torch.cat, parts, c.attribute("axis", 0)), 0)


def _pooled(c: Call, x: Value, function: Callable[[Value], Value]) -> Value:
    if not c.attribute("channels_last", 0):
        return function(x)
    rank = len(shape_of(x))
    first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    return c.add(torch.permute, function(c.add(torch.permute, x, first)), last)


def _chosen(c: Call) -> tuple[Value, Value, Value]:
    """DynamicQuantizeLinear: a scale for the range of this call, which has 0 in it."""
    least, most = (c.add(torch.clamp, c.add(function, c[0]), **{limit: 0.0}) for function, limit in _EXTREMES)
    scale = c.add(torch.div, c.add(torch.sub, most, least), 255.0)
    zero = c.add(torch.clamp, c.add(torch.round, c.add(torch.div, c.add(torch.neg, least), scale)), min=0.0, max=255.0)
    whole = c.add(torch.add, c.add(torch.round, c.add(torch.div, c[0], scale)), zero)
    return _cast(c, c.add(torch.clamp, whole, min=0.0, max=255.0)), scale, _cast(c, zero)


def _cast(c: Call, whole: Value, dtype: torch.dtype = torch.uint8) -> Value:
    """Whole numbers as integers, which remember them: products of integers and casts read the numbers."""
    made = c.add(torch.Tensor.to, whole, dtype)
    if isinstance(made, Node):
        made.meta[_WHOLE] = whole
    return made


_EXTREMES = ((torch.amin, "max"), (torch.amax, "min"))


def _integers(c: Call, at: int, zero: int) -> Value:
    """Integers minus their zero point, as float32: products and sums of 8 bits are exact in float32 up to 2^24."""
    own = c.get(zero)
    return _real(c, c[at]) if own is None else c.add(torch.sub, _real(c, c[at]), _real(c, own))


def _real(c: Call, integers: Value) -> Value:
    whole = integers.meta.get(_WHOLE) if isinstance(integers, Node) else None
    return c.add(torch.Tensor.to, integers, torch.float32) if whole is None else whole


def _integer_product(c: Call) -> Value:
    return _cast(c, c.add(torch.matmul, _integers(c, 0, 2), _integers(c, 1, 3)), torch.int32)


def _integer_convolution(c: Call) -> Value:
    return _cast(c, convolution(c, _integers(c, 0, 2), _integers(c, 1, 3), None), torch.int32)


def cast(c: Call) -> Value:
    """Cast; of sums of integers to float32 it is nothing."""
    dtype = torch_type(c.attribute("to"), str(c))
    return _real(c, c[0]) if dtype is torch.float32 else c.add(torch.Tensor.to, c[0], dtype)


def between_scales(translation: Translation) -> Translation:
    """Of an operator that a QOperator model applies to integers: to the numbers that they stand for, and rounded again.

    It chooses among its elements, so that the integers stay the same.
    """

    def translate(c: Call) -> Any:
        x = c.get(0)
        if not isinstance(x, Node) or _SCALE not in x.meta:
            return translation(c)
        scale, zero = x.meta[_SCALE]
        real = replace(c, inputs=(dequantized(c, x, scale, zero), *c.inputs[1:]))
        result = translation(real)
        assert isinstance(result, (Tensor, Node))
        return quantized(c, result, scale, zero)

    return translate


QUANTIZED: dict[str, Translation] = {
    "Cast": cast,
    "Clip": clip,
    "ConvInteger": _integer_convolution,
    "DequantizeLinear": lambda c: dequantized(c, c[0], c[1], c.get(2), c.attribute("axis", 1)),
    "DynamicQuantizeLinear": _chosen,
    "MatMulInteger": _integer_product,
    "QGemm": _gemm,
    "QLinearAdd": _of_two(torch.add),
    "QLinearAveragePool": _of_one(lambda c, x: _pooled(c, x, lambda own: pool(c, own, "avg"))),
    "QLinearConcat": _concat,
    "QLinearConv": _convolution,
    "QLinearGlobalAveragePool": _of_one(lambda c, x: _pooled(c, x, lambda own: global_pool(c, own))),
    "QLinearLeakyRelu": _of_one(lambda c, x: c.add(F.leaky_relu, x, c.attribute("alpha", 0.01))),
    "QLinearMatMul": lambda c: _rounded(c, c.add(torch.matmul, _scaled(c, 0), _scaled(c, 3)), 6),
    "QLinearMul": _of_two(torch.mul),
    "QLinearSigmoid": _of_one(lambda c, x: c.add(torch.sigmoid, x)),
    "QLinearSoftmax": _of_one(lambda c, x: softmax(c, x, opset=c.attribute("opset", 13))),
    "QuantizeLinear": lambda c: quantized(c, c[0], c[1], c.get(2), c.attribute("axis", 1)),
}
