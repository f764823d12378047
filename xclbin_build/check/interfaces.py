"""What the parameters of a function are: ports, streams, blocks of memory, registers.

Pragmas and debug information say so.
"""

from __future__ import annotations

import re
from dataclasses import replace

from . import ir
from .arrays import Array, Kind, extents_of
from .frontend import Kernel

_CLASS = re.compile(r'DICompositeType\([^\n]*?name: "([^"]*)"')


def classify(kernel: Kernel, *, memories: bool = False) -> None:
    """Sets the kind and the bundle of every parameter, and finds the members of blocks (`Kernel.members`).

    A pointer without a pragma is an m_axi port of the bundle gmem, as in the Vitis flow of kernels.
    memories: pointers without a pragma are memories of the caller instead, as in the Vivado flow. A block of a
    `stream_of_blocks` is a memory for each member of its structure, whose elements are words: as if it had the pragma
    `aggregate`.
    """
    parameters = [name for name, kind in kernel.function.parameters if kind == "ptr"]
    classes = _classes(kernel, parameters)
    for name in parameters:
        array = kernel.arrays.get(name)
        if array is None:
            continue
        what = classes.get(name, "")
        if what.startswith("stream_of_blocks<"):
            _block(kernel, array, what)
        elif what.startswith("stream<"):
            array.kind = Kind.STREAM
        elif what and not what.startswith("burst_maxi<"):
            array.kind = Kind.SCALAR  # a structure by reference: registers
        elif memories and array.kind is Kind.PORT and not what:
            array.kind = Kind.MEMORY
            array.element_bytes = array.element_bytes or 4
    _pragmas(kernel, set(parameters))


def _pragmas(kernel: Kernel, parameters: set[str]) -> None:
    by_name = {array.name: array for array in kernel.arrays.values() if array.value in parameters}
    for pragma in kernel.source.pragmas.values():
        if pragma.kind != "interface" or not pragma.variable:
            continue
        array = by_name.get(re.sub(r"\W.*", "", pragma.variable))
        if array is None:
            continue
        words = pragma.words | {(pragma.value("mode") or "").lower()}
        if "m_axi" in words:
            array.kind, array.bundle = Kind.PORT, pragma.value("bundle") or "gmem"
        elif words & {"ap_memory", "bram"}:
            array.kind = Kind.MEMORY


def _classes(kernel: Kernel, parameters: list[str]) -> dict[str, str]:
    """The C++ class that each parameter is a reference to, by debug information; pointers are left out."""
    metadata = kernel.module.metadata
    found = {}
    scope = re.search(rf'^define [^\n]*@"?{re.escape(kernel.top)}"?\([^\n]*!dbg !(\d+)', kernel.module.text, re.M)
    for words in metadata.values():
        if not words.startswith("!DILocalVariable(") or ", arg: " not in words:
            continue
        if scope and f"scope: !{scope[1]}," not in words:
            continue
        name, kind = re.search(r'name: "([^"]*)"', words), re.search(r"type: !(\d+)", words)
        if not name or not kind or f"%{name[1]}" not in parameters:
            continue
        reference = metadata.get(int(kind[1]), "")
        to = re.search(r"baseType: !(\d+)", reference)
        if "DW_TAG_reference_type" not in reference or not to:
            continue
        target = metadata.get(int(to[1]), "")
        for _ in range(8):  # typedefs and qualifiers
            inner = re.search(r"baseType: !(\d+)", target)
            if "DIDerivedType" not in target or not inner:
                break
            target = metadata.get(int(inner[1]), "")
        if match := _CLASS.search(target):
            found[f"%{name[1]}"] = match[1]
    return found


def _block(kernel: Kernel, array: Array, what: str) -> None:
    """A memory for each member of what a block holds."""
    module = kernel.module
    argument = re.match(r"stream_of_blocks<(.*?)(?:, \d+)?>$", what)
    name = argument[1] if argument else ""
    held = f'%"struct.{name}"' if f"struct.{name}" in module.structs else ""
    array.kind, array.extents = Kind.MEMORY, []
    if not held:
        kernel.notes.append(f"'{array.name}': what its blocks hold is not known; it is left out")
        array.kind = Kind.SCALAR
        return
    kernel.members[array.value] = [
        (at, at + module.size_of(kind), _member(module, array, number, kind, many))
        for many in [len(module.offsets(held)) > 1]
        for number, (at, kind) in enumerate(module.offsets(held))
    ]


def _member(module: ir.Module, array: Array, number: int, kind: str, many: bool) -> Array:
    extents, element = extents_of(kind)
    name = f"{array.name}[member {number}]" if many else array.name
    value = f"{array.value}.{number}"
    return replace(array, value=value, name=name, extents=extents, element_bytes=module.size_of(element),
                   element_type=element)  # fmt: skip
