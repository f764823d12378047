"""Facts about quantised graphs: which nodes go from real numbers to integers and back, and by which scale.

A *quantising* node rounds real numbers to integers of eight bits, a *dequantising* one gives the real numbers that such
integers stand for: (q - zero) * scale. A pair of them around an operator says that it may compute with integers.
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


@dataclass(frozen=True)
class Scale:
    """How integers stand for real numbers: (q - zero) * scale, low <= q <= high."""

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
        """The real numbers that its integers stand for, from the least value of its type on: 256 float32."""
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
    """The integers that `node` makes real numbers of, and their scale; None if it is no such node."""
    if not isinstance(node, Node) or node.target is not DEQUANTIZE:
        return None
    scale, integers = scale_of(node), node.args[0]
    fake = integers.meta.get("val") if isinstance(integers, Node) else None
    if scale is None or not isinstance(fake, torch.Tensor) or fake.dtype is not scale.dtype:
        return None
    return integers, scale  # type: ignore[return-value]


def quantizes(node: Node) -> Scale | None:
    """The scale by which `node` makes integers of float32; None if it does not."""
    if node.target is not QUANTIZE or not isinstance(node.args[0], Node):
        return None
    fake = node.args[0].meta.get("val")
    return scale_of(node) if isinstance(fake, torch.Tensor) and fake.dtype is torch.float32 else None


def is_static_integers(node: Any) -> bool:
    """Whether `node` gives the real numbers of integers of eight bits with a scale of each channel or of all."""
    return isinstance(node, Node) and node.target in (DEQUANTIZE, DEQUANTIZE_CHANNELS)
