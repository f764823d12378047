"""Fits formulas of the logic of the engine's processes to counts: xclbin_build/estimate/engine_logic.toml.

    python -m benchmarks.engine_logic            # counts, which takes a minute an engine with clang 19, and fits

Formulas are linear in the sizes of `engine_logic.sizes`, with coefficients that are not negative. The last lines print
the largest errors of the engines that a formula has not seen: each is left out once.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from hls_kernels import RECIPES
from xclbin_build import recipe as recipes
from xclbin_build.build import load_design
from xclbin_build.engine import ELEMENTS, Engine
from xclbin_build.estimate import engine_logic
from xclbin_build.estimate.design import estimate
from xclbin_build.estimate.engine_logic import Table

_CARD = "u250"
"""The clock of all platforms is the same, and no other figure of one counts here."""
_LEAST = 0.01
"""A coefficient below this is left out."""
_OTHERS: dict[str, tuple[tuple[str, int, int, int, dict[str, bool]], ...]] = {
    # array, lanes, port_bits, vector_lanes, and what is not the default
    "int8": (
        ("2x16x16", 32, 128, 16, {"row_sums": False, "partial_sums": False, "casts": False}),
        ("12x16x16", 16, 128, 4, {"gather": False}),
    ),
    "bfloat16": (("2x16x8", 32, 512, 8, {}),),
    "float32": (),
}
"""Engines beside those of the included recipes. Arrays that no card has room for are not unrolled, and not here."""
# The sizes that the logic of a process depends on, besides "one".
_OF_PROCESS = {
    "fetch": (),
    "load_input": ("wide_port", "vector", "gather"),
    "fill_window": ("pixels", "wide_port"),
    "load_weights": ("blocks", "wide_port", "gather"),
    "load_residual": ("wide_port", "partial_sums"),
    "feed": ("pixels",),
    "mac_array": ("pixels", "array", "row_sums"),
    "epilogue": ("pixels", "words", "blocks", "partial_sums", "function_lanes"),
    "store": ("blocks", "words", "vector"),
}
_OF_VECTOR = ("vector", "vector_lanes", "gather", "casts")

_RESOURCES = ("dsp", "bram36", "lut", "ff")

Counts = dict[str, dict[str, float]]
"""Of an engine: resources of each process."""


def engines_of(element: str, folder: Path) -> list[Path]:
    """Recipes with the engines of an element that are counted."""
    found = [RECIPES / f"{name}.toml" for name in recipes.names() if element in recipes.elements(name)]
    for number, (array, lanes, port_bits, vector_lanes, others) in enumerate(_OTHERS[element]):
        keys = {"engine": array, "element": element, "lanes": lanes, "port_bits": port_bits}
        keys |= {"vector_lanes": vector_lanes, "vector_blocks": 64, **others}
        path = folder / f"{element}-{number}.toml"
        path.write_text("\n".join(["[kernel.engine]", *(f"{key} = {json.dumps(v)}" for key, v in keys.items())]))
        found.append(path)
    return found


def count(path: Path) -> tuple[Engine, Counts]:
    """An engine, and the logic resources of its processes."""
    (kernel,) = load_design(path, platform=_CARD).kernels
    assert kernel.engine is not None
    (part,) = estimate(load_design(path, platform=_CARD), advise=False).kernels
    processes = [child for child in part.parts if child.kind == "process"]
    return kernel.engine, {process.name: dict(process.resources.items()) for process in processes}


def fit(counted: Sequence[tuple[Engine, Counts]]) -> Table:
    """Coefficients by process, resource and size."""
    values = [engine_logic.sizes(engine) for engine, _ in counted]
    found: Table = {}
    for process in dict.fromkeys(name for _, counts in counted for name in counts):
        # An engine without a vector side has no process of it.
        names = ["one", *_OF_PROCESS[process]] if process in _OF_PROCESS else list(_OF_VECTOR)
        matrix = np.array([[float(of[name]) for name in names] for of in values])
        for resource in _RESOURCES:
            wanted = np.array([counts.get(process, {}).get(resource, 0.0) for _, counts in counted])
            # Errors count by the share of the figure, of small figures less.
            weight = 1 / (wanted + wanted.mean() + 1)
            factors, _ = nnls(matrix * weight[:, None], wanted * weight)
            kept = {name: round(float(f), 2) for name, f in zip(names, factors, strict=True) if f >= _LEAST}
            if kept:
                found.setdefault(process, {})[resource] = kept
    return found


def errors(counted: Sequence[tuple[Engine, Counts]], resource: str) -> list[float]:
    """Estimate / count - 1 of each engine, by formulas that are fitted to the others."""
    found = []
    for at, (engine, counts) in enumerate(counted):
        table = fit([entry for number, entry in enumerate(counted) if number != at])
        exact = sum(process.get(resource, 0.0) for process in counts.values())
        found.append(getattr(engine_logic.logic(engine, table), resource) / exact - 1)
    return found


def text(tables: Mapping[str, Table]) -> str:
    """The file."""
    lines = [
        "# Logic of the engine's processes by an engine's sizes: coefficients of linear formulas, fitted to",
        "# counts of the LLVM IR at 300 MHz (`python -m benchmarks.engine_logic`). Nothing has been synthesized.",
    ]
    for element, table in tables.items():
        for process, resources in table.items():
            lines += ["", f"[{element}.{process}]"]
            for resource, factors in resources.items():
                inner = ", ".join(f"{name} = {factor:g}" for name, factor in factors.items())
                lines.append(f"{resource} = {{ {inner} }}")
    return "\n".join(lines) + "\n"


def main() -> None:
    tables = {}
    for element in ELEMENTS:
        with tempfile.TemporaryDirectory() as folder:
            counted = []
            for path in engines_of(element, Path(folder)):
                print(f"counting {path.stem}", flush=True)
                counted.append(count(path))
        tables[element] = fit(counted)
        for resource in ("lut", "ff"):
            apart = errors(counted, resource)
            print(f"{element}, {resource}: {min(apart):+.1%} to {max(apart):+.1%} of {len(apart)} engines not seen")
    engine_logic.TABLE.write_text(text(tables))


if __name__ == "__main__":
    main()
