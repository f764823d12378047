"""What compute units that share a card's banks cost each other: the way to those further away, and queues before them.

Maps of several units lie in as many banks, page by page, and each unit has its weights in a bank of its own
(docs/evaluation/engine.md). So each bank serves a port of weights, which requests all that may be in flight at once,
and the ports of feature maps of all units; a burst waits behind those that came before it.
"""

from __future__ import annotations

from dataclasses import dataclass

CROSSING = 8
"""Cycles to the next region of the chip and back: CROSSING of hls_kernels/engine/peer_card.hpp, a guess."""
WEIGHT_BURSTS = 4
"""Bursts of weights that are on their way at once: WEIGHT_BURSTS of hls_kernels/engine/peer_ports.hpp."""
BURST_LINES = 64
"""Of the longest bursts, 4 KiB."""


@dataclass(frozen=True)
class BankLoad:
    """The parts of a bank's time that lines of weights and lines of maps take, and the lines of a burst of maps."""

    weights: float
    maps: float
    burst: float

    @property
    def wait(self) -> float:
        """Cycles that a burst waits in front of its bank, in the mean.

        Of what comes by chance in batches that take b cycles and a part r of the bank's time, it finds r b / 2 cycles
        of work begun. A batch of weights is all that may be on its way. That batches wait for each other is left out:
        a port asks for no more while that is on its way.
        """
        return (self.weights * WEIGHT_BURSTS * BURST_LINES + self.maps * min(self.burst, BURST_LINES)) / 2


def crossing(units: int) -> float:
    """Cycles to a bank and back, beside the bank's own: the mean over all units and banks, which lie in a row."""
    return CROSSING * sum(abs(a - b) for a in range(units) for b in range(units)) / units**2
