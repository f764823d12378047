"""Card memory for the allocator of device tensors: buffer objects of a driver, mapped into this process.

Where the driver maps a card's own memory (the emulator: buffers of kind p2p), tensors lie there. Elsewhere they lie in
the host's side of a buffer, from which a launch copies, as it does from tensors of the CPU.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.cards.card import ARENA, Card, open_card
from fpga_dynamo.runtime.drivers import choose, select


class Segments:
    """Buffers that the allocator has, by card and address.

    options: the driver and xclbin that the cards are opened with.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._buffers: dict[tuple[int, int], Any] = {}

    def count(self) -> int:
        """Cards that the driver finds. Raises OptionError for a driver that cannot be used here."""
        return select(driver_name(self._options)).enumerate_devices()

    def card(self, index: int) -> Card:
        """The card of device ``fpga:index``, opened. Raises FpgaError if that cannot be done."""
        return open_card(replace(self._options, device=index))

    def acquire(self, index: int, nbytes: int) -> tuple[int, str]:
        """Address of `nbytes` of memory of a card, and ""; 0, and a reason in each bank's words, if none has room."""
        reasons: list[str] = []
        try:
            card = self.card(index)
            for bank in _banks(card):
                try:
                    buffer = _mapped(card, nbytes, bank)
                except MemoryError as error:
                    reasons.append(str(error))
                    continue
                address = ctypes.addressof(ctypes.c_char.from_buffer(buffer.map()))
                self._buffers[index, address] = buffer
                return address, ""
        except FpgaError as error:
            reasons.append(str(error))
        return 0, "; ".join(dict.fromkeys(reasons))

    def release(self, index: int, address: int) -> None:
        """Gives what `acquire` has returned back to the card."""
        self._buffers.pop((index, address), None)

    def capacity(self, index: int) -> tuple[int, int]:
        """Free bytes and all bytes of the banks that tensors lie in."""
        card = self.card(index)
        banks = {row["index"]: row for row in card.device.memory()}
        used = [banks[bank] for bank in _banks(card) if bank in banks]
        return sum(row["bytes"] - row["used"] for row in used), sum(row["bytes"] for row in used)


def driver_name(options: Options) -> str:
    """The driver of an xclbin that the options name, else of the emulator's own."""
    if options.xclbin is None:
        return choose(options.driver, "emu")
    from fpga_dynamo.runtime.cards.target import target_of

    return choose(options.driver, target_of(options.xclbin).manifest["target"])


def _banks(card: Card) -> list[int]:
    """Memory groups that kernels keep activations in: the first with room gets a segment."""
    return list(dict.fromkeys(card.kernels[kernel.name, 0].group_id(ARENA) for kernel in card.target.kernels))


def _mapped(card: Card, nbytes: int, bank: int) -> Any:
    flags = card.driver.bo.flags
    kind = flags.p2p if card.driver.COPIES_ON_CARD else flags.normal
    return card.driver.bo(card.device, nbytes, kind, bank)
