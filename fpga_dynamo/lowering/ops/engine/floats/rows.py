"""Softmax and layer norm of floats on the hardware engine's vector side (hls_kernels/engine/vector/record.hpp).

The command is refused by an engine without that side. Tests: tests/lowering/test_engine_rows.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.codegen.engine.vector import FLOAT_EXPONENTIAL_BITS, VectorCommand, VectorOperation, float32
from fpga_dynamo.ir.elements import F32
from fpga_dynamo.ir.graph import argument, arguments, aten, operand, shape
from fpga_dynamo.ir.view import View, align
from fpga_dynamo.ir.weights import WeightBuffer
from fpga_dynamo.lowering.engine_patterns import engine_only
from fpga_dynamo.lowering.ops.engine.common.vector_rows import row_by_row
from fpga_dynamo.lowering.patterns import Match, anchor_alone, anchor_and_first_item


def engine_softmax(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    node = match.root
    if argument(node, "dim", 1) % len(shape(node)) != len(shape(node)) - 1:
        raise RefusedError("only the last dimension is supported, along which the engine's features lie")
    params = exponentials(emitter)
    command = VectorCommand(operation=VectorOperation.SOFTMAX)
    source = operand(node, 0)
    return [row_by_row(node, source, shape(node)[-1], command, emitter, lambda: emitter.put(params))]


def exponentials(emitter: EngineEmitter) -> WeightBuffer:
    return emitter.pack(pack_exponentials, (), [], 256, "exponentials")


def pack_exponentials(params: tuple[()]) -> torch.Tensor:
    """uint32 2^27 exp(-i / 256) of 256 steps, as the bits of float32."""
    exponentials = torch.exp(-torch.arange(256, dtype=torch.float64) / 256) * (1 << FLOAT_EXPONENTIAL_BITS)
    return exponentials.round().to(torch.int32).view(torch.float32)


def engine_layer_norm(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    node = match.nodes[0]
    sizes, gamma, beta, eps = arguments(node)[1:5]
    if len(sizes) != 1:
        raise RefusedError("several dimensions are not supported; the engine supports the last one")
    if any(isinstance(p, Node) and not emitter.graph.is_static(p) for p in (gamma, beta)):
        raise RefusedError("a scale or shift that the graph computes is not supported")
    source = operand(node, 0)
    count = shape(source)[-1]
    operands = [emitter.expression(p) if isinstance(p, Node) else None for p in (gamma, beta)]
    words, name = 2 * align(count, CHANNELS), f"{node.name} parameters"
    epsilon = float32(float(eps))
    command = VectorCommand(operation=VectorOperation.NORM, epsilon=epsilon, row_scale=float32(1.0 / count))

    def params() -> int:
        return emitter.put(emitter.pack(pack_affine, (count,), operands, words, name, F32))

    return [row_by_row(match.root, source, count, command, emitter, params)]


def pack_affine(params: tuple[int], gamma: torch.Tensor | None, beta: torch.Tensor | None) -> torch.Tensor:
    """float32 [block][gamma, beta][16]."""
    (count,) = params
    rows = []
    for given, filling in ((gamma, 1.0), (beta, 0.0)):
        real = torch.full((count,), filling) if given is None else given.detach().flatten().float()
        rows.append(torch.nn.functional.pad(real, (0, -count % CHANNELS)).view(-1, CHANNELS))
    return torch.stack(rows, 1).flatten()


PATTERNS = (
    engine_only("softmax", (aten._softmax.default,), anchor_alone, engine_softmax),
    engine_only("norm", (aten.native_layer_norm.default,), anchor_and_first_item, engine_layer_norm),
)
