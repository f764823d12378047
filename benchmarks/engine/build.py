"""A network as a command list with random int8 weights, and the values that it has to give, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.engine import attention, memory
from benchmarks.engine.layers import Convolution, Layer, Network, Part, Pool, Product, Rows
from fpga_dynamo.codegen.engine import layout
from fpga_dynamo.codegen.engine.command import Flags, IdleCommand, MacCommand, Operation, WeightKind
from fpga_dynamo.codegen.engine.cycles import PARAMS_LINES, MemoryTiming
from fpga_dynamo.codegen.engine.owners import Owners
from fpga_dynamo.codegen.engine.sizes import CHANNELS, LINE_BYTES, EngineSizes
from fpga_dynamo.codegen.engine.split import Share, shares, vector_shares
from fpga_dynamo.codegen.engine.vector import VectorCommand
from fpga_dynamo.codegen.requantize import Channels, channels, factor, requantize
from fpga_dynamo.ir.view import ceil_div

_RESIDUAL = 128.0
"""The greatest value that a residual adds."""
_SPREAD = 40.0
"""Standard deviation that the int8 values of a result are scaled to."""
_AFTER = ("input_after", "residual_after", "weight_after", "other_after")
"""Fields that say how many commands ago an operand was made."""


Command = MacCommand | VectorCommand | IdleCommand


@dataclass
class Built:
    """A list of commands and a region of weights for each unit, and what each map must hold when they have run.

    Lists are equally long, and command i of each belongs to `layers[i]`. heads: of a map whose pixels are the rows of
    so many heads, each of which is a map of its own.
    """

    lists: list[list[Command]]
    weights: list[memory.Region]
    layers: list[Layer] = field(default_factory=list)
    maps: memory.Region = field(default_factory=memory.Region)
    places: dict[int, int] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)
    heads: dict[int, int] = field(default_factory=dict)

    def stored(self, region: Tensor, index: int) -> Tensor:
        """What the maps' region holds as map `index`, int8 in the shape of `values`."""
        shape = self.values[index].shape
        heads = self.heads.get(index, 1)
        pixels = shape[1:].numel() // heads
        lines = memory.map_lines(pixels, shape[0])
        parts = [memory.unblocked(region, self.places[index] + h * lines, shape[0], pixels) for h in range(heads)]
        return torch.cat(parts, 1).reshape(shape)


class Builder:
    """Adds layer after layer, cut over `units`. `check`: works out the reference too, which takes as long as eager."""

    def __init__(
        self,
        network: Network,
        sizes: EngineSizes,
        memory_model: MemoryTiming,
        seed: int = 0,
        check: bool = True,
        units: int = 1,
    ) -> None:
        self.network, self.sizes, self.memory_model, self.check = network, sizes, memory_model, check
        self.built = Built([[] for _ in range(units)], [memory.Region() for _ in range(units)])
        self._owners = Owners(sizes)
        self._writer: dict[int, int] = {}
        self.random = torch.Generator().manual_seed(seed)

    def build(self) -> Built:
        first = self.network.maps[0]
        values = torch.randint(
            -128, 128, (first.channels, first.height, first.width), dtype=torch.int8, generator=self.random
        )
        self.built.values[0] = values
        flat = values.flatten(1)
        data = memory.folded(flat, 4) if first.channels < 4 else memory.blocked(flat)
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
            self.built.places[part.map] = self.built.maps.reserve(memory.map_lines(shape.pixels, shape.channels))
            if self.check:
                self.built.values[part.map] = torch.zeros(shape.channels, shape.height, shape.width, dtype=torch.int8)
        if part.first % CHANNELS:
            raise ValueError(f"map {part.map} is read from channel {part.first} on, which begins no block")
        return self.built.places[part.map] + part.first // CHANNELS * memory.map_lines(shape.pixels, 1)

    def value(self, part: Part) -> Tensor:
        return self.built.values[part.map][part.first : part.first + part.count]

    def after(self, part: Part) -> int:
        """How many commands ago the part was written last; 0 for what was there before."""
        writer = self._writer.get(part.map)
        return 0 if writer is None else len(self.built.layers) - writer

    def _append(
        self, command: MacCommand, layer: Layer, weight: Tensor | None, sums: Tensor | None, epilogue: _Epilogue
    ) -> None:
        """Adds parameters and commands, and what the result has to be."""
        command = replace(command, output=self.place(layer.output))
        self._append_lists(layer, self._mac(command, weight, epilogue))
        value = None
        if sums is not None:
            residual = self.value(epilogue.residual) if epilogue.residual is not None else None
            value = epilogue.result(sums, residual, command)
        self._written(layer, value)

    def append_product(self, command: MacCommand, layer: Product, sums: Tensor | None, scale: float) -> None:
        """Adds a product: sums (channels, heads, rows), of heads with the same parameters."""
        epilogue = _Epilogue.plain(layer.columns, scale, greatest=layer.inner * 255 * 128)
        command = replace(command, output=self.place(layer.output))
        self._append_lists(layer, self._mac(command, None, epilogue))
        value = None if sums is None else epilogue.result(sums, None, command)
        if value is not None and not layer.transposed:
            value = value.transpose(0, 1)
        self._written(layer, value)

    def append_vector(self, command: VectorCommand, layer: Layer, params: Tensor, value: Tensor | None) -> None:
        """Adds a command of the vector side, and what it has to give, in the order of its channels and pixels."""
        parts = vector_shares(command, len(self.built.lists), self.sizes, self.memory_model)
        placed: list[list[Command]] = []
        for region, part in zip(self.built.weights, parts, strict=True):
            placed.append([] if part is None else [replace(part, params=region.put(params))])
        self._append_lists(layer, placed)
        self._written(layer, value)

    def _mac(self, command: MacCommand, weight: Tensor | None, epilogue: _Epilogue) -> list[list[Command]]:
        """The commands of each unit, with their parameters."""
        found = shares(command, len(self.built.lists), self.sizes, self.memory_model)
        return [
            [] if share is None else self._with_constants(share, region, weight, epilogue)
            for share, region in zip(found, self.built.weights, strict=True)
        ]

    def _with_constants(
        self, share: Share, region: memory.Region, weight: Tensor | None, epilogue: _Epilogue
    ) -> list[Command]:
        block = PARAMS_LINES * LINE_BYTES
        params = layout.packed_params(epilogue.channels)[share.first * block : (share.first + share.blocks) * block]
        at = region.put(params) if epilogue.table is None else 0
        commands: list[Command] = []
        for of in share.parts:
            part, first = of.command, of.block
            assert not (part.raw or part.has_sums), "a layer needs partial sums, which nothing here places"
            command = replace(part, params=at + part.params)
            if epilogue.table is not None:  # which lies behind the parameters of the part's own channels
                own = params[part.params * LINE_BYTES :][: part.out_blocks * block]
                command = replace(part, params=region.put(torch.cat([own, epilogue.table.view(torch.uint8)])))
            if weight is not None:
                begin = (share.first + first) * CHANNELS
                of_part = weight[begin : begin + part.out_blocks * CHANNELS]
                packed = layout.pack_weight((command, self.sizes), of_part).view(torch.uint8)
                command = replace(command, weight=region.put(packed))
            commands.append(command)
        return commands

    def _append_lists(self, layer: Layer, of_units: list[list[Command]]) -> None:
        """Commands of a layer, those of each unit one behind the other; who has fewer than others is idle."""
        count = max(len(commands) for commands in of_units)
        written: list[tuple[Command, int]] = []
        for unit, (commands, own) in enumerate(zip(self.built.lists, of_units, strict=True)):
            for k, command in enumerate(own):
                # What the first waits for is one command further away for each that follows.
                waits = {name: getattr(command, name) + k for name in _AFTER if getattr(command, name, 0)}
                if not isinstance(command, IdleCommand):
                    command = replace(command, **waits, peers=self._owners.peers(command, unit))
                commands.append(command)
                written.append((command, unit))
            commands += [IdleCommand()] * (count - len(own))
        for command, unit in written:
            if not isinstance(command, IdleCommand):
                self._owners.wrote(command, unit)
        self.built.layers += [layer] * count

    def _written(self, layer: Layer, value: Tensor | None) -> None:
        result = layer.output
        self._writer[result.map] = len(self.built.layers) - 1
        if value is not None:
            shape = self.network.maps[result.map]
            whole = self.built.values[result.map]
            whole[result.first : result.first + result.count] = value.reshape(-1, shape.height, shape.width)

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
            in_blocks=ceil_div(layer.source.channels, CHANNELS),
            in_height=layer.source.height,
            in_width=layer.source.width,
            out_blocks=ceil_div(layer.result.channels, CHANNELS),
            out_height=layer.result.height,
            out_width=layer.result.width,
            kernel=layer.kernel,
            stride=layer.stride,
            padding=layer.padding,
            dilation=layer.dilation,
            group_in=layer.source.channels,
            group_out=ceil_div(layer.result.channels, CHANNELS) * CHANNELS,
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
            in_blocks=ceil_div(channels, CHANNELS),
            in_height=layer.source.height,
            in_width=layer.source.width,
            out_blocks=ceil_div(channels, CHANNELS),
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
        channels, blocks = layer.shape.channels, ceil_div(layer.shape.channels, CHANNELS)
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
