"""The fields that records of channels-last images share, and what follows from them."""

from __future__ import annotations

from typing import TypedDict

from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.records import Depthwise, DepthwiseInt8, Pool, PoolInt8, Resample
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, View, ceil_div


def image_strides(view: View) -> tuple[int, int, int]:
    """Of image, row and column of a (batch, channels, height, width); the channel's is 1."""
    return (view.strides[0], view.strides[2], view.strides[3])


class ImageFields(TypedDict):
    """The fields of two images in a record."""

    input: Operand
    output: Operand
    batch: int
    channels: int
    in_height: int
    in_width: int
    out_height: int
    out_width: int
    in_stride: tuple[int, int, int]
    out_stride: tuple[int, int, int]


def from_image_to_image(x: View, y: View) -> ImageFields:
    """The fields of a record that makes images of `y` from those of `x`, each channel by itself."""
    batch, channels, out_height, out_width = y.shape
    return {
        "input": Operand.of(x),
        "output": Operand.of(y),
        "batch": batch,
        "channels": channels,
        "in_height": x.shape[2],
        "in_width": x.shape[3],
        "out_height": out_height,
        "out_width": out_width,
        "in_stride": image_strides(x),
        "out_stride": image_strides(y),
    }


ImageRecord = Depthwise | DepthwiseInt8 | Pool | PoolInt8 | Resample
"""The records that make images from images, each channel by itself."""


def result_vectors(c: ImageRecord) -> int:
    """Vectors of the result of such a record: what every core handles one of, per tap, in a cycle."""
    return c.batch * c.out_height * c.out_width * ceil_div(c.channels, VEC)


def images_floats(c: ImageRecord, target: Target) -> int:
    """Floats of both images."""
    pixels = c.in_height * c.in_width + c.out_height * c.out_width
    return c.batch * c.channels * pixels


def images_parts(c: ImageRecord, target: Target) -> int:
    """Rows of single vectors of channels, which lanes may share."""
    return c.batch * c.out_height * ceil_div(c.channels, VEC)
