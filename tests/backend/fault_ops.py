"""`backend_test::faulty`: the operator x + 1, and the pattern that gives it to the core in data/faulty.hpp."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import torch

from fpga_dynamo import Match, Pattern
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.graph import GraphInfo, shape
from fpga_dynamo.ir.view import View, numel
from fpga_dynamo.lowering.patterns import anchor_alone

TRIGGER = 13.0
"""The first element of an input that makes the core go wrong."""


class Fault(IntEnum):
    """`enum fault` of the core; BAD_RECORD is a command that the checks before a launch refuse."""

    BAD_RECORD = -1
    NONE = 0
    CRASH = 1
    HANG = 2
    STATUS = 3
    WRONG = 4
    THROW = 5
    ASSERT = 6
    EXIT = 7
    ABORT = 8
    DIVIDE = 9


@torch.library.custom_op("backend_test::faulty", mutates_args=())
def faulty(x: torch.Tensor, mode: int) -> torch.Tensor:
    return x + 1


@faulty.register_fake
def _(x: torch.Tensor, mode: int) -> torch.Tensor:
    return torch.empty_like(x)


def check(match: Match, graph: GraphInfo) -> str | None:
    return None if len(shape(match.root)) == 1 else "the faulty core supports vectors only"


def lower(match: Match, emitter: Emitter, **more: Any) -> Sequence[View]:
    source, mode = match.root.args
    x = emitter.in_arena(emitter.view(source))  # type: ignore[arg-type]
    out = emitter.tensor(x.shape)
    emitter.command(
        "faulty", reads=[x], writes=[out], slices=1, input=Operand.of(x), output=Operand.of(out),
        count=numel(x.shape), mode=int(mode), trigger=TRIGGER, **more,  # type: ignore[arg-type]
    )  # fmt: skip
    return [out]


FAULTY = Pattern(
    name="faulty",
    anchors=(torch.ops.backend_test.faulty.default,),
    match=anchor_alone,
    check=check,
    lower=lower,
    opcodes=frozenset({"faulty", "move"}),
)


def well(count: int = 20) -> torch.Tensor:
    """An input on which the core works."""
    return torch.arange(count, dtype=torch.float32)


def ill(count: int = 20) -> torch.Tensor:
    """An input on which the core goes wrong."""
    x = well(count)
    x[0] = TRIGGER
    return x
