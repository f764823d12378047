"""Rows of int8 values by their vector norm, or root mean square, on the hardware engine's vector side.

The command is that of a layer norm whose mean counts as 0. Integers have the zero point 0 for that, as the quantizer
chooses. Tests: tests/lowering/test_engine_vector_norms.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch.fx import Node

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.codegen.engine.vector import VectorCommand, VectorFlags, VectorOperation
from fpga_dynamo.ir.graph import GraphInfo, argument, arguments, aten, normalise_dims, shape
from fpga_dynamo.ir.quantised import Scale, dequantized, quantizes
from fpga_dynamo.ir.view import View, align
from fpga_dynamo.lowering.engine_patterns import engine_only
from fpga_dynamo.lowering.ops.engine.common.vector_rows import row_by_row
from fpga_dynamo.lowering.ops.engine.int8.vector_side import least_epsilon, pack_affine
from fpga_dynamo.lowering.ops.normalization.rms_norm import match_rms_norm
from fpga_dynamo.lowering.patterns import Match, Pattern, sole_user

_EXPANDS = (aten.expand.default, aten.expand_as.default)
_LIMITS = (aten.clamp_min.default, aten.clamp.default)


@dataclass(frozen=True)
class RowNorm:
    """Rows of `integers` along `dim` by sqrt(their mean square + eps), by their vector norm if `eps` is None.

    gamma: what the result is multiplied by.
    """

    integers: Node
    source: Scale
    dim: int
    eps: float | None = None
    gamma: Node | None = None


def _are_same(a: object, b: object) -> bool:
    """Whether two nodes dequantize the same integers by the same scale."""
    one, two = dequantized(a), dequantized(b)
    return one is not None and one == two


def match_vector_norm(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[RowNorm] | None:
    """A quotient of dequantized values and their vector norm along a dimension, rounded to eight bits again."""
    values, divisor = node.args[:2]
    found, user = dequantized(values), sole_user(node)
    if node.kwargs or found is None or user is None or quantizes(user) is None or user in graph.claimed:
        return None
    chain: list[Node] = []
    at, limit = divisor, 0.0
    while isinstance(at, Node) and len(at.users) == 1 and at.target in (*_EXPANDS, *_LIMITS):
        if at.target in _LIMITS:
            least, most = argument(at, "min", 1), argument(at, "max", 2)
            if most is not None or not isinstance(least, (int, float)):
                return None
            limit = max(limit, float(least))
        chain.append(at)
        at = at.args[0]
    if not isinstance(at, Node) or at.target is not aten.linalg_vector_norm.default or len(at.users) != 1:
        return None
    dims = argument(at, "dim", 2)
    if not _are_same(values, at.args[0]) or argument(at, "ord", 1, 2) != 2 or not argument(at, "keepdim", 3, False):
        return None
    integers, scale = found
    if dims is None or len(dims) != 1 or limit > scale.scale:
        return None  # a limit below a step changes nothing: only rows of zeros are nearer to 0, and they stay zeros
    (dim,) = normalise_dims(dims, len(shape(node)))
    nodes = (*node.all_input_nodes[:1], *at.all_input_nodes, at, *reversed(chain), node, user)
    return Match(pattern, nodes, (user,), RowNorm(integers, scale, dim))


def match_rms_norm_int8(pattern: Pattern, square: Node, graph: GraphInfo) -> Match[RowNorm] | None:
    """The root mean square norm of dequantized values over their last dimension, rounded to eight bits again."""
    source = square.args[0]
    found, norm = dequantized(source), match_rms_norm(pattern, square, graph, _are_same)
    user = None if norm is None else sole_user(norm.root)
    if found is None or norm is None or user is None or quantizes(user) is None or user in graph.claimed:
        return None
    mean, plus = norm.nodes[1:3]
    rank = len(shape(square))
    if normalise_dims(argument(mean, "dim", 1), rank) != (rank - 1,):
        return None
    sources = dict.fromkeys(n for of in norm.nodes for n in of.all_input_nodes if _are_same(n, source))
    parts = RowNorm(*found, rank - 1, float(arguments(plus)[1]), norm.bound.scale)
    return Match(pattern, (*sources, *norm.nodes, user), (user,), parts)


def engine_row_norm(match: Match[RowNorm], emitter: EngineEmitter) -> Sequence[View]:
    of, scale = match.bound, quantizes(match.root)
    assert scale is not None
    if not emitter.sizes.gather:
        raise RefusedError("division by a vector norm or root mean square is not supported")
    if of.source.zero:
        raise RefusedError(f"the input has the zero point {of.source.zero}; rows are divided by a norm if it is 0")
    count = shape(match.root)[of.dim]
    command = VectorCommand(
        operation=VectorOperation.NORM,
        flags=VectorFlags.UNCENTERED,
        epsilon=least_epsilon(of.eps or 0.0, count, of.source),
        zero=scale.zero,
        low=scale.low,
        high=scale.high,
    )
    # The command divides by the root mean square, which is the vector norm by sqrt(count).
    result = scale.scale * (math.sqrt(count) if of.eps is None else 1.0)
    gamma = None if of.gamma is None else emitter.expression(of.gamma)
    words, name = 2 * align(count, CHANNELS), f"{match.root.name} parameters"

    def params() -> int:
        return emitter.put(emitter.pack(pack_affine, (count, result), [gamma, None], words, name))

    return [row_by_row(match.root, of.integers, count, command, emitter, params, of.dim)]


PATTERNS = (
    engine_only("vector_norm_int8", (aten.div.Tensor,), match_vector_norm, engine_row_norm),
    engine_only("rms_norm_int8", (aten.pow.Tensor_Scalar,), match_rms_norm_int8, engine_row_norm),
)
