"""Writes fpga_dynamo/ir/records.py, the classes of the built-in cores' records, from hls_kernels/command.hpp.

``python -m fpga_dynamo.tools.records`` after a change of a record; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fpga_dynamo.ir
import hls_kernels
from xclbin_build import atomic_file
from xclbin_build.records import Field, Header, Record, parse_command

PATH = Path(fpga_dynamo.ir.__file__).with_name("records.py")

_CONSTANTS = {
    "ABSENT": "The offset of an absent operand.",
    "SLICES_OF_STREAM": "What the `slices` of a stream's commands say: the lane that has the stream runs them whole.",
    "MOST_STREAMS": "Lengths that the record of a group of streams has room for.",
}

_HEAD = '''"""Records of the built-in cores, as hls_kernels/command.hpp has them.

Written by ``python -m fpga_dynamo.tools.records``; do not edit it by hand. What fields mean, and their units, is said
there. What is left out is 0, of operands None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fpga_dynamo.ir.command import Place, Real, Record
'''

_GROUPS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "Epilogue": ("An activation of the result.", (), "activation act_a act_b"),
    "Images": ("Images that are read and written.", (), "input output batch in_height in_width out_height out_width"),
    "Window": ("How windows lie in an image.", (), "kernel stride padding dilation"),
    "Convolution": (
        "Convolution of images, with a residual.", ("Images", "Epilogue"), "weight residual out_stride residual_stride"
    ),
    "Product": (
        "Product of matrices, with a residual.", ("Epilogue",),
        "a b residual output b_packed batch rows columns depth b_stride out_stride residual_stride vectors",
    ),
    "Int8Result": ("Quantization of the result.", (), "out_format out_zero out_low out_high"),
    "Int8Epilogue": (
        "Requantization of sums, and of a residual.", ("Int8Result",),
        "parameters table residual_format residual_zero residual_factor middle middle_zero middle_factor middle_table "
        "inverse_scale",
    ),
}  # fmt: skip
"""Fields that several records share: what they are, the groups that are part of it, and the names of the others.

A record with all fields of a group inherits them.
"""

_TYPES = {"int32_t": ("int", "0"), "uint32_t": ("Place", "None"), "float": ("Real", "0.0")}


def source() -> str:
    """The module's text."""
    header = parse_command(hls_kernels.ROOT / "command.hpp")
    records = list(header.records.values())
    classes = [*(_group(name, records) for name in _GROUPS), *map(_record, records)]
    return "\n".join([_HEAD, *_constants(header), *classes, _table(header)])


def _constants(header: Header) -> Iterator[str]:
    for name, meaning in _CONSTANTS.items():
        yield f'{name} = {header.constants[name]}\n"""{meaning}"""\n'


def _members(group: str) -> list[str]:
    """The names of a group's fields, those of the groups in it included."""
    _, bases, own = _GROUPS[group]
    return [*(name for base in bases for name in _members(base)), *own.split()]


def _group(group: str, records: list[Record]) -> str:
    meaning, bases, own = _GROUPS[group]
    fields = next(known for known in map(_by_name, records) if known.keys() >= set(_members(group)))
    return _dataclass(group, bases, meaning, [_field(fields[name]) for name in own.split()])


def _record(record: Record) -> str:
    fields = _by_name(record)
    groups = [group for group in _GROUPS if fields.keys() >= set(_members(group))]
    parts = {part for group in groups for part in _GROUPS[group][1]}
    inherited = {"opcode", "slices"}.union(*map(_members, groups))
    lines = [f'    opcode: ClassVar[str] = "{record.name}"']
    lines += [_field(field) for name, field in fields.items() if name not in inherited]
    bases = tuple(group for group in groups if group not in parts)
    return _dataclass(_class(record), bases, f"``{record.name}_command``.", lines)


def _by_name(record: Record) -> dict[str, Field]:
    return {field.name: field for field in record.fields}


def _dataclass(name: str, bases: tuple[str, ...], meaning: str, lines: list[str]) -> str:
    head = ["", "@dataclass(kw_only=True, eq=False)", f"class {name}({', '.join(bases or ('Record',))}):"]
    return "\n".join([*head, f'    """{meaning}"""', "", *lines, ""])


def _class(record: Record) -> str:
    return "".join(part.capitalize() for part in record.name.split("_"))


def _table(header: Header) -> str:
    lines = [
        "",
        "RECORDS: Mapping[str, type[Record]] = {",
        *(f'    "{record.name}": {_class(record)},' for record in header.records.values()),
        "}",
        '"""The classes of this file by opcode."""',
        "",
    ]
    return "\n".join(lines)


def _field(field: Field) -> str:
    kind, default = _TYPES[field.type]
    if not field.array:
        return f"    {field.name}: {kind} = {default}"
    return f"    {field.name}: Annotated[Sequence[{kind}], {field.count}] = ({default},) * {field.count}"


if __name__ == "__main__":
    atomic_file.write(PATH, source())
