"""Groups of element-wise nodes as one micro-program: what each node computes is in elementwise.py, groups are grown by
the pass lowering/passes/select/fuse.py; here a group becomes a command.

Core: hls_kernels/cores/pointwise, tests: tests/lowering/test_pointwise.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.micro import Assembly, MicroLimits, MicroProgram, Operand, limits_of
from fpga_dynamo.codegen.walks import collapse, offsets, pad_left
from fpga_dynamo.ir import command as commands
from fpga_dynamo.ir.command import Auxiliary
from fpga_dynamo.ir.dtypes import HALVES, INTEGERS
from fpga_dynamo.ir.graph import GraphInfo, operand, shape, value
from fpga_dynamo.ir.records import Pointwise
from fpga_dynamo.ir.sizes.size import at_most, identical
from fpga_dynamo.ir.view import CHANNELS_LAST, VEC, View, align, ceil_div, numel
from fpga_dynamo.lowering.ops import batch_norm
from fpga_dynamo.lowering.ops.batch_norm import is_batch_norm, refuse_batch_norm
from fpga_dynamo.lowering.ops.elementwise.elementwise import ANCHORS, FACTS, compute, refuse_elementwise
from fpga_dynamo.lowering.ops.elementwise.integers import wrapped
from fpga_dynamo.lowering.ops.elementwise.operands import COMPARISONS, compute_dtype, is_condition, is_exact, operands
from fpga_dynamo.lowering.patterns import Match, Pattern

POINTWISE = CORES.add(
    Core[Pointwise](
        Pointwise.opcode,
        cycles=lambda c, target: ceil_div(numel(c.dims), VEC) * max(c.instructions, 1),
        moved=lambda c, target: numel(c.dims) * (c.inputs + c.outputs),
        parts=lambda c, target: ceil_div(numel(c.dims), VEC),
        zero_copy=True,
    )
)


def refuse_pointwise(node: Node, graph: GraphInfo) -> str | None:
    """Why `node` cannot be part of a micro-program, or None."""
    return refuse_batch_norm(node, graph) if is_batch_norm(node) else refuse_elementwise(node, graph)


def match_pointwise(pattern: Pattern, node: Node, graph: GraphInfo) -> Match:
    """A node alone; of a batch norm the call and its value, if that is used."""
    result = batch_norm.value_of(node) if is_batch_norm(node) else None
    return Match(pattern, (node,), (node,)) if result is None else Match(pattern, (node, result), (result,))


def check_pointwise(match: Match, graph: GraphInfo) -> str | None:
    return refuse_pointwise(match.nodes[0], graph) or _unfit(match, graph)


def _unfit(match: Match, graph: GraphInfo) -> str | None:
    """Why the pointwise core of this xclbin cannot run the micro-program of a match, or None."""
    if is_batch_norm(match.root):
        return "the result is not used"
    assembly = GroupProgram(_computed(match), limits_of(graph.target)).assembly
    if assembly is None:
        return "the micro-program needs more registers than the core has"
    missing = sorted({f"MICRO_{i.name}" for i in assembly.instructions} - graph.target.enums.keys())
    if missing:
        return f"the pointwise core of the xclbin has no {', '.join(missing)}; rebuild the xclbin"
    return None


def merge_pointwise(one: Match, group: Match, graph: GraphInfo) -> Match | None:
    """Both as one match, if they have one shape and the micro-program fits registers, constants and streams."""
    if shape(one.root) != shape(group.root) or value(one.root).dim() == 0:
        return None
    match = Match(one.pattern, (*one.nodes, *group.nodes), group.outputs)
    return None if GroupProgram(_computed(match), limits_of(graph.target)).assembly is None else match


def _computed(match: Match) -> list[Node]:
    """The nodes that have a value of their own: of a batch norm, its item."""
    return [node for node in match.nodes if not is_batch_norm(node)]


class GroupProgram:
    """The micro-program of a group and the streams that it reads.

    A stream is an FX node or, for a batch norm's scale and shift, (the batch norm, "scale" or "shift"). Values of
    16 bits are rounded where a node makes them, as eager does, and where they come from outside unless `rounded` says
    that they are.
    """

    def __init__(
        self, nodes: Sequence[Node], limits: MicroLimits, rounded: Callable[[Node], bool] = lambda node: False
    ) -> None:
        self._rounded = rounded
        self.streams: list[Node | tuple[Node, str]] = []
        self._program = MicroProgram()
        self._values: dict[Node, Operand] = {}
        self._stream_index: dict[Node | tuple[Node, str], int] = {}
        for node in nodes:
            self._values[node] = self._compute(node)
        self.assembly: Assembly | None = None
        if len(self.streams) < limits.streams:
            self.assembly = self._program.assemble(self._values[nodes[-1]], len(self.streams), limits)

    def _stream(self, key: Node | tuple[Node, str]) -> Operand:
        if key not in self._stream_index:
            self._stream_index[key] = len(self.streams)
            self.streams.append(key)
        return MicroProgram.stream(self._stream_index[key])

    def _value(self, node: Node) -> Operand:
        if node in self._values:
            return self._values[node]
        stream = self._stream(node)
        return stream if self._rounded(node) else self._round(stream, value(node).dtype)

    def _operand(self, given: Node | float, dtype: torch.dtype) -> Operand | float:
        """An operand of an op that computes in `dtype`."""
        if not isinstance(given, Node):
            return given
        x, own = self._value(given), value(given).dtype
        if own in INTEGERS and dtype not in INTEGERS:
            x = self._round(self._program.op("INT_TO_FLOAT", x), dtype)
        if own not in INTEGERS and dtype in INTEGERS:
            return self._program.op("FLOAT_TO_INT", x)
        if own is not torch.bool and dtype is torch.bool:
            return self._program.op("NE", x, 0.0)
        return x

    def _round(self, given: Operand | float, dtype: torch.dtype) -> Operand:
        """`given` rounded to `dtype` if that has 16 bits."""
        if dtype in HALVES:
            return self._program.op(f"ROUND_{HALVES[dtype].name}", given)
        return given if isinstance(given, Operand) else self._program.constant(given)

    def _compute(self, node: Node) -> Operand:
        norm, dtype = batch_norm.norm_of(node), value(node).dtype
        if norm is not None:
            x = self._value(operand(norm, 0))
            scaled = self._program.op("FMA", x, self._stream((norm, "scale")), self._stream((norm, "shift")))
            return self._round(scaled, dtype)
        result = compute(self._program, node, self._operands(node))
        if dtype in INTEGERS:
            return wrapped(self._program, result, dtype)
        return result if is_exact(node) else self._round(result, dtype)

    def _operands(self, node: Node) -> list[Operand | float]:
        dtype = compute_dtype(node)
        given = [self._operand(o, torch.bool if is_condition(node, i) else dtype) for i, o in enumerate(operands(node))]
        if node.target not in COMPARISONS or dtype not in HALVES:
            return given
        as_is = [isinstance(o, Node) and value(o).dtype is dtype for o in operands(node)]
        return [x if own else self._round(x, dtype) for x, own in zip(given, as_is, strict=True)]


def lower_pointwise(match: Match, emitter: Emitter) -> Sequence[View]:
    root = match.root
    program = GroupProgram(
        _computed(match), limits_of(emitter.target), lambda node: emitter.view(node).dtype is value(node).dtype
    )
    assert program.assembly is not None, "the fusion pass keeps groups that fit"
    size = shape(root)
    sources = [_source(stream, emitter) for stream in program.streams]
    order = _order(sources, size)
    streams = [_stream_view(s, v, size, order, emitter) for s, v in zip(program.streams, sources, strict=True)]
    if len(size) == 4 and order == CHANNELS_LAST[4]:
        out = replace(emitter.image(root), dtype=value(root).dtype)
    else:
        out = emitter.tensor(size, order, dtype=value(root).dtype)
    emit_micro(emitter, program.assembly, streams, out, order)
    return [out]


def emit_elementwise(
    emitter: Emitter,
    rule: Callable[[MicroProgram, list[Operand]], Operand],
    inputs: Sequence[View],
    size: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    pitch: int | None = None,
) -> View:
    """A micro-program that is no group of nodes: `rule` gives its result from the inputs, which broadcast to `size`.

    Whole numbers come in as floats, and a result of 16 bits is not rounded yet. pitch: distance between its rows; an
    image's pixels are padded.
    """
    program = MicroProgram()
    streams = [program.stream(i) for i in range(len(inputs))]
    given = [program.op("INT_TO_FLOAT", s) if v.dtype in INTEGERS else s for s, v in zip(streams, inputs, strict=True)]
    assembly = program.assemble(rule(program, given), len(inputs), limits_of(emitter.target))
    assert assembly is not None, "the rules of lowering fit the core's registers"
    order = _order(inputs, size)
    own = [tuple(d - len(size) + len(v.shape) for d in order if d >= len(size) - len(v.shape)) for v in inputs]
    views = [_contiguous(v, dims, emitter).expand(size) for v, dims in zip(inputs, own, strict=True)]
    if pitch is None and len(size) == 4 and order == CHANNELS_LAST[4]:
        pitch = align(size[1])
    out = emitter.tensor(size, order, dtype=torch.float32 if dtype in HALVES else dtype, pitch=pitch)
    emit_micro(emitter, assembly, views, out, order)
    return out


def emit_rounded(node: Node, emitter: Emitter) -> View:
    """The value of `node` as eager has it: rounded to its type, by a command of its own if need be."""
    x, dtype = emitter.view(node), value(node).dtype
    return x if x.dtype is dtype else emit_unary(f"ROUND_{HALVES[dtype].name}", x, dtype, emitter)


def emit_unary(operation: str, x: View, dtype: torch.dtype, emitter: Emitter) -> View:
    """A command of one micro-operation; its result is of `dtype`."""
    program = MicroProgram()
    assembly = program.assemble(program.op(operation, program.stream(0)), 1, limits_of(emitter.target))
    assert assembly is not None
    order = x.order()
    out = emitter.tensor(x.shape, order, dtype=dtype)
    emit_micro(emitter, assembly, [_contiguous(x, order, emitter)], out, order)
    return out


def _source(stream: Node | tuple[Node, str], emitter: Emitter) -> View:
    if isinstance(stream, Node):
        return emitter.view(stream)
    return batch_norm.scale_or_shift(*stream, emitter)


def _order(sources: Sequence[View], size: tuple[int, ...]) -> tuple[int, ...]:
    """The loop order: that of the first operand of full size, an activation if there is one; else row-major."""
    full = [v for v in sources if len(v.shape) == len(size) and all(map(identical, v.shape, size))]
    full = [v for v in full if not _broadcasts(v)]
    activations = [v for v in full if not v.buffer.in_weights]
    for view in activations or full:
        return view.order()
    return tuple(range(len(size)))


def _broadcasts(view: View) -> bool:
    return any(stride == 0 and n > 1 for n, stride in zip(view.shape, view.strides, strict=True))


def _stream_view(
    stream: Node | tuple[Node, str], source: View, size: tuple[int, ...], order: tuple[int, ...], emitter: Emitter
) -> View:
    """The stream in the shape of the group, contiguous or broadcast along the innermost dimension."""
    lead = len(size) - len(source.shape)
    own = tuple(d - lead for d in order if d >= lead)
    static = isinstance(stream, Node) and stream in emitter.graph.static
    if static and isinstance(stream, Node) and source.shape == shape(stream) and _innermost(source, own) not in (0, 1):
        source = emitter.weight_rows(stream, own)
    return _contiguous(source, own, emitter).expand(size)


def _innermost(view: View, order: Sequence[int]) -> int:
    if not order or view.shape[order[-1]] == 1:
        return 0
    return view.strides[order[-1]]


def _contiguous(view: View, order: Sequence[int], emitter: Emitter) -> View:
    return view if _innermost(view, order) in (0, 1) else emitter.relaid(view, order)


def emit_micro(emitter: Emitter, assembly: Assembly, inputs: Sequence[View], out: View, order: Sequence[int]) -> None:
    """One command, or several where more than four dimensions are left after merging."""
    views = [*inputs, out]
    sizes = [out.shape[d] for d in order]
    walks = [[v.strides[d] if v.shape[d] > 1 else 0 for d in order] for v in views]
    dims, strides = _merge(sizes, walks, views)
    inner = dims[-1]
    broadcast = sum(1 << i for i, s in enumerate(strides) if inner > 1 and s[-1] == 0)
    outer, rest = dims[:-4], dims[-4:]
    for places in offsets(outer, strides):
        walk = [pad_left(s[-4:], 4, 0) for s in strides]
        blank = (0,) * (limits_of(emitter.target).streams - len(views))
        command = Pointwise(
            program=Auxiliary(assembly.words(emitter.target.enums)),
            instructions=len(assembly.instructions),
            constants=Auxiliary(assembly.constant_words),
            constant_count=len(assembly.constant_words),
            inputs=len(inputs),
            outputs=1,
            dims=pad_left(rest, 4, 1),
            broadcast=broadcast,
            in_weights=sum(1 << i for i, v in enumerate(inputs) if v.buffer.in_weights),
            stream=tuple(commands.Operand(v.buffer, v.offset + o) for v, o in zip(views, places, strict=True))
            + (None,) * len(blank),
            stride0=tuple(w[0] for w in walk) + blank,
            stride1=tuple(w[1] for w in walk) + blank,
            stride2=tuple(w[2] for w in walk) + blank,
        )
        emitter.command(command, reads=list(inputs), writes=[out])


def _merge(sizes: list[int], walks: list[list[int]], views: Sequence[View]) -> tuple[tuple[int, ...], list[list[int]]]:
    """Merges dimensions; where rows are padded alike everywhere, the padding is computed along and merged too."""
    if not sizes:
        return (1,), [[0] for _ in walks]
    plain, plain_walks = collapse(sizes, walks)
    padded_sizes = [*sizes[:-1], align(sizes[-1])]
    if not identical(sizes[-1] % VEC, 0) and len(sizes) > 1 and sizes[-1] > 1:
        padded, padded_walks = collapse(padded_sizes, walks)
        if len(padded) < len(plain) and all(
            _reads_padding(v, w, padded_sizes) for v, w in zip(views, walks, strict=True)
        ):
            plain, plain_walks = padded, padded_walks
    if not plain:
        return (1,), [[0] for _ in walks]
    if any(w[-1] not in (0, 1) for w in plain_walks):  # the innermost dimension has size 1 and rows are padded
        return (*plain, 1), [[*w, 0] for w in plain_walks]
    return plain, [list(w) for w in plain_walks]


def _reads_padding(view: View, walk: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether the buffer goes on behind the last row's end, and rows do not run into each other."""
    if walk[-1] == 0:
        return True
    reach = view.offset + sum((n - 1) * s for n, s in zip(sizes, walk, strict=True)) + 1
    return at_most(reach, view.buffer.length)


PATTERNS = (
    Pattern(
        name="pointwise",
        anchors=(*ANCHORS, *batch_norm.FACTS),
        match=match_pointwise,
        check=check_pointwise,
        lower=lower_pointwise,
        opcodes=frozenset({"pointwise", "move"}),
        merge=merge_pointwise,
        in_place=True,
        operators={**FACTS, **batch_norm.FACTS},
    ),
)
