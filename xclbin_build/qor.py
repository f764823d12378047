"""The contract of a core's loops, `qor.toml`: what each labelled loop is expected to take, and why.

    [loop.mac_steps]
    ii = 1
    depth = 24
    why = "one addition is carried from step to step"

    [code.next_tile]
    cycles = 3
    why = "three counters are advanced, one after the other"

`[loop.LABEL]` is a pipelined loop: its initiation interval and the latency of an iteration, in cycles; `[code.LABEL]`
is sequential code. A counting build takes the figures from a header that is made of them, :func:`header`; whether
synthesis reaches them is for its reports to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import toml_table
from .errors import RecipeError
from .escape import cpp_string
from .names import IDENTIFIER, TITLE

HEADER = "qor_generated.hpp"


@dataclass(frozen=True)
class LoopContract:
    """A pipelined loop: initiation interval and depth (latency of an iteration) in cycles, and why."""

    ii: int
    depth: int
    why: str


@dataclass(frozen=True)
class Code:
    """Sequential code that takes `cycles` cycles."""

    cycles: int
    why: str


@dataclass(frozen=True)
class Contract:
    """All labels of a core."""

    loops: dict[str, LoopContract]
    code: dict[str, Code]


def load(*paths: Path) -> Contract:
    """The contracts of one or several cores together.

    Raises RecipeError for a missing or unknown key, a figure below 1, and a label that is no identifier or comes twice.
    """
    loops: dict[str, LoopContract] = {}
    code: dict[str, Code] = {}
    for path in paths:
        table = toml_table.load(path)
        table.allow(["loop", "code"])
        for label, entry in table.tables("loop", TITLE).items():
            entry.allow(["ii", "depth", "why"])
            _new(label, entry, {*loops, *code})
            loops[label] = LoopContract(entry.count("ii"), entry.count("depth"), entry.get("why", str))
        for label, entry in table.tables("code", TITLE).items():
            entry.allow(["cycles", "why"])
            _new(label, entry, {*loops, *code})
            code[label] = Code(entry.count("cycles"), entry.get("why", str))
    return Contract(loops, code)


def header(contract: Contract) -> str:
    """`qor_generated.hpp` for the simulator in `hls_kernels/sim`: a constant for each label."""
    lines = [
        "// Made by xclbin_build from qor.toml: do not edit.",
        "#pragma once",
        "namespace sim {",
        "namespace qor {",
    ]
    lines.append("namespace loops {")
    lines += [
        f"constexpr loop_contract {label}{{{cpp_string(label)}, {loop.ii}, {loop.depth}}};"
        for label, loop in contract.loops.items()
    ]
    lines += ["}", "namespace code {"]
    lines += [
        f"constexpr code_contract {label}{{{cpp_string(label)}, {code.cycles}}};"
        for label, code in contract.code.items()
    ]
    return "\n".join([*lines, "}", "}", "}", ""])


def _new(label: str, entry: toml_table.Table, known: set[str]) -> None:
    if not IDENTIFIER.allows(label):
        raise RecipeError(
            f"{entry.where}: '{label}' is not a C identifier; give the label that stands before the loop."
        )
    if label in known:
        raise RecipeError(f"{entry.where}: the label '{label}' is defined twice; labels must differ within a kernel.")
