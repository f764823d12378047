"""A flattened image in front of a product with packed weights: not the image is put in order, but the weights."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.graph import IDENTITY_TARGETS, RESHAPE_TARGETS, shape
from fpga_dynamo.ir.view import View


@dataclass(frozen=True)
class Flattened:
    """rows: (1, 1, images, elements) as the elements lie, channels innermost; image: channels, height, width."""

    rows: View
    image: tuple[int, int, int]


def flattened(node: Node, emitter: Emitter) -> Flattened | None:
    """`node` as rows of whole channels-last images, if it is (images, channels x height x width) and they lie dense."""
    while not emitter.made(node):
        source = node.all_input_nodes[0]
        if node.target not in IDENTITY_TARGETS and node.target not in RESHAPE_TARGETS:
            return None
        if len(shape(source)) == 4 and shape(node) == (shape(source)[0], _elements(shape(source))):
            return _rows(emitter.view(source))
        if shape(source) != shape(node):
            return None
        node = source
    return None


def _rows(image: View) -> Flattened | None:
    batch, channels, height, width = image.shape
    if image.buffer.in_weights or channels == 1 or height * width == 1:
        return None
    pixels = image.permute((0, 2, 3, 1)).reshape((batch, height * width * channels))
    if pixels is None or pixels.strides[-1] != 1:
        return None
    return Flattened(pixels.unsqueeze(0).unsqueeze(0), (channels, height, width))


def _elements(size: tuple[int, ...]) -> int:
    _, channels, height, width = size
    return channels * height * width
