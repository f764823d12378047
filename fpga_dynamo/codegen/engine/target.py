"""The engine that commands are made for: its sizes, its memory, and the card around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fpga_dynamo.ir.target import Platform

from .cycles import Memory
from .sizes import EngineSizes

FITTED: Mapping[str, Memory] = {
    "u250": Memory(0.95, 66, 100),
    "zcu102": Memory(0.25, 75, 75, 0.9),
    "kv260": Memory(0.25, 75, 75, 0.9),
}
"""What a platform's memory gives at 300 MHz by the cost model, fitted to the counting card's DRAM."""


@dataclass(frozen=True)
class EngineTarget:
    """`units` compute units of an engine on a platform, which share each command. recipe: where its sizes are from."""

    recipe: str
    sizes: EngineSizes
    memory: Memory
    platform: Platform
    units: int = 1
