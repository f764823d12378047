"""The binary sections of an xclbin that tell XRT about compute units, memory and their connection.

Layouts are those of XRT's public xclbin.h: ip_layout, mem_topology, connectivity, clock_freq_topology.
"""

from __future__ import annotations

import struct

from .design import ComputeUnit, Design, Kernel
from .errors import RecipeError
from .platform import BANK_KINDS

_IP_KERNEL = 1
_INTERRUPT_ENABLED = 1
_AP_CTRL_NONE = 2
_CLOCKS = (("DATA_CLK", 1), ("KERNEL_CLK", 2))  # name, CLOCK_TYPE
_COUNT = struct.Struct("<i4x")
_IP_DATA = struct.Struct("<IIQ64s")
_MEM_DATA = struct.Struct("<BB6xQQ16s")
_CONNECTION = struct.Struct("<iii")
_CLOCK = struct.Struct("<HB5x128s")


def units(design: Design) -> list[tuple[Kernel, ComputeUnit]]:
    """All compute units, in the order of their addresses; those without one come last."""
    found = [(kernel, unit) for kernel in design.kernels for unit in kernel.compute_units]
    return sorted(found, key=lambda entry: entry[1].base)


def ip_layout(design: Design) -> bytes:
    entries = units(design)
    data = _COUNT.pack(len(entries))
    for index, (kernel, unit) in enumerate(entries):
        name = f"{kernel.name}:{unit.name}".encode()
        if len(name) > 63:
            raise RecipeError(f"kernel '{kernel.name}': its name is too long for XRT; use at most 29 characters.")
        # properties: interrupt enable, interrupt id from bit 1 on, IP_CONTROL from bit 8 on
        control = _AP_CTRL_NONE << 8 if kernel.free_running else _INTERRUPT_ENABLED | (index & 0x7F) << 1
        data += _IP_DATA.pack(_IP_KERNEL, control, unit.base, name)
    return data


def mem_topology(design: Design) -> bytes:
    used = {bank for _, unit in units(design) for banks in unit.banks.values() for bank in banks}
    data = _COUNT.pack(len(design.platform.banks))
    for bank in design.platform.banks:
        data += _MEM_DATA.pack(
            BANK_KINDS[bank.kind], bank.tag in used, bank.bytes // 1024, bank.base, bank.tag.encode()
        )
    return data


def connectivity(design: Design) -> bytes:
    connections = [
        _CONNECTION.pack(argument, unit_index, design.platform.bank_index(bank))
        for unit_index, (_, unit) in enumerate(units(design))
        for argument, banks in unit.banks.items()
        for bank in banks
    ]
    return struct.pack("<i", len(connections)) + b"".join(connections)


def clock_topology(design: Design) -> bytes:
    mhz = round(design.platform.speeds["clock_mhz"])
    return struct.pack("<h", len(_CLOCKS)) + b"".join(_CLOCK.pack(mhz, kind, name.encode()) for name, kind in _CLOCKS)
