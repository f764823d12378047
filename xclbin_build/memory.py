"""The memories of a platform as the cycle simulator models them: `[memory.KIND]` of the platform's file.

    [memory.ddr4]
    dram = "ddr4_2400"     # a file of memories/, or a path that ends in .toml
    path_ns = 100          # from a kernel's port to the controller's and back
    link_bits = 512        # the AXI data path between them, for each port
    link_mhz = 300

What `dram` names has the timing of the DRAM and its controller. Sources of all figures are named in the files.
`hls_kernels/sim/dram.hpp` says what is made of them; :func:`header` gives it the figures.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from . import toml_table
from .errors import RecipeError, did_you_mean
from .escape import cpp_string
from .names import FILE, TITLE

DIRECTORY = Path(__file__).resolve().parent / "memories"
HEADER = "memory_generated.hpp"

_CLOCKS = ("ccd_s_clocks", "ccd_l_clocks", "cl_clocks", "cwl_clocks")
_TIMES = (
    "rcd_ns", "rp_ns", "ras_ns", "wr_ns", "rtp_ns", "wtr_ns", "rrd_ns", "faw_ns", "rfc_ns", "refi_ns", "read_hit_ns",
    "write_response_ns",
)  # fmt: skip
_COUNTS = ("data_mtps", "bus_bits", "burst_length", "bank_group_bits", "bank_bits", "row_bytes", "queue")
_PATH = ("path_ns", "link_bits", "link_mhz")


@dataclass(frozen=True)
class MemoryModel:
    """A kind of memory bank and the way to it from a kernel's port.

    map: address bits from the lowest one of an access on: `g` bank group, `b` bank, `c` column, each with its number of
    bits. The other bits are the row.
    figures: all others, by the names that they have in the files.
    """

    dram: str
    map: str
    figures: dict[str, float]

    @property
    def access_bytes(self) -> int:
        """Bytes of one access of the DRAM."""
        return int(self.figures["bus_bits"] * self.figures["burst_length"]) // 8

    def settings(self) -> dict[str, str | int]:
        """The members of `sim::dram_settings`; times in picoseconds."""
        f = self.figures
        clock = 2e6 / f["data_mtps"]  # two transfers a clock
        clocks = {key.removesuffix("_clocks"): round(f[key] * clock) for key in _CLOCKS}
        times = {key.removesuffix("_ns"): round(f[key] * 1000) for key in _TIMES}
        return {
            "map": cpp_string(self.map), "access_bytes": self.access_bytes, "queue": int(f["queue"]),
            "clock": round(clock), "burst": round(clock * f["burst_length"] / 2),
            "ccd_s": clocks["ccd_s"], "ccd_l": clocks["ccd_l"],
            **{key: times[key] for key in ("rcd", "rp", "ras", "wr", "rtp", "wtr", "rrd", "faw")},
            "cl": clocks["cl"], "cwl": clocks["cwl"],
            **{key: times[key] for key in ("rfc", "refi", "read_hit", "write_response")},
            "path": round(f["path_ns"] * 1000), "link_bytes": int(f["link_bits"]) // 8,
            "link_khz": round(f["link_mhz"] * 1000),
        }  # fmt: skip


def load(table: toml_table.Table, directory: Path) -> MemoryModel:
    """A `[memory.KIND]` table; `directory` is where paths in it begin.

    Raises RecipeError for an unknown memory, a missing or unknown key, and figures that do not fit each other.
    """
    table.allow(["dram", *_PATH])
    dram = table.name("dram", FILE)
    path = directory / dram if dram.endswith(".toml") else DIRECTORY / f"{dram}.toml"
    known = sorted(file.stem for file in DIRECTORY.glob("*.toml"))
    if path.parent == DIRECTORY and dram not in known:
        raise RecipeError(f"{table.where}: unknown memory '{dram}'; {did_you_mean(dram, known)}")
    timing = toml_table.load(path)
    timing.allow(["description", "map", *_COUNTS, *_CLOCKS, *_TIMES])
    figures = {key: _figure(table, key, zero=key == "path_ns") for key in _PATH}
    figures |= {key: float(timing.count(key)) for key in _COUNTS}
    figures |= {key: _figure(timing, key) for key in (*_CLOCKS, *_TIMES)}
    memory = MemoryModel(dram, timing.name("map", TITLE), figures)
    _check(memory, timing.where)
    if figures["link_bits"] % 8:
        raise RecipeError(f"{table.where}: 'link_bits' must be a multiple of 8, not {figures['link_bits']:g}.")
    return memory


def header(memories: dict[str, MemoryModel], banks: list[tuple[str, str, int, int]], clock_mhz: float) -> str:
    """`memory_generated.hpp` for the simulator.

    memories: by kind. banks: tag, kind, first device address and bytes of each. clock_mhz: the kernel's.
    """
    lines = ["// Made by xclbin_build from a platform's [memory] tables: do not edit.", "#pragma once"]
    lines += ['#include "sim/card.hpp"', "namespace sim {", "namespace platform {"]
    lines.append(f"constexpr uint32_t kernel_khz = {round(clock_mhz * 1000)};")
    for kind, memory in memories.items():
        values = ",\n".join(f"    {value} /* {name} */" for name, value in memory.settings().items())
        lines.append(f"constexpr dram_settings {kind}{{\n{values}}};")
    lines.append("constexpr bank_place banks[] = {")
    lines += [f"    {{{cpp_string(tag)}, 0x{base:x}u, 0x{size:x}u, &{kind}}}," for tag, kind, base, size in banks]
    return "\n".join([*lines, "};", "}", "}", ""])


def _check(memory: MemoryModel, where: str) -> None:
    figures = memory.figures
    fields = re.findall(r"([gbc])([1-9])", memory.map)
    if " ".join(letter + bits for letter, bits in fields) != memory.map or not fields:
        raise RecipeError(f'{where}: \'map\' must be fields such as "g1 c5 b2 g1", not "{memory.map}".')
    bits = {letter: sum(int(n) for each, n in fields if each == letter) for letter in "gbc"}
    wanted = {
        "g": figures["bank_group_bits"],
        "b": figures["bank_bits"],
        "c": math.log2(figures["row_bytes"] / memory.access_bytes),
    }
    names = {"g": "bank groups", "b": "banks", "c": "accesses of a row"}
    for letter, name in names.items():
        if bits[letter] != wanted[letter]:
            raise RecipeError(
                f"{where}: 'map' has {bits[letter]} bits '{letter}' for the {name}, which need {wanted[letter]:g}."
            )
    if figures["rfc_ns"] >= figures["refi_ns"]:
        raise RecipeError(
            f"{where}: 'rfc_ns' must be less than 'refi_ns': otherwise the memory refreshes all the time."
        )


def _figure(table: toml_table.Table, key: str, zero: bool = False) -> float:
    value = table.get(key, float)
    if value < 0 or (value == 0 and not zero) or not value < math.inf:
        raise RecipeError(
            f"{table.where}: '{key}' must be {'0 or more' if zero else 'above 0'} and finite, not {value}."
        )
    return value
