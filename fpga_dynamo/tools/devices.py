"""The cards that there are, and what they hold."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.runtime.cards.card import Card, opened_cards
from fpga_dynamo.runtime.drivers import emulated, select


@dataclass(frozen=True)
class DeviceReport:
    """One card. Memory in bytes; `uuid`, `xclbin` and `platform` are empty while this process has loaded no xclbin."""

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
    """Every card that a driver sees, with the memory in use on it: the emulator's first, then those of XRT."""
    opened = {(card.driver, card.index): card for card in opened_cards()}
    drivers: list[tuple[str, Any]] = [("emulated", emulated)]
    with contextlib.suppress(FpgaError):  # where there is no XRT
        drivers.append(("xrt", select("xrt")))
    return [
        _report(name, driver, index, opened.get((driver, index)))
        for name, driver in drivers
        for index in range(driver.enumerate_devices())
    ]


def _report(driver_name: str, driver: Any, index: int, card: Card | None) -> DeviceReport:
    try:
        handle = driver.device(index) if card is None else card.device
        name = handle.get_info(driver.xrt_info_device.name)
    except FpgaError as error:  # somebody else's, or broken: it is there all the same
        return DeviceReport(index, driver_name, str(error))
    if card is None:
        return DeviceReport(index, driver_name, name)
    card.weights.collect()
    banks = tuple(handle.memory())
    return DeviceReport(
        index=index,
        driver=driver_name,
        name=name,
        platform=card.target.platform.name,
        xclbin=str(card.path),
        uuid=card.target.uuid,
        compute_units=tuple(name for pe in card.pes for name in card.peers.get(pe.name, (pe.name,))),
        memory_used=sum(bank["used"] for bank in banks),
        memory_total=sum(bank["bytes"] for bank in banks),
        banks=banks,
    )
