"""LLVM's IR as text, read into modules, functions, blocks and instructions.

It reads what `opt -S` of LLVM 19 prints; nothing is computed here. Types stay text (`i32`, `[4 x float]`), values keep
their sigils (`%x`, `@table`, `4`, `0x3FF0000000000000`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

NAME = r'(?:"[^"]*"|[\w.$\-]+)'  # without its @ or %
_VALUE = re.compile(rf"[%@]{NAME}")
_LABEL = re.compile(rf"label %({NAME})")
_INTEGER = re.compile(r"-?\d+")
_DEFINITION = re.compile(rf"^define\b[^\n]*?@({NAME})\((?P<parameters>[^\n]*)\{{\n(?P<body>.*?)^\}}", re.M | re.S)
_GLOBAL = re.compile(rf"^@({NAME}) = (?P<words>[^\n]*?)\b(?P<kind>global|constant) (?P<rest>[^\n]*)", re.M)
_METADATA = re.compile(r"^!(\d+) = (?:distinct )?(.*)$", re.M)
_STRUCT = re.compile(rf"^%({NAME}) = type (.*)$", re.M)
_FLAGS = re.compile(
    r"^(?:(?:nuw|nsw|exact|disjoint|nneg|inbounds|nusw|samesign|fast|nnan|ninf|nsz|arcp|contract|reassoc|afn|volatile|"
    r"atomic|inrange\([^)]*\))\s+)+"
)
BINARY = frozenset({
    "add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr", "and", "or", "xor",
    "fadd", "fsub", "fmul", "fdiv", "frem",
})  # fmt: skip
CASTS = frozenset({
    "zext", "sext", "trunc", "fpext", "fptrunc", "fptosi", "fptoui", "sitofp", "uitofp", "ptrtoint", "inttoptr",
    "bitcast", "addrspacecast", "freeze",
})  # fmt: skip


@dataclass
class Instruction:
    """One instruction.

    name: its value (`%x`), None without one.
    type: that of its value, of the stored value for a store, of the operands for a compare.
    operands: values in textual order, constants included; the pointer of a load or store is `pointer`.
    callee: of a call, without its sigil.
    incoming: of a phi, value by block.
    """

    name: str | None
    opcode: str
    type: str
    operands: list[str]
    text: str
    block: str
    debug: int | None = None
    pointer: str | None = None
    callee: str | None = None
    source_type: str | None = None
    incoming: list[tuple[str, str]] = field(default_factory=list)

    @property
    def values(self) -> list[str]:
        """Operands that instructions, arguments or globals give, the pointer included."""
        found = [o for o in self.operands if o[:1] in "%@"]
        return [*found, self.pointer] if self.pointer and self.pointer[:1] in "%@" else found


@dataclass
class Function:
    """parameters: (name, type) in order. blocks: instructions by label, in the order of the text."""

    name: str
    parameters: list[tuple[str, str]]
    blocks: dict[str, list[Instruction]]
    _definitions: dict[str, Instruction] = field(default_factory=dict, repr=False)  # once they are asked for

    def instructions(self) -> Iterator[Instruction]:
        for block in self.blocks.values():
            yield from block

    def definitions(self) -> dict[str, Instruction]:
        """Instructions by their values."""
        if not self._definitions:
            self._definitions = {i.name: i for i in self.instructions() if i.name}
        return self._definitions


@dataclass(frozen=True)
class Global:
    """type: of its value. constant: whether nothing writes it. debug: its metadata's number."""

    name: str
    type: str
    constant: bool
    debug: int | None = None


@dataclass
class Module:
    text: str
    globals: dict[str, Global]
    structs: dict[str, str]
    metadata: dict[int, str]
    _definitions: dict[str, re.Match[str]] = field(default_factory=dict, repr=False)  # once they are asked for

    def definitions(self) -> dict[str, re.Match[str]]:
        """The text of each function, with its `parameters` and its `body`."""
        if not self._definitions:
            self._definitions = {match[1].strip('"'): match for match in _DEFINITION.finditer(self.text)}
        return self._definitions

    def function(self, name: str) -> Function | None:
        """The definition of a function; None if it is not defined."""
        match = self.definitions().get(name)
        return Function(name, _parameters(match["parameters"]), blocks_of(match["body"])) if match else None

    def names(self) -> list[str]:
        return list(self.definitions())

    def places_of(self, debug: int | None) -> list[tuple[str, int]]:
        """File and line of a location, and of the calls that it was inlined through, innermost first."""
        return [(self._file(scope), line) for scope, line in self._locations(debug)]

    def calls_to(self, debug: int | None) -> list[tuple[str, int]]:
        """Functions that a location was inlined through, innermost first, with the line in each."""
        return [(self._function(scope), line) for scope, line in self._locations(debug)]

    def _locations(self, debug: int | None) -> Iterator[tuple[int, int]]:
        """Scope and line of a location, by its metadata's number, and of the calls that it was inlined through."""
        while debug is not None:
            words = self.metadata.get(debug, "")
            line, scope = re.search(r"DILocation\(line: (\d+)", words), re.search(r"scope: !(\d+)", words)
            if not line or not scope:
                return
            yield int(scope[1]), int(line[1])
            outer = re.search(r"inlinedAt: !(\d+)", words)
            debug = int(outer[1]) if outer else None

    def _file(self, scope: int) -> str:
        for words in self._scopes(scope):
            if match := re.search(r"\bfile: !(\d+)", words):
                name = re.search(r'filename: "([^"]*)"', self.metadata.get(int(match[1]), ""))
                return name[1] if name else ""
        return ""

    def _function(self, scope: int) -> str:
        for words in self._scopes(scope):
            if "DISubprogram" in words:
                name = re.search(r'name: "([^"]*)"', words)
                return name[1] if name else ""
        return ""

    def _scopes(self, scope: int) -> Iterator[str]:
        """The words of a scope and of those around it, innermost first."""
        for _ in range(64):
            words = self.metadata.get(scope, "")
            yield words
            outer = re.search(r"\bscope: !(\d+)", words)
            if not outer:
                return
            scope = int(outer[1])

    def size_of(self, type: str) -> int:
        """Bytes of a type in memory, as the x86-64 data layout has it."""
        return self._layout(type)[0]

    def offsets(self, type: str) -> list[tuple[int, str]]:
        """Offset in bytes and type of each member of a structure."""
        body = self.structs.get(type.removeprefix("%").strip('"'), type).strip()
        packed = body.startswith("<{")
        members = split(body.strip("<>").strip()[1:-1])
        found, at = [], 0
        for member in members:
            size, align = self._layout(member)
            at = at if packed else -(-at // align) * align
            found.append((at, member))
            at += size
        return found

    def _layout(self, type: str) -> tuple[int, int]:
        """Size and alignment of a type in bytes."""
        type = type.strip()
        if match := re.fullmatch(r"i(\d+)", type):
            bits = int(match[1])
            size = 1 << max(0, (-(-bits // 8) - 1).bit_length())
            # _BitInt beyond 64 bits is stored in whole words of 8 bytes.
            return (size, size) if bits <= 64 else (-(-bits // 64) * 8, 8 if bits > 64 else size)
        if type in _SIZES:
            return _SIZES[type], _SIZES[type]
        if match := re.fullmatch(r"[\[<](\d+) x (.*)[\]>]", type):
            size, align = self._layout(match[2])
            total = int(match[1]) * size
            return total, align if type[0] == "[" else max(align, total)
        if type[:1] == "%" or type[:1] in "{<":
            if type[:1] == "%" and type[1:].strip('"') not in self.structs:
                return 8, 8
            members = self.offsets(type)
            if not members:
                return 1, 1
            last, member = members[-1]
            align = max(self._layout(m)[1] for _, m in members)
            end = last + self._layout(member)[0]
            packed = self.structs.get(type.removeprefix("%").strip('"'), type).lstrip().startswith("<{")
            return (end, 1) if packed else (-(-end // align) * align, align)
        return 8, 8


_SIZES = {"float": 4, "double": 8, "half": 2, "bfloat": 2, "ptr": 8, "x86_fp80": 16}


def bits_of(type: str) -> int:
    """Width of a scalar type in bits; 0 for anything else."""
    if match := re.fullmatch(r"i(\d+)", type):
        return int(match[1])
    return {"float": 32, "double": 64, "half": 16, "bfloat": 16, "ptr": 64}.get(type, 0)


def is_number(operand: str) -> bool:
    """Whether an operand is an integer."""
    return _INTEGER.fullmatch(operand) is not None


def parse(text: str) -> Module:
    """Reads a module; its functions are read when they are asked for."""
    variables = {}
    for match in _GLOBAL.finditer(text):
        kind = type_at(match["rest"])[0]
        debug = re.search(r", !dbg !(\d+)", match["rest"])
        variables["@" + match[1]] = Global(
            "@" + match[1], kind, match["kind"] == "constant", int(debug[1]) if debug else None
        )
    metadata = {int(match[1]): match[2] for match in _METADATA.finditer(text)}
    structs = {match[1].strip('"'): match[2] for match in _STRUCT.finditer(text)}
    return Module(text, variables, structs, metadata)


def split(text: str) -> list[str]:
    """Parts between commas that stand outside of brackets and quotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{<":
            depth += 1
        elif c in ")]}>":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def split_at_bracket(text: str) -> tuple[str, str]:
    """What stands before the bracket that closes an opened one, and what stands behind it."""
    depth = 1
    for at, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[:at], text[at + 1 :]
    return text, ""


def labels(terminator: Instruction) -> list[str]:
    """Blocks that a terminator leads to."""
    return [match.strip('"') for match in _LABEL.findall(terminator.text)]


def _parameters(text: str) -> list[tuple[str, str]]:
    depth, end = 1, 0
    for end, c in enumerate(text):  # noqa: B007 - used behind the loop
        depth += (c == "(") - (c == ")")
        if depth == 0:
            break
    found = []
    for part in split(text[:end]):
        name = re.search(rf"(%{NAME})$", part)
        if name:
            found.append((name[1], type_at(part)[0]))
    return found


def blocks_of(body: str) -> dict[str, list[Instruction]]:
    """Instructions by label, from the text between a function's braces."""
    # A switch is printed over several lines.
    body = re.sub(r"(switch [^\n\[]*\[)\n(.*?)\]", lambda m: m[1] + m[2].replace("\n", " ") + "]", body, flags=re.S)
    blocks: dict[str, list[Instruction]] = {}
    current = ""
    for line in body.split("\n"):
        if not line or line[0] == ";":
            continue
        if line[0] != " ":
            label = re.match(rf"({NAME}):", line)
            if label:
                current = label[1].strip('"')
                blocks[current] = []
            continue
        words = line.strip()
        if words.startswith(("#dbg", ";")):
            continue
        if not current:
            current = "0"
            blocks[current] = []
        blocks[current].append(_instruction(words, current))
    return blocks


def constant_expression(operand: str) -> Instruction | None:
    """A getelementptr that stands as an operand, as the instruction that it would be: a place in a global."""
    match = re.fullmatch(r"(getelementptr [^(]*)\((.*)\)", operand)
    return _instruction(f"{match[1]}{match[2]}", "") if match else None


def _instruction(text: str, block: str) -> Instruction:
    match = re.match(rf"(%{NAME}) = (.*)", text)
    name, rest = (match[1], match[2]) if match else (None, text)
    debug = re.search(r", !dbg !(\d+)", rest)
    core = re.split(r", ![a-z]", rest, maxsplit=1)[0]
    core = re.sub(r"^(?:tail|musttail|notail) ", "", core)
    opcode, _, tail = core.partition(" ")
    found = Instruction(name, opcode, "", [], text, block, int(debug[1]) if debug else None)
    _fill(found, tail.strip())
    return found


def _fill(i: Instruction, tail: str) -> None:
    tail = _FLAGS.sub("", tail)
    if i.opcode in BINARY:
        i.type, rest = type_at(tail)
        i.operands = split(rest)
    elif i.opcode in ("icmp", "fcmp"):
        _, _, tail = tail.partition(" ")
        i.type, rest = type_at(tail)
        i.operands = split(rest)
    elif i.opcode in CASTS:
        i.source_type, rest = type_at(tail)
        value, _, to = rest.rpartition(" to ")
        i.operands, i.type = ([value.strip()], to.strip()) if value else ([rest.strip()], i.source_type)
    elif i.opcode == "phi":
        i.type, rest = type_at(tail)
        for part in split(rest):
            value, _, label = part.strip("[] ").rpartition(",")
            i.incoming.append((value.strip(), label.strip().removeprefix("%").strip('"')))
        i.operands = [value for value, _ in i.incoming]
    elif i.opcode == "select":
        typed = [type_at(part) for part in split(tail)]
        i.type = typed[1][0]
        i.operands = [value for _, value in typed]
    elif i.opcode == "load":
        parts = split(tail)
        i.type, i.pointer = parts[0], type_at(parts[1])[1]
    elif i.opcode == "store":
        parts = split(tail)
        i.type, value = type_at(parts[0])
        i.operands, i.pointer = [value], type_at(parts[1])[1]
    elif i.opcode == "getelementptr":
        parts = split(tail)
        i.type, i.source_type = "ptr", parts[0]
        i.operands = [type_at(part)[1] for part in parts[1:]]
    elif i.opcode in ("call", "invoke"):
        match = re.match(rf"(.*?)(@{NAME}|%{NAME})\((.*)\)", tail)
        if match:
            i.callee = match[2][1:].strip('"')
            words = match[1].split()
            i.type = next((w for w in words if re.fullmatch(r"void|ptr|float|double|half|i\d+|[<{\[%].*", w)), "void")
            i.operands = [value.split()[-1] for part in split(match[3]) if (value := type_at(part)[1])]
    elif i.opcode == "alloca":
        i.type, i.source_type = "ptr", split(tail)[0]
    elif i.opcode in ("br", "switch", "ret"):
        first = split(tail)[0] if tail else ""
        i.type, value = type_at(first) if first and not first.startswith("label") else ("void", "")
        i.operands = [value.split()[0]] if value else []
    else:
        i.operands = _VALUE.findall(tail)
        i.type = type_at(tail)[0]


def type_at(text: str) -> tuple[str, str]:
    """The type that a text begins with, and the rest."""
    text = text.strip()
    if text[:1] in "[{<":
        depth = 0
        for at, c in enumerate(text):
            depth += (c in "[{<") - (c in "]}>")
            if depth == 0:
                return text[: at + 1], text[at + 1 :].strip()
    match = re.match(rf"%{NAME}|\S+", text)
    if not match:
        return "", ""
    return match[0].rstrip(","), text[match.end() :].strip()
