"""What a co-simulation assumes of memory behind m_axi ports: the least and the most cycles of an answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .. import platform as platforms
from ..memory import MemoryModel
from ..platform import Platform

_USUAL = "u250"  # whose DDR4 is assumed where no platform is named


@dataclass(frozen=True)
class Memory:
    """Cycles from a request to the first beat, and from the last beat of a write to its response. bytes_a_cycle: of one
    bank, None where no platform is named."""

    read_most: int
    write_most: int
    bytes_a_cycle: float | None = None

    @classmethod
    def of(cls, platform: Platform | None, clock_ns: float) -> Memory:
        """Of a platform's first memory, or of an Alveo card's. The most: another row is open, and a refresh has begun.
        The least is what the schedule expects, as in co-simulation."""
        models = list(platform.memories.values()) if platform is not None else []
        known = bool(models)
        model = models[0] if known else next(iter(platforms.load(_USUAL).memories.values()))
        return cls._of_model(model, clock_ns, known=known)

    @classmethod
    def _of_model(cls, model: MemoryModel, clock_ns: float, *, known: bool) -> Memory:
        figures = model.figures
        path = figures["path_ns"]
        worst = path + figures["read_hit_ns"] + figures["rp_ns"] + figures["rcd_ns"] + figures["rfc_ns"]
        answer = path + figures["write_response_ns"] + figures["rfc_ns"]
        rate = figures["data_mtps"] * figures["bus_bits"] / 8 / 1000 * clock_ns if known else None  # bytes a cycle
        return cls(math.ceil(worst / clock_ns), math.ceil(answer / clock_ns), rate)

    def words(self) -> str:
        """Least and most, reads and writes, as result.hpp reads them."""
        return f"0,0,{self.read_most},{self.write_most}"
