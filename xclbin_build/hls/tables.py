"""Arrays that a function fills with constants before it reads them: tables, which Vitis HLS makes ROMs of.

By UG1399, "Implementing ROMs", that takes values made of constants and loop counters alone, and no write once it has
been read; by "ROM Optimization" an array need not be `static`. So hardware has no loops that fill it. Here the
writes are removed, and a call in front of them stands for the resulting values. Code that only they used is removed.
Tables of functions as hls4ml has them, and those of `math.h`, are of this kind.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict

from . import cfg, ir
from .arrays import COMPLETE_THRESHOLD, extents_of
from .source import PROBE, MarkedSource

TABLE = "__hls_keep_table"  # a call that stands for what fills a table
_DECLARATION = f"\ndeclare void @{TABLE}(ptr) nounwind willreturn memory(argmem: write)\n"
_CALL = re.compile(rf'call void @{TABLE}\(ptr ([%@](?:"[^"]*"|[\w.$\-]+))\)')
_VALUES = ir.BINARY | ir.CASTS | {"icmp", "fcmp", "select", "fneg", "extractvalue", "insertvalue", "getelementptr"}
_GLOBAL = re.compile(r'@(?:"[^"]*"|[\w.$\-]+)')
_NO_CODE = re.compile(r"[@!]|\s*#dbg")
_NO_ACCESS = re.compile(rf"{PROBE}$|llvm\.lifetime")
_NO_VALUE = re.compile(r"llvm\.mem|__hls_")  # calls whose result is not that of their operands alone


def marked_tables(text: str) -> set[str]:
    """Tables of a text that `drop_constant_writes` has given back, by their values."""
    return set(_CALL.findall(text))


def drop_constant_writes(text: str, symbol: str, source: MarkedSource) -> str:
    """The IR of a function, in which everything is inlined and nothing unrolled, without the writes of constants that
    fill arrays. Those that become registers are left as they are, by a pragma or as they are small: their values are
    known where they are read."""
    module = ir.parse(text)
    function = module.function(symbol)
    if function is None or not function.blocks:
        return text
    search = _Search(module, function, source)
    gone: set[str] = set()
    tables: list[str] = []
    for array in search.candidates():
        writes = search.writes_of_constants(array)
        if writes:
            gone |= {write.text for write in writes}
            tables.append(array)
    return _drop_writes(text, symbol, gone, tables) if tables else text


def _drop_writes(text: str, symbol: str, gone: set[str], tables: list[str]) -> str:
    start = re.search(rf'^define [^\n]*@"?{re.escape(symbol)}"?\(', text, re.M)
    assert start is not None  # the function was found
    end = text.index("\n}", start.start())
    lines: list[str] = []
    waiting = [table for table in tables if table[0] == "@"]
    for line in text[start.start() : end].split("\n"):
        if line.strip() in gone:
            continue
        if waiting and line.startswith("  "):
            lines += [f"  call void @{TABLE}(ptr {table})" for table in waiting]
            waiting = []
        lines.append(line)
        alloca = re.match(r'\s+(%(?:"[^"]*"|[\w.$\-]+)) = alloca ', line)
        if alloca and alloca[1] in tables:
            lines.append(f"  call void @{TABLE}(ptr {alloca[1]})")
    return text[: start.start()] + "\n".join(lines) + text[end:] + _DECLARATION


class _Search:
    def __init__(self, module: ir.Module, function: ir.Function, source: MarkedSource) -> None:
        self._module = module
        self._source = source
        self._function = function
        self._flow = cfg.analyse(function)
        self._definitions = function.definitions()
        self._users: dict[str, list[ir.Instruction]] = defaultdict(list)
        for instruction in function.instructions():
            for value in instruction.values:
                self._users[value].append(instruction)

    def candidates(self) -> list[str]:
        """Arrays of the function, `static` ones included, that are no few registers."""
        arrays = {i.name: i.source_type or "" for i in self._function.instructions() if i.opcode == "alloca" and i.name}
        code = "\n".join(line for line in self._module.text.split("\n") if not _NO_CODE.match(line))
        named = Counter(_GLOBAL.findall(code))
        for held in self._module.globals.values():
            # By no other function, and not in an expression.
            used = sum(instruction.values.count(held.name) for instruction in self._users[held.name])
            if used and used == named[held.name] and not held.constant:
                arrays[held.name] = held.type
        return [name for name, kind in arrays.items() if math.prod(extents_of(kind)[0]) > COMPLETE_THRESHOLD]

    def writes_of_constants(self, array: str) -> list[ir.Instruction]:
        """What writes an array, if that are constants only, in loops in front of all that reads it; else none."""
        accesses = self._accesses(array)
        if accesses is None:
            return []
        writes, reads = accesses
        if not all(self._is_fixed(value) for write in writes for value in write.values):
            return []
        loops = [self._filling(write, reads) for write in writes]
        found = [loop for loop in loops if loop is not None]
        first = all(self._flow.dominates(loop.header, read.block) for loop in found for read in reads)
        return writes if found and len(found) == len(writes) and reads and first else []

    def _accesses(self, array: str) -> tuple[list[ir.Instruction], list[ir.Instruction]] | None:
        """Stores to an array and loads from it; None if a pragma divides it, or it is used in another way, too."""
        writes: list[ir.Instruction] = []
        reads: list[ir.Instruction] = []
        pointers = [array]
        for pointer in pointers:
            for user in self._users[pointer]:
                if user.block not in self._flow.number or _NO_ACCESS.match(user.callee or ""):
                    if self._divides(user):
                        return None
                    continue
                if user.opcode == "getelementptr" and user.name and user.operands[0] == pointer:
                    pointers.append(user.name)
                elif user.opcode == "load":
                    reads.append(user)
                elif user.opcode == "store" and pointer not in user.operands:
                    writes.append(user)
                else:
                    return None
        return writes, reads

    def _divides(self, probe: ir.Instruction) -> bool:
        number = probe.operands[0] if probe.callee == PROBE else ""
        pragma = self._source.pragmas.get(int(number)) if number.isdigit() else None
        return pragma is not None and pragma.kind in ("array_partition", "array_reshape")

    def _filling(self, write: ir.Instruction, reads: list[ir.Instruction]) -> cfg.Loop | None:
        """The outermost loop around a write in which the counters of its own loops decide everything, and nothing reads
        the array; None where what is written, or where, depends on anything else."""
        loop = self._flow.around(write.block)
        if loop is None:
            return None
        outermost: cfg.Loop | None = None
        for around in [loop, *self._flow.ancestors(loop)]:
            if any(read.block in around.blocks for read in reads):
                break
            ends = [self._flow.terminator(block) for block in around.blocks]
            deciding = [value for end in ends for value in end.values] + write.values
            if all(self._is_fixed(value, around) for value in deciding):
                outermost = around
        return outermost

    def _is_fixed(self, value: str, loop: cfg.Loop | None = None) -> bool:
        """Whether a value is made of constants and of counters of a loop, or of loops in it; None: of any loops."""
        seen: set[str] = set()
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if one[:1] != "%" or one in seen:
                continue
            seen.add(one)
            made = self._definitions.get(one)
            if made is None:
                return False  # a parameter
            if made.opcode == "phi":
                fixed = loop is None or made.block in loop.blocks
            elif made.opcode == "call":
                fixed = made.type != "ptr" and _NO_VALUE.match(made.callee or "__hls_") is None
            elif made.opcode == "load":
                table = self._module.globals.get(self._base(made.pointer or ""))
                fixed = table is not None and table.constant
            else:
                fixed = made.opcode in _VALUES or made.opcode == "alloca"
            if not fixed:
                return False
            waiting += made.values
        return True

    def _base(self, pointer: str) -> str:
        made = self._definitions.get(pointer)
        while made is not None and made.opcode == "getelementptr":
            pointer = made.operands[0]
            made = self._definitions.get(pointer)
        return pointer
