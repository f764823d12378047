"""Pass (after emission): chains of convolutions whose images outgrow the lanes' caches become streams of bands of rows.

A large image that one command writes and the next one reads does not fit into a lane's cache, and a lane reads mostly
what another lane has written. So the rows of the chain's result are divided among the lanes, one stream each
(streams.py). A stream works depth first: for each band of rows it runs all commands of the chain. A band is so small
that the rows of all intermediate images stay in the cache. These lie in buffers of the stream, as short as a band
needs; rows that the windows of the next band still read are moved to the front. So a stream computes each row once, and
only rows at the seam of two streams are computed by both. (Fusing layers in this order: Alwani et al., Fused-Layer CNN
Accelerators, MICRO 2016.)

When this pays depends on the caches of the host (BandLimits in ir/tuning.py). A real card has no lanes and no bands:
its bands would have to fit into on-chip memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fpga_dynamo.codegen.core import CORES
from fpga_dynamo.ir.command import Command, FieldValue, ImageRows, Operand
from fpga_dynamo.ir.records import MOST_STREAMS, Move
from fpga_dynamo.ir.target import KernelInfo, Target
from fpga_dynamo.ir.tuning import BandLimits
from fpga_dynamo.ir.view import VEC, Buffer, Role, align, ceil_div
from fpga_dynamo.lowering.passes.cores.streams import group


def in_bands(commands: Sequence[Command], target: Target, kernel: KernelInfo) -> list[Command]:
    """`commands` of `kernel`, chains that gain from it in bands; as they are for a card without lanes, or limits."""
    limits = target.tuning.bands
    if limits is None or not 1 <= target.lanes <= MOST_STREAMS:
        return list(commands)
    result: list[Command] = []
    finder = _Finder(commands, target, kernel, limits)
    i = 0
    while i < len(commands):
        chain = finder.chain_from(i)
        streams = _streams(chain, target, limits) if chain else None
        result += [commands[i]] if streams is None else group(streams)
        i += 1 if streams is None or chain is None else len(chain.layers)
    return result


@dataclass(frozen=True)
class _Layer:
    """A command of a chain. source, residual: the layers of the chain whose images it reads, None for other images."""

    command: Command
    image: ImageRows
    source: int | None
    residual: int | None


@dataclass(frozen=True)
class _Chain:
    """Consecutive commands; all images but the last one are read by commands of the chain alone."""

    layers: list[_Layer]

    def needed(self, begin: int, end: int) -> list[tuple[int, int]]:
        """For each layer the rows that rows [begin, end) of the last one take."""
        spans = [(begin, end)] * len(self.layers)
        seen = {len(self.layers) - 1}

        def widen(i: int, low: int, high: int) -> None:
            spans[i] = (min(low, spans[i][0]), max(high, spans[i][1])) if i in seen else (low, high)
            seen.add(i)

        for i in reversed(range(len(self.layers))):
            layer = self.layers[i]
            if layer.source is not None:
                widen(layer.source, *layer.image.needed(*spans[i]))
            if layer.residual is not None:
                widen(layer.residual, *spans[i])
        return spans


class _Finder:
    """Finds chains in a command list."""

    def __init__(self, commands: Sequence[Command], target: Target, kernel: KernelInfo, limits: BandLimits) -> None:
        self._commands = commands
        self._lanes = target.lanes
        self._kernel = kernel
        self._limits = limits
        self._uses: dict[Buffer, list[int]] = {}
        for i, command in enumerate(commands):
            for buffer in command.uses:
                self._uses.setdefault(buffer, []).append(i)

    def chain_from(self, first: int) -> _Chain | None:
        """The longest chain from command `first` on, if it is worth its while."""
        last = first
        while self._linked(last):
            last += 1
        while last > first and not self._closed(first, last):
            last -= 1
        inner = [self._commands[i].writes[0] for i in range(first, last)]
        if sum(buffer.nbytes for buffer in inner) < self._limits.chain * self._lanes:
            return None
        layer_of = {buffer: i for i, buffer in enumerate(inner)}
        layers = []
        for command in self._commands[first : last + 1]:
            assert command.image is not None
            residual = command.fields["residual"]
            layers.append(
                _Layer(
                    command,
                    command.image,
                    layer_of.get(_input(command).buffer),
                    layer_of.get(residual.buffer) if isinstance(residual, Operand) else None,
                )
            )
        return _Chain(layers)

    def _linked(self, i: int) -> bool:
        """Whether the image that command i writes should stay near the next command, which reads it."""
        if i + 1 >= len(self._commands) or not (_divisible(self._commands[i]) and _divisible(self._commands[i + 1])):
            return False
        (buffer,) = self._commands[i].writes
        large = buffer.nbytes >= self._limits.link * self._lanes
        return large and buffer in self._commands[i + 1].reads and self._private(i, buffer)

    def _private(self, i: int, buffer: Buffer) -> bool:
        """Whether the whole buffer is the image of command i and is read as that, and rows of it can be moved."""
        image = self._commands[i].image
        assert image is not None
        if not self._kernel.takes("move", buffer.element):
            return False
        if buffer.role is not Role.TEMPORARY or self._uses[buffer][0] != i:
            return False
        pitch = image.output_pitch
        if pitch % VEC or buffer.length < pitch * image.count or _output(self._commands[i]).offset:
            return False
        return all(self._reads_rows(j, buffer, pitch) for j in self._uses[buffer][1:])

    def _reads_rows(self, j: int, buffer: Buffer, pitch: int) -> bool:
        command = self._commands[j]
        if not _divisible(command) or command.image is None or buffer in command.writes:
            return False
        operands = [(_input(command), command.image.input_pitch)]
        if isinstance(residual := command.fields["residual"], Operand):
            operands.append((residual, command.image.residual_pitch))
        return all((operand.offset, apart) == (0, pitch) for operand, apart in operands if operand.buffer is buffer)

    def _closed(self, first: int, last: int) -> bool:
        """Whether nothing else reads the images between the commands, and none of these reads the result."""
        result = self._commands[last].writes[0]
        if any(result in command.reads for command in self._commands[first : last + 1]):
            return False
        return all(self._uses[self._commands[i].writes[0]][-1] <= last for i in range(first, last))


def _divisible(command: Command) -> bool:
    """Whether the rows of the command's image can be made a few at a time, each from rows that exist."""
    image = command.image
    if image is None or len(command.writes) != 1 or CORES[command.opcode].bands is None:
        return False
    if not 0 <= image.padding <= (image.taps - 1) * image.dilation:
        return False
    return (image.count - 1) * image.stride - image.padding < image.inputs


def _input_name(command: Command) -> str:
    bands = CORES[command.opcode].bands
    assert bands is not None, "chains are of commands that can be cut"
    return bands.input


def _input(command: Command) -> Operand:
    operand = command.fields[_input_name(command)]
    assert isinstance(operand, Operand)
    return operand


def _written(layer: _Layer) -> Buffer:
    (buffer,) = layer.command.writes
    return buffer


def _output(command: Command) -> Operand:
    operand = command.fields["output"]
    assert isinstance(operand, Operand)
    return operand


def _streams(chain: _Chain, target: Target, limits: BandLimits) -> list[list[Command]] | None:
    """The commands of each stream; None if bands would be too small, or seams too large."""
    rows = chain.layers[-1].image.count
    count = min(target.lanes, rows)
    shares = [(rows * s // count, rows * (s + 1) // count) for s in range(count)]
    made = [chain.needed(*share) for share in shares]
    work = sum(layer.command.macs for layer in chain.layers)
    again = sum(
        layer.command.macs * (sum(spans[i][1] - spans[i][0] for spans in made) / layer.image.count - 1)
        for i, layer in enumerate(chain.layers)
    )
    if again > limits.again * work:
        return None
    schedules = [_schedule(chain, *share, limits) for share in shares]
    if any(schedule is None for schedule in schedules):
        return None
    return [schedule.commands(target) for schedule in schedules if schedule is not None]


@dataclass(frozen=True)
class _Step:
    """Rows [begin, end) of a layer are made; or, with `distance`, rows of its buffer move so many rows to the front.

    bases: the rows at which the buffers of all layers begin.
    """

    layer: int
    begin: int
    end: int
    bases: tuple[int, ...]
    distance: int = 0


@dataclass(frozen=True)
class _Schedule:
    """What a stream does. heights: of each layer's buffer, in rows; the last layer has none."""

    chain: _Chain
    steps: list[_Step]
    heights: list[int]

    @property
    def bytes(self) -> int:
        layers = zip(self.heights, self.chain.layers, strict=False)
        return sum(height * layer.image.output_pitch * _written(layer).element.bytes for height, layer in layers)

    def commands(self, target: Target) -> list[Command]:
        layers = self.chain.layers
        own = {}
        for i, (layer, height) in enumerate(zip(layers, self.heights, strict=False)):
            whole = _written(layer)
            length = align(height * layer.image.output_pitch, whole.element.lanes)
            own[whole] = (i, Buffer(length, name=whole.name, element=whole.element))
        return [
            _keep_rows(layers[step.layer], own[_written(layers[step.layer])][1], step, target)
            if step.distance
            else _band(layers[step.layer], own, step)
            for step in self.steps
        ]


def _schedule(chain: _Chain, begin: int, end: int, limits: BandLimits) -> _Schedule | None:
    """Rows [begin, end) of the result in as few bands as keep their images in the cache."""
    for count in range(1, min(int(limits.count), end - begin) + 1):
        schedule = _in_bands_of(chain, begin, end, ceil_div(end - begin, count))
        if schedule.bytes <= limits.band:
            return schedule
    return None


def _in_bands_of(chain: _Chain, begin: int, end: int, rows: int) -> _Schedule:
    layers = chain.layers
    whole = chain.needed(begin, end)
    made = [low for low, _ in whole]
    bases = list(made)
    heights = [0] * (len(layers) - 1)
    steps = []
    for top in range(begin + rows, end + rows, rows):
        targets = [high for _, high in chain.needed(begin, min(top, end))]
        still = _still_needed(chain, made, [high for _, high in whole])
        for i, target in enumerate(targets):
            if i < len(heights):
                kept, distance = made[i] - still[i], still[i] - bases[i]
                if distance >= kept:  # else the rows would move over themselves
                    if kept and distance:
                        steps.append(_Step(i, still[i], made[i], tuple(bases), distance))
                    bases[i] = still[i]
                heights[i] = max(heights[i], target - bases[i])
            if target > made[i]:
                steps.append(_Step(i, made[i], target, tuple(bases)))
                made[i] = target
    return _Schedule(chain, steps, heights)


def _still_needed(chain: _Chain, made: Sequence[int], ends: Sequence[int]) -> list[int]:
    """For each layer the first row that rows which are not made yet, up to `ends`, take."""
    lows = list(made)
    for i, layer in enumerate(chain.layers):
        if made[i] >= ends[i]:
            continue
        if layer.source is not None:
            lows[layer.source] = min(lows[layer.source], layer.image.needed(made[i], made[i] + 1)[0])
        if layer.residual is not None:
            lows[layer.residual] = min(lows[layer.residual], made[i])
    return lows


def _keep_rows(layer: _Layer, buffer: Buffer, step: _Step, target: Target) -> Command:
    """The move of rows that the next band still needs to the front of the buffer."""
    pitch = layer.image.output_pitch
    count, element = (step.end - step.begin) * pitch, buffer.element
    move = Move(
        input=Operand(buffer, step.distance * pitch),
        output=Operand(buffer),
        dims=(1, 1, 1, 1, 1, count),
        in_stride=(0, 0, 0, 0, 0, 1),
        out_stride=(0, 0, 0, 0, 0, 1),
        format=target.format_of(element),
    )
    return Command(move, (buffer,), (buffer,), layer.command.nodes, "bands", bytes=2 * element.bytes * count)


def _band(layer: _Layer, own: dict[Buffer, tuple[int, Buffer]], step: _Step) -> Command:
    """The layer's command for the rows of `step`; `own` has layer and new buffer for each buffer of the chain."""
    command, image = layer.command, layer.image

    def at(operand: object, row: int, pitch: int) -> Operand | None:
        if not isinstance(operand, Operand):
            return None
        if operand.buffer not in own:
            return Operand(operand.buffer, operand.offset + row * pitch)
        i, buffer = own[operand.buffer]
        return Operand(buffer, operand.offset + (row - step.bases[i]) * pitch)

    low, _ = image.needed(step.begin, step.end)
    fields, source = command.fields, _input_name(command)
    changes: dict[str, FieldValue] = {
        "output": at(fields["output"], step.begin, image.output_pitch),
        "residual": at(fields["residual"], step.begin, image.residual_pitch),
        source: at(fields[source], low, image.input_pitch),
        **CORES.cut(command.record, image, step.begin, step.end),
    }
    share = (step.end - step.begin) / image.count
    return replace(
        command,
        record=command.record.replaced(**changes),
        reads=tuple(own[b][1] if b in own else b for b in command.reads),
        writes=tuple(own[b][1] if b in own else b for b in command.writes),
        macs=round(command.macs * share),
        bytes=round(command.bytes * share),
        cycles=command.cycles * share,
        image=None,
    )
