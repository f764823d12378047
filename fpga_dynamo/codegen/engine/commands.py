"""The lists of commands that an engine runs: what they are for, where maps and parameters lie, cuts for the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from torch.fx import Node

from fpga_dynamo.codegen.requantize import RequantizeError
from fpga_dynamo.ir.graph import GraphInfo
from fpga_dynamo.ir.view import Buffer
from fpga_dynamo.ir.weights import Packer, WeightBuffer

from .choose import DoesNotFitError
from .command import NO_OPERAND, Flags, IdleCommand, MacCommand, Order, Peers
from .cycles import PARAMS_LINES
from .layout import LineRegion
from .maps import Map, MapImages, RefusedError
from .owners import Owners
from .parts import CommandPart, TransposedKernel, sums_lines
from .sizes import CHANNELS
from .split import Share, shares, vector_shares
from .target import EngineTarget
from .timeline import Command
from .vector import VectorCommand
from .width_tiling import MOST_IMAGES, Made, is_too_wide, tile_width


@dataclass(frozen=True)
class Emitted:
    """A place in a launch's lists: the node that it is for, that node's pattern, and the products that are made.

    commands: of each compute unit; who has nothing to do is idle.
    """

    commands: tuple[Command, ...]
    node: Node
    pattern: str
    macs: int = 0

    @property
    def working(self) -> list[MacCommand | VectorCommand]:
        """The commands of units that are not idle."""
        return [command for command in self.commands if not isinstance(command, IdleCommand)]

    @property
    def command(self) -> MacCommand | VectorCommand:
        """That of the first unit that is not idle."""
        return self.working[0]


@dataclass
class Lists:
    """What emitting gives: a list of commands for each launch, what lies in the weights' region, sizes of both.

    packs: by their line in the weights' region, of which each unit has a copy.
    """

    launches: list[list[Emitted]] = field(default_factory=list)
    packs: dict[int, WeightBuffer] = field(default_factory=dict)
    maps: LineRegion = field(default_factory=LineRegion)
    weights: LineRegion = field(default_factory=LineRegion)


class CommandEmitter(Packer):
    """Appends commands to the lists of launches, cut for the engine, and places maps and parameters.

    lists: what was emitted.
    """

    def __init__(self, graph: GraphInfo, engine: EngineTarget) -> None:
        self.graph, self.engine, self.sizes = graph, engine, engine.sizes
        self.lists = Lists()
        self.weights: dict[tuple[Any, ...], WeightBuffer] = {}
        self._placed: dict[int, int] = {}
        self._node: Node | None = None
        self._pattern = ""
        self._owners = Owners(engine.sizes)

    @property
    def written_so_far(self) -> int:
        """Commands of the launch."""
        return len(self.lists.launches[-1])

    def begin_launch(self) -> None:
        self.lists.launches.append([])

    @contextmanager
    def lowering(self, node: Node, pattern: str) -> Iterator[None]:
        """While it lasts, commands are for `node` of a pattern.

        What does not fit is refused: RefusedError. The list then is as it was.
        """
        self._node, self._pattern = node, pattern
        emitted = self.lists.launches[-1]
        before = len(emitted)
        try:
            yield
        except (RefusedError, DoesNotFitError, RequantizeError) as error:
            del emitted[before:]
            raise RefusedError(f"the command {error}" if isinstance(error, DoesNotFitError) else str(error)) from error

    # --- places -------------------------------------------------------------------------------------------------------

    def at(self, where: MapImages) -> int:
        """The line at which something begins; the map gets its place."""
        return self.place(where.map) + where.line

    def place(self, of: Map) -> int:
        if of.at is None:
            # A second operand is read in blocks of 16 pixels, and so a little beyond its last plane.
            of.at = self.lists.maps.reserve(of.lines + CHANNELS)
            of.launch = len(self.lists.launches) - 1
        return of.at

    def after(self, of: Map) -> int:
        """How many commands ago the map was written to last; 0 if that was in an earlier launch, or by the host."""
        if of.writer is None or of.writer[0] != len(self.lists.launches) - 1:
            return 0
        return len(self.lists.launches[-1]) - of.writer[1]

    # --- parameters ---------------------------------------------------------------------------------------------------

    def put(self, buffer: Buffer) -> int:
        """Has a pack lie in the weights' region; answers its first line."""
        assert isinstance(buffer, WeightBuffer)
        if buffer.id not in self._placed:
            at = self._placed[buffer.id] = self.lists.weights.reserve(buffer.pack.beats)
            self.lists.packs[at] = buffer
        return self._placed[buffer.id]

    # --- commands -----------------------------------------------------------------------------------------------------

    def mac(
        self,
        command: MacCommand,
        x: MapImages,
        out: MapImages,
        params: Callable[[MacCommand, int], int],
        weight: Callable[[CommandPart], int] | None = None,
        *,
        second: MapImages | None = None,
        residual: MapImages | None = None,
        macs: int = 0,
    ) -> None:
        """Cuts a command for the engine and appends it, in several parts where it does not fit (parts.py).

        command: all but addresses. params, weight: answer the line of the parameters of a cut command that begins with
        block `first` of the channels, and of the weights of a part, whose block is the whole command's. Raises
        DoesNotFitError before anything is appended.
        """
        command = replace(command, input_image=x.map.image_lines, output_image=out.map.image_lines)
        command = replace(command, input=self.at(x), input_after=self.after(x.map), output=self.at(out))
        if residual is not None:
            command = replace(command, residual=self.at(residual), residual_image=residual.map.image_lines)
            command = replace(command, residual_after=self.after(residual.map))
        if second is not None:
            command = replace(command, weight=self.at(second), weight_after=self.after(second.map))
        before = self.written_so_far
        made = Made(params, weight, macs, before)
        try:
            self._cut_batches(command, made)
        except DoesNotFitError:
            del self.lists.launches[-1][before:]
            if command.folded or not is_too_wide(command, self.sizes):
                raise
            try:
                tile_width(command, x, out, made, self)
            except DoesNotFitError:
                del self.lists.launches[-1][before:]
                raise
        self.written(out.map)

    def _cut_batches(self, command: MacCommand, made: Made) -> None:
        """Cuts a command, of as many images at a time as one counts."""
        c, most = command, MOST_IMAGES
        if c.images > most and c.second_operand_is_map:
            raise DoesNotFitError(f"has {c.images} pairs of matrices, and the engine supports {most}")
        for first in range(0, c.images, most):
            part = replace(_later(c, self.written_so_far - made.begin), images=min(most, c.images - first))
            part = replace(part, input=c.input + first * c.input_image, output=c.output + first * c.output_image)
            if c.has_residual:
                part = replace(part, residual=c.residual + first * c.residual_image)
            self.cut(part, replace(made, macs=made.macs * part.images // c.images))

    def cut(
        self,
        command: MacCommand,
        made: Made,
        *,
        block: int = 0,
        transposed: TransposedKernel | None = None,
        ordered: bool = False,
    ) -> None:
        """Cuts a command with its addresses and appends it, in as many parts as it needs.

        block: where it begins in the output's blocks of those who know parameters and weights. ordered: no unit begins
        before all have stored what stands in front of it, as it overwrites some of that.
        """
        ordered = ordered and self.engine.units > 1
        if ordered:
            command = replace(command, input_after=1)
        found = shares(command, self.engine.units, self.sizes, self.engine.memory)
        of_units = [[] if share is None else self._own_parts(share, made, block, transposed) for share in found]
        steps = [[_steps(part) for part in own] for own in of_units]
        total = sum(map(sum, steps))
        for k in range(max(map(len, of_units))):
            # What the first waits for is one command further away for each that follows.
            placed = [_later(own[k], k) if k < len(own) else IdleCommand() for own in of_units]
            products = made.macs * sum(own[k] for own in steps if k < len(own)) // total
            self._append(placed, products, Peers.INPUT if ordered else Peers.NONE)

    def _own_parts(self, share: Share, made: Made, block: int, transposed: TransposedKernel | None) -> list[MacCommand]:
        """The commands of a unit's share, with their constants and a place for what sums they pass on."""
        sums, found = NO_OPERAND, []
        leaving = [sums_lines(part.command) for part in share.parts if part.command.raw]
        if leaving:
            sums = self.lists.maps.reserve(max(leaving))
        for part in share.parts:
            own, first = part.command, block + share.first + part.block
            own = replace(own, params=own.params + (block + share.first) * PARAMS_LINES)
            own = replace(own, params=made.params(own, first))
            if own.raw:
                own = replace(own, output=sums, output_image=sums_lines(own) // own.images)
            if own.has_sums:
                own = replace(own, sums=sums)
            if made.weight is not None:
                of = _kernel(own) if transposed else own
                own = replace(own, weight=made.weight(replace(part, command=of, block=first, transposed=transposed)))
            found.append(own)
        return found

    def vector(
        self, command: VectorCommand, x: MapImages, out: MapImages, params: int = 0, other: MapImages | None = None
    ) -> None:
        """Cuts a command of the vector side and appends it. Raises DoesNotFitError before anything is appended."""
        command = replace(command, input=self.at(x), input_after=self.after(x.map), output=self.at(out), params=params)
        if other is not None:
            command = replace(command, other=self.at(other), other_after=self.after(other.map))
        self._append_vector(command)
        self.written(out.map)

    def _append_vector(self, command: VectorCommand) -> None:
        found = vector_shares(command, self.engine.units, self.sizes, self.engine.memory)
        self._append([IdleCommand() if part is None else part for part in found], 0)

    def _append(self, commands: Sequence[Command], macs: int, peers: Peers = Peers.NONE) -> None:
        assert self._node is not None
        placed: list[Command] = []
        for unit, command in enumerate(commands):
            if not isinstance(command, IdleCommand) and self.engine.units > 1:
                command = replace(command, peers=peers | self._owners.peers(command, unit))
            placed.append(command)
        for unit, command in enumerate(placed):
            if not isinstance(command, IdleCommand) and self.engine.units > 1:
                self._owners.wrote(command, unit)
        self.lists.launches[-1].append(Emitted(tuple(placed), self._node, self._pattern, macs))

    def written(self, of: Map) -> None:
        """States that the last command was the last one that writes to a map."""
        of.writer = (len(self.lists.launches) - 1, len(self.lists.launches[-1]) - 1)


def _later(command: MacCommand, places: int) -> MacCommand:
    """A command so many places behind the first of its layer. Sums are the command's in front of it."""
    waits = {name: getattr(command, name) for name in ("input_after", "residual_after", "weight_after")}
    moved: dict[str, Any] = {name: ago + places for name, ago in waits.items() if ago}
    if not command.has_residual:
        moved["residual_after"] = 0
    if command.has_sums:
        moved["residual_after"] = 1
    return replace(command, **moved)


def _kernel(command: MacCommand) -> MacCommand:
    """What weights depend on: commands along rows of one kernel share them."""
    c = replace(command, input=0, output=0, params=0, residual=NO_OPERAND, sums=NO_OPERAND, flags=Flags.NONE, images=1)
    c = replace(c, input_after=0, residual_after=0, in_height=1, out_height=1, padding=(0, 0), out_plane=0)
    return replace(c, input_image=0, output_image=0, residual_image=0, band_rows=1, set_tiles=1, order=Order.WINDOWS)


def _steps(command: MacCommand) -> int:
    """What the array does for a command, in comparison with others of its layer."""
    return command.out_blocks * command.tile_depth * command.kernel[0]
