"""Records as objects: the classes are those of command.hpp, and what they are given is checked as they are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from fpga_dynamo.codegen.encode import encode
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir import records
from fpga_dynamo.ir.command import Auxiliary, Bits, Command, Operand, OwnRecord, Record
from fpga_dynamo.ir.records import Conv2d, Gemm, Move, Pointwise
from fpga_dynamo.ir.target import RecordField, Target
from fpga_dynamo.ir.view import Buffer
from fpga_dynamo.tools.records import PATH, source

CLASSES = list(records.RECORDS.values())


def test_the_classes_are_those_of_command_hpp() -> None:
    assert PATH.read_text(encoding="utf-8") == source(), "write it again: python -m fpga_dynamo.tools.records"


def test_every_record_of_the_xclbin_has_a_class_with_its_fields(target: Target) -> None:
    assert {c.opcode for c in CLASSES} == set(target.records)
    for record in (c() for c in CLASSES):
        assert set(vars(record)) == {field.name for field in target.records[record.opcode]} - {"opcode"}


def test_what_is_left_out_is_zero_and_no_operand(target: Target) -> None:
    code = encode([Command(record(), (), ()) for record in CLASSES], {}, target)
    for i, record in enumerate(CLASSES):
        for field in target.records[record.opcode]:
            begin = i * target.command_words + field.word
            expected = records.ABSENT if field.type == "uint32_t" else 0
            if field.name != "opcode":
                assert code.words[begin : begin + field.count].tolist() == [expected] * field.count, field.name


def test_fields_take_the_kinds_of_values_that_they_are_of() -> None:
    operand = Operand(Buffer(16))
    record: Any = Pointwise(program=Auxiliary((1,)), stream=[operand] + [None] * 9, dims=[1, 2, 3, torch.Size([4])[0]])
    assert record.stream == (operand,) + (None,) * 9 and record.dims == (1, 2, 3, 4)
    assert Move(fill=Bits(3)).fill == Bits(3) and Move(fill=2).fill == 2
    assert Gemm(b_packed=True).b_packed == 1


WRONG: list[tuple[type[Record], dict[str, Any], str]] = [
    (Conv2d, {"batch": 1.5}, r"'batch' of 'conv2d_command' expects an integer, not 1\.5"),
    (Conv2d, {"kernel": (1, 2, 3)}, r"'kernel' of 'conv2d_command' expects 2 values, not \(1, 2, 3\)"),
    (Conv2d, {"kernel": 3}, "expects 2 values, not 3"),
    (Conv2d, {"weight": 64}, "'weight' of 'conv2d_command' expects an Operand, an Auxiliary or None, not 64"),
    (Conv2d, {"weight": Buffer(16)}, "expects an Operand, an Auxiliary or None"),
    (Gemm, {"alpha": "one"}, "'alpha' of 'gemm_command' expects a number or Bits, not 'one'"),
    (Gemm, {"a_stride": (0, 0, 1.0, 1)}, "expects an integer"),
    (Gemm, {"colour": 1}, "unexpected keyword argument 'colour'"),
]


@pytest.mark.parametrize(("record", "fields", "why"), WRONG, ids=str)
def test_other_values_are_errors_where_the_record_is_made(
    record: type[Record], fields: dict[str, Any], why: str
) -> None:
    with pytest.raises(TypeError, match=why):
        record(**fields)


def test_a_record_with_other_values_is_checked_too() -> None:
    one = Conv2d(batch=2, kernel=(3, 3))
    other = one.replaced(batch=1)
    assert (one.batch, other.batch, other.kernel) == (2, 1, (3, 3))
    with pytest.raises(TypeError, match="expects 2 values"):
        one.replaced(kernel=(1, 2, 3))
    own = OwnRecord("smooth", {"steps": 3}).replaced(steps=4)
    assert own.opcode == "smooth" and vars(own) == {"steps": 4}


def older(target: Target, field: str) -> Target:
    """A card whose gemm does not know of a field."""
    fields: tuple[RecordField, ...] = tuple(f for f in target.records["gemm"] if f.name != field)
    return replace(target, records={**target.records, "gemm": fields})


def test_an_xclbin_of_older_cores_needs_no_field_that_is_left_out(target: Target) -> None:
    card = older(target, "b_format")
    encode([Command(Gemm(rows=3), (), ())], {}, card)
    with pytest.raises(FpgaError, match="record 'gemm_command' of the xclbin has no field 'b_format'"):
        encode([Command(Gemm(rows=3, b_format=1), (), ())], {}, card)
