"""Platforms: the memory banks, resources and speed of a card, from platforms/*.toml.

The file of the emulator also has figures of the host CPU, in `[tuning]`. Figures of one instruction set are in a table
of its name (`[tuning.winograd.x86-64-v3]`), and hold for tiles planned for this instruction set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from . import memory, toml_table
from . import names as kinds
from .errors import RecipeError, did_you_mean
from .schema import MOST, shown
from .trusted_path import check_named

DIRECTORY = Path(__file__).resolve().parent / "platforms"

# Names of the bank kinds are those of the platform files; values are MEM_TYPE of XRT's xclbin.h.
BANK_KINDS = {"ddr4": 1, "hbm": 6, "plram": 2, "host": 10}
NO_PART = "none"  # the part of a platform that is no card
RESOURCES = ("lut", "ff", "bram36", "uram", "dsp")
FAMILIES = ("alveo", "zynqmp", "versal")
"""How a card boots and is loaded: over PCIe, or as a Zynq UltraScale+ or Versal whose own processor is the host."""
_KEYS = ("name", "description", "xsa", "part", "family", "bank", "resources", "usable", "slr", "tuning", "memory")
_SPEEDS = ("clock_mhz", "launch_us", "transfer_gbps", "ps_gflops", "ps_gbps", "ps_node_us")
_OPTIONAL_SPEEDS = ("bank_gbps",)
_TUNING = ("slice_work", "memory_share")
_TUNING_TABLES = {
    "bands": ("band", "link", "chain", "again", "count"),
    "winograd": ("step", "weight", "exposed", "transform", "start"),
}
_BY_PLAN = ("winograd",)
# Banks that a platform's file need not name: base and bytes of the first of each kind. HBM is for the emulator alone.
_IMPLIED = {
    "PLRAM": ("plram", 0xC0_0000_0000, 128 << 10),
    "HOST": ("host", 0xD0_0000_0000, 16 << 30),
    "HBM": ("hbm", 0x80_0000_0000, 512 << 20),
}
_HBM_BANKS = 32
_MOST_BANKS = 256  # of one [[bank]] entry; the largest card has 64
_MAX_TAG = 15  # mem_data.m_tag holds 16 bytes with its terminating zero


@dataclass(frozen=True)
class Bank:
    """A memory bank: `bytes` bytes from device address `base` on."""

    tag: str
    kind: str
    base: int
    bytes: int


@dataclass(frozen=True)
class Region:
    """A super logic region (SLR) of the FPGA: what the shell leaves of it, and the memory that lies beside it.

    usable: numbers of LUTs, flip-flops (ff), block RAMs of 36 Kbit (bram36), URAMs and DSPs.
    banks: tags of the banks that kernels here reach without crossing into another region; `HBM` stands for all of
    `HBM[0]`, `HBM[1]`, ...
    """

    name: str
    usable: dict[str, int]
    banks: tuple[str, ...]

    def beside(self, tag: str) -> bool:
        """Whether the bank `tag` lies beside this region."""
        return tag in self.banks or tag.partition("[")[0] in self.banks


@dataclass(frozen=True)
class Platform:
    """A card. `speeds` are the figures that lowering's cost model starts from; `resources` the FPGA's totals.

    regions: empty for the emulator. source: who says what the shell leaves of them.
    memories: how the cycle simulator models each kind of bank; empty if the file does not say. family: see FAMILIES.
    """

    name: str
    description: str
    xsa: str
    part: str
    banks: tuple[Bank, ...]
    speeds: dict[str, float]
    resources: dict[str, int]
    regions: tuple[Region, ...] = ()
    source: str = ""
    tuning: dict[str, Any] = field(default_factory=dict)
    memories: dict[str, memory.MemoryModel] = field(default_factory=dict)
    family: str = FAMILIES[0]

    @property
    def embedded(self) -> bool:
        """Whether the host is the chip's own processor."""
        return self.family != FAMILIES[0]

    @property
    def slrs(self) -> int:
        """How many super logic regions the FPGA has: 1 unless the file tells of more."""
        return max(1, len(self.regions))

    def table(self) -> dict[str, object]:
        """What the manifest says of the platform."""
        table: dict[str, object] = {"name": self.name, "description": self.description, "xsa": self.xsa}
        return table | self.speeds | {"resources": dict(self.resources), "slrs": self.slrs}

    def tuning_for(self, plan: str) -> dict[str, Any]:
        """What the manifest says of the host, for tiles that are planned for the instruction set `plan`."""
        by_plan = {name: self.tuning[name][plan] for name in _BY_PLAN if plan in self.tuning.get(name, {})}
        return {name: value for name, value in self.tuning.items() if name not in _BY_PLAN} | by_plan

    def memory_header(self, clock_mhz: float) -> str:
        """`memory_generated.hpp`: the banks and their timing for kernels of that clock.

        Raises RecipeError if the platform's file has no `[memory]` for a kind of bank.
        """
        for bank in self.banks:
            if bank.kind not in self.memories:
                raise RecipeError(
                    f"platform '{self.name}' has no memory model, which the cycle simulator needs: add to its file a "
                    f"table [memory.{bank.kind}]."
                )
        banks = [(bank.tag, bank.kind, bank.base, bank.bytes) for bank in self.banks]
        return memory.header(self.memories, banks, clock_mhz)

    def bank_table(self) -> list[dict[str, object]]:
        return [{key: value for key, value in asdict(bank).items() if key != "kind"} for bank in self.banks]

    def with_implied(self, tags: Iterable[str]) -> Platform:
        """The platform with those of `tags` that its file does not name and that it has nevertheless.

        A card has on-chip PLRAM and, over PCIe, the host's memory. The emulator has HBM, too: all of it and first, as
        hosts for cards with HBM number the banks.
        """
        wanted = dict.fromkeys(tags)
        known = {bank.tag for bank in self.banks}
        first = [f"HBM[{number}]" for number in range(_HBM_BANKS)]
        if self.part != NO_PART or known.intersection(first) or not wanted.keys() & set(first):
            first = []
        last = [tag for tag in wanted if re.fullmatch(r"(PLRAM|HOST)\[\d{1,2}\]", tag) and tag not in known]
        added = [tuple(_implied(tag) for tag in part) for part in (first, last)]
        return replace(self, banks=(*added[0], *self.banks, *added[1])) if first or last else self

    def bank_index(self, tag: str) -> int:
        return [bank.tag for bank in self.banks].index(tag)


def _implied(tag: str) -> Bank:
    name, number = tag.removesuffix("]").split("[")
    kind, base, size = _IMPLIED[name]
    return Bank(tag, kind, base + int(number) * size, size)


def names() -> list[str]:
    return sorted(path.stem for path in DIRECTORY.glob("*.toml"))


def load(name_or_path: str | Path) -> Platform:
    """A platform by name (`emu`, `u250`, …) or from a file of one's own (a path that ends in .toml).

    Raises RecipeError for an unknown name, a missing or unknown key, or banks that overlap.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        if str(name_or_path) not in names():
            raise RecipeError(f"unknown platform '{name_or_path}'; {did_you_mean(str(name_or_path), names())}")
        path = DIRECTORY / f"{name_or_path}.toml"
    else:
        check_named(path, "platform")
    table = toml_table.load(path)
    table.allow([*_KEYS, *_SPEEDS, *_OPTIONAL_SPEEDS])
    speeds = {key: table.get(key, float) for key in _SPEEDS}
    speeds |= {key: table.get(key, float) for key in _OPTIONAL_SPEEDS if key in table.values}
    for key, value in speeds.items():
        if not 0 < value <= MOST:
            raise RecipeError(f"{path}: '{key}' must be above 0 and at most {MOST:g}, not {value}.")
    banks = _banks(table)
    regions = _regions(table, banks)
    return Platform(
        name=table.name("name", kinds.WORD),
        description=table.name("description", kinds.TEXT, ""),
        xsa=table.name("xsa", kinds.PLATFORM),
        part=table.name("part", kinds.WORD),
        banks=banks,
        speeds=speeds,
        resources=_resources(table),
        regions=regions,
        source=_source(table, regions),
        tuning=_tuning(table),
        memories=_memories(table, banks, path.parent),
        family=_family(table),
    )


def _family(platform: toml_table.Table) -> str:
    family = platform.get("family", str, FAMILIES[0])
    if family not in FAMILIES:
        raise RecipeError(f"{platform.where}: unknown family '{family}'; {did_you_mean(family, FAMILIES)}")
    return family


def _resources(platform: toml_table.Table) -> dict[str, int]:
    """`[resources]`, the device's totals; empty if the file does not say."""
    if "resources" not in platform.values:
        return {}
    table = toml_table.Table(platform.get("resources", dict), f"{platform.where} [resources]")
    table.allow(RESOURCES)
    return {key: _count(table, key) for key in RESOURCES}


def _regions(platform: toml_table.Table, banks: Sequence[Bank]) -> tuple[Region, ...]:
    """The regions of `[[slr]]`, in order; each must be called SLR0, SLR1, ... and name banks of the platform."""
    regions = []
    known = {name for bank in banks for name in (bank.tag, bank.tag.partition("[")[0])}
    for index, entry in enumerate(platform.array("slr")):
        entry.allow(["name", "banks", *RESOURCES])
        name, beside = entry.get("name", str), entry.strings("banks", kinds.BANK)
        if name != f"SLR{index}":
            raise RecipeError(f"{entry.where}: regions are called SLR0, SLR1 and so on, in that order, not '{name}'.")
        for tag in beside:
            if tag not in known:
                raise RecipeError(f"{entry.where}: the platform has no bank '{tag}'; {did_you_mean(tag, known)}")
        regions.append(Region(name, {key: _count(entry, key) for key in RESOURCES}, tuple(beside)))
    return tuple(regions)


def _source(platform: toml_table.Table, regions: Sequence[Region]) -> str:
    """`source` of `[usable]`: who says what the shell leaves. Needed where there are regions."""
    if not regions:
        return ""
    table = toml_table.Table(platform.get("usable", dict, {}), f"{platform.where} [usable]")
    table.allow(["source"])
    return table.name("source", kinds.TITLE)


def _count(table: toml_table.Table, key: str) -> int:
    value = table.get(key, int)
    if not 0 <= value <= MOST:
        raise RecipeError(f"{table.where}: '{key}' must be from 0 to {MOST:g}, not {shown(value)}.")
    return value


def _memories(platform: toml_table.Table, banks: tuple[Bank, ...], directory: Path) -> dict[str, memory.MemoryModel]:
    """`[memory.KIND]` of each kind of bank; empty if the file does not say."""
    known = list(dict.fromkeys(bank.kind for bank in banks))
    found: dict[str, memory.MemoryModel] = {}
    for kind, entry in platform.tables("memory", kinds.IDENTIFIER).items():
        if kind not in known:
            raise RecipeError(f"{entry.where}: the platform has no bank of kind '{kind}'; {did_you_mean(kind, known)}")
        found[kind] = memory.load(entry, directory)
    return found


def _tuning(platform: toml_table.Table) -> dict[str, Any]:
    """`[tuning]`, every figure a number of 0 or more; empty if the file does not say."""
    if "tuning" not in platform.values:
        return {}
    if platform.get("part", str) != NO_PART:
        raise RecipeError(f"{platform.where}: [tuning] describes the host of the emulator; leave it out for a card.")
    table = toml_table.Table(platform.get("tuning", dict), f"{platform.where} [tuning]")
    table.allow([*_TUNING, *_TUNING_TABLES])
    found: dict[str, Any] = {key: _figure(table, key) for key in _TUNING if key in table.values}
    for name, keys in _TUNING_TABLES.items():
        if name not in table.values:
            continue
        if name in _BY_PLAN:
            found[name] = {isa: _figures(entry, keys) for isa, entry in table.tables(name, kinds.WORD).items()}
        else:
            values = table.get(name, dict)
            found[name] = _figures(toml_table.Table(values, f"{platform.where} [tuning.{name}]"), keys)
    return found


def _figures(table: toml_table.Table, keys: Sequence[str]) -> dict[str, float]:
    table.allow(keys)
    return {key: _figure(table, key) for key in keys}


def _figure(table: toml_table.Table, key: str) -> float:
    value = table.get(key, float)
    least = int(key == "slice_work")
    if not least <= value <= MOST:
        raise RecipeError(f"{table.where}: '{key}' must be from {least} to {MOST:g}, not {value}.")
    return value


def _banks(table: toml_table.Table) -> tuple[Bank, ...]:
    """Banks of `[[bank]]`; one with `count = n` stands for n banks TAG[0] … TAG[n-1], one behind the other."""
    banks: list[Bank] = []
    for entry in table.array("bank"):
        entry.allow(["tag", "kind", "base", "bytes", "count"])
        kind, tag = entry.get("kind", str), entry.name("tag", kinds.BANK)
        base, size = entry.get("base", int), entry.get("bytes", int)
        if kind not in BANK_KINDS:
            raise RecipeError(f"{entry.where}: unknown kind '{kind}'; {did_you_mean(kind, BANK_KINDS)}")
        if size < 4096 or size % 1024 or base < 0:
            raise RecipeError(f"{entry.where}: bank '{tag}' needs a base of 0 or more and a size in whole KiB.")
        if "count" not in entry.values:
            banks.append(Bank(tag, kind, base, size))
            continue
        count = entry.get("count", int)
        if not 1 <= count <= _MOST_BANKS:
            raise RecipeError(
                f"{entry.where}: 'count' of bank '{tag}' must be from 1 to {_MOST_BANKS}, not {shown(count)}."
            )
        banks += [Bank(f"{tag}[{i}]", kind, base + i * size, size) for i in range(count)]
    if not banks:
        raise RecipeError(f"{table.where}: a platform needs at least one [[bank]].")
    ordered = sorted(banks, key=lambda bank: bank.base)
    for low, high in pairwise(ordered):
        if low.base + low.bytes > high.base:
            raise RecipeError(f"{table.where}: banks '{low.tag}' and '{high.tag}' overlap.")
    tags = [bank.tag for bank in banks]
    if any(bank.base + bank.bytes > 1 << 64 for bank in banks):
        raise RecipeError(f"{table.where}: bank '{ordered[-1].tag}' goes beyond 64 bits of address; give another base.")
    if len(set(tags)) != len(tags) or max(len(tag.encode()) for tag in tags) > _MAX_TAG:
        raise RecipeError(f"{table.where}: bank tags must differ and have at most {_MAX_TAG} characters.")
    return tuple(banks)
