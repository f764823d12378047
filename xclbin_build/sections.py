"""The binary sections of an xclbin that tell XRT about compute units, memory and their connection.

Layouts are those of XRT's public xclbin.h: ip_layout, mem_topology, connectivity, clock_freq_topology.
"""

from __future__ import annotations

import struct

from .design import Design, Kernel
from .errors import RecipeError
from .platform import BANK_KINDS

_IP_KERNEL = 1
_INTERRUPT_ENABLED = 1
_CLOCKS = (("DATA_CLK", 1), ("KERNEL_CLK", 2))  # name, CLOCK_TYPE
_COUNT = struct.Struct("<i4x")
_IP_DATA = struct.Struct("<IIQ64s")
_MEM_DATA = struct.Struct("<BB6xQQ16s")
_CONNECTION = struct.Struct("<iii")
_CLOCK = struct.Struct("<HB5x128s")


def units(design: Design) -> list[tuple[Kernel, str, int]]:
    """Kernel, name and base address of all compute units, in the order of their addresses."""
    found = [(kernel, unit.name, unit.base) for kernel in design.kernels for unit in kernel.compute_units]
    return sorted(found, key=lambda entry: entry[2])


def ip_layout(design: Design) -> bytes:
    entries = units(design)
    data = _COUNT.pack(len(entries))
    for index, (kernel, unit, base) in enumerate(entries):
        name = f"{kernel.name}:{unit}".encode()
        if len(name) > 63:
            raise RecipeError(f"kernel '{kernel.name}': its name is too long for XRT; use at most 29 characters.")
        # properties: interrupt enable, interrupt id from bit 1 on, IP_CONTROL (0: ap_ctrl_hs) from bit 8 on
        data += _IP_DATA.pack(_IP_KERNEL, _INTERRUPT_ENABLED | (index & 0x7F) << 1, base, name)
    return data


def mem_topology(design: Design) -> bytes:
    used = {bound.bank for kernel in design.kernels for bound in kernel.arguments}
    data = _COUNT.pack(len(design.platform.banks))
    for bank in design.platform.banks:
        data += _MEM_DATA.pack(
            BANK_KINDS[bank.kind], bank.tag in used, bank.bytes // 1024, bank.base, bank.tag.encode()
        )
    return data


def connectivity(design: Design) -> bytes:
    connections = [
        _CONNECTION.pack(bound.index, unit_index, design.platform.bank_index(bound.bank))
        for unit_index, (kernel, _, _) in enumerate(units(design))
        for bound in kernel.arguments
        if bound.bank is not None
    ]
    return struct.pack("<i", len(connections)) + b"".join(connections)


def clock_topology(design: Design) -> bytes:
    mhz = round(design.platform.speeds["clock_mhz"])
    return struct.pack("<h", len(_CLOCKS)) + b"".join(_CLOCK.pack(mhz, kind, name.encode()) for name, kind in _CLOCKS)
