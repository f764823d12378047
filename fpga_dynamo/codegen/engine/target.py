"""The engine that commands are made for: its sizes, its memory, and the card around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from fpga_dynamo.ir.target import Platform, Target

from .cycles import MemoryTiming
from .sizes import LINE_BYTES, EngineSizes

_HBM = MemoryTiming(0.72, 100, 100)
FITTED: Mapping[str, MemoryTiming] = {
    "u250": MemoryTiming(0.95, 66, 100),
    "zcu102": MemoryTiming(0.25, 75, 75, 0.9),
    "kv260": MemoryTiming(0.25, 75, 75, 0.9),
    "u50": _HBM,
    "u280": _HBM,
    "u55c": _HBM,
}
"""What a platform's memory gives at 300 MHz by the cost model, fitted to the cycle simulator's DRAM; of HBM, a pseudo
channel, which is the same on all cards that have it."""

_FITTED_MHZ = 300.0
_GUESSED_SHARE = 0.9
"""Of a bank's bandwidth, where no figure was fitted: as little is lost as on the DDR4 of a U250."""
_BANK_GBPS = 14.0
"""Of a bank that a platform's file says nothing of."""
_GUESSED_LATENCY = 100
"""Cycles at 300 MHz from a request to its data, where no figure was fitted."""

ELEMENT_BYTES = {"int8": 1, "bfloat16": 2, "float32": 4}
"""Of what recipes call an engine's elements."""


_LOOPS = {
    "array": ("mac_steps",), "epilogue": ("epilogue_words",), "load": ("input_lines",),
    "fill": ("fill_words", "fill_folded"), "weights": ("packed_lines", "map_beats"),
    "residual": ("residual_lines", "sums_lines"), "store": ("store_lines",),
}  # fmt: skip
"""The loops of hls_kernels/engine, by the term of `Cycles` that counts their iterations."""


@dataclass(frozen=True)
class EngineTarget:
    """`units` compute units of an engine on a platform, which share each command. recipe: where its sizes are from."""

    recipe: str
    sizes: EngineSizes
    memory: MemoryTiming
    platform: Platform
    units: int = 1

    @classmethod
    def of_card(cls, target: Target) -> EngineTarget:
        """The engine of an xclbin that has one; its compute units run lists of their own, or share each command."""
        assert target.engine is not None and target.engine.engine is not None
        manifest, platform = target.manifest, target.manifest["platform"]
        memory = memory_of(str(platform.get("name", "")), platform)
        units = target.engine.compute_units if target.engine.together else 1
        intervals = intervals_of(manifest.get("synthesis", {}).get(target.engine.name, {}))
        sizes = replace(sizes_of(target.engine.engine), intervals=intervals)
        return cls(manifest["recipe"], sizes, memory, target.platform, units)


def sizes_of(table: Mapping[str, Any]) -> EngineSizes:
    """The sizes of an engine as a manifest has them."""
    values = {name: value for name, value in table.items() if name not in ("uram", "element")}  # storage costs no cycle
    return EngineSizes(element_bytes=ELEMENT_BYTES[table["element"]], **values)


def intervals_of(synthesis: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """What synthesis makes longer: the terms of `Cycles` whose loops missed an initiation interval of 1.

    synthesis: of the engine's kernel, as a manifest has it; empty if Vitis has not built it.
    """
    loops = synthesis.get("loops", {})
    found = {term: max([1, *(loops[name]["ii"] for name in names if name in loops)]) for term, names in _LOOPS.items()}
    return tuple((term, interval) for term, interval in found.items() if interval > 1)


def table_of(sizes: EngineSizes) -> dict[str, Any]:
    """The sizes as a manifest has them: the inverse of :func:`sizes_of`."""
    element = next(name for name, count in ELEMENT_BYTES.items() if count == sizes.element_bytes)
    own = {name: value for name, value in asdict(sizes).items() if name not in ("element_bytes", "intervals")}
    return {"element": element, **own}


def features(target: Target) -> frozenset[str]:
    """The optional features of the engine that graphs are lowered to, which patterns ask for; empty for cores.

    functions: of bfloat16 numbers. gather: int8 elements in any order.
    """
    if target.engine is None or target.engine.engine is None:
        return frozenset()
    sizes = sizes_of(target.engine.engine)
    found = {"functions": sizes.has_functions, "gather": sizes.gather and sizes.has_vector_side}
    return frozenset(name for name, there in found.items() if there)


def memory_of(platform: str, speeds: Mapping[str, Any]) -> MemoryTiming:
    """What the cost model takes a platform's memory for: fitted at 300 MHz, or guessed from the bank's bandwidth."""
    mhz = float(speeds["clock_mhz"])
    clock = mhz / _FITTED_MHZ
    if platform in FITTED:
        # A port moves what it moves in a cycle, whatever the clock; banks and latencies are times.
        known = FITTED[platform]
        return replace(
            known,
            lines_per_cycle=min(known.lines_per_cycle, known.bank / clock),
            read=round(known.read * clock),
            write=round(known.write * clock),
            shared=known.bank / clock,
        )
    bank = float(speeds.get("bank_gbps", _BANK_GBPS)) * 1e9 / (mhz * 1e6 * LINE_BYTES)
    latency = round(_GUESSED_LATENCY * clock)
    return MemoryTiming(min(bank, 1.0) * _GUESSED_SHARE, latency, latency)
