"""A design as a recipe: `NAME.toml` in a folder, of the form of those in hls_kernels/recipes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from fpga_dynamo.tools.recipe_search.space import Candidate, memory_banks
from xclbin_build import atomic_file
from xclbin_build.platform import Platform

RECIPE = "recipe.toml"


def write(folder: Path, candidate: Candidate, platform: str | Path, card: Platform, comments: list[str]) -> Path:
    """Writes a recipe; returns its path. platform: as the user named it. comments: lines at its beginning."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RECIPE
    atomic_file.write(path, text(candidate, folder.resolve().name, platform, card, comments))
    return path


def text(candidate: Candidate, name: str, platform: str | Path, card: Platform, comments: list[str]) -> str:
    lines = [f"# {line}" for line in comments]
    title = re.sub(r"[^\w-]", "-", name) or "recipe"
    lines += [f"name = {_value(title)}", f"platform = {_value(str(platform))}", "", "[kernel.engine]"]
    lines += [f"{key} = {_value(value)}" for key, value in _keys(candidate, card).items()]
    if not candidate.together and (banks := memory_banks(card, candidate.units)):
        lines += ["", "[kernel.engine.memory]", *(f"{_value(a)} = {_value(bank)}" for a, bank in banks.items())]
    return "\n".join(lines) + "\n"


def _keys(candidate: Candidate, card: Platform) -> Mapping[str, object]:
    e = candidate.engine
    found: dict[str, object] = {"engine": f"{e.pixels}x{e.out_channels}x{e.in_channels}", "element": e.element}
    if candidate.units > 1:
        found["cu"] = candidate.units
        if candidate.together:
            found["together"] = True
        if len(card.regions) >= candidate.units:
            found["slr"] = [region.name for region in card.regions[: candidate.units]]
    found |= {
        "lanes": e.lanes, "window": e.window_rows, "weights": e.weight_steps, "tiles": e.set_tiles, "taps": e.taps,
        "port_bits": 8 * e.port_bytes, "storage": "uram" if e.uram else "bram", "vector_lanes": e.vector_lanes,
        "vector_depth": e.vector_depth, "vector_blocks": e.vector_blocks, "row_sums": e.row_sums,
        "partial_sums": e.partial_sums,
    }  # fmt: skip
    if e.element == "int8" and e.vector_lanes:
        found |= {"gather": e.gather, "casts": e.casts}
    if e.element == "bfloat16":
        found["activations"] = e.activations
    return found


def _value(value: object) -> str:
    """In TOML, which has the strings, numbers and lists of JSON."""
    return json.dumps(value)
