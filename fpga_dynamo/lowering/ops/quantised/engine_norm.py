"""Batch norms between integers of eight bits on the hardware engine: a scale and a bias for each channel.

Of networks that normalise in front of their convolutions: a depthwise convolution by ones, of 1 x 1, whose ending is
the norm and what limits it; on cores they are made in float32. Tests: tests/lowering/test_engine_norm.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError, images_of, of_engine
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.codegen.requantize import RequantizeError, channels
from fpga_dynamo.ir.graph import GraphInfo, argument, operand, shape
from fpga_dynamo.ir.quantised import dequantized
from fpga_dynamo.ir.view import View, align
from fpga_dynamo.ir.weights import NotExactError
from fpga_dynamo.lowering.ops.batch_norm import BATCH_NORM, is_packable, value_of
from fpga_dynamo.lowering.ops.engine.images import windows
from fpga_dynamo.lowering.ops.packing import folded
from fpga_dynamo.lowering.ops.pooling import Window
from fpga_dynamo.lowering.ops.quantised.engine_params import LAYOUTS, engine_params
from fpga_dynamo.lowering.ops.quantised.epilogue import (
    Ending,
    ending,
    engine_fields,
    engine_residual,
    greatest_residual,
)
from fpga_dynamo.lowering.ops.quantised.packing import PARAMETERS
from fpga_dynamo.lowering.patterns import Match, Pattern, only_on_engine

_PIXEL = Window(False, (1, 1), (1, 1), (0, 0), (1, 1))


def match_norm(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """Of dequantised values, by static statistics that nobody asks for, and its ending."""
    item = value_of(node)
    if item is None or dequantized(operand(node, 0)) is None or not is_packable(node, graph):
        return None
    if any(user.users for user in node.users if user is not item):
        return None
    end = ending(item, graph)
    if end.scale is None:
        return None
    return Match(pattern, (operand(node, 0), node, *node.users, *end.nodes), (end.last,), {"ending": end})


def engine_norm(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    source, node = match.nodes[:2]
    end: Ending = match.bound["ending"]
    found = dequantized(source)
    assert found is not None and end.first_scale is not None
    integers, scale = found
    of_engine(integers, "its input", emitter.sizes)
    if len(shape(integers)) != 4:
        raise RefusedError("it is of no images")
    x = images_of(emitter.view(integers), "its input")
    constants = (
        scale.scale,
        scale.zero,
        scale.farthest,
        end.first_scale.scale,
        greatest_residual(end),
        float(argument(node, "eps", 6)),
        x.channels,
    )
    operands = [emitter.expression(part) if isinstance(part, Node) else None for part in node.args[1:5]]
    words = PARAMETERS * align(x.channels, CHANNELS)
    packed = emitter.pack(pack_norm, constants, operands, words, f"{node.name} parameters")
    fields = {"weight_kind": WeightKind.DIAGONAL, "pad": scale.zero, **engine_fields(end, emitter)}
    residual = engine_residual(end, emitter, lambda view: view, images_of)
    return [windows(match.root, x, _PIXEL, fields, engine_params(packed, end, emitter), emitter, residual)]


def pack_norm(
    params: tuple[Any, ...],
    gamma: torch.Tensor | None,
    beta: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
) -> torch.Tensor:
    """int32 [block][offset, scale, bias][16]. Raises :class:`NotExactError` for what requantizing cannot hold."""
    source_scale, source_zero, farthest, result_scale, residual, eps, count = params
    scale, shift = folded(eps, torch.ones_like(mean), None, gamma, beta, mean, variance)
    try:
        found = channels(
            scale * source_scale / result_scale,
            shift / result_scale,
            float(farthest),
            torch.full((count,), -source_zero, dtype=torch.int32),
            residual=residual,
        )
    except RequantizeError as error:
        raise NotExactError(str(error)) from error
    own = torch.stack([found.offset, found.scale, found.bias])
    own = torch.nn.functional.pad(own, (0, -count % CHANNELS)).reshape(PARAMETERS, -1, CHANNELS)
    return own.permute(1, 0, 2).contiguous().flatten()


LAYOUTS["pack_norm"] = pack_norm
only_on_engine("batch_norm_int8", (BATCH_NORM,), match_norm, engine_norm)
