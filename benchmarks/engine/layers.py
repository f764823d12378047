"""A network as the engine sees it: layers between maps of blocked int8 channels, with activations and sums fused."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shape:
    """Of a map: an image of `height` x `width` pixels, or `width` rows of a matrix (`height` 1), of `channels` each."""

    height: int
    width: int
    channels: int

    @property
    def pixels(self) -> int:
        return self.height * self.width


@dataclass(frozen=True)
class Part:
    """Channels `first` … `first + count` of a map: what a layer reads or writes of it."""

    map: int
    first: int
    count: int


@dataclass(frozen=True)
class Layer:
    """What one or few commands compute. name: of the FX node. output: may be a part of a concatenation."""

    name: str
    inputs: tuple[Part, ...]
    output: Part

    @property
    def macs(self) -> int:
        return 0


@dataclass(frozen=True)
class Convolution(Layer):
    """A convolution or, with a kernel of 1 x 1 over a map of height 1, a matrix product with constant weights.

    activation: "", "relu", "relu6", or the name of what the epilogue's table computes. residual: added before the
    activation, or with `sum_last` behind it. padding: (top, left); what lies below and to the right follows from the
    sizes.
    """

    source: Shape
    result: Shape
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    activation: str = ""
    residual: Part | None = None
    sum_last: bool = False

    @property
    def depthwise(self) -> bool:
        return self.groups > 1 and self.groups == self.source.channels

    @property
    def macs(self) -> int:
        return self.result.pixels * self.result.channels * self.source.channels // self.groups * math.prod(self.kernel)


@dataclass(frozen=True)
class Product(Layer):
    """`heads` products of two maps: `rows` x `inner` with `inner` x `columns` for each. transposed: Q·Kᵀ, else S·V."""

    heads: int
    rows: int
    inner: int
    columns: int
    transposed: bool

    @property
    def macs(self) -> int:
        return self.heads * self.rows * self.inner * self.columns


@dataclass(frozen=True)
class Pool(Layer):
    """Maximum or average of windows."""

    source: Shape
    result: Shape
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    kind: str


@dataclass(frozen=True)
class Rows(Layer):
    """What works on the rows of a matrix, or element by element: "softmax", "layer_norm", "add" or a table's name."""

    shape: Shape
    kind: str


@dataclass
class Network:
    """Layers in the order that they run; `maps[i]` is the shape of map `i`, map 0 the network's input."""

    name: str
    maps: list[Shape] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)
