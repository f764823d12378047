"""What the parameters of a function are: ports, streams, blocks of memory, registers.

Pragmas and debug information say so.
"""

from __future__ import annotations

import re

from . import debug
from .arrays import Array, Kind, extents_of
from .frontend import Kernel
from .partitions import apply, members_of

# Of a port that Vitis HLS widens: the Vitis flow's default, the Vivado flow's is 0 (UG1399, config_interface
# -m_axi_max_widen_bitwidth).
BEAT_BYTES = 64
# Cycles that memory is expected to take: the Vitis flow's default, too; 0 in the Vivado flow (-m_axi_latency).
LATENCY = 64


def classify(kernel: Kernel, *, memories: bool = False, latency: int | None = None) -> None:
    """Sets the kind and the bundle of every parameter, and finds the members of blocks (`Kernel.members`).

    A pointer without a pragma is an m_axi port of the bundle gmem, as in the Vitis flow of kernels.
    A block of a `stream_of_blocks` is a memory, or one for each array of a structure. An element that is a structure
    itself is a word, as with the pragma `aggregate`.

    memories: pointers without a pragma are memories of the caller instead, as in the Vivado flow.
    latency: expected cycles of the memory behind ports, if not the flow's default.
    """
    parameters = [name for name, kind in kernel.function.parameters if kind == "ptr"]
    types = debug.Types(kernel.module.metadata)
    variables = _variables(kernel, parameters)
    for name in parameters:
        array = kernel.arrays.get(name)
        if array is None:
            continue
        kind = types.refers_to(variables[name]) if name in variables else None
        what = kind.name if kind else ""
        if kind and what.startswith("stream_of_blocks<"):
            block = next((member for called, _, member in kind.members if called == "block"), None)
            if block is None:
                kernel.notes.append(f"'{array.name}': the type of its blocks is unknown; it is left out")
                array.kind = Kind.SCALAR
            else:
                _block(kernel, array, block)
        elif what.startswith("stream<"):
            array.kind = Kind.STREAM
        elif kind and kind.extents:
            array.kind = Kind.MEMORY
            array.extents, array.element_bytes = list(kind.extents), kind.element_bytes
        elif kind and not what.startswith("burst_maxi<"):
            array.kind = Kind.SCALAR  # a structure by reference: registers
        elif (passed := kernel.passed.get(name)) is not None and not passed.port and not what:
            _memory(kernel, array, passed.type)
            array.constant = passed.constant
        elif memories and array.kind is Kind.PORT and not what:
            array.kind = Kind.MEMORY
            to = types.points_to(variables[name]) if name in variables else None
            if to is not None and to.size:
                first = array.extents[0] if array.extents else -1
                array.extents, array.element_bytes = [first, *to.extents], to.element_bytes or to.size
            array.element_bytes = array.element_bytes or 4
            _apply_pragmas(kernel, array)
        elif array.kind is Kind.PORT and not what:
            to = types.points_to(variables[name]) if name in variables else None
            array.element_bytes = (to.element_bytes or to.size if to else 0) or array.element_bytes
    expected = (0 if memories else LATENCY) if latency is None else latency
    _pragmas(kernel, set(parameters), expected, memories=memories)
    for name in parameters:
        array = kernel.arrays.get(name)
        if array is not None and array.kind is Kind.MEMORY and name in kernel.passed and kernel.passed[name].shared:
            # A memory beside the kernel has two ports, one for each process (`A` of HLStrans' atax and bicg, 2022.2:
            # 256 and 16 reads, as many cycles).
            array.storage = "ram_1p"
    for name in parameters:
        to = types.points_to(variables[name]) if name in variables else None
        if to is not None and name in kernel.arrays and _odd(to):
            kernel.arrays[name].beat_bytes = 0
    for array in kernel.arrays.values():
        array.sized = array.value in parameters and _sized(kernel, array.name)
        if array.value in parameters and array.extents[:1] == [-1] and not array.sized:
            # What has no known size is not taken apart: a pragma of an inlined function about a part of a pointer
            # (`in` of j1hye0n's sha3_256_hls, 2024.2: 8 reads, 4).
            array.partitions = [p for p in array.partitions if p.kind != "complete" or p.dimension > 1]


def _odd(type: debug.Type) -> bool:
    """Whether an element's bits are no power of two; then its port is not widened, whatever a pragma says (UG1399,
    "Automatic Port Width Resizing"; 24 bits of FPGA_ECE8893, 2025.1)."""
    bits = re.match(r"ap_u?(?:int|fixed)<(\d+)", type.name)
    return bits is not None and bool(int(bits[1]) & (int(bits[1]) - 1))


def _sized(kernel: Kernel, name: str) -> bool:
    """Whether a parameter is declared as an array with a size: one without is a register behind AXI-Lite (`array[]` of
    MergeSortVitisVivado: two reads, interval 1)."""
    declared = rf"[\w>]\s+{re.escape(name)}\s*\[\s*[^\]\s][^\]]*\]\s*(?:\[[^\]]*\]\s*)*[,)]"
    return re.search(declared, kernel.source.plain) is not None


def _memory(kernel: Kernel, array: Array, type: str) -> None:
    """An array of the region around a process."""
    array.kind = Kind.MEMORY
    extents, element = extents_of(type)
    array.extents = extents or [-1]
    array.element_bytes = kernel.module.size_of(element) if element else 4
    _apply_pragmas(kernel, array)


def _apply_pragmas(kernel: Kernel, array: Array) -> None:
    """What pragmas say of an array whose shape is known only now."""
    array.partitions = []
    for value, pragma in kernel.pragmas:
        if value == array.value:
            apply(pragma, array, [])


def _pragmas(kernel: Kernel, parameters: set[str], latency: int, *, memories: bool) -> None:
    """Interfaces, by the names of the kernel's own parameters: a process may call them otherwise."""
    for each in kernel.arrays.values():
        each.beat_bytes, each.latency = 0 if memories else BEAT_BYTES, latency
    ports = [(kernel.passed[a.value].name if a.value in kernel.passed else a.name, a) for a in kernel.arrays.values()
             if a.value in parameters]  # fmt: skip
    by_name = dict(ports)
    for pragma in kernel.source.pragmas.values():
        if pragma.kind != "interface" or not pragma.variable:
            continue
        array = by_name.get(re.sub(r"\W.*", "", pragma.variable))
        if array is None:
            continue
        words = pragma.words | {(pragma.value("mode") or "").lower()}
        if "m_axi" in words:
            array.kind, array.bundle = Kind.PORT, pragma.value("bundle") or "gmem"
            array.channel = pragma.value("channel") or ""
            if (own := pragma.value("latency") or "").isdigit():
                array.latency = int(own)
            widest = pragma.value("max_widen_bitwidth")
            if widest is not None:
                array.beat_bytes = int(widest) // 8 if widest.isdigit() else BEAT_BYTES
        elif words & {"ap_memory", "bram"}:
            array.kind = Kind.MEMORY
            array.storage = pragma.value("storage_type") or array.storage
        elif "s_axilite" in words and array.kind is Kind.MEMORY and _sized(kernel, array.name):
            array.storage = "ram_1p"  # its other port is the bus' (11 reads of asdshawn's FIR, 2022.1: 11)


def _variables(kernel: Kernel, parameters: list[str]) -> dict[str, int]:
    """The metadata of each parameter's variable."""
    metadata = kernel.module.metadata
    scope = re.search(rf'^define [^\n]*@"?{re.escape(kernel.top)}"?\([^\n]*!dbg !(\d+)', kernel.module.text, re.M)
    found = {}
    for number, words in metadata.items():
        if not words.startswith("!DILocalVariable(") or ", arg: " not in words:
            continue
        if scope and f"scope: !{scope[1]}," not in words:
            continue
        name = re.search(r'name: "([^"]*)"', words)
        if name and f"%{name[1]}" in parameters:
            found[f"%{name[1]}"] = number
    return found


def _block(kernel: Kernel, array: Array, block: debug.Type) -> None:
    """A block of a stream of blocks: a memory, or one for each array of a structure."""
    array.kind, array.partitions = Kind.MEMORY, []
    array.extents, array.element_bytes = list(block.extents), block.element_bytes or block.size
    if not block.extents:
        array.kind = Kind.REGISTERS
        kernel.members[array.value] = members_of(array, block)
    for value, pragma in kernel.pragmas:
        if value == array.value:
            apply(pragma, array, kernel.members.get(array.value, []))
