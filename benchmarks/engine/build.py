"""A network as a command list with random int8 weights, and the values that it has to give, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.engine import attention
from benchmarks.engine.layers import Convolution, Layer, Network, Part, Pool, Product, Rows
from fpga_dynamo.codegen.engine import layout
from fpga_dynamo.codegen.engine.choose import channel_parts, chosen
from fpga_dynamo.codegen.engine.command import Flags, MacCommand, Operation, WeightKind, divide_up
from fpga_dynamo.codegen.engine.cycles import Memory
from fpga_dynamo.codegen.engine.sizes import CHANNELS, EngineSizes
from fpga_dynamo.codegen.engine.vector import VectorCommand
from fpga_dynamo.codegen.requantize import Channels, channels, factor, requantize

_RESIDUAL = 128.0
"""The greatest value that a residual adds."""
_SPREAD = 40.0
"""Standard deviation that the int8 values of a result are scaled to."""
_AFTER = ("input_after", "residual_after", "weight_after")
"""Fields that say how many commands ago an operand was made."""


@dataclass
class Built:
    """Commands with the layers that they belong to, both regions, and what each map must hold when they have run.

    heads: of a map whose pixels are the rows of so many heads, each of which is a map of its own.
    """

    commands: list[MacCommand | VectorCommand] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    maps: layout.Region = field(default_factory=layout.Region)
    weights: layout.Region = field(default_factory=layout.Region)
    places: dict[int, int] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)
    heads: dict[int, int] = field(default_factory=dict)

    def stored(self, region: Tensor, index: int) -> Tensor:
        """What the maps' region holds as map `index`, int8 in the shape of `values`."""
        shape = self.values[index].shape
        heads = self.heads.get(index, 1)
        pixels = shape[1:].numel() // heads
        lines = layout.map_lines(pixels, shape[0])
        parts = [layout.unblocked(region, self.places[index] + h * lines, shape[0], pixels) for h in range(heads)]
        return torch.cat(parts, 1).reshape(shape)


class Builder:
    """Adds layer after layer. `check`: works out the reference as well, which takes as long as eager does."""

    def __init__(
        self, network: Network, sizes: EngineSizes, memory_model: Memory, seed: int = 0, check: bool = True
    ) -> None:
        self.network, self.sizes, self.memory_model, self.check = network, sizes, memory_model, check
        self.built = Built()
        self._writer: dict[int, int] = {}
        self.random = torch.Generator().manual_seed(seed)

    def build(self) -> Built:
        first = self.network.maps[0]
        values = torch.randint(
            -128, 128, (first.channels, first.height, first.width), dtype=torch.int8, generator=self.random
        )
        self.built.values[0] = values
        flat = values.flatten(1)
        data = layout.folded(flat, 4) if first.channels < 4 else layout.blocked(flat)
        self.built.places[0] = self.built.maps.put(data)
        for layer in self.network.layers:
            if isinstance(layer, Convolution):
                self._convolution(layer)
            elif isinstance(layer, Pool):
                self._pool(layer)
            elif isinstance(layer, Product):
                attention.product(self, layer)
            elif isinstance(layer, Rows) and layer.kind == "add":
                self._add(layer)
            elif isinstance(layer, Rows):
                attention.rows(self, layer)
        return self.built

    # Maps

    def place(self, part: Part) -> int:
        """The first line of a part of a map; reserves the map where it is new."""
        shape = self.network.maps[part.map]
        if part.map not in self.built.places:
            self.built.places[part.map] = self.built.maps.reserve(layout.map_lines(shape.pixels, shape.channels))
            if self.check:
                self.built.values[part.map] = torch.zeros(shape.channels, shape.height, shape.width, dtype=torch.int8)
        if part.first % CHANNELS:
            raise ValueError(f"map {part.map} is read from channel {part.first} on, which begins no block")
        return self.built.places[part.map] + part.first // CHANNELS * layout.map_lines(shape.pixels, 1)

    def value(self, part: Part) -> Tensor:
        return self.built.values[part.map][part.first : part.first + part.count]

    def after(self, part: Part) -> int:
        """How many commands ago the part was written last; 0 for what was there before."""
        writer = self._writer.get(part.map)
        return 0 if writer is None else len(self.built.commands) - writer

    def _append(
        self, command: MacCommand, layer: Layer, weight: Tensor | None, sums: Tensor | None, epilogue: _Epilogue
    ) -> None:
        """Adds parameters and commands, and what the result has to be."""
        result, first = layer.output, len(self.built.commands)
        params = layout.packed_params(epilogue.channels, epilogue.table)
        command = replace(command, params=self.built.weights.put(params), output=self.place(result))
        for part in self._parts(command, weight):
            # Parts follow each other: what the first waits for is one command further away for each that follows.
            before = len(self.built.commands) - first
            waits = {name: getattr(part, name) + before for name in _AFTER if getattr(part, name)}
            self.built.commands.append(replace(part, **waits))
            self.built.layers.append(layer)
        value = None
        if sums is not None:
            residual = self.value(epilogue.residual) if epilogue.residual is not None else None
            value = epilogue.result(sums, residual, command)
        self._written(layer, value)

    def append_product(self, command: MacCommand, layer: Product, sums: Tensor | None, scale: float) -> None:
        """Adds a product: sums (channels, heads, rows), of heads with the same parameters."""
        epilogue = _Epilogue.plain(layer.columns, scale, greatest=layer.inner * 255 * 128)
        params = layout.packed_params(epilogue.channels)
        command = replace(command, params=self.built.weights.put(params), output=self.place(layer.output))
        value = None if sums is None else epilogue.result(sums, None, command)
        if value is not None and not layer.transposed:
            value = value.transpose(0, 1)
        self.append(command, layer, value)

    def append(self, command: MacCommand | VectorCommand, layer: Layer, value: Tensor | None) -> None:
        """Adds a command, and what it has to give, in the order of its result's channels and pixels."""
        self.built.commands.append(command)
        self.built.layers.append(layer)
        self._written(layer, value)

    def _written(self, layer: Layer, value: Tensor | None) -> None:
        result = layer.output
        self._writer[result.map] = len(self.built.commands) - 1
        if value is not None:
            shape = self.network.maps[result.map]
            whole = self.built.values[result.map]
            whole[result.first : result.first + result.count] = value.reshape(-1, shape.height, shape.width)

    def _parts(self, command: MacCommand, weight: Tensor | None) -> Iterator[MacCommand]:
        """Cut for the engine, with weights packed."""
        if command.one_to_one:
            for block, part in channel_parts(command, self.sizes, self.memory_model):
                of_part = None if weight is None else weight[block * CHANNELS : (block + part.in_blocks) * CHANNELS]
                yield self._with_weights(part, of_part)
        else:
            yield self._with_weights(chosen(command, self.sizes, self.memory_model), weight)

    def _with_weights(self, command: MacCommand, weight: Tensor | None) -> MacCommand:
        if weight is None:
            return command
        return replace(command, weight=self.built.weights.put(layout.packed_weights(weight, command, self.sizes)))

    # Layers

    def _convolution(self, layer: Convolution) -> None:
        source = layer.inputs[0]
        fold = self.network.maps[source.map].channels < 4
        inputs = layer.source.channels // layer.groups
        weight = torch.randint(
            -127, 128, (layer.result.channels, inputs, *layer.kernel), dtype=torch.int8, generator=self.random
        )
        scale = _SPREAD / (73.0 * _SPREAD * (inputs * layer.kernel[0] * layer.kernel[1]) ** 0.5)
        epilogue = self._epilogue(layer.result.channels, scale, inputs * layer.kernel[0] * layer.kernel[1])
        low, high = {"relu": (0, 127), "relu6": (0, 100)}.get(layer.activation, (-128, 127))
        flags = Flags.NONE
        if layer.sum_last or layer.activation not in ("", "relu", "relu6"):
            flags |= Flags.MIDDLE | Flags.MIDDLE_TABLE if layer.sum_last else Flags.TABLE
            steps = torch.arange(-128, 128, dtype=torch.float32)
            epilogue.table = functional.gelu(steps / 32).mul(32).round().clamp(-128, 127).to(torch.int8)
        command = MacCommand(
            weight_kind=WeightKind.DIAGONAL if layer.depthwise else WeightKind.PACKED,
            input=self.place(source),
            input_after=self.after(source),
            pixel_channels=4 if fold else CHANNELS,
            in_blocks=divide_up(layer.source.channels, CHANNELS),
            in_height=layer.source.height,
            in_width=layer.source.width,
            out_blocks=divide_up(layer.result.channels, CHANNELS),
            out_height=layer.result.height,
            out_width=layer.result.width,
            kernel=layer.kernel,
            stride=layer.stride,
            padding=layer.padding,
            dilation=layer.dilation,
            group_in=layer.source.channels,
            group_out=divide_up(layer.result.channels, CHANNELS) * CHANNELS,
            flags=flags,
            low=low,
            high=high,
            middle_factor=factor(1.0) if Flags.MIDDLE in flags else 0,
        )
        if layer.residual is not None:
            epilogue.residual = layer.residual
            command = replace(
                command,
                residual=self.place(layer.residual),
                residual_after=self.after(layer.residual),
                residual_factor=factor(1.0),
            )
        sums = None
        if self.check:
            value = self.value(source).double().view(1, layer.source.channels, layer.source.height, layer.source.width)
            padded = _padded(value, layer)
            sums = functional.conv2d(
                padded, weight.double(), stride=layer.stride, dilation=layer.dilation, groups=layer.groups
            )[0]
        self._append(command, layer, weight, sums, epilogue)

    def _pool(self, layer: Pool) -> None:
        source = layer.inputs[0]
        maximum = layer.kind == "max"
        channels = layer.source.channels
        taps = layer.kernel[0] * layer.kernel[1]
        epilogue = _Epilogue.plain(channels, 1.0 if maximum else 1.0 / taps, greatest=128 * taps)
        command = MacCommand(
            operation=Operation.MAXIMUM if maximum else Operation.MULTIPLY,
            weight_kind=WeightKind.DIAGONAL,
            input=self.place(source),
            input_after=self.after(source),
            in_blocks=divide_up(channels, CHANNELS),
            in_height=layer.source.height,
            in_width=layer.source.width,
            out_blocks=divide_up(channels, CHANNELS),
            out_height=layer.result.height,
            out_width=layer.result.width,
            kernel=layer.kernel,
            stride=layer.stride,
            padding=layer.padding,
            pad=-128 if maximum else 0,
        )
        ones = None if maximum else torch.ones(channels, 1, *layer.kernel, dtype=torch.int8)
        sums = None
        if self.check:
            value = self.value(source).double().view(1, channels, layer.source.height, layer.source.width)
            padded = _padded(value, layer, -128.0 if maximum else 0.0)
            if maximum:
                sums = functional.max_pool2d(padded, layer.kernel, layer.stride)[0]
            else:
                sums = functional.avg_pool2d(padded, layer.kernel, layer.stride, divisor_override=1)[0]
            sums = sums[:, : layer.result.height, : layer.result.width]
        self._append(command, layer, ones, sums, epilogue)

    def _add(self, layer: Rows) -> None:
        """A sum of two maps: a depthwise 1 x 1 kernel of ones over the one, the other as residual."""
        channels, blocks = layer.shape.channels, divide_up(layer.shape.channels, CHANNELS)
        first, second = layer.inputs
        epilogue = _Epilogue.plain(channels, 0.7, greatest=128)
        epilogue.residual = second
        command = MacCommand(
            weight_kind=WeightKind.DIAGONAL,
            input=self.place(first),
            input_after=self.after(first),
            residual=self.place(second),
            residual_after=self.after(second),
            residual_factor=factor(0.7),
            in_blocks=blocks,
            in_height=layer.shape.height,
            in_width=layer.shape.width,
            out_blocks=blocks,
            out_height=layer.shape.height,
            out_width=layer.shape.width,
        )
        ones = torch.ones(channels, 1, 1, 1, dtype=torch.int8)
        self._append(command, layer, ones, self.value(first).double() if self.check else None, epilogue)

    def _epilogue(self, count: int, scale: float, terms: int) -> _Epilogue:
        """terms: products of a sum."""
        spread = 0.5 + torch.rand(count, dtype=torch.float64, generator=self.random)
        bias = torch.randint(-20, 21, (count,), generator=self.random).double()
        offset = torch.randint(-500, 501, (count,), dtype=torch.int32, generator=self.random)
        return _Epilogue(channels(spread * scale, bias, terms * 128 * 127 + 500, offset, _RESIDUAL))


@dataclass
class _Epilogue:
    """The parameters of a result's channels, and the arithmetic of hls_kernels/engine/record.hpp."""

    channels: Channels
    table: Tensor | None = None
    residual: Part | None = None

    @staticmethod
    def plain(count: int, scale: float, greatest: float) -> _Epilogue:
        return _Epilogue(channels(torch.full((count,), scale, dtype=torch.float64), 0.0, greatest, 0, _RESIDUAL))

    def result(self, sums: Tensor, residual: Tensor | None, command: MacCommand) -> Tensor:
        """int8 of sums (channels, …), float64 that hold integers."""
        value = requantize(
            sums,
            self.channels,
            command.zero,
            command.low,
            command.high,
            residual=None
            if residual is None
            else (residual.view(sums.shape), command.residual_zero, command.residual_factor),
            middle=(command.middle_zero, command.middle_factor) if Flags.MIDDLE in command.flags else None,
            middle_table=self.table if Flags.MIDDLE_TABLE in command.flags else None,
        )
        last = self.table is not None and Flags.TABLE in command.flags
        return self.table[value + 128] if last and self.table is not None else value.to(torch.int8)


def _padded(value: Tensor, layer: Convolution | Pool, fill: float = 0.0) -> Tensor:
    """With what lies around an image as far as the windows of the result reach, below and to the right as well."""
    sizes = (layer.source.height, layer.source.width)
    results = (layer.result.height, layer.result.width)
    dilation = layer.dilation if isinstance(layer, Convolution) else (1, 1)
    ends = [
        max(
            0,
            (results[i] - 1) * layer.stride[i] + (layer.kernel[i] - 1) * dilation[i] + 1 - sizes[i] - layer.padding[i],
        )
        for i in range(2)
    ]
    return functional.pad(value, (layer.padding[1], ends[1], layer.padding[0], ends[0]), value=fill)
