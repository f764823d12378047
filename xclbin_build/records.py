"""Parses C++ headers for what Python must know of them: command records, enums, constants, and a core's first line.

`command.hpp`, with the record.hpp of each core that it includes, is the only definition of the command record; this
module turns it, and the headers of user cores, into tables. It understands the narrow form that those headers keep to:
one scalar or array field of a known type a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .errors import RecordError
from .names import IDENTIFIER

COMMAND_WORDS = 64
FIELD_TYPES = ("int32_t", "uint32_t", "place_t", "float")
_WORD_TYPES = {"place_t": "uint32_t"}
"""What a field's word is, where a core has the field in a wider type."""
_LEADING_FIELDS = ("opcode", "slices")

_CORE_LINE = re.compile(r"//\s*core:\s*(?P<core>\w+)\s*;\s*opcodes:\s*(?P<opcodes>[\w\s,]+?)\s*$")
_INCLUDE = re.compile(r'^\s*#\s*include\s*"(?P<path>[^"]+)"')
ELEMENT_OPERANDS = ("weights", "activations")
"""Kinds of operands of which a core says what their elements may be: packed weights; what lies in the arena."""

_ELEMENTS_LINE = re.compile(
    rf"//\s*(?P<operand>{'|'.join(ELEMENT_OPERANDS)}) of (?P<opcode>\w+):\s*(?P<elements>[\w\s,]+?)\s*$"
)
_CONSTANT = re.compile(
    r"^\s*(?:static\s+|inline\s+)*constexpr\s+(?:unsigned\s+)?\w+\s+(?P<name>\w+)\s*=\s*(?P<value>[^;]+);"
)
_ENUM = re.compile(r"^\s*enum\s+(?:class\s+)?(?P<name>\w+)\s*:\s*u?int32_t\s*\{(?P<rest>.*)$")
_STRUCT = re.compile(r"^\s*struct\s+(?P<name>\w+)_command\s*\{(?P<rest>.*)$")
_FIELD = re.compile(r"^\s*(?P<type>[\w:]+)\s+(?P<name>\w+)\s*(?:\[\s*(?P<count>\w+)\s*\])?\s*;\s*$")
_INTEGER = re.compile(r"^(?P<digits>0[xX][0-9a-fA-F]+|\d+)[uUlL]*$")


@dataclass(frozen=True)
class Field:
    """A field of a record: `count` consecutive words from word `word` on, of C type `type`."""

    name: str
    type: str
    word: int
    count: int
    array: bool = False


@dataclass(frozen=True)
class Record:
    """What the words of a command mean for one opcode; `name` is the struct's name without `_command`."""

    name: str
    fields: tuple[Field, ...]
    header: str
    line: int

    @property
    def words(self) -> int:
        """How many words the record uses, of COMMAND_WORDS."""
        last = self.fields[-1]
        return last.word + last.count


@dataclass
class Header:
    """Tables of one header, or of several merged: constants, enums and records by name."""

    constants: dict[str, int] = field(default_factory=dict)
    enums: dict[str, dict[str, int]] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)

    def merge(self, other: Header, where: str) -> Header:
        """Both tables in one; a name that both define is a RecordError that names `where`."""
        result = Header(dict(self.constants), dict(self.enums), dict(self.records))
        for kind in ("enums", "records"):
            mine, theirs = getattr(result, kind), getattr(other, kind)
            for name in theirs:
                if name in mine:
                    raise RecordError(
                        f"{where}: {kind[:-1]} '{name}' is already defined elsewhere; give it another name."
                    )
            mine.update(theirs)
        result.constants.update(other.constants)
        return result


@dataclass(frozen=True)
class CoreLine:
    """The first line of a core's header: `// core: conv2d; opcodes: conv2d, depthwise`.

    elements: for each of ELEMENT_OPERANDS what the operands of an opcode may be, from lines
    `// weights of conv2d: F32, BF16` behind it, by the names of command.hpp's element_format; an opcode that has none
    takes elements of four bytes.
    """

    core: str
    opcodes: tuple[str, ...]
    elements: dict[str, dict[str, tuple[str, ...]]] = field(
        default_factory=lambda: {operand: {} for operand in ELEMENT_OPERANDS}
    )


def parse_integer(text: str) -> int | None:
    """Value of an integer literal or a product of them (`96 * 1024`), else None."""
    value = 1
    for factor in text.split("*"):
        match = _INTEGER.match(factor.strip().strip("()").strip())
        if not match:
            return None
        value *= int(match["digits"], 0) if match["digits"][:2].lower() == "0x" else int(match["digits"])
    return value


def parse_core_line(path: Path) -> CoreLine:
    """Name and opcodes of the core in the header `path`, from the line that says so."""
    for line in _read(path).splitlines():
        match = _CORE_LINE.match(line.strip())
        if match:
            opcodes = tuple(part.strip() for part in match["opcodes"].split(","))
            repeated = sorted({name for name in opcodes if opcodes.count(name) > 1})
            if repeated or not all(IDENTIFIER.allows(name) for name in opcodes):
                raise RecordError(f"{path}: the core line must list distinct opcode names, not '{match['opcodes']}'.")
            if not IDENTIFIER.allows(match["core"]):
                raise RecordError(f"{path}: the core's name must be {IDENTIFIER.rule}, not '{match['core']}'.")
            return CoreLine(match["core"], opcodes, _elements(path, opcodes))
    raise RecordError(
        f"{path}: the line '// core: NAME; opcodes: NAME, NAME', which lists the opcodes of this core, is missing; add "
        "it at the top."
    )


def _elements(path: Path, opcodes: tuple[str, ...]) -> dict[str, dict[str, tuple[str, ...]]]:
    elements: dict[str, dict[str, tuple[str, ...]]] = {operand: {} for operand in ELEMENT_OPERANDS}
    for line in _read(path).splitlines():
        if match := _ELEMENTS_LINE.match(line.strip()):
            operand, opcode = match["operand"], match["opcode"]
            if opcode not in opcodes:
                raise RecordError(f"{path}: {operand} of '{opcode}', which is not an opcode of the core.")
            elements[operand][opcode] = tuple(part.strip() for part in match["elements"].split(","))
    return elements


def parse_tiles(path: Path) -> dict[str, int]:
    """Tile constants of a `tiles.hpp`, in the order of the file; every constexpr there must have a literal value."""
    tiles: dict[str, int] = {}
    for number, line in _code_lines(_read(path)):
        match = _CONSTANT.match(line)
        if not match:
            continue
        value = parse_integer(match["value"])
        if value is None:
            raise RecordError(f"{path}:{number}: '{match['name']}' must be an integer literal, not '{match['value']}'.")
        if match["name"] in tiles:
            raise RecordError(f"{path}:{number}: tile constant '{match['name']}' is defined twice.")
        tiles[match["name"]] = value
    return tiles


def parse_command(path: Path) -> Header:
    """Tables of a `command.hpp` and of the headers that it includes by their path from its folder.

    Raises RecordError as `parse_header` does, and for a record or enum that two of these headers define.
    """
    result = parse_header(path)
    for _, line in _code_lines(_read(path)):
        if match := _INCLUDE.match(line):
            included = path.parent / match["path"]
            result = result.merge(parse_header(included), str(included))
    return result


def parse_header(path: Path) -> Header:
    """Tables of one header.

    Raises RecordError, with file and line, for a record over COMMAND_WORDS words, a field of unknown type or size, a
    name defined twice, or an enum value that is no integer.
    """
    header = Header()
    lines = iter(_code_lines(_read(path)))
    for number, line in lines:
        where = f"{path}:{number}"
        if match := _STRUCT.match(line):
            if match["name"] in header.records:
                raise RecordError(f"{where}: record '{match['name']}' is defined twice.")
            body = _body(where, match["rest"], lines)
            header.records[match["name"]] = _record(match["name"], path, number, body, header.constants)
        elif match := _ENUM.match(line):
            if match["name"] in header.enums:
                raise RecordError(f"{where}: enum '{match['name']}' is defined twice.")
            header.enums[match["name"]] = _enum(path, _body(where, match["rest"], lines, number))
        elif match := _CONSTANT.match(line):
            literal = match["value"].strip()
            value = parse_integer(literal.removeprefix("-"))
            if value is not None:  # other constants are the core's own business
                header.constants[match["name"]] = -value if literal.startswith("-") else value
    return header


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read: {error}.") from error


def _code_lines(text: str) -> list[tuple[int, str]]:
    """Numbered lines without comments; block comments become blanks so that the numbers stay right."""
    text = re.sub(r"/\*.*?\*/", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    return [(number, re.sub(r"//.*", "", line).rstrip()) for number, line in enumerate(text.splitlines(), 1)]


def _body(where: str, first: str, lines: Iterable[tuple[int, str]], number: int = 0) -> list[tuple[int, str]]:
    """Lines between an opening brace, after which `first` stands, and the closing one."""
    body: list[tuple[int, str]] = []
    if "}" in first:
        return [(number, first.split("}")[0])]
    if first.strip():
        body.append((number, first))
    for line_number, line in lines:
        if "}" in line:
            body.append((line_number, line.split("}")[0]))
            return body
        body.append((line_number, line))
    raise RecordError(f"{where}: the closing brace is missing.")


def _record(name: str, path: Path, line: int, body: list[tuple[int, str]], constants: dict[str, int]) -> Record:
    fields: list[Field] = []
    word = 0
    for number, text in body:
        if not text.strip():
            continue
        where = f"{path}:{number or line}"
        match = _FIELD.match(text)
        if not match:
            raise RecordError(
                f"{where}: '{text.strip()}' is not 'TYPE NAME;' or 'TYPE NAME[COUNT];', one field per line."
            )
        if match["type"] not in FIELD_TYPES:
            raise RecordError(
                f"{where}: field '{match['name']}' has type '{match['type']}'; use {', '.join(FIELD_TYPES)}."
            )
        if any(match["name"] == known.name for known in fields):
            raise RecordError(f"{where}: field '{match['name']}' of record '{name}' is defined twice.")
        count = 1
        if match["count"] is not None:
            value = constants.get(match["count"], parse_integer(match["count"]))
            if not value or value < 1:
                raise RecordError(f"{where}: field '{match['name']}' has no positive literal size.")
            count = value
        word_type = _WORD_TYPES.get(match["type"], match["type"])
        fields.append(Field(match["name"], word_type, word, count, match["count"] is not None))
        word += count
        if word > COMMAND_WORDS:
            raise RecordError(
                f"{where}: record '{name}' needs more than {COMMAND_WORDS} words; move data into the commands region."
            )
    leading = tuple(entry.name for entry in fields[:2] if entry.type == "int32_t" and entry.count == 1)
    if leading != _LEADING_FIELDS:
        raise RecordError(f"{path}:{line}: record '{name}' must begin with 'int32_t opcode;' and 'int32_t slices;'.")
    return Record(name, tuple(fields), path.name, line)


def _enum(path: Path, body: list[tuple[int, str]]) -> dict[str, int]:
    members: dict[str, int] = {}
    following = 0
    for number, text in body:
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, literal = (piece.strip() for piece in part.partition("="))
            value = parse_integer(literal) if literal else following
            if value is None or not name.isidentifier():
                raise RecordError(f"{path}:{number}: '{part}' is not 'NAME' or 'NAME = integer'.")
            if name in members:
                raise RecordError(f"{path}:{number}: enum value '{name}' is defined twice.")
            members[name] = value
            following = value + 1
    return members
