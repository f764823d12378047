"""Products of two maps on the hardware engine, a head of an attention each; see matmul.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map, MapImages, RefusedError, of_engine
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.graph import aten, shape, value
from fpga_dynamo.ir.quantised import DEQUANTIZE, QUANTIZE, Scale, dequantized
from fpga_dynamo.ir.view import View, align
from fpga_dynamo.lowering.ops.engine.common.head_products import HeadsProduct, heads_product, reaches_softmax, seen_as
from fpga_dynamo.lowering.ops.engine.int8.epilogue import engine_fields
from fpga_dynamo.lowering.ops.engine.int8.params import engine_params
from fpga_dynamo.lowering.ops.quantised.epilogue import QuantizedEpilogue
from fpga_dynamo.lowering.ops.quantised.packing import PARAMETERS, UniformParameters, pack_one_scale
from fpga_dynamo.lowering.ops.quantised.product import IntegerProduct
from fpga_dynamo.lowering.ops.repetition import repetition
from fpga_dynamo.lowering.patterns import Match


def engine_product(match: Match[IntegerProduct], emitter: EngineEmitter) -> Sequence[View]:
    """Of two maps, for each head."""
    product = match.bound
    end, node, scale, other = product.epilogue, product.node, product.scale, product.other
    assert isinstance(scale, Scale) and other is not None
    of_engine(product.right, "right operand", emitter.sizes)
    left, right = emitter.view(product.left), emitter.view(product.right)
    depth, columns = left.shape[-1], right.shape[-1]
    fields = {"pad": scale.zero, "weight_zero": other.zero, **engine_fields(end, emitter)}
    zeros = (scale.zero, other.zero)
    of = heads_product(left, right, match.root, emitter, _read_by_rows, zeros=zeros, **fields)
    result = end.first_scale
    assert result is not None
    constants = UniformParameters(
        width=CHANNELS,
        count=columns,
        scale=scale.scale * other.scale,
        greatest=float(depth * scale.farthest * other.farthest),
        result_scale=result.scale,
        offset=of.command.in_blocks * CHANNELS * scale.zero * other.zero,
    )
    words = PARAMETERS * align(columns, CHANNELS)
    command, residual = of.command, None
    if end.residual is not None:
        command, residual = _added(end, of, emitter)
    emitter.mac(
        command,
        of.left.rows,
        of.result.rows,
        engine_params(emitter.pack(pack_one_scale, constants, [], words, f"{node} parameters"), end, emitter),
        second=of.right.rows,
        residual=residual,
        macs=value(node).numel() * depth,
    )
    rank, view = len(shape(node)), of.view
    return [seen_as(View(view.buffer, tuple(shape(node)), view.strides[-rank:], view.offset), match.root)]


def _added(end: QuantizedEpilogue, of: HeadsProduct, emitter: EngineEmitter) -> tuple[MacCommand, MapImages]:
    """The command with what is added to a product, which is copied to a map for each head. Raises RefusedError."""
    assert end.residual is not None
    found = dequantized(end.residual)
    assert found is not None
    if not emitter.sizes.gather:
        raise RefusedError("a product of two feature maps with a residual is not supported")
    size, rows = shape(end.residual), of.result.rows
    repeated = repetition(end.sum_size[:-2], size[:-2])
    assert repeated is not None
    apart = emitter.split_heads((repeated.images, *size[-2:]), end.residual.name)
    seen = apart.reshape(size)
    like = apart.buffer
    assert isinstance(like, Map) and seen is not None
    if emitter.is_constant(found[0]):
        emitter.constant(found[0], seen)
    else:
        emitter.copy(emitter.view(found[0]), seen, "the addend")
    heads, lines = repeated.heads, like.image_lines

    def steps(step: tuple[int, int]) -> tuple[int, int]:
        return heads[1] * step[1], step[1]

    c = of.command
    command = replace(
        c,
        heads=heads,
        input_head=steps(c.input_head),
        weight_head=steps(c.weight_head),
        output_head=steps(c.output_head),
        residual_head=(repeated.step[0] * lines, repeated.step[1] * lines),
    )
    return command, MapImages(like, 1, rows.channels, rows.height, rows.width)


def _read_by_rows(node: Node) -> bool:
    """Whether a value's readers, behind views and dequantising nodes, work on its rows: softmax."""
    return reaches_softmax(node, (DEQUANTIZE, QUANTIZE, aten.mul.Tensor))
