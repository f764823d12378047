"""What the ways to compute a convolution of images have in common: what they are asked, and what they are given.

The table of them, and who chooses: choice.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from fpga_dynamo.codegen import cost
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Record
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import View
from fpga_dynamo.ir.weights import Expression
from fpga_dynamo.lowering.ops.convolution.axes import Axis
from fpga_dynamo.lowering.ops.epilogue import Activation
from fpga_dynamo.lowering.ops.packing import Form


class ImageSizes(TypedDict):
    """Fields that the records of convolutions of images have."""

    batch: int
    in_height: int
    in_width: int
    out_height: int
    out_width: int


@dataclass(frozen=True)
class ConvolutionShape:
    """A convolution of images, as far as it can be known before they have places.

    source, result: (batch, channels, height, width). static: whether its weights stay from call to call.
    pitches: distances between the pixels of input, result and addend where these are the rows of matrices; None where
    they are not, or have no places yet.
    """

    source: tuple[int, ...]
    result: tuple[int, ...]
    height: Axis
    width: Axis
    groups: int
    form: Form = None
    static: bool = True
    pitches: tuple[int, int, int] | None = None

    @property
    def kernel(self) -> tuple[int, int]:
        return len(self.height.taps), len(self.width.taps)

    @property
    def channels(self) -> tuple[int, int]:
        """In and out, of one group."""
        return self.source[1] // self.groups, self.result[1] // self.groups

    @property
    def depthwise(self) -> bool:
        return self.channels == (1, 1) and self.groups > 1

    @property
    def pointwise(self) -> bool:
        """Whether each pixel becomes the one in its place."""
        return self.height.trivial(self.source[2]) and self.width.trivial(self.source[3])

    @property
    def meets_zeros(self) -> bool:
        """Whether weights may be multiplied by more than the image: around it, or in front of a volume."""
        return not self.pointwise or (self.form is not None and self.form[3])

    @property
    def images(self) -> ImageSizes:
        """Those of input and result."""
        batch, _, out_height, out_width = self.result
        return {
            "batch": batch,
            "in_height": self.source[2],
            "in_width": self.source[3],
            "out_height": out_height,
            "out_width": out_width,
        }


@dataclass(frozen=True)
class ConvolutionParameters:
    """What the packs of a convolution are made from: operands of :func:`packing.folded`, whether there is a bias at
    all, and names for the packs."""

    eps: float | None
    operands: list[Expression | None]
    has_bias: bool
    weight_name: str
    bias_name: str


@dataclass(frozen=True)
class Convolution:
    """y = activation(convolution of x, + bias, + residual), each an image batch of the shape's sizes."""

    shape: ConvolutionShape
    x: View
    y: View
    residual: View | None
    parameters: ConvolutionParameters
    activation: Activation
    macs: int


@dataclass(frozen=True)
class Implementation:
    """One way to compute a convolution of images, as a command of one core.

    can: (shape, target) -> None, or the sentence that says why it cannot.
    sizes: (shape, target) -> a record with the fields that the cost follows from.
    emit: appends the command.
    stays: share of its cycles that a way further down the table, which rounds more coarsely, has to stay below to be
        taken in its place. settles: cycles below which nothing further down is worth its rounding.
    asked: (target) -> whether an option has it taken wherever it can be, faster or not.
    """

    name: str
    opcode: str
    can: Callable[[ConvolutionShape, Target], str | None]
    sizes: Callable[[ConvolutionShape, Target], Record]
    emit: Callable[[Convolution, Emitter], None]
    stays: float = 1.0
    settles: float = 0.0
    asked: Callable[[Target], bool] = lambda target: False

    def cycles(self, shape: ConvolutionShape, target: Target) -> float:
        """On one compute unit."""
        return cost.cycles(self.sizes(shape, target), target)
