"""A core of a user's that triples numbers (data/triple.hpp): its operator and its pattern."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from fpga_dynamo import Match, Pattern
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.graph import GraphInfo, shape
from fpga_dynamo.ir.view import View, numel
from fpga_dynamo.lowering.patterns import anchor_alone

RECIPE = str(Path(__file__).parent / "data" / "triple.toml")


@torch.library.custom_op("lowering_test::triple", mutates_args=())
def triple(x: torch.Tensor, shift: float) -> torch.Tensor:
    return 3 * x + shift


@triple.register_fake
def _(x: torch.Tensor, shift: float) -> torch.Tensor:
    return torch.empty_like(x)


def check_triple(match: Match, graph: GraphInfo) -> str | None:
    return "this core supports matrices only" if len(shape(match.root)) != 2 else None


def lower_triple(match: Match, emitter: Emitter) -> Sequence[View]:
    source, shift = match.root.args
    x = emitter.view(source)  # type: ignore[arg-type]
    if x.strides != (x.shape[1], 1):
        dense = View(emitter.tensor((numel(x.shape),)).buffer, x.shape, (x.shape[1], 1))
        emitter.copy(x, dense)
        x = dense
    out = View(emitter.tensor((numel(x.shape),)).buffer, x.shape, (x.shape[1], 1))
    emitter.command(
        "triple", reads=[x], writes=[out], slices=2, input=Operand.of(x), output=Operand.of(out),
        count=numel(x.shape), shift=float(shift),  # type: ignore[arg-type]
    )  # fmt: skip
    return [out]


TRIPLE = Pattern(
    name="triple",
    anchors=(torch.ops.lowering_test.triple.default,),
    match=anchor_alone,
    check=check_triple,
    lower=lower_triple,
    opcodes=frozenset({"triple", "move"}),
)
