"""What a pattern's `lower` writes with: values as views, buffers, layout changes and commands of one PL segment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen import cost, views
from fpga_dynamo.codegen import layout as _own_cores  # noqa: F401 - registers those of the commands that are made here
from fpga_dynamo.codegen.core import CORES
from fpga_dynamo.codegen.walks import collapse, offsets, pad_left
from fpga_dynamo.ir.command import Command, FieldValue, ImageRows, Operand, OwnRecord, Record
from fpga_dynamo.ir.dtypes import BYTES
from fpga_dynamo.ir.elements import F32, Element
from fpga_dynamo.ir.graph import GraphInfo, is_view, shape, value
from fpga_dynamo.ir.records import RECORDS, Convert, Move
from fpga_dynamo.ir.sizes.size import Number, Size, at_most, identical, larger, smaller
from fpga_dynamo.ir.sizes.size import value as hinted
from fpga_dynamo.ir.target import KernelInfo
from fpga_dynamo.ir.view import (
    CHANNELS_LAST,
    VEC,
    Buffer,
    View,
    align,
    dense,
    extent,
    floats_of,
    row_pitch,
)
from fpga_dynamo.ir.weights import Packer, WeightBuffer, pack_bytes, pack_rows, row_layout

MOST_SLICES = 256
"""Parts of a command that are worth counting.

The emulator makes few slices of few parts: see `slices_for` in `native/card/compute_unit.cpp`.
"""


CommandCheck = Callable[
    [str, Sequence[View | Buffer | None], Sequence[View], Mapping[str, FieldValue], "Emitter"],
    None,
]
"""Raises ValueError for a command (opcode, reads, writes, fields) that its record would not bear."""


@dataclass(frozen=True)
class Origin:
    """What commands are emitted for: the pattern's name and the nodes' names."""

    pattern: str
    nodes: tuple[str, ...] = ()
    check: CommandCheck | None = None


_LAYOUT = Origin("layout")


class Emitter(Packer):
    """Builds the commands of one PL segment, for one kernel.

    pattern_of: the name of the pattern that has each node of the graph's matches.
    external: the view of a value that comes from outside the segment, or None for one that does not.
    placements: where `lower` should put the value of a node, if somebody (a `cat`) has a place for it.
    """

    def __init__(
        self,
        graph: GraphInfo,
        kernel: KernelInfo,
        external: Callable[[Node], View | None],
        pattern_of: Mapping[Node, str],
    ) -> None:
        self.graph = graph
        self.kernel = kernel
        self.pattern_of = pattern_of
        self.target = graph.target
        self.commands: list[Command] = []
        self.weights: dict[tuple[Any, ...], WeightBuffer] = {}
        self.placements: dict[Node, Callable[[], View]] = {}
        self._external = external
        self._values: dict[Node, Any] = {}
        self._widened: dict[Node, Any] = {}
        self._packed: dict[Node, View] = {}
        self._copies: dict[tuple[int, tuple[int, ...], tuple[int, ...], int, str], View] = {}
        self._origin = _LAYOUT

    # --- values -------------------------------------------------------------------------------------------------------

    def view(self, node: Node, *, narrow: bool = False) -> View:
        """Where the value of `node` lies, in the logical shape of its fake tensor.

        narrow: the caller takes elements that are narrower than a word, too; others get them widened.
        """
        found = self._value(node, narrow)
        assert isinstance(found, View), f"{node} is a tuple"
        return found

    def integers(self, node: Node) -> View:
        """Where the value of `node`, 8-bit integers, lies in a byte each."""
        found = self.view(node, narrow=True)
        if found.element.is_narrow:
            return found
        if node not in self._packed:
            self._packed[node] = self.converted(self.in_arena(found), BYTES[value(node).dtype])
        return self._packed[node]

    def _value(self, node: Node, narrow: bool) -> Any:
        values = self._values if narrow else self._widened
        if node not in values:
            # Iterative, because view chains can be as long as the graph.
            chain = [node]
            while (last := chain[-1]) not in values:
                if (found := self._begun(last)) is not None:
                    values[last] = found if narrow or not _is_narrow(found) else self.widened(found)
                elif is_view(last):
                    chain.append(last.all_input_nodes[0])
                else:
                    raise AssertionError(f"{last} is not a value of this segment")
            # `last` may be known in one of the two only: a view whose other form nobody has asked for yet.
            as_it_lies = values[last] is self._values.get(last)
            for last in reversed(chain[:-1]):
                values[last] = views.lower_view(last, values[last.all_input_nodes[0]], self)
                if as_it_lies:
                    self._values.setdefault(last, values[last])
        return values[node]

    def _begun(self, node: Node) -> Any:
        """The value of `node` where a view of it can begin: one that was made, or is given."""
        if node in self._values:
            return self._values[node]
        if node in self.graph.static and isinstance(value(node), torch.Tensor):
            self._values[node] = self.weight_rows(node)
        elif (given := self._external(node)) is not None:
            self._values[node] = given
        return self._values.get(node)

    def made(self, node: Node) -> bool:
        """Whether it is settled where the value of `node` lies: it need not be made from what it is a view of."""
        return node in self._values or node in self.graph.static or self._external(node) is not None

    def defined(self, node: Node) -> View | None:
        """The view that :meth:`define` gave `node`, if it did."""
        return self._values.get(node)

    def define(self, node: Node, view: View) -> None:
        """States where the value of `node` lies."""
        self._values[node] = view
        self._widened.pop(node, None)

    @contextmanager
    def lowering(self, pattern: str, nodes: Sequence[Node], check: CommandCheck | None = None) -> Iterator[None]:
        """While it lasts, commands are those of `pattern` for `nodes`; `check` looks at each before it is appended."""
        before, self._origin = self._origin, Origin(pattern, tuple(node.name for node in nodes), check)
        yield
        self._origin = before

    # --- buffers ------------------------------------------------------------------------------------------------------

    def tensor(
        self,
        shape: Sequence[int],
        order: Sequence[int] | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        pitch: int | None = None,
        element: Element = F32,
    ) -> View:
        """A new temporary with dimensions from outermost to innermost as in `order` and rows `pitch` elements apart."""
        size = tuple(shape)
        dims = tuple(range(len(size))) if order is None else tuple(order)
        if not size:
            return View(Buffer(element.lanes, element=element), (), (), 0, dtype)
        pitch = row_pitch(size[dims[-1]]) if pitch is None else pitch
        strides = dense(size, dims, pitch)
        length = larger(strides[dims[0]] * size[dims[0]], pitch)
        if (unit := floats_of(dtype)) != 1:
            strides, length = tuple(unit * stride for stride in strides), unit * length
        return View(Buffer(align(length, element.lanes), element=element), size, strides, 0, dtype)

    def image(self, node: Node, shape: Sequence[int] | None = None, element: Element = F32) -> View:
        """A channels-last buffer for the value of `node` (or its place in somebody's buffer), pixels padded to VEC."""
        size = tuple(value(node).shape) if shape is None else tuple(shape)
        if node in self.placements and shape is None:
            return self.placements.pop(node)()
        dtype = element.dtype if element.is_narrow else torch.float32
        return self.tensor(size, CHANNELS_LAST[len(size)], dtype=dtype, pitch=align(size[1]), element=element)

    # --- layout changes -----------------------------------------------------------------------------------------------

    def copy(self, source: View, target: View, *, layout_change: bool = True) -> None:
        """A `move` command from `source` to `target`, of the same shape, and of elements of the same width."""
        assert source.element.bytes == target.element.bytes, f"{source.element.name} moved to {target.element.name}"
        if source.dtype is torch.complex64:
            source, target = source.pairs(), target.pairs()
        dims, (ins, outs) = collapse(source.shape, (source.strides, target.strides))
        for base_in, base_out in offsets(dims[:-6], (ins, outs)):
            move = Move(
                input=Operand(source.buffer, source.offset + base_in),
                output=Operand(target.buffer, target.offset + base_out),
                from_weights=int(source.buffer.in_weights),
                dims=pad_left(dims[-6:], 6, 1),
                in_stride=pad_left(ins[-6:], 6, 0),
                out_stride=pad_left(outs[-6:], 6, 0),
                format=self.format_of(source),
            )
            self.command(move, reads=[source], writes=[target], layout_change=layout_change)

    def format_of(self, view: View | Buffer) -> int:
        """What a record calls the elements of an operand; 0 for words, which every core supports."""
        return self.target.format_of(view.element)

    def convert(self, source: View, target: View) -> None:
        """A command that widens `source` or narrows into `target`, whichever is narrow; both dense and alike."""
        narrow = target.element.is_narrow
        convert = Convert(
            input=Operand.of(source),
            output=Operand.of(target),
            count=source.numel,
            format=self.format_of(target if narrow else source),
            narrow=int(narrow),
        )
        self.command(convert, reads=[source], writes=[target])

    def widened(self, source: Any) -> Any:
        """Narrow elements as words; of a tuple of views, all of them."""
        if isinstance(source, tuple):
            return tuple(map(self.widened, source))
        return self.converted(source, F32)

    def converted(self, source: View, element: Element) -> View:
        """A copy of `source` that lies alike, words as narrow elements or the other way round."""
        spanned = larger(1, extent(source.shape, source.strides))
        whole = identical(spanned, source.numel) or at_most(spanned, 2 * source.numel)
        if not whole or not identical(source.offset % source.element.lanes, 0):
            packed = self.tensor(source.shape, source.order(), dtype=source.dtype, element=source.element)
            self.copy(source, packed)
            # Rows of an unknown size are padded, so that `packed` is not known to be whole either: no recursion.
            source, spanned = packed, larger(1, extent(packed.shape, packed.strides))
        # Gaps between rows go along; what lies in them is not looked at.
        target = Buffer(align(spanned, element.lanes), name=source.buffer.name, element=element)
        self.convert(View(source.buffer, (spanned,), (1,), source.offset), View(target, (spanned,), (1,)))
        return replace(source, buffer=target, offset=0)

    def relaid(self, source: View, order: Sequence[int], pitch: int | None = None) -> View:
        """`source` with dimensions in memory order `order`; a copy is made once for all who ask for it."""
        key = (source.buffer.id, source.shape, source.strides, source.offset, f"{tuple(order)}/{pitch}")
        if key not in self._copies:
            target = self.tensor(source.shape, order, dtype=source.dtype, pitch=pitch, element=source.element)
            self.copy(source, target)
            self._copies[key] = target
        return self._copies[key]

    def channels_last(self, source: View) -> View:
        """An image whose channels are contiguous and whose pixels lie a multiple of VEC apart, copied if need be."""
        if self.is_channels_last(source):
            return source
        return self.relaid(source, CHANNELS_LAST[len(source.shape)], align(source.shape[1]))

    def vector_rows(self, source: View, *, aligned: bool = False) -> View:
        """`source` in the arena with contiguous rows of which whole vectors can be read, copied if need be.

        aligned: every row begins on a multiple of VEC floats, too.
        """
        source = self.in_arena(source)
        outer = [(n, s) for n, s in zip(source.shape[:-1], source.strides[:-1], strict=True) if n > 1]
        last = source.offset + sum((n - 1) * s for n, s in outer)
        whole = at_most(last + align(source.shape[-1]), source.buffer.length)
        begin = not aligned or all(identical(start % VEC, 0) for start in (source.offset, *(s for _, s in outer)))
        if whole and begin and (source.strides[-1] == 1 or source.shape[-1] == 1):
            return source
        return self.relaid(source, tuple(range(len(source.shape))), align(source.shape[-1]))

    @staticmethod
    def is_channels_last(source: View) -> bool:
        channels = source.shape[1]
        steps = [s for d, (s, n) in enumerate(zip(source.strides, source.shape, strict=True)) if n > 1 and d != 1]
        if source.buffer.in_weights or not all(identical(start % VEC, 0) for start in (source.offset, *steps)):
            return False
        padded = at_most(source.offset + extent_padded(source), source.buffer.length)
        return padded and (source.strides[1] == 1 or channels == 1)

    # --- weights ------------------------------------------------------------------------------------------------------

    def weight_rows(self, node: Node, order: Sequence[int] | None = None, element: Element = F32) -> View:
        """A static tensor as it is, in the weights region, row-major unless `order` says otherwise.

        element: what 8-bit integers lie as, where the core reads bytes.
        """
        size = shape(node)
        dims = tuple(range(len(size))) if order is None else tuple(order)
        strides, pitch, elements = row_layout(size, dims)
        unit = floats_of(value(node).dtype)
        layout = pack_bytes if element.is_narrow else pack_rows
        buffer = self.pack(layout, (dims, pitch), [self.expression(node)], unit * elements, node.name, element)
        return View(buffer, size, tuple(unit * stride for stride in strides), 0, value(node).dtype)

    def in_arena(self, source: View) -> View:
        """`source`, copied into the arena if it lies in the weights region."""
        return self.relaid(source, source.order()) if source.buffer.in_weights else source

    # --- commands -----------------------------------------------------------------------------------------------------

    def command(
        self,
        record: Record | str,
        *,
        reads: Sequence[View | Buffer | None],
        writes: Sequence[View],
        macs: int = 0,
        layout_change: bool = False,
        image: ImageRows | None = None,
        **fields: FieldValue,
    ) -> None:
        """Appends a command: a record, or the name of an opcode with the fields of its record.

        `reads` may hold None for operands that are absent. Of a core that has a description (:mod:`core`) `slices` may
        be left to that, and is at most what is worth it.
        """
        origin = self._origin
        opcode, given = (record, fields) if isinstance(record, str) else (record.opcode, vars(record))
        if origin.check is not None:
            origin.check(opcode, reads, writes, given, self)
        if isinstance(record, str):
            made: Callable[..., Record] | None = RECORDS.get(opcode)
            record = OwnRecord(opcode, fields) if made is None else made(**fields)
        sources = [v.buffer if isinstance(v, View) else v for v in reads if v is not None]
        command = Command(
            record,
            reads=tuple(dict.fromkeys(sources)),
            writes=tuple(dict.fromkeys(v.buffer for v in writes)),
            nodes=origin.nodes,
            pattern=origin.pattern,
            macs=hinted(macs),
            layout_change=layout_change,
            image=image,
        )
        moved = cost.annotate(command, self.target)
        if command.opcode in CORES and (parts := self._parts(command.record)) is not None:
            command.fields["slices"] = larger(1, smaller(smaller(MOST_SLICES, parts), self._slices_worth(macs, moved)))
        self.commands.append(command)

    def _parts(self, record: Record) -> Number | None:
        """Independent parts of a command: `slices` if its pattern says so, else what the core makes of the fields."""
        given = vars(record).get("slices")
        return given if isinstance(given, (int, Size)) else CORES.parts(record, self.target)

    def _slices_worth(self, macs: int, moved: Number) -> Number:
        """Parts of as much work as handing one to another lane may cost, where that is known."""
        work = self.target.tuning.slice_work
        return MOST_SLICES if work is None else (macs + 5 * moved) // int(work)


def _is_narrow(found: Any) -> bool:
    """Whether elements of a value, or of a part of it, are narrower than a word."""
    return any(map(_is_narrow, found)) if isinstance(found, tuple) else found.element.is_narrow


def extent_padded(view: View) -> int:
    """Elements from the first element to behind the last one's vector, for an image with contiguous channels."""
    spread = sum((n - 1) * s for d, (n, s) in enumerate(zip(view.shape, view.strides, strict=True)) if d != 1)
    return spread + align(view.shape[1])
