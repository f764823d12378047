"""What the runs of a sweep depend on, so that a resumed sweep repeats those that would now come out differently."""

from __future__ import annotations

import csv
import functools
import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fpga_dynamo import _native, errors
from fpga_dynamo.tools.zoo import resolve

# Of the package, what a run in virtual time goes through; what only shows results is no part of them.
_SOURCES = ("runtime/scheduling", "runtime/application", "runtime/task.py", "tools/soc")
_SHOWS = ("command.py", "export.py", "figures.py", "optimum.py", "provenance.py", "real.py", "report.py", "results.py")


def digest(*texts: str) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def made_by(policies: Iterable[str]) -> dict[str, str]:
    """A digest, or the version, of each thing that runs under `policies` come from, by what it is called."""
    return {"the package's version": _version(), "the simulator's code": _code(), **code_of(policies)}


def code_of(policies: Iterable[str]) -> dict[str, str]:
    """A digest of the code of each policy that is named as `module:Class`. Raises FpgaError for a name of no class."""
    return {f"the code of {policy}": _module(policy) for policy in policies if ":" in policy}


def of_policy(made: Mapping[str, str], policy: str) -> list[str]:
    """The part of it that a run under this one policy comes from."""
    own = f"the code of {policy}"
    return [value for name, value in sorted(made.items()) if name == own or not name.startswith("the code of ")]


def made_again(
    old: Mapping[str, Any], new: Mapping[str, Any], runs: Path, wanted: Mapping[str, tuple[Any, ...]]
) -> str:
    """A sentence on the runs of a file that have to be repeated; empty if all can be kept.

    old, new: the study's records. wanted: by key, (setting of the grid, policy, rate, seed). A run whose key is not
    among them, though its setting is, was made of something else.
    """
    if not runs.exists() or not old:
        return ""
    places = {json.dumps(place, sort_keys=True, default=str) for place in wanted.values()}
    count = 0
    with runs.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row.get("key") not in wanted and _place(old, row) in places:
                count += 1
    if not count:
        return ""
    before = old.get("made_by", {})
    changed = [name for name, value in new["made_by"].items() if before.get(name, value) != value]
    changed += [f"the {part}" for part in ("systems", "workload") if _part_of(old, part) != _part_of(new, part)]
    if not before:
        changed = ["the code that made them is not recorded"]
    elif changed:
        changed[-1] += " changed"
    runs_are = "1 run is" if count == 1 else f"{count} runs are"
    return f"{runs_are} made again: {', '.join(changed) or 'their description changed'}"


def _place(study: Mapping[str, Any], row: Mapping[str, Any]) -> str | None:
    try:
        setting = study["systems"][int(row["system"])]["setting"]
        return json.dumps((setting, row["policy"], float(row["rate"]), int(row["seed"])), sort_keys=True, default=str)
    except (KeyError, IndexError, TypeError, ValueError):  # a line that was cut off
        return None


def _part_of(study: Mapping[str, Any], part: str) -> Any:
    if part == "workload":
        return study.get("workload")
    return sorted(json.dumps(one, sort_keys=True, default=str) for one in study.get("systems", []))


def _version() -> str:
    try:
        return version("fpga_dynamo")
    except PackageNotFoundError:
        return "none"


@functools.cache
def _code() -> str:
    package = Path(errors.__file__).parent
    files = [Path(_native.__file__)]
    for source in _SOURCES:
        path = package / source
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    total = hashlib.sha256()
    for file in files:
        if file.name not in _SHOWS:
            total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


def _module(policy: str) -> str:
    """Of the file that defines it; what that imports is not looked at."""
    module = inspect.getmodule(resolve(policy))
    try:
        return digest(inspect.getsource(module) if module is not None else "")
    except (OSError, TypeError):  # no source: made in an interpreter
        return digest("")
