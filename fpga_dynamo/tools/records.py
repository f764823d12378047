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

_TYPES = {"int32_t": ("int", "0"), "uint32_t": ("Place", "None"), "float": ("Real", "0.0")}


def source() -> str:
    """The module's text."""
    header = parse_command(hls_kernels.ROOT / "command.hpp")
    return "\n".join([_HEAD, *_constants(header), *map(_record, header.records.values()), _table(header)])


def _constants(header: Header) -> Iterator[str]:
    for name, meaning in _CONSTANTS.items():
        yield f'{name} = {header.constants[name]}\n"""{meaning}"""\n'


def _record(record: Record) -> str:
    fields = [field for field in record.fields if field.name not in ("opcode", "slices")]
    lines = [
        "",
        "@dataclass(kw_only=True, eq=False)",
        f"class {_class(record)}(Record):",
        f'    """``{record.name}_command``."""',
        "",
        f'    opcode: ClassVar[str] = "{record.name}"',
        *map(_field, fields),
        "    slices: int | None = None",
        "",
    ]
    return "\n".join(lines)


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
