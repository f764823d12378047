"""Facts about quantised graphs: which nodes go from floating-point values to integers and back, and by which scale.

A *quantising* node rounds floating-point values to 8-bit integers, a *dequantising* one gives the floating-point values
that such integers stand for: (q - zero) * scale. A pair of them around an operator says that it may compute with
integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from fpga_dynamo.ir.dtypes import BYTES
from fpga_dynamo.ir.elements import Element
from fpga_dynamo.torch_internals.quantized import decomposed

QUANTIZE = decomposed.quantize_per_tensor.default
DEQUANTIZE = decomposed.dequantize_per_tensor.default
DEQUANTIZE_CHANNELS = decomposed.dequantize_per_channel.default

QUANTIZE_DYNAMIC = (decomposed.quantize_per_tensor.tensor, decomposed.quantize_per_token.default)
DEQUANTIZE_DYNAMIC = (decomposed.dequantize_per_tensor.tensor, decomposed.dequantize_per_token.default)
"""By scales that are tensors: one for all, or one for each row (*token*); known as the graph runs (*dynamic*)."""


@dataclass(frozen=True)
class Scale:
    """How integers stand for floating-point values: (q - zero) * scale, low <= q <= high."""

    scale: float
    zero: int
    low: int
    high: int
    dtype: torch.dtype

    @property
    def element(self) -> Element:
        """What the integers lie on the card as."""
        return BYTES[self.dtype]

    @property
    def farthest(self) -> int:
        """The greatest |q - zero|."""
        return max(self.high - self.zero, self.zero - self.low)

    def quantized(self, x: float) -> int:
        """The integer that stands for a number, as eager rounds it: in float32, half to even, clamped."""
        with np.errstate(over="ignore"):
            whole = np.rint(np.float32(x) * np.float32(1.0 / self.scale)) + np.float32(self.zero)
        return int(min(max(whole, self.low), self.high))

    def values(self) -> torch.Tensor:
        """The floating-point values that its integers stand for, from the least value of its type on: 256 float32."""
        limits = torch.iinfo(self.dtype)
        integers = torch.arange(limits.min, limits.max + 1)
        return (integers.to(torch.float32) - self.zero) * self.scale


def scale_of(node: Any) -> Scale | None:
    """The scale of a quantising or dequantising node whose scale is known when it is compiled; None for any other."""
    if not isinstance(node, Node) or node.target not in (QUANTIZE, DEQUANTIZE) or len(node.args) < 6:
        return None
    _, scale, zero, low, high, dtype = node.args[:6]
    if not isinstance(scale, (int, float)) or not isinstance(zero, int):
        return None
    if not isinstance(dtype, torch.dtype) or dtype not in BYTES:
        return None
    if not isinstance(low, int) or not isinstance(high, int) or not 0 < scale < float("inf"):
        return None
    limits = torch.iinfo(dtype)
    if not limits.min <= low <= high <= limits.max or not low <= zero <= high:
        return None
    if node.kwargs.get("out_dtype") not in (None, torch.float32):
        return None
    return Scale(float(scale), zero, low, high, dtype)


def dequantized(node: Any) -> tuple[Node, Scale] | None:
    """The integers that `node` dequantises, and their scale; None for another node."""
    if not isinstance(node, Node) or node.target is not DEQUANTIZE:
        return None
    scale, integers = scale_of(node), node.args[0]
    if scale is None or not isinstance(integers, Node):
        return None
    fake = integers.meta.get("val")
    if not isinstance(fake, torch.Tensor) or fake.dtype is not scale.dtype:
        return None
    return integers, scale


def quantizes(node: Node) -> Scale | None:
    """The scale by which `node` makes integers of float32; None if it does not."""
    if node.target is not QUANTIZE or not isinstance(node.args[0], Node):
        return None
    fake = node.args[0].meta.get("val")
    return scale_of(node) if isinstance(fake, torch.Tensor) and fake.dtype is torch.float32 else None


@dataclass(frozen=True)
class DynamicScale:
    """A scale that is a tensor, as is its zero point (None: 0): one element, or one for each row of the integers."""

    scale: Node
    zero: Node | None
    low: int
    high: int
    dtype: torch.dtype
    by_row: bool

    @property
    def element(self) -> Element:
        """What the integers lie on the card as."""
        return BYTES[self.dtype]

    @property
    def of_sums(self) -> Scale:
        """That of sums which are multiplied by this one later: 1, with the zero point that its own is a multiple of."""
        return Scale(1.0, 0 if self.zero is None else 1, self.low, self.high, self.dtype)


def dynamic_scale(node: Any) -> DynamicScale | None:
    """The scale of a quantising or dequantising node that takes it from tensors; None for any other."""
    if not isinstance(node, Node) or node.target not in (*QUANTIZE_DYNAMIC, *DEQUANTIZE_DYNAMIC) or len(node.args) < 6:
        return None
    _, scale, zero, low, high, dtype = node.args[:6]
    real = node.kwargs.get("out_dtype", node.args[6] if len(node.args) > 6 else None)
    if not isinstance(scale, Node) or not isinstance(zero, Node) or dtype not in BYTES:
        return None
    if scale.meta["val"].dtype is not torch.float32 or real not in (None, torch.float32):
        return None
    if not isinstance(low, int) or not isinstance(high, int) or not isinstance(dtype, torch.dtype):
        return None
    by_row = node.target in (QUANTIZE_DYNAMIC[1], DEQUANTIZE_DYNAMIC[1])
    return DynamicScale(scale, None if is_zero(zero) else zero, low, high, dtype, by_row)


def is_zero(node: Node) -> bool:
    """Whether a tensor of the graph is full of zeros."""
    while node.target in (torch.ops.aten.view.default, torch.ops.aten._to_copy.default):
        node = node.all_input_nodes[0]
    return node.target is torch.ops.aten.full.default and node.args[1] in (0, 0.0)


def dequantized_by_tensor(node: Any) -> tuple[Node, DynamicScale] | None:
    """The integers that `node` dequantises by a scale that is a tensor; None for another node."""
    scale = dynamic_scale(node) if isinstance(node, Node) and node.target in DEQUANTIZE_DYNAMIC else None
    integers = node.args[0] if scale is not None else None
    if scale is None or not isinstance(integers, Node) or integers.meta["val"].dtype is not scale.dtype:
        return None
    return integers, scale
