"""The processes of a dataflow region: each is a function that is checked by itself.

Vitis HLS schedules processes apart from each other, too. Inlined into one function, those of a large region would be
more code than scalar evolution gets through.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from . import ir
from .instances import options_of
from .plan import Passed, Probe
from .source import PROBE
from .translation import Compiled

_MOST_DEEP = 8
_NO_WRITE = re.compile(rf"llvm\.|{PROBE}$")
_VARIABLE = "__hls_check8variable"  # as it is mangled


@dataclass
class Process:
    """A process of a dataflow region.

    symbol: of its function.
    pragmas: of the region about its parameters, by the parameters' positions.
    passed: the variables that the parameters refer to.
    only: functions whose loops count, all if empty. A loop in the region itself is a process, too; the function of the
    region is inlined for it.
    """

    symbol: str
    pragmas: dict[int, list[Probe]] = field(default_factory=dict)
    passed: dict[int, Passed] = field(default_factory=dict)
    only: frozenset[str] = frozenset()


def processes(unit: Compiled, top: str) -> list[Process]:
    """The processes that the region in `top` calls, in the order of the calls; empty without a region.

    A function that is inlined (`#pragma HLS inline`) is part of the region, and so are those that it calls.
    """
    module = unit.module
    symbol = unit.symbol_of(top)
    function = module.function(symbol)
    if function is None or not _says(unit, function, "dataflow"):
        return []
    with_loops = {loop.function for loop in (*unit.source.loops.values(), *unit.source.pipelined.values())}
    found: dict[str, Process] = {}
    ports = {
        place: Passed(name[1:], "", True) for place, (name, kind) in enumerate(function.parameters) if kind == "ptr"
    }
    regions = {name_of(module, symbol)}
    _collect(unit, module, function, {}, ports, with_loops, found, regions, 0)
    own = frozenset(name for name in regions if name.partition("<")[0] in with_loops)
    _share(found.values())
    return [*found.values(), *([Process(symbol, only=own)] if own else [])]


def _share(found: Collection[Process]) -> None:
    """Takes note of the parameters of a region that several processes have."""
    users = Counter(name for process in found for name in {to.name for to in process.passed.values() if to.port})
    for process in found:
        process.passed = {
            place: replace(to, shared=to.port and users[to.name] > 1) for place, to in process.passed.items()
        }


def name_of(module: ir.Module, symbol: str) -> str:
    """A function's name in the source, by its debug information."""
    line = re.search(rf'^define [^\n]*@"?{re.escape(symbol)}"?\([^\n]*!dbg !(\d+)', module.text, re.M)
    name = re.search(r'name: "([^"]*)"', module.metadata.get(int(line[1]), "")) if line else None
    return name[1] if name else symbol


def _collect(
    unit: Compiled, module: ir.Module, function: ir.Function, given: dict[int, list[Probe]], ports: dict[int, Passed],
    with_loops: set[str], found: dict[str, Process], regions: set[str], depth: int,
) -> None:  # fmt: skip
    """given: pragmas about the function's parameters.

    ports: the variables that the parameters refer to.
    regions: functions that are part of the region.
    """
    known = set(module.names())
    pragmas = _pragmas_of_values(unit, function, given)
    leads = _leads(function, ports)
    # Of a table that begins with other values than zeros clang writes a structure, whose shape is not the array's.
    for i in function.instructions():
        if i.opcode not in ("call", "invoke") or i.callee not in known or i.callee in found:
            continue
        tables = {value: _table(module, value) for value in i.operands if value in module.globals}
        called = module.function(i.callee)
        if called is None:
            continue
        passed = {place: pragmas[value] for place, value in enumerate(i.operands) if value in pragmas}
        to = {place: leads[value] for place, value in enumerate(i.operands) if value in leads}
        to |= {place: tables[value] for place, value in enumerate(i.operands) if value in tables}
        if _says(unit, called, "inline") and depth < _MOST_DEEP:
            regions.add(name_of(module, called.name))
            _collect(unit, module, called, passed, to, with_loops, found, regions, depth + 1)
        elif _loops_in(module, called, known, with_loops, set()):
            found[i.callee] = Process(i.callee, passed, to)


def _table(module: ir.Module, name: str) -> Passed:
    """What a global leads to: a table of constants also if it is not `const`, but nothing in the design writes it, as
    weights that hls4ml generates."""
    held = module.globals[name]
    users = [user for user, text in module.definitions().items() if name in text["body"]]
    constant = held.constant or not any(_writes(module, user, name, set()) for user in users)
    # Of a table that begins with other values than zeros clang writes a structure, whose shape is not the array's.
    return Passed(name[1:], held.type if held.type.startswith("[") else "", False, constant)


def _writes(module: ir.Module, user: str, value: str, seen: set[tuple[str, str]]) -> bool:
    """Whether a function, or one that it calls, may write through a pointer of it."""
    function = module.function(user)
    if function is None:
        return not _NO_WRITE.match(user)
    if (user, value) in seen:
        return False
    seen.add((user, value))
    pointers, variables = {value}, set()
    for i in function.instructions():
        used = pointers & {*i.operands, i.pointer or ""}
        if i.opcode == "load" and i.pointer in variables and i.name:
            pointers.add(i.name)
        elif i.opcode == "store" and i.operands[0] in pointers and i.pointer and i.pointer not in pointers:
            variables.add(i.pointer)  # a parameter into its variable
        elif i.opcode == "store" and used:
            return True
        elif i.opcode in ("getelementptr", "bitcast") and used and i.name:
            pointers.add(i.name)
        elif i.opcode in ("call", "invoke") and used:
            called = module.function(i.callee or "")
            if called is None:  # of copies the first operand is written
                if not _NO_WRITE.match(i.callee or "") or i.operands[0] in used:
                    return True
                continue
            for place, (parameter, _) in enumerate(called.parameters):
                if i.operands[place] in pointers and _writes(module, called.name, parameter, seen):
                    return True
        elif i.opcode not in ("load", "icmp") and (used or (value[0] == "@" and value in i.text)):
            return True
    return False


def _leads(function: ir.Function, ports: dict[int, Passed]) -> dict[str, Passed]:
    """What the pointers of a region lead to: its own arrays, or what it was given."""
    found = {name: ports[place] for place, (name, _) in enumerate(function.parameters) if place in ports}
    for i in function.instructions():
        if i.opcode == "alloca" and i.name and i.source_type and i.source_type.startswith("["):
            found[i.name] = Passed(i.name[1:], i.source_type, False)
        elif i.opcode == "store" and i.operands[0] in found and i.pointer:
            found[i.pointer] = found[i.operands[0]]
        elif i.opcode == "load" and i.pointer in found and i.name and i.type == "ptr":
            found[i.name] = found[i.pointer]
        elif i.opcode == "getelementptr" and i.name and i.operands[0] in found:
            one = found[i.operands[0]]
            levels = len(i.operands) - 2  # the decay of an array to its first element
            inside = one.type if i.source_type == one.type and not any(o.strip("0") for o in i.operands[1:]) else ""
            found[i.name] = one if inside or one.port else Passed(one.name, _within(one.type, levels), False)
    return found


def _within(type: str, levels: int) -> str:
    for _ in range(levels):
        inner = re.fullmatch(r"\[\d+ x (.*)\]", type)
        type = inner[1] if inner else type
    return type


def _pragmas_of_values(unit: Compiled, function: ir.Function, given: dict[int, list[Probe]]) -> dict[str, list[Probe]]:
    """What pragmas say of a function's variables, by their values."""
    found: dict[str, list[Probe]] = {}
    for place, (name, _) in enumerate(function.parameters):
        if place in given:
            found[name] = given[place]
    loaded: dict[str, str] = {}  # a parameter is read from its variable for each use
    for i in function.instructions():
        if i.opcode == "load" and i.type == "ptr" and i.name and i.pointer:
            loaded[i.name] = i.pointer
        if i.opcode == "store" and i.operands[0] in found and i.pointer:  # a parameter into its variable
            found[i.pointer] = found[i.operands[0]]
        elif i.opcode == "load" and i.pointer in found and i.name and i.type == "ptr":
            found[i.name] = found[i.pointer]
        elif i.opcode == "getelementptr" and i.operands[0] in found and i.name:
            if not any(index.strip("0") for index in i.operands[1:]):  # an array as a pointer to its first element
                found[i.name] = found[i.operands[0]]
        elif _VARIABLE in (i.callee or "") and len(i.operands) > 2 and i.operands[0].isdigit():
            pragma = unit.source.pragmas.get(int(i.operands[0]))
            if pragma is not None:
                one = Probe(pragma, None, 0, options_of(i), (), 0, "")
                found.setdefault(loaded.get(i.operands[1], i.operands[1]), []).append(one)
    return found


def _says(unit: Compiled, function: ir.Function, kind: str) -> bool:
    """Whether a pragma of this kind stands directly in a function."""
    for i in function.instructions():
        if i.callee == PROBE and i.operands and i.operands[0].isdigit():
            pragma = unit.source.pragmas.get(int(i.operands[0]))
            if pragma is not None and pragma.kind == kind and "off" not in pragma.words:
                return True
    return False


def _loops_in(module: ir.Module, function: ir.Function, known: set[str], with_loops: set[str], seen: set[str]) -> bool:
    """Whether a function or one that it calls has loops in the source."""
    if function.name in seen:
        return False
    seen.add(function.name)
    if name_of(module, function.name).partition("<")[0] in with_loops:  # an instance of a template has its arguments
        return True
    for i in function.instructions():
        if i.opcode in ("call", "invoke") and i.callee in known:
            called = module.function(i.callee)
            if called is not None and _loops_in(module, called, known, with_loops, seen):
                return True
    return False
