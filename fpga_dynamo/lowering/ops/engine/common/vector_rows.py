"""Commands of the hardware engine's vector side over the rows of a map, or of a map for each head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch.fx import Node

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map, MapImages, RefusedError, of_engine
from fpga_dynamo.codegen.engine.vector import VectorCommand
from fpga_dynamo.ir.blocked import CHANNEL
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.repetition import Repetition


def emit(
    command: VectorCommand,
    x: MapImages,
    y: MapImages,
    params: int,
    other: MapImages | None,
    emitter: EngineEmitter,
    repeated: Repetition | None = None,
) -> None:
    """Appends a command over all images of `x`.

    repeated: how the images of `other` go with these, if not one by one.
    """
    outer, inner = (1, x.images) if repeated is None else repeated.heads
    step = (0, 1) if repeated is None else repeated.step
    other_image = 0 if other is None else other.map.image_lines
    command = replace(
        command,
        channels=x.channels,
        pixels=x.pixels,
        heads=(outer, inner),
        input_head=(inner * x.map.image_lines, x.map.image_lines),
        output_head=(inner * y.map.image_lines, y.map.image_lines),
        other_head=(step[0] * other_image, step[1] * other_image),
    )
    emitter.vector(command, x, y, params, other)


def is_whole(view: View) -> bool:
    of = view.buffer
    assert isinstance(of, Map)
    return view.offset == 0 and view.numel == of.images * of.pixels * of.channels and 0 not in _strides(view)


def _strides(view: View) -> tuple[int, ...]:
    return tuple(stride for size, stride in zip(view.shape, view.strides, strict=True) if size != 1)


def are_alike(a: View, b: View) -> bool:
    """Whether two views show all of maps of one size in one order."""
    one, two = a.buffer, b.buffer
    assert isinstance(one, Map) and isinstance(two, Map)
    sizes = [(of.images, of.pixels, of.channels) for of in (one, two)]
    return sizes[0] == sizes[1] and b.offset == 0 and a.shape == b.shape and _strides(a) == _strides(b)


def all_of(of: Any) -> MapImages:
    assert isinstance(of, Map)
    return MapImages(of, of.images, of.channels, 1, of.pixels)


def row_by_row(
    root: Node,
    source: Node,
    count: int,
    command: VectorCommand,
    emitter: EngineEmitter,
    params: Callable[[], int],
    dim: int = -1,
) -> View:
    """A command over rows of `count` features, of one map or a map for each head; the result lies as the source.

    dim: along which the rows lie. If these are not the channels of the map, the source is copied so that they are.
    """
    of_engine(source, "input", emitter.sizes)
    of_engine(root, "result", emitter.sizes)
    x = emitter.view(source)
    order = list(range(len(x.shape)))
    order[dim], order[-1] = order[-1], order[dim]
    x = x.permute(order)
    of = x.buffer
    assert isinstance(of, Map)
    along = count == 1 or x.strides[-1] == CHANNEL
    if not along or not is_whole(x) or of.channels != count:
        if not emitter.sizes.gather:
            why = "is a slice of a feature map's rows" if along else "has rows that do not lie along the feature axis"
            raise RefusedError(f"the input {why}")
        x = emitter.compact(x, "the input") if along else emitter.as_rows(x, "the input")
        of = x.buffer
        assert isinstance(of, Map)
    made = Map(of.images, of.pixels, of.channels, emitter.sizes, root.name)
    emit(command, all_of(of), all_of(made), params(), None, emitter)
    return replace(x, buffer=made).permute(order)
