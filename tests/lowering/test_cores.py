"""Descriptions of users' cores: what they cost, how many parts their commands have, and mistakes in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from fpga_dynamo import Core, FpgaError, Match, register_core, unregister_core
from fpga_dynamo.codegen import cost
from fpga_dynamo.codegen.core import CORES
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Command, Operand
from fpga_dynamo.ir.records import Move
from fpga_dynamo.ir.view import View
from fpga_dynamo.patterns import Pattern, registered, registered_core
from tests.lowering.lowering_cases import programs_of
from tests.lowering.test_patterns import RECIPE, TRIPLE, triple


def described(**parts: Any) -> Core:
    given: dict[str, Any] = {
        "opcode": "triple", "cycles": lambda c, target: 2 * c["count"], "moved": lambda c, target: 3 * c["count"],
    }  # fmt: skip
    return Core(**{**given, **parts})


def lower_without_slices(match: Match, emitter: Emitter) -> Sequence[View]:
    x = emitter.vector_rows(emitter.view(match.root.args[0]), aligned=True)  # type: ignore[arg-type]
    out = emitter.tensor(x.shape, pitch=x.strides[0])
    emitter.command(
        "triple", reads=[x], writes=[out], input=Operand.of(x), output=Operand.of(out),
        count=x.strides[0] * x.shape[0], shift=0.5,
    )  # fmt: skip
    return [out]


UNSLICED = Pattern(TRIPLE.name, TRIPLE.anchors, TRIPLE.match, TRIPLE.check, lower_without_slices, TRIPLE.opcodes)


def command_of(pattern: Pattern, rows: int) -> Command:
    x = torch.randn(rows, 1024)
    with registered(pattern):
        (program,) = programs_of(lambda x: triple(x, 0.5), x, recipe=RECIPE, cache=False)
    (command,) = (c for task in program.card_tasks for c in task.commands if c.opcode == "triple")
    return command


def test_a_user_s_core_costs_what_its_description_says() -> None:
    with registered_core(described()):
        command = command_of(TRIPLE, 64)
    assert command.cycles == cost.START + 2 * 64 * 1024
    assert command.bytes == 4 * 3 * 64 * 1024
    assert command_of(TRIPLE, 64).cycles < command.cycles, "without it, a guess"


@pytest.mark.parametrize(
    ("parts", "rows", "slices"),
    [
        (lambda c, target: c["count"] // 1024, 64, 39),
        (lambda c, target: 5, 64, 5),
        (lambda c, target: 5, 1, 1),
        (lambda c, target: 0, 64, 1),
        (None, 64, None),
    ],
    ids=["as many as are worth it", "as many as there are", "one for little work", "at least one", "not known"],
)
def test_slices_follow_from_the_description(
    parts: Callable[[Any, Any], int] | None, rows: int, slices: int | None
) -> None:
    with registered_core(described(parts=parts)):
        assert command_of(UNSLICED, rows).fields.get("slices") == slices


def test_slices_that_the_pattern_gives_count() -> None:
    with registered_core(described(parts=lambda c, target: 5)):
        assert command_of(TRIPLE, 64).fields["slices"] == 2


def lower_as_zeros(match: Match, emitter: Emitter) -> Sequence[View]:
    out = emitter.tensor((64, 1024), pitch=1024)
    emitter.command(
        "move", reads=[], writes=[out], output=Operand.of(out),
        dims=(1, 1, 1, 1, 64, 1024), out_stride=(0, 0, 0, 0, 1024, 1),
    )  # fmt: skip
    return [out]


def test_a_command_by_the_name_of_a_built_in_core_has_its_record() -> None:
    """What is left out is 0, of operands none: a `move` without an input writes zeros."""
    zeros = Pattern(TRIPLE.name, TRIPLE.anchors, TRIPLE.match, TRIPLE.check, lower_as_zeros, frozenset({"move"}))
    with registered(zeros):
        (program,) = programs_of(lambda x: triple(x, 0.5), torch.randn(64, 1024), recipe=RECIPE, cache=False)
    (record,) = (c.record for task in program.card_tasks for c in task.commands if c.pattern == TRIPLE.name)
    assert isinstance(record, Move) and record.input is None and record.format == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"opcode": ""}, "opcode must be a string"),
        ({"cycles": 7}, "core 'triple': cycles must be a function of (fields, target), got 7"),
        ({"moved": None}, "moved must be a function of (fields, target), got None"),
        ({"parts": 8}, "parts must be a function of (fields, target), got 8"),
        ({"bands": True}, "bands must be a Bands, got True"),
        ({"opcode": "gemm"}, "a core of opcode 'gemm' is already registered"),
    ],
)
def test_a_description_that_could_never_work_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(FpgaError) as error:
        register_core(described(**change))
    assert words in str(error.value)
    assert "triple" not in CORES


def test_only_users_cores_can_be_taken_out() -> None:
    with pytest.raises(FpgaError, match="expects a Core, got 'triple'"):
        register_core("triple")  # type: ignore[arg-type]
    for opcode in ("triple", "gemm"):
        with pytest.raises(FpgaError, match=f"no core is registered with opcode '{opcode}'"):
            unregister_core(opcode)
