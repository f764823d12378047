"""What a pattern writes engine commands with: where values lie (maps.py), parameters, and the lists of commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen import views
from fpga_dynamo.ir.blocked import CHANNEL, CHANNELS_FIRST, IMAGE, PIXEL
from fpga_dynamo.ir.elements import I8
from fpga_dynamo.ir.graph import GraphInfo, arguments, aten, is_view, shape, value
from fpga_dynamo.ir.quantised import DEQUANTIZE, QUANTIZE, Scale
from fpga_dynamo.ir.view import Buffer, View

from .casts import CastEmitter
from .gather import ConstantLayout, pack_constant
from .maps import Map, MapImages, RefusedError, as_map, dense_view
from .sizes import LINE_BYTES
from .target import EngineTarget


class EngineEmitter(CastEmitter):
    """Builds the command lists of a graph.

    host_gives: whether the host writes a node's value before a launch.
    placements: the part of another map to which a node's value is written.
    """

    def __init__(self, graph: GraphInfo, engine: EngineTarget, is_given: Callable[[Node], bool]) -> None:
        super().__init__(graph, engine)
        self.placements: dict[Node, View] = {}
        self.given: dict[Node, list[Map]] = {}
        self.rounded: dict[Node, Scale] = {}
        self.host_gives = is_given
        self._asked: dict[tuple[Node, int], Map] = {}
        self._values: dict[Node, Any] = {}

    def view(self, node: Node) -> View:
        """Where the value of `node` lies. Raises RefusedError if that is in no order that strides can say."""
        chain = [node]
        while (last := chain[-1]) not in self._values:
            known = is_view(last) and last.all_input_nodes[0] in self._values
            if self.is_constant(last) and not known:
                size = shape(last)
                of = Map(*as_map(size), self.sizes, last.name)
                self._values[last] = self.constant(last, dense_view(of, size))
            elif self.is_given(last) and not known:
                self._values[last] = self._given_view(last)
            elif is_view(last):
                chain.append(last.all_input_nodes[0])
            elif last in self.graph.static:
                raise RefusedError(f"operand {last} is a constant, which is not transferred to the device")
            else:
                raise AssertionError(f"{last} is not a value of the engine")
        for last in reversed(chain[:-1]):
            source = self._values[last.all_input_nodes[0]]
            self._values[last] = views.lower_view(last, source, _Copies(self, last, source))
        found = self._values[node]
        assert isinstance(found, View), f"{node} is a tuple"
        return found

    def is_given(self, node: Node) -> bool:
        """Whether a node's value is there in any order that a reader asks for."""
        return node in self.rounded or self.host_gives(node)

    def define(self, node: Node, view: View) -> None:
        """States where the value of `node` lies."""
        self._values[node] = view

    def filling(self, node: Node) -> int:
        """What channels that fill a block of a given value are: its zero point, which products of maps count on."""
        if node.target is QUANTIZE:
            return int(arguments(node)[2])
        waiting = list(node.users)
        while waiting:
            user = waiting.pop()
            if user.target is DEQUANTIZE:
                return int(arguments(user)[2])
            if is_view(user):
                waiting += user.users
        return 0

    def is_constant(self, node: Node) -> bool:
        """Whether a command can copy a value from the weights' region to a map."""
        return self.sizes.gather and node in self.graph.static and value(node).dtype is torch.int8

    def constant(self, node: Node, target: View) -> View:
        """A command that copies a constant, broadcast to the shape of `target`, there; that is all of a map."""
        of = target.buffer
        assert isinstance(of, Map)
        settings = ConstantLayout(target.shape, target.strides, of.images, of.blocks, of.plane, self.filling(node))
        packed = self.pack(pack_constant, settings, [self.expression(node)], of.lines * LINE_BYTES, node.name, I8)
        self.copy_constant(of, packed)
        return target

    def _given_view(self, node: Node) -> View:
        size = shape(node)
        found: Buffer
        if value(node).dtype is torch.float32 and not self.sizes.is_float:
            found = Map(*as_map(size), self.sizes, node.name, wide=True)
            view = dense_view(found, size)
        elif len(size) > 2 and _is_read_as(node, aten.bmm.default, aten.baddbmm.default):  # a map for each head
            view = self.split_heads(size, node.name)
            found = view.buffer
        elif len(size) == 3 and _is_read_as(node, aten.convolution.default):
            found = Map(size[0], size[2], size[1], self.sizes, node.name, channels_first=True)
            view = View(found, tuple(size), CHANNELS_FIRST)
        else:
            found = Map(*as_map(size), self.sizes, node.name)
            view = dense_view(found, size)
        assert isinstance(found, Map)
        self.give(node, found)
        return view

    def folded(self, node: Node, pixel_channels: int) -> Map | None:
        """The image that the host writes for `node`, few channels side by side; None if a command writes it."""
        if not self.is_given(node):
            return None
        size, key = shape(node), (node, pixel_channels)
        images, pixels, channels = as_map((*size[:2], 1, size[-1]) if len(size) == 3 else size)
        if key not in self._asked:
            self._asked[key] = found = Map(
                images, pixels, channels, self.sizes, node.name, pixel_channels, channels_first=len(size) == 3
            )
            self.give(node, found)
        return self._asked[key]

    def patches(self, node: Node, patch: tuple[int, int]) -> MapImages | None:
        """The image that the host writes for `node` with patches of pixels as channels; None if a command writes it."""
        if not self.is_given(node):
            return None
        images, channels, height, width = shape(node)
        rows, columns, key = height // patch[0], width // patch[1], (node, -(patch[0] << 16 | patch[1]))
        if key not in self._asked:
            of_pixel = channels * patch[0] * patch[1]
            self._asked[key] = Map(images, rows * columns, of_pixel, self.sizes, node.name, patch=patch)
            self.give(node, self._asked[key])
        found = self._asked[key]
        return MapImages(found, images, found.channels, rows, columns)

    def result(self, node: Node, size: Sequence[int] | None = None) -> View:
        """A map for the value of `node`, or the place that somebody has for it. size: the value's, seen again."""
        if size is None and node in self.placements:
            return self.placements[node]
        size = tuple(shape(node) if size is None else size)
        return dense_view(Map(*as_map(size), self.sizes, node.name), size)


class _Copies:
    """What the view `node` is offered: maps for its value, to which commands copy words."""

    def __init__(self, emitter: EngineEmitter, node: Node, source: Any) -> None:
        self._emitter, self._node, self._source = emitter, node, source

    def tensor(self, shape: Sequence[int], *_: Any, **__: Any) -> View:
        of = self._source.buffer
        assert isinstance(of, Map)
        if of.wide and not self._emitter.sizes.is_float:
            raise RefusedError("the input's memory layout is not supported: the engine reorders no float32 elements")
        if not self._emitter.sizes.gather or len(shape) < 2:
            raise RefusedError("the input's memory layout is not supported: the engine does not reorder elements")
        sizes, name = self._emitter.sizes, self._node.name
        source = self._source
        if len(shape) > 2 and _is_read_as(self._node, aten.bmm.default, aten.baddbmm.default):
            if source.strides[-1] != CHANNEL and source.strides[-2] == CHANNEL and source.shape[-1] == shape[-1]:
                transposed = self._emitter.split_heads((*shape[:-2], shape[-1], shape[-2]), name)
                return transposed.permute((*range(len(shape) - 2), -1, -2))
            return self._emitter.split_heads(shape, name)
        if len(shape) == 4 and source.strides[-1] == CHANNEL:  # channels last
            images, height, width, channels = shape
            if images > 1 and _is_read_as(self._node, aten.convolution.default):
                of = Map(images, height * width, channels, sizes, name)
                return View(of, tuple(shape), (IMAGE, width * PIXEL, PIXEL, CHANNEL))
            of = Map(1, images * height * width, channels, sizes, name)
            return View(of, tuple(shape), (height * width * PIXEL, width * PIXEL, PIXEL, CHANNEL))
        return dense_view(Map(*as_map(shape), sizes, name), shape)

    def copy(self, source: View, target: View) -> None:
        self._emitter.copy(source, target, f"{self._node.name}'s input")


def _is_read_as(node: Node, *operators: Any) -> bool:
    """Whether a value is an operand of a product of matrices, or a convolution, behind views and casts."""
    waiting = list(node.users)
    while waiting:
        user = waiting.pop()
        if user.target in operators:
            return True
        if is_view(user) or user.target in (DEQUANTIZE, aten._to_copy.default):
            waiting += user.users
    return False
