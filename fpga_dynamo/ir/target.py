"""What lowering knows of the card: the xclbin's manifest, typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from fpga_dynamo.errors import XclbinError
from fpga_dynamo.ir.dtypes import HALVES
from fpga_dynamo.ir.elements import ELEMENTS, F32, I8, Element
from fpga_dynamo.ir.tuning import Tuning


class _Names(dict[str, Any]):
    """Values by name, of one kind of name of a manifest; a name that the manifest lacks is an XclbinError."""

    def __init__(self, kind: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._kind = kind

    def __missing__(self, name: str) -> Any:
        raise XclbinError(
            f"the xclbin's manifest has no {self._kind} '{name}', which this graph needs; build the file again with "
            "this version of xclbin-build"
        )


@dataclass(frozen=True)
class RecordField:
    """One field of a command record: `count` 32-bit words from `word` on."""

    name: str
    type: str
    word: int
    count: int


@dataclass(frozen=True)
class KernelInfo:
    """A kernel of the xclbin that runs command lists.

    weights: the element types that an opcode's packed weights may have, by name; by default 32-bit elements.
    activations: the same of its operands in the arena.
    engine: sizes of the hardware engine that this kernel is, from the manifest.
    same_as: arguments that use the buffer of another one, by index.
    together: whether its compute units share each command of a launch and are started by the first.
    """

    name: str
    opcodes: frozenset[str]
    compute_units: int
    weights: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    activations: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    engine: Mapping[str, Any] | None = field(default=None, hash=False)
    same_as: Mapping[int, int] = field(default_factory=dict, hash=False)
    together: bool = False

    def weight_element(self, opcode: str, dtype: torch.dtype) -> Element:
        """What packed weights of `dtype` lie on the card as: their own type where the core supports it, else floats."""
        own = I8 if dtype is torch.int8 else HALVES.get(dtype, F32)
        return own if own.name in self.weights.get(opcode, ()) else F32

    def takes(self, opcode: str, element: Element) -> bool:
        """Whether commands of an opcode read and write such elements in the arena."""
        named = self.activations.get(opcode)
        return opcode in self.opcodes and (element.name in named if named else not element.is_narrow)

    @classmethod
    def from_manifest(cls, table: Mapping[str, Any], version: int) -> KernelInfo:
        """version: of the command records. What was built for the first one knows narrow elements by other offsets."""
        opcodes = frozenset(table["opcodes"])
        if version < NARROW_SINCE:
            return cls(table["name"], opcodes - {"convert"}, len(table["compute_units"]))
        weights, activations = (
            {opcode: frozenset(names) for opcode, names in table.get(operand, {}).items()}
            for operand in ("weights", "activations")
        )
        index = {argument["name"]: argument["index"] for argument in table["args"]}
        same_as = {index[a["name"]]: index[a["same_as"]] for a in table["args"] if "same_as" in a}
        units, together = len(table["compute_units"]), bool(table.get("together", False))
        return cls(table["name"], opcodes, units, weights, activations, table.get("engine"), same_as, together)


NARROW_SINCE = 2
"""The version of command records from which on offsets of narrow operands count their elements."""


@dataclass(frozen=True)
class Platform:
    """Figures that the cost model uses; times in seconds, rates per second."""

    name: str
    clock_hz: float
    launch_seconds: float
    transfer_bytes: float
    ps_flops: float
    ps_bytes: float
    ps_node_seconds: float

    @classmethod
    def from_manifest(cls, table: Mapping[str, Any]) -> Platform:
        return cls(
            name=str(table.get("name", "unknown")),
            clock_hz=float(table["clock_mhz"]) * 1e6,
            launch_seconds=float(table["launch_us"]) * 1e-6,
            transfer_bytes=float(table["transfer_gbps"]) * 1e9,
            ps_flops=float(table["ps_gflops"]) * 1e9,
            ps_bytes=float(table["ps_gbps"]) * 1e9,
            ps_node_seconds=float(table["ps_node_us"]) * 1e-6,
        )


@dataclass(frozen=True)
class Windows:
    """Which tensors cores read and write in the host's memory: of `least` bytes or more, a multiple of `beat`."""

    least: int
    beat: int

    def show(self, nbytes: int) -> bool:
        return nbytes >= self.least and nbytes % self.beat == 0


@dataclass(frozen=True)
class Target:
    """The card as lowering sees it. `enums` holds the values of command.hpp's enumerations by name.

    lanes: host threads that share a compute unit's commands on the emulator; 0 if it has no lanes.
    windows: None if the card's memory is its own, and everything is copied.
    tuning: what the emulator's host does well; nothing of a card.
    """

    uuid: str
    kernels: tuple[KernelInfo, ...]
    opcodes: Mapping[str, int]
    records: Mapping[str, tuple[RecordField, ...]]
    tiles: Mapping[str, int]
    enums: Mapping[str, int]
    platform: Platform
    command_words: int = 64
    lanes: int = 0
    windows: Windows | None = None
    tuning: Tuning = field(default_factory=Tuning)
    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_hardware(self) -> bool:
        """Whether the xclbin is a card's, or hardware emulation's."""
        return self.manifest.get("target") in ("hw", "hw_emu")

    @classmethod
    def from_manifest(cls, uuid: str, manifest: Mapping[str, Any]) -> Target:
        kernels = tuple(
            KernelInfo.from_manifest(k, manifest.get("command_version", NARROW_SINCE))
            for k in manifest["kernels"]
            if k["lanes"]
        )
        records = {
            name: tuple(RecordField(f["field"], f["type"], f["word"], f["count"]) for f in record)
            for name, record in manifest["commands"].items()
        }
        enums = {name: value for enum in manifest["enums"].values() for name, value in enum.items()}
        return cls(
            uuid=uuid,
            kernels=kernels,
            opcodes=_Names("opcode", manifest["opcodes"]),
            records=_Names("record of the command", records),
            tiles=_Names("tile constant", manifest["tiles"]),
            enums=_Names("value of an enumeration", enums),
            platform=Platform.from_manifest(manifest["platform"]),
            tuning=Tuning.from_manifest(manifest.get("tuning", {})),
            manifest=manifest,
        )

    @cached_property
    def engine(self) -> KernelInfo | None:
        """The kernel that graphs are lowered to if the xclbin has a hardware engine, and no kernel made of cores."""
        return self.kernels[0] if self.kernels and all(kernel.engine for kernel in self.kernels) else None

    @property
    def counts(self) -> bool:
        """Whether a launch tells its cycles: on a cycle simulator."""
        return self.manifest.get("target") == "cycles"

    @property
    def multiplies(self) -> Sequence[str]:
        """What the host of an emulator multiplies by instructions of its own: bfloat16; tiles of bytes (AMX)."""
        return self.manifest.get("multiplies", ())

    def takes(self, opcode: str, element: Element) -> bool:
        """Whether a core of the xclbin reads and writes such elements in the arena."""
        return any(kernel.takes(opcode, element) for kernel in self.kernels)

    def element(self, format: int) -> Element:
        """What a record's field of the type ``element_format`` names."""
        return self._elements[format]

    def format_of(self, element: Element) -> int:
        """What a record calls such elements; 0 for words, which every core supports."""
        return self.enums[f"FORMAT_{element.name}"] if element.is_narrow else 0

    @cached_property
    def _elements(self) -> Mapping[int, Element]:
        return {self.enums[f"FORMAT_{name}"]: e for name, e in ELEMENTS.items() if f"FORMAT_{name}" in self.enums}

    def has_any(self, *opcodes: str) -> bool:
        """Whether a kernel runs one of `opcodes`."""
        return any(not kernel.opcodes.isdisjoint(opcodes) for kernel in self.kernels)

    def kernels_for(self, opcodes: frozenset[str]) -> tuple[str, ...]:
        """Names of the kernels whose cores run all of `opcodes`."""
        return tuple(kernel.name for kernel in self.kernels if opcodes <= kernel.opcodes)
