"""The fields that records of channels-last images share."""

from __future__ import annotations

from typing import Any

from fpga_dynamo.codegen.emitter import slices_of
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.view import VEC, View, ceil_div


def image_strides(view: View) -> tuple[int, int, int]:
    """Of image, row and column of a (batch, channels, height, width); the channel's is 1."""
    return (view.strides[0], view.strides[2], view.strides[3])


def from_image_to_image(x: View, y: View) -> dict[str, Any]:
    """The fields, slices included, of a record that makes images of `y` from those of `x`, each channel by itself."""
    batch, channels, out_height, out_width = y.shape
    return {
        "slices": slices_of(batch * out_height, ceil_div(channels, VEC)),
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
