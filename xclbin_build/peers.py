"""Compute units that work together, on a card: their kernel's arguments, the kernel of their barrier, and links.

Host software and the emulator use the arguments of a single engine. On a card the feature maps are spread over several
banks, and each port to feature maps becomes one port for each bank (hls_kernels/engine/paged_port.hpp). Each CU has its
commands and weights in a bank of its own. Streams lead to a kernel that synchronizes the CUs (peers.hpp).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .design import ENGINE_ARGUMENTS, Design, Kernel

MAPS = tuple(argument.name for argument in ENGINE_ARGUMENTS if "arena" in (argument.name, argument.same_as))
"""Arguments that are one for each bank."""
PAGE_BYTES = 4096
"""Page p of maps is page p // banks of bank p % banks: ENGINE_PAGE_BYTES of hls_kernels/engine/config.hpp."""
_STREAM_DEPTH = 16
"""Of the FIFOs between units and the kernel of their barrier: at least PEERS_AHEAD + 2 of peers.hpp."""


@dataclass(frozen=True)
class Peers:
    """Compute units of a kernel that work together; `banks` are those that their maps are spread over."""

    kernel: Kernel
    banks: tuple[str, ...]
    places: tuple[str, ...]

    @classmethod
    def of(cls, kernel: Kernel, design: Design) -> Peers:
        """The units of a kernel of the design that has peers. places: each unit's bank, of its commands and weights."""
        tags = [bank.tag for bank in design.platform.banks]
        places = tuple(tags[index % len(tags)] for index in range(kernel.peers))
        return cls(kernel, tuple(tags[: design.peer_banks]), places)

    @property
    def barrier(self) -> str:
        """The name of the kernel that synchronizes them."""
        return f"{self.kernel.name}_barrier"

    @property
    def maps(self) -> Mapping[str, list[str]]:
        """The arguments that stand for each of MAPS, by bank."""
        return {name: [f"{name}_{bank}" for bank in range(len(self.banks))] for name in MAPS}

    @property
    def arguments(self) -> list[str]:
        """Of the kernel, streams last."""
        maps = self.maps
        return [
            "commands", "count", *maps["arena"], "weights", *maps["arena_residual"], *maps["arena_output"], "to_peers",
            "from_peers",
        ]  # fmt: skip

    def table(self) -> dict[str, object]:
        """What the manifest says of them: indices of arguments, of maps by bank, and the unit of their barrier."""
        index = {name: number for number, name in enumerate(self.arguments)}
        single = {name: index[name] for name in ("commands", "count", "weights")}
        maps = {name: [index[argument] for argument in arguments] for name, arguments in self.maps.items()}
        return {"arguments": single | maps, "barrier": f"{self.barrier}:{{{self.barrier}_1}}", "page_bytes": PAGE_BYTES}

    def connectivity(self) -> list[str]:
        """Lines of link.cfg: banks of all arguments, and the streams."""
        lines = [f"nk={self.barrier}:1:{self.barrier}_1"]
        for number, (unit, place) in enumerate(zip(self.kernel.compute_units, self.places, strict=True), 1):
            lines += [f"sp={unit.name}.{name}:{place}" for name in ("commands", "weights")]
            for arguments in self.maps.values():
                pairs = zip(arguments, self.banks, strict=True)
                lines += [f"sp={unit.name}.{argument}:{bank}" for argument, bank in pairs]
            lines += [
                f"stream_connect={unit.name}.to_peers:{self.barrier}_1.from_{number}:{_STREAM_DEPTH}",
                f"stream_connect={self.barrier}_1.to_{number}:{unit.name}.from_peers:{_STREAM_DEPTH}",
            ]
        return lines
