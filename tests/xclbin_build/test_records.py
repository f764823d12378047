"""The parser of command records: what it reads, and which sentence says what it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from hls_kernels import CORES, ROOT
from xclbin_build import RecordError
from xclbin_build.records import parse_command, parse_core_line, parse_header, parse_tiles

HEAD = "int32_t opcode;\nint32_t slices;\n"


def header(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "my.hpp"
    path.write_text(text)
    return path


def test_command_header_is_read_whole() -> None:
    tables = parse_command(ROOT / "command.hpp")
    opcodes = {name.removeprefix("OP_").lower() for name in tables.enums["opcode"]} - {"user"}
    assert set(tables.records) == opcodes
    assert tables.constants["ABSENT"] == 0xFFFFFFFF
    assert tables.enums["micro_op"]["MICRO_RELU"] == 40
    assert all(record.words <= tables.constants["COMMAND_WORDS"] for record in tables.records.values())


def test_fields_follow_each_other_as_in_the_struct() -> None:
    conv2d = parse_command(ROOT / "command.hpp").records["conv2d"]
    fields = {field.name: field for field in conv2d.fields}
    assert (fields["kernel"].word, fields["kernel"].count) == (15, 2)
    assert fields["stride"].word == 17
    assert fields["act_b"].type == "float"
    assert conv2d.words == sum(field.count for field in conv2d.fields)


def test_field_forms(tmp_path: Path) -> None:
    text = f"""constexpr int32_t TAPS = 3;
    /* a block comment with struct other_command {{ */
    struct fir_command {{  // comment
    {HEAD}
        float taps[TAPS];   // comment; with punctuation[2];
        uint32_t input;
        int32_t one[1];
    }};
    enum fir_kind : int32_t {{ FIR_A = 5, FIR_B, FIR_C = 0x10 }};
    """
    tables = parse_header(header(tmp_path, text))
    assert [(f.name, f.word, f.count, f.array) for f in tables.records["fir"].fields] == [
        ("opcode", 0, 1, False),
        ("slices", 1, 1, False),
        ("taps", 2, 3, True),
        ("input", 5, 1, False),
        ("one", 6, 1, True),
    ]
    assert tables.enums == {"fir_kind": {"FIR_A": 5, "FIR_B": 6, "FIR_C": 16}}


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("double x;", 4, "field 'x' has type 'double'"),
        ("int32_t x[61];\nint32_t y;\nint32_t z;", 6, "more than 64 words"),
        ("int32_t x;\nfloat x;", 5, "field 'x' of record 'my' is defined twice"),
        ("int32_t x, y;", 4, "one field per line"),
        ("int32_t x[COUNT];", 4, "no positive literal size"),
        ("int32_t x[0];", 4, "no positive literal size"),
    ],
)
def test_bad_field_is_an_error_with_file_and_line(tmp_path: Path, body: str, line: int, words: str) -> None:
    path = header(tmp_path, f"struct my_command {{\n{HEAD}{body}\n}};\n")
    with pytest.raises(RecordError) as error:
        parse_header(path)
    assert f"{path}:{line}:" in str(error.value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("struct my_command {\nint32_t opcode;\nint32_t other;\n};", "must begin with"),
        (f"struct my_command {{\n{HEAD}", "closing brace"),
        (f"struct my_command {{\n{HEAD}}};\nstruct my_command {{\n{HEAD}}};", "record 'my' is defined twice"),
        ("enum k : int32_t { A = 1 };\nenum k : int32_t { B = 1 };", "enum 'k' is defined twice"),
        ("enum k : int32_t {\nA = 1,\nA = 2,\n};", "enum value 'A' is defined twice"),
        ("enum k : int32_t { A = B + 1 };", "'NAME = integer'"),
    ],
)
def test_bad_header_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        parse_header(header(tmp_path, text))


def test_two_headers_may_not_define_the_same_record(tmp_path: Path) -> None:
    path = header(tmp_path, f"struct gemm_command {{\n{HEAD}}};\n")
    with pytest.raises(RecordError, match=r"my.hpp: record 'gemm' is already defined"):
        parse_command(ROOT / "command.hpp").merge(parse_header(path), str(path))


@pytest.mark.parametrize("text", ["#pragma once\n", "// core: a; opcodes: b, b\n"])
def test_bad_core_line_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(RecordError, match=r"core: NAME; opcodes|distinct opcode names"):
        parse_core_line(header(tmp_path, text))


def test_a_core_says_what_its_weights_may_be(tmp_path: Path) -> None:
    text = "// core: a; opcodes: b, c\n// weights of c: F32, BF16\n// activations of b: I8\n"
    elements = parse_core_line(header(tmp_path, text)).elements
    assert elements == {"weights": {"c": ("F32", "BF16")}, "activations": {"b": ("I8",)}}
    with pytest.raises(RecordError, match="weights of 'd', which is not an opcode of the core"):
        parse_core_line(header(tmp_path, text.replace("of c", "of d")))


def test_cores_that_come_along_have_their_records() -> None:
    records = parse_command(ROOT / "command.hpp").records
    for path in CORES.glob("*/core.hpp"):
        folder = path.parent
        line = parse_core_line(path)
        assert line.core == folder.name
        assert set(line.opcodes) == set(parse_header(folder / "record.hpp").records)
        assert set(line.opcodes) <= set(records)


def test_tiles_are_integer_literals(tmp_path: Path) -> None:
    assert parse_tiles(header(tmp_path, "constexpr int A = 7;\nconstexpr int B = 96 * 1024;  // floats\n")) == {
        "A": 7,
        "B": 98304,
    }
    assert parse_tiles(ROOT / "tiles.hpp")["ROWS"] >= 1
    with pytest.raises(RecordError, match=r"my.hpp:1: 'A' must be an integer literal"):
        parse_tiles(header(tmp_path, "constexpr int A = B;\n"))


def test_missing_header_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.hpp: cannot be read"):
        parse_header(tmp_path / "none.hpp")


def test_records_of_included_headers_are_the_command_header_s_own(tmp_path: Path) -> None:
    (tmp_path / "cores").mkdir()
    (tmp_path / "cores" / "record.hpp").write_text(f"struct one_command {{\n{HEAD}}};\n")
    path = header(tmp_path, f'#include <cstdint>\n#include "cores/record.hpp"\nstruct two_command {{\n{HEAD}}};\n')
    assert set(parse_command(path).records) == {"one", "two"}
    path.write_text(path.read_text().replace("two", "one"))
    with pytest.raises(RecordError, match=r"record\.hpp: record 'one' is already defined"):
        parse_command(path)
