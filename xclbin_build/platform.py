"""Platforms: the memory banks, resources and speed of a card, from platforms/*.toml."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from . import toml_table
from .errors import RecipeError, did_you_mean

DIRECTORY = Path(__file__).resolve().parent / "platforms"

# Names of the bank kinds are those of the platform files; values are MEM_TYPE of XRT's xclbin.h.
BANK_KINDS = {"ddr4": 1, "hbm": 6}
NO_PART = "none"  # the part of a platform that is no card
_SPEEDS = ("clock_mhz", "launch_us", "transfer_gbps", "ps_gflops", "ps_gbps", "ps_node_us")
_OPTIONAL_SPEEDS = ("bank_gbps",)
_MAX_TAG = 15  # mem_data.m_tag holds 16 bytes with its terminating zero


@dataclass(frozen=True)
class Bank:
    """A memory bank: `bytes` bytes from device address `base` on."""

    tag: str
    kind: str
    base: int
    bytes: int


@dataclass(frozen=True)
class Platform:
    """A card. `speeds` are the figures that lowering's cost model starts from; `resources` the FPGA's totals."""

    name: str
    description: str
    xsa: str
    part: str
    banks: tuple[Bank, ...]
    speeds: dict[str, float]
    resources: dict[str, int]
    slrs: int

    def table(self) -> dict[str, object]:
        """What the manifest says of the platform."""
        table: dict[str, object] = {"name": self.name, "description": self.description, "xsa": self.xsa}
        return table | self.speeds | {"resources": dict(self.resources), "slrs": self.slrs}

    def bank_table(self) -> list[dict[str, object]]:
        return [{key: value for key, value in asdict(bank).items() if key != "kind"} for bank in self.banks]

    def bank_index(self, tag: str) -> int:
        return [bank.tag for bank in self.banks].index(tag)


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
    table = toml_table.load(path)
    table.allow(["name", "description", "xsa", "part", "bank", "resources", "slrs", *_SPEEDS, *_OPTIONAL_SPEEDS])
    speeds = {key: table.get(key, float) for key in _SPEEDS}
    speeds |= {key: table.get(key, float) for key in _OPTIONAL_SPEEDS if key in table.values}
    for key, value in speeds.items():
        if not 0 < value < math.inf:
            raise RecipeError(f"{path}: '{key}' must be above 0 and finite, not {value}.")
    slrs = table.get("slrs", int, 1)
    if slrs < 1:
        raise RecipeError(f"{path}: 'slrs' must be at least 1, not {slrs}.")
    return Platform(
        name=table.get("name", str),
        description=table.get("description", str, ""),
        xsa=table.get("xsa", str),
        part=table.get("part", str),
        banks=_banks(table),
        speeds=speeds,
        resources=table.integers("resources"),
        slrs=slrs,
    )


def _banks(table: toml_table.Table) -> tuple[Bank, ...]:
    """Banks of `[[bank]]`; one with `count = n` stands for n banks TAG[0] … TAG[n-1], one behind the other."""
    banks: list[Bank] = []
    for entry in table.array("bank"):
        entry.allow(["tag", "kind", "base", "bytes", "count"])
        kind, tag = entry.get("kind", str), entry.get("tag", str)
        base, size = entry.get("base", int), entry.get("bytes", int)
        if kind not in BANK_KINDS:
            raise RecipeError(f"{entry.where}: unknown kind '{kind}'; {did_you_mean(kind, BANK_KINDS)}")
        if size < 4096 or size % 1024 or base < 0:
            raise RecipeError(f"{entry.where}: bank '{tag}' needs a base of 0 or more and a size in whole KiB.")
        if "count" not in entry.values:
            banks.append(Bank(tag, kind, base, size))
            continue
        count = entry.get("count", int)
        if count < 1:
            raise RecipeError(f"{entry.where}: 'count' of bank '{tag}' must be at least 1, not {count}.")
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
