"""Arrays of the inlined IR, those within structures included, and how pragmas partition them."""

from __future__ import annotations

import re

from . import debug, ir, tables
from .arrays import Array, Kind, Member, Partition, extents_of
from .plan import Plan, Probe

_SMALL_BYTES = 1024  # of a structure whose arrays are taken as registers if no pragma says otherwise
_DECLARED = re.compile(r'#dbg_(declare|value)\(ptr ([%@](?:"[^"]*"|[\w.$\-]+)), !(\d+)')


def find_arrays(module: ir.Module, function: ir.Function, text: str, probes: list[Probe], plan: Plan) -> None:
    names: dict[str, str] = {}
    declared: dict[str, int] = {}  # the variable's metadata
    for how, value, number in re.findall(_DECLARED, text):
        variable = re.search(r'name: "([^"]*)"', module.metadata.get(int(number), ""))
        if variable:
            names.setdefault(value, variable[1])
        if how == "declare" or value not in declared:
            declared[value] = int(number)
    types = debug.Types(module.metadata)
    for instruction in function.instructions():
        if instruction.opcode != "alloca" or not instruction.name or not instruction.source_type:
            continue
        extents, element = extents_of(instruction.source_type)
        # Structures are taken apart; what is left of one is no memory.
        kind = Kind.MEMORY if extents and ".sroa." not in instruction.name else Kind.REGISTERS
        name = names.get(instruction.name, instruction.name[1:])
        array = Array(instruction.name, name, kind, extents, module.size_of(element))
        plan.arrays[instruction.name] = array
        whole = types.of_variable(declared[instruction.name]) if instruction.name in declared else None
        if not extents and whole is not None and not whole.word and whole.size == module.size_of(element):
            plan.members[instruction.name] = members_of(array, whole)
    for held in module.globals.values():
        extents, element = extents_of(held.type)
        name = names.get(held.name) or re.sub(r"\.\d+$", "", held.name[1:]).rpartition(".")[2]
        plan.arrays[held.name] = Array(
            held.name, name, Kind.MEMORY if extents else Kind.REGISTERS, extents, module.size_of(element),
            constant=held.constant,
        )  # fmt: skip
        whole = types.of_global(held.debug)
        if not extents and whole is not None and not whole.word and whole.size == module.size_of(element):
            plan.members[held.name] = members_of(plan.arrays[held.name], whole)
    for table in sorted(tables.marked_tables(text) & plan.arrays.keys()):
        plan.arrays[table].constant = True
        plan.notes.append(
            f"'{plan.arrays[table].name}' is filled with constants only: it becomes a ROM, and its loop is removed"
        )
    for parameter, kind_of in function.parameters:
        if kind_of == "ptr":
            plan.arrays[parameter] = Array(parameter, names.get(parameter, parameter[1:]), Kind.PORT, [-1], 0)
    parameters = {parameter for parameter, _ in function.parameters}
    for probe in probes:
        if probe.pointer in plan.arrays:
            apply(probe, plan.arrays[probe.pointer], plan.members.get(probe.pointer, []))
        if probe.pointer in parameters:
            plan.pragmas.append((probe.pointer, probe))
    for value, array in plan.arrays.items():
        memory = array.kind is Kind.MEMORY and not array.complete()
        inside = [member.array for member in plan.members.get(value, ())]
        if sum(member.elements * member.element_bytes for member in inside) <= _SMALL_BYTES:
            for member in inside:  # what passes through a stream as one value
                if not member.partitions and not member.storage:
                    member.kind = Kind.REGISTERS
        memory |= any((m.partitions or m.storage) and not m.complete() for m in inside)
        if value[0] == "%" and memory and value in declared:
            plan.kept.add(value)


def members_of(array: Array, whole: debug.Type) -> list[Member]:
    """A memory for each array in a structure, which Vitis HLS takes apart (UG1399, "Structs")."""
    found = []
    for number, (at, name, kind) in enumerate(debug.arrays_in(whole, array.name)):
        member = Array(f"{array.value}.{number}", name, Kind.MEMORY, list(kind.extents), kind.element_bytes)
        found.append(Member(at, at + kind.size, member))
    return found


def apply(probe: Probe, array: Array, members: list[Member]) -> None:
    """Does to an array what a pragma says of it, or to the member of a structure that the pragma is about."""
    about = next((m.array for m in members if m.begin <= probe.offset < m.end), None)
    whole = probe.shape == () and "." not in (probe.pragma.variable or "")
    if members and whole:
        for member in members:
            _partition(member.array, probe)
    elif about is not None and members:
        _partition(about, probe)
    else:
        _partition(array, probe)


def _partition(array: Array, probe: Probe) -> None:
    pragma = probe.pragma
    if probe.shape and (array.kind is Kind.PORT or not array.extents):
        array.extents = [e if e > 0 else -1 for e in probe.shape]
        array.element_bytes = probe.element_bytes or array.element_bytes
    words = pragma.words | {value.lower() for key, value in pragma.options.items() if key in ("type", "mode")}
    if pragma.kind in ("array_partition", "array_reshape"):
        kind = next((k for k in ("complete", "cyclic", "block") if k in words), "complete")
        dimension = probe.values.get("dim", 1)
        made = Partition(kind, dimension, probe.values.get("factor", 0), pragma.kind == "array_reshape")
        if made not in array.partitions:  # a process may say again what its region says
            array.partitions.append(made)
    elif pragma.kind in ("bind_storage", "resource"):
        array.storage = pragma.value("type", "core") or array.storage
