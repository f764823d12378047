"""The cards that there are, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fpga_dynamo.runtime.card import opened_cards
from fpga_dynamo.runtime.driver import emulated


@dataclass(frozen=True)
class DeviceReport:
    """One card. Memory in bytes; `uuid`, `xclbin` and `platform` are empty while no xclbin is loaded."""

    index: int
    driver: str
    name: str
    platform: str = ""
    xclbin: str = ""
    uuid: str = ""
    compute_units: tuple[str, ...] = ()
    memory_used: int = 0
    memory_total: int = 0
    banks: tuple[dict[str, Any], ...] = field(default=(), repr=False)


def devices() -> list[DeviceReport]:
    """Every card that a driver sees, with the memory in use on it."""
    opened = {card.index: card for card in opened_cards()}
    reports = []
    for index in range(emulated.enumerate_devices()):
        handle = emulated.device(index)
        name = handle.get_info(emulated.xrt_info_device.name)
        card = opened.get(index)
        if card is None:
            reports.append(DeviceReport(index, "emulated", name))
            continue
        card.weights.collect()
        banks = tuple(handle.memory())
        reports.append(
            DeviceReport(
                index=index,
                driver="emulated",
                name=name,
                platform=card.target.platform.name,
                xclbin=str(card.path),
                uuid=card.target.uuid,
                compute_units=tuple(pe.name for pe in card.pes),
                memory_used=sum(bank["used"] for bank in banks),
                memory_total=sum(bank["bytes"] for bank in banks),
                banks=banks,
            )
        )
    return reports
