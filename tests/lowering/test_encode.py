"""Commands as words: every field where the manifest says, addresses of weights filled in later."""

from __future__ import annotations

import struct

import pytest

from fpga_dynamo.codegen.encode import encode
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.command import Auxiliary, Bits, Command, Operand, OwnRecord
from fpga_dynamo.ir.elements import BF16, I8
from fpga_dynamo.ir.launch import CommandList
from fpga_dynamo.ir.records import ABSENT, Pointwise
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import Buffer
from fpga_dynamo.ir.weights import Pack, WeightBuffer, pack_rows


def field_words(code: CommandList, target: Target, opcode: str, name: str, position: int = 0) -> list[int]:
    field = next(f for f in target.records[opcode] if f.name == name)
    begin = position * target.command_words + field.word
    return code.words[begin : begin + field.count].tolist()


def move(**fields: object) -> Command:
    buffers = tuple(f.buffer for f in fields.values() if isinstance(f, Operand))
    return Command(OwnRecord("move", fields), (), buffers)  # type: ignore[arg-type]


def weight() -> WeightBuffer:
    return WeightBuffer(Pack(pack_rows, (), (), 32), "w")


def test_fields_lie_where_the_manifest_says(target: Target) -> None:
    a, b = Buffer(64), Buffer(64)
    command = move(
        slices=3,
        input=Operand(a, 5),
        output=Operand(b),
        fill=1.5,
        dims=(1, 2, 3, 4, 5, 6),
        in_stride=(-1, 0, 0, 0, 0, 1),
    )
    code = encode([command], {a: 1, b: 5}, target)
    assert code.count == 1 and len(code.words) == target.command_words
    assert code.words[0] == target.opcodes["move"]
    assert field_words(code, target, "move", "slices") == [3]
    assert field_words(code, target, "move", "input") == [21]
    assert field_words(code, target, "move", "output") == [80]
    assert field_words(code, target, "move", "fill") == [struct.unpack("<I", struct.pack("<f", 1.5))[0]]
    assert field_words(code, target, "move", "dims") == [1, 2, 3, 4, 5, 6]
    assert field_words(code, target, "move", "in_stride") == [0xFFFFFFFF, 0, 0, 0, 0, 1]
    assert field_words(code, target, "move", "out_stride") == [0] * 6, "what is left out is zero"


def test_offsets_count_the_elements_of_their_operand(target: Target) -> None:
    a, b = Buffer(128, element=I8), Buffer(64, element=BF16)
    code = encode([move(input=Operand(a, 5), output=Operand(b, 7))], {a: 3, b: 5}, target)
    assert field_words(code, target, "move", "input") == [3 * 64 + 5]
    assert field_words(code, target, "move", "output") == [5 * 32 + 7]


def test_an_operand_that_is_none_is_absent(target: Target) -> None:
    code = encode([move(input=None)], {}, target)
    assert field_words(code, target, "move", "input") == [ABSENT]


@pytest.mark.parametrize("integer", [0, 7, -1, -8388607, (1 << 31) - 1, -(1 << 31)])
def test_a_float_field_may_hold_the_bits_of_an_integer(target: Target, integer: int) -> None:
    code = encode([move(fill=Bits(integer))], {}, target)
    assert field_words(code, target, "move", "fill") == [integer & 0xFFFFFFFF]


def test_weights_get_their_addresses_when_they_have_them(target: Target) -> None:
    first, second = weight(), weight()
    code = encode([move(input=Operand(first, 3)), move(input=Operand(second))], {}, target)
    words = code.bound({first: 10, second: 20})
    bound = CommandList(words, code.count, ())
    assert field_words(bound, target, "move", "input", 0) == [163]
    assert field_words(bound, target, "move", "input", 1) == [320]
    assert field_words(code, target, "move", "input", 0) == [0], "the list itself stays free for other weights"


def test_equal_programs_are_stored_once_behind_the_records(target: Target) -> None:
    one, other = Auxiliary((1, 2, 3)), Auxiliary(tuple(range(17)))
    commands = [Command(Pointwise(program=words), (), ()) for words in (one, other, Auxiliary((1, 2, 3)))]
    code = encode(commands, {}, target)
    places = [field_words(code, target, "pointwise", "program", i)[0] for i in range(3)]
    records = 3 * target.command_words
    assert places == [records, records + 16, records]
    assert code.words[places[0] : places[0] + 3].tolist() == [1, 2, 3]
    assert code.words[places[1] : places[1] + 17].tolist() == list(range(17))
    assert len(code.words) == records + 16 + 32


def test_a_field_that_no_record_has_is_an_error(target: Target) -> None:
    with pytest.raises(FpgaError, match="record 'move_command' of the xclbin has no field 'colour'"):
        encode([move(colour=1)], {}, target)


def test_a_field_of_another_length_is_an_error(target: Target) -> None:
    with pytest.raises(FpgaError, match="'dims' of 'move_command' expects 6 values"):
        encode([move(dims=(1, 2))], {}, target)


def test_every_opcode_of_the_xclbin_has_a_record(target: Target) -> None:
    for opcode, record in target.records.items():
        assert record[0].name == "opcode" and record[0].word == 0
        assert max(f.word + f.count for f in record) <= target.command_words, opcode
