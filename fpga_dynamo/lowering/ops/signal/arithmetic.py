"""Complex arithmetic element by element: products (with conjugates), sums, magnitudes, and numbers made of their parts.

Pattern, legality and commands; core: hls_kernels/cores/zip, tests: tests/lowering/test_complex.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.graph import GraphInfo, arguments, aten, operand, refuse_number, shape
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.records import Zip
from fpga_dynamo.ir.view import VEC, View, ceil_div, numel
from fpga_dynamo.lowering.ops.signal.numbers import COMPLEX, collapsed, computes_with_complex, is_complex
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone, sole_user

_ARITHMETIC: dict[Any, str] = {
    aten.mul.Tensor: "ZIP_PRODUCT",
    aten.div.Tensor: "ZIP_PRODUCT",
    aten.add.Tensor: "ZIP_SUM",
    aten.sub.Tensor: "ZIP_DIFFERENCE",
    aten.neg.default: "ZIP_PRODUCT",
    aten._conj.default: "ZIP_COPY",
    aten._conj_physical.default: "ZIP_COPY",
    aten.abs.default: "ZIP_MAGNITUDE",
}
_CONJUGATES = frozenset({aten._conj.default, aten._conj_physical.default})


def _vectors(c: Zip) -> int:
    return numel(c.dims[:4]) * ceil_div(c.dims[4], VEC)


def _beats(c: Zip) -> int:
    """Of 16 elements: two for pairs, one for floats."""
    sides = [c.a_real, c.out_real, *([] if c.b is None else [c.b_real])]
    return sum(1 if real else 2 for real in sides)


CORES.add(
    Core[Zip](
        Zip.opcode,
        cycles=lambda c, target: _vectors(c) * max(_beats(c) - 2, 2),  # two ports: arena and weights, or read and write
        moved=lambda c, target: numel(c.dims) * _beats(c),
        parts=lambda c, target: ceil_div(_vectors(c), 8),
        zero_copy=True,
    )
)


@dataclass(frozen=True)
class Term:
    """An operand of a command."""

    view: View
    conjugated: bool = False


def match_arithmetic(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """The operation with complex operands, and conjugates of operands that nothing else needs."""
    if not any(is_complex(arg) for arg in node.args) and not any(isinstance(arg, complex) for arg in node.args):
        return None
    if node.target in _CONJUGATES:
        user = sole_user(node)
        return None if user is not None and _absorbs(user, node, graph) else Match(pattern, (node,), (node,))
    inside = [arg for arg in node.args if isinstance(arg, Node) and _absorbs(node, arg, graph)]
    return Match(pattern, (*inside, node), (node,))


def _absorbs(node: Node, arg: Node, graph: GraphInfo) -> bool:
    """Whether an operation takes what its operand is the conjugate of; nothing else may need the conjugate."""
    if arg.target not in _CONJUGATES or arg in graph.static or sole_user(arg) is not node:
        return False
    return node.target in _ARITHMETIC and node.target not in _CONJUGATES


def check_arithmetic(match: Match, graph: GraphInfo) -> str | None:
    node = match.root
    if why := refuse_number(node, "result"):
        return why
    for arg in node.args[:2]:
        if isinstance(arg, Node) and (why := refuse_number(arg, f"operand {arg}")):
            return why
        if not isinstance(arg, (Node, int, float, complex)):
            return f"operand is {arg!r}"
    if len(node.args) > 2 or node.kwargs.get("alpha", 1) != 1:
        return "alpha other than 1 is not supported"
    if node.target is aten.div.Tensor and not (isinstance(node.args[1], (int, float)) and node.args[1]):
        return "complex division is supported by a real number that is known before the call only"
    return None


def lower_arithmetic(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    kind = _ARITHMETIC[node.target]
    terms = [_term(arg, match, emitter) for arg in node.args[:2]]
    if node.target is aten.div.Tensor:
        terms[1] = Term(number(emitter, 1.0 / float(arguments(node)[1])))
    elif node.target is aten.neg.default:
        terms = [terms[0], Term(number(emitter, -1.0))]
    elif node.target in _CONJUGATES:
        terms = [replace(terms[0], conjugated=True)]
    return [emit_zip(emitter, kind, terms, shape(node), real=not is_complex(node))]


def _term(arg: object, match: Match, emitter: Emitter) -> Term:
    if isinstance(arg, Node):
        inside = arg in match.nodes and arg is not match.root
        return Term(emitter.view(operand(arg, 0) if inside else arg), inside)
    assert isinstance(arg, (int, float, complex))
    return Term(number(emitter, arg))


def number(emitter: Emitter, constant: complex) -> View:
    """A constant in the weights region, with no dimension; real ones are floats."""
    wide = isinstance(constant, complex)
    buffer = emitter.pack(pack_number, (constant,), [], 2 if wide else 1, repr(constant))
    return View(buffer, (), (), 0, COMPLEX if wide else torch.float32)


def pack_number(params: tuple[Any, ...]) -> torch.Tensor:
    (constant,) = params
    parts = [constant.real, constant.imag] if isinstance(constant, complex) else [constant]
    return torch.tensor(parts, dtype=torch.float32)


def emit_zip(
    emitter: Emitter,
    kind: str,
    terms: Sequence[Term],
    size: Sequence[int],
    *,
    real: bool = False,
    out: View | None = None,
) -> View:
    """One command over operands that are broadcast to `size`. The result is `out`, or a dense tensor that lies like the
    first operand of that size."""
    views = [term.view.expand(tuple(size)) for term in terms]
    shaped = [view for term, view in zip(terms, views, strict=True) if tuple(term.view.shape) == tuple(size)]
    order = next((view.order() for view in shaped if 0 not in view.strides), tuple(range(len(size))))
    dtype = torch.float32 if real else COMPLEX
    for again in (False, True):
        if again:
            views = [_relaid(emitter, view, order) for view in views]
        y = out or emitter.tensor(size, order, dtype=dtype, pitch=size[order[-1]] if size else None)
        lines = collapsed([size[d] for d in order], [[v.strides[d] for d in order] for v in (*views, y)], 5)
        if lines is None or not _contiguous(lines, (*views, y)):
            continue
        dims, walks = lines
        a, b = views[0], views[1] if len(views) > 1 else None
        command = Zip(
            kind=emitter.target.enums[kind],
            a=Operand.of(a),
            b=None if b is None else Operand.of(b),
            output=Operand.of(y),
            a_from_weights=int(a.buffer.in_weights),
            b_from_weights=int(b is not None and b.buffer.in_weights),
            a_real=int(a.dtype is not COMPLEX),
            b_real=int(b is None or b.dtype is not COMPLEX),
            out_real=int(y.dtype is not COMPLEX),
            a_conjugated=int(terms[0].conjugated),
            b_conjugated=int(b is not None and terms[1].conjugated),
            dims=dims,
            a_stride=walks[0],
            b_stride=(0,) * 5 if b is None else walks[1],
            out_stride=walks[-1],
        )
        emitter.command(command, reads=views, writes=[y])
        return y
    raise AssertionError("dense operands have contiguous rows, and their other dimensions are one")


def _contiguous(lines: tuple[tuple[int, ...], list[tuple[int, ...]]], views: Sequence[View]) -> bool:
    (*_, last), walks = lines
    *given, result = zip(views, walks, strict=True)
    steps = all(walk[4] in (0, view.unit) for view, walk in given)
    return last == 1 or (steps and result[1][4] == result[0].unit)


def _relaid(emitter: Emitter, view: View, order: Sequence[int]) -> View:
    """A dense copy of an operand that is not the same for all."""
    if not any(view.strides):
        return view
    return emitter.relaid(view, tuple(order), view.shape[order[-1]])


# --- parts ------------------------------------------------------------------------------------------------------------


def check_parts(match: Match, graph: GraphInfo) -> str | None:
    node = match.root
    if not computes_with_complex(graph.target):
        return "complex64 is not supported: the recipe has no core that computes with it"
    for given in (*node.all_input_nodes, node):
        if why := refuse_number(given, "result" if given is node else f"operand {given}"):
            return why
    return None


def lower_parts(match: Match, emitter: Emitter) -> Sequence[View]:
    """view_as_real and view_as_complex compute nothing where strides can say it; `complex` copies both parts."""
    node = match.root
    if node.target is aten.complex.default:
        y = emitter.tensor(shape(node), dtype=COMPLEX, pitch=shape(node)[-1] if shape(node) else None)
        for part in (0, 1):
            source = emitter.view(operand(node, part)).expand(shape(node))
            emitter.copy(source, y.pairs().select(-1, part), layout_change=False)
        return [y]
    x = emitter.view(operand(node, 0))
    if node.target is aten.view_as_real.default:
        return [x.pairs()]
    if x.strides[-1] != 1 or any(s % 2 for s in (x.offset, *x.strides[:-1])):
        x = emitter.relaid(x, tuple(range(len(x.shape))), 2)
    return [replace(x, shape=x.shape[:-1], strides=x.strides[:-1], dtype=COMPLEX)]


_ZIP = frozenset({"zip", "move"})
_PARTS = {
    aten.complex.default: Operator(lambda t: ((t(4, 32), t(4, 32)), {})),
    aten.view_as_real.default: Operator(lambda t: ((t(4, 32),), {}), made_by_pattern=True),
    aten.view_as_complex.default: Operator(lambda t: ((t(4, 32, 2),), {}), made_by_pattern=True),
}

PATTERNS = (
    Pattern("complex_arithmetic", tuple(_ARITHMETIC), match_arithmetic, check_arithmetic, lower_arithmetic, _ZIP),
    Pattern(
        "complex_parts", tuple(_PARTS), anchor_alone, check_parts, lower_parts, frozenset({"move"}), operators=_PARTS
    ),
)
