"""The cards that there are, and what they hold."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

from fpga_dynamo.device_address import is_address, parse
from fpga_dynamo.errors import DeviceError, FpgaError
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


def devices(*servers: str) -> list[DeviceReport]:
    """Every card that a driver sees, with the memory in use on it: the emulator's first, then those of XRT.

    Then come the cards of `servers`, addresses of card servers such as tcp://host:port, and of all other servers of
    which this process has opened a card and that answer.

    Raises OptionError for what is no address, and DeviceError for one at which no server answers.
    """
    opened = {card.key: card for card in opened_cards()}
    drivers: list[tuple[str, Any]] = [("emulated", emulated)]
    with contextlib.suppress(FpgaError):  # where there is no XRT
        drivers.append(("xrt", select("xrt")))
    asked = [parse(server).driver for server in servers]
    for name in dict.fromkeys([*asked, *(name for name, _ in opened if is_address(name))]):
        driver = select(name)
        try:
            driver.enumerate_devices()
        except DeviceError:
            if name in asked:
                raise
        else:
            drivers.append((name, driver))
    return [
        _report(name, driver, index, opened.get((name, index)))
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
