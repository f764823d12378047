"""Matrix products with their epilogue: mm, addmm, bmm, baddbmm + [addition] + [activation] in one command.

Pattern, legality, weight packing and commands; cycles: lowering/cost.py, core: hls_kernels/cores/gemm.hpp,
tests: tests/lowering/test_matmul.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node

from fpga_dynamo.lowering.command import Operand
from fpga_dynamo.lowering.emitter import Emitter
from fpga_dynamo.lowering.graph import GraphInfo, argument, aten, operand, refuse_float, shape, value
from fpga_dynamo.lowering.ops.convolution import panel_vectors
from fpga_dynamo.lowering.ops.epilogue import ACTIVATION, ADD, Activation, activation, fields, residual_of
from fpga_dynamo.lowering.patterns import TABLE, Match, Pattern, follow
from fpga_dynamo.lowering.view import VEC, View, align, ceil_div

_WITH_ADDEND = (aten.addmm.default, aten.baddbmm.default)


def match_matmul(pattern: Pattern, node: Node, graph: GraphInfo) -> Match:
    """The product and as much of its epilogue as follows along single users, through views that keep rows whole."""
    nodes, last, links = follow(node, [ADD, ACTIVATION], graph, views=True)
    return Match(pattern, (node, *nodes), (last,), dict(links))


def _operands(node: Node) -> tuple[Node | None, Node, Node]:
    """Addend (or None), left and right operand."""
    if node.target in _WITH_ADDEND:
        return operand(node, 0), operand(node, 1), operand(node, 2)
    return None, operand(node, 0), operand(node, 1)


def check_matmul(match: Match, graph: GraphInfo) -> str | None:
    node = match.nodes[0]
    addend, left, right = _operands(node)
    for what, given in (("its left operand", left), ("its right operand", right), ("its addend", addend)):
        if given is not None and (why := refuse_float(given, what)):
            return why
    beta, alpha = argument(node, "beta", 3, 1), argument(node, "alpha", 4, 1)
    if not isinstance(alpha, (int, float)):
        return "its alpha is not known before the call"
    if addend is not None and beta not in (0, 1):
        return f"its addend is scaled by {beta}; the core adds it as it is"
    return refuse_float(match.root, "its result")


def macs_matmul(match: Match) -> int:
    node = match.nodes[0]
    _, left, _ = _operands(node)
    return value(node).numel() * shape(left)[-1]


def pack_columns(params: tuple[Any, ...], matrix: torch.Tensor) -> torch.Tensor:
    """[panel][k][16 vectors] of a (k, n) matrix, columns padded with zeros."""
    (vectors,) = params
    width = VEC * vectors
    padded = F.pad(matrix.to(torch.float32), (0, -matrix.shape[1] % width))
    return padded.reshape(matrix.shape[0], -1, width).permute(1, 0, 2).flatten()


def pack_vector(params: tuple[Any, ...], vector: torch.Tensor) -> torch.Tensor:
    """A bias, padded with zeros to `params[0]` floats."""
    flat = vector.to(torch.float32).flatten()
    return F.pad(flat, (0, params[0] - flat.numel()))


def lower_matmul(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.nodes[0]
    addend, left, right = _operands(node)
    batched = len(shape(left)) == 3
    rows, depth = shape(left)[-2:]
    columns = shape(right)[-1]
    batch = shape(left)[0] if batched else 1
    vectors = panel_vectors(columns, emitter.target.tiles["MAX_VECTORS"])
    width = VEC * vectors
    panels = ceil_div(columns, width)

    a = _as_batch(_one_unit_stride(emitter.in_arena(emitter.view(left)), emitter))
    packed = not batched and emitter.graph.is_static(right)
    b_view: View | None = None
    if packed:
        b: Any = emitter.pack(
            pack_columns,
            (vectors,),
            [emitter.expression(right)],
            panels * depth * width,
            f"{right.name} [panel][k][{width}]",
        )
        b_operand = Operand(b)
    else:
        b_view = _as_batch(_one_unit_stride(emitter.in_arena(emitter.view(right)), emitter))
        b, b_operand = b_view, Operand.of(b_view)

    out = emitter.tensor(shape(node), pitch=align(columns))
    y = _as_batch(out)
    bias, terms = None, []
    if addend is not None and argument(node, "beta", 3, 1) == 1:
        if shape(addend) == (columns,) and emitter.graph.is_static(addend):
            size = panels * width
            bias = emitter.pack(pack_vector, (size,), [emitter.expression(addend)], size, addend.name)
        else:
            terms.append(emitter.view(addend).expand(shape(node)))
    if add := match.bound.get("add"):
        before = next(arg for arg in add.args if arg in match.nodes)
        other = residual_of(before, add)
        assert other is not None
        terms.append(_reshaped(emitter.view(other), shape(node), emitter))
    act = activation(match.bound.get("activation")) or Activation()
    if len(terms) == 2:  # one addend too many for one epilogue: a second pass adds it
        terms = [_sum(terms[0], terms[1], emitter)]
    residual = _as_batch(emitter.vector_rows(terms[0])) if terms else None
    emitter.command(
        "gemm",
        reads=[a, b, bias, residual],
        writes=[y],
        macs=macs_matmul(match),
        slices=max(1, min(64, batch * ceil_div(rows, 7) * panels)),
        a=Operand.of(a),
        b=b_operand,
        bias=None if bias is None else Operand(bias),
        residual=None if residual is None else Operand.of(residual),
        output=Operand.of(y),
        b_packed=int(packed),
        batch=(1, batch),
        rows=rows,
        columns=columns,
        depth=depth,
        a_stride=(0, *_unit_strides(a)),
        b_stride=(0, 0, 0, 0) if b_view is None else (0, *_unit_strides(b_view)),
        out_stride=(0, y.strides[0], y.strides[1]),
        residual_stride=(0, 0, 0) if residual is None else (0, residual.strides[0], residual.strides[1]),
        vectors=vectors,
        alpha=float(argument(node, "alpha", 4, 1)) if addend is not None else 1.0,
        **fields(act, emitter.target.enums),
    )
    return [_reshaped(out, shape(match.root), emitter)]


def _as_batch(view: View) -> View:
    return view if len(view.shape) == 3 else view.unsqueeze(0)


def _unit_strides(view: View) -> tuple[int, int, int]:
    """Strides of a (batch, row, column) view; a size of 1 has whatever stride it likes: 1 is the one that helps."""
    batch, row, column = view.strides
    if row != 1 and column != 1:
        row, column = (row, 1) if view.shape[2] == 1 else (1, column)
    return batch, row, column


def _one_unit_stride(view: View, emitter: Emitter) -> View:
    """Rows or columns contiguous, by a copy if neither is."""
    one = any(view.strides[d] == 1 or view.shape[d] == 1 for d in (-2, -1))
    return view if one else emitter.relaid(view, tuple(range(len(view.shape))))


def _reshaped(view: View, wanted: tuple[int, ...], emitter: Emitter) -> View:
    found = view.reshape(wanted)
    if found is not None:
        return found
    target = emitter.tensor(wanted, pitch=align(wanted[-1]))
    image = target.reshape(view.shape)
    assert image is not None, "a view that keeps the last dimension can be undone"
    emitter.copy(view, image)
    return target


def _sum(a: View, b: View, emitter: Emitter) -> View:
    from fpga_dynamo.lowering.ops.pointwise import emit_sum

    return emit_sum(a, b, emitter)


TABLE.add(
    Pattern(
        name="matmul",
        anchors=(aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default),
        match=match_matmul,
        check=check_matmul,
        lower=lower_matmul,
        opcodes=frozenset({"gemm", "move"}),
        macs=macs_matmul,
    )
)
