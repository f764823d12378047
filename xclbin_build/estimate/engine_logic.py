"""Logic resources of an engine's processes: linear formulas of its sizes, computed in microseconds and without clang.

engine_logic.toml has a coefficient for each process, resource and size. They are fitted to counts of `kernels.py` for
engines of other sizes (`python -m benchmarks.engine_logic`), which are estimates themselves.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ..documents import read_toml
from ..engine import Engine
from ..hls.operators import Operators
from ..hls.resources import NAMES, Component, Resources
from . import engine as engines

TABLE = Path(__file__).with_name("engine_logic.toml")
_WIDE_PORT_BYTES = 64

Table = dict[str, dict[str, dict[str, float]]]
"""Coefficients by process, resource and size."""


def sizes(engine: Engine) -> dict[str, float]:
    """The sizes that the formulas are linear in."""
    words = engine.lanes / engines.WORD
    return {
        "one": 1,
        "pixels": engine.pixels,
        "array": engine.pixels * engine.out_channels * engine.in_channels / 256,
        "blocks": engine.out_channels / engines.WORD,
        "words": words,
        "wide_port": engine.port_bytes == _WIDE_PORT_BYTES,
        "vector": engine.vector_lanes > 0,
        "vector_lanes": engine.vector_lanes,
        "gather": engine.gather,
        "casts": engine.casts,
        "row_sums": engine.row_sums,
        "partial_sums": engine.partial_sums,
        "activations": engine.activations and engine.element != "int8",
        "function_lanes": engine.lanes * (engine.activations and engine.element != "int8"),
    }


def logic(engine: Engine, table: Table | None = None) -> Resources:
    """Of all processes together. table: the formulas of the element; None: those of the file."""
    values = sizes(engine)
    found = dict.fromkeys(NAMES, 0.0)
    for process in (_tables()[engine.element] if table is None else table).values():
        for name, coefficients in process.items():
            found[name] += sum(factor * values[size] for size, factor in coefficients.items())
    return Resources(**found)


def estimated(engine: Engine, name: str, operators: Operators, banks: int = 1) -> Component:
    """A kernel of an engine: the parts that its sizes give, and its logic by the formulas."""
    part = engines.least(engine, name, operators, banks)
    part.parts.append(Component("process", "logic of the processes", logic(engine), "formula"))
    return part


@cache
def _tables() -> dict[str, Table]:
    """By element."""
    return read_toml(TABLE)
