"""The card that a model is estimated for, from a platform's and a recipe's files."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import xclbin_build.cache
from fpga_dynamo.codegen.engine.target import FITTED, EngineTarget, memory_of, sizes_of
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.target import Platform
from xclbin_build import atomic_file
from xclbin_build import platform as platforms
from xclbin_build import recipe as recipes
from xclbin_build.cache_key import contents
from xclbin_build.design import Design, elaborate
from xclbin_build.errors import BuildError
from xclbin_build.estimate.design import estimate
from xclbin_build.estimate.report import document

DTYPES = {"int8": "int8", "bf16": "bfloat16", "fp32": "float32"}
"""What ``--dtype`` says -> elements of an engine."""


class EstimateError(FpgaError):
    """What cannot be estimated, and what can."""


@dataclass(frozen=True)
class EstimatedCard:
    """A design with one engine. recipe, platform: names or files of the design. fitted: whether the memory's figures
    were fitted to the cycle simulator."""

    recipe: str
    platform: str
    design: Design
    engine: EngineTarget
    fitted: bool

    @property
    def mhz(self) -> float:
        return self.engine.platform.clock_hz / 1e6


def card(platform: str, recipe: str | None, dtype: str, units: int = 1) -> EstimatedCard:
    """The platform's card with so many of the recipe's engine; of none named the platform's own of that type.

    Raises EstimateError for an unknown platform or recipe, and a recipe without an engine of that type.
    """
    try:
        found = platforms.load(platform)
        if not found.regions:
            raise EstimateError(f"platform '{platform}' is not a card; cards are {', '.join(_cards())}")
        chosen = _own(found.name, dtype) if recipe is None else recipe
        loaded = recipes.load(chosen)
        engine = next((kernel.name for kernel in loaded.kernels if kernel.engine), None)
        if units > 1 and engine is not None:
            loaded = loaded.with_compute_units({engine: units})
        design = elaborate(loaded, found)
    except BuildError as error:
        raise EstimateError(str(error)) from error
    own = [kernel.engine for kernel in design.kernels if kernel.engine is not None]
    name = design.recipe.name
    if len(own) != 1:
        having = ", ".join(recipe for recipe in recipes.names() if recipe.startswith("engine-"))
        many = f"{len(own)} engine kernels" if own else "no engine"
        raise EstimateError(
            f"recipe '{name}' has {many}, and an estimate needs exactly one; built-in recipes with one are {having}"
        )
    if own[0].element != DTYPES[dtype]:
        raise EstimateError(
            f"the engine of recipe '{name}' computes in {own[0].element}, not in {DTYPES[dtype]}: "
            f'give --recipe with an engine whose element = "{DTYPES[dtype]}"'
        )
    of_host = Platform.from_manifest(found.table())
    memory = memory_of(found.name, found.speeds)
    target = EngineTarget(name, sizes_of(asdict(own[0])), memory, of_host, max(units, design.peers))
    return EstimatedCard(chosen, platform, design, target, found.name in FITTED)


def _cards() -> list[str]:
    return [name for name in platforms.names() if platforms.load(name).regions]


def _own(platform: str, dtype: str) -> str:
    """The recipe of a platform that is an engine's of a type."""
    for name in recipes.for_platform(platform):
        if DTYPES[dtype] in recipes.elements(name):
            return name
    raise EstimateError(
        f"no built-in recipe has an engine for platform '{platform}' and {DTYPES[dtype]}; give --recipe FILE.toml"
    )


# --- resources --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DesignResources:
    """What the design takes. fits: None if that is not known. basis: what the figures rest on."""

    used: dict[str, float]
    available: dict[str, float]
    fits: bool | None
    problems: tuple[str, ...]
    basis: str


def resources(design: Design, *, sizes_only: bool) -> DesignResources:
    """The estimate of xclbin_build. sizes_only: of arrays and memories, at once; else with the logic, which is counted
    from the sources by clang 19 in half a minute, and kept for the next time."""
    if sizes_only:
        found = document(estimate(design, whole=False, advise=False))
        fits = None if found["fits"] else False  # what is not counted comes on top
        basis = "sizes of arrays and memories only; logic is not counted"
        return _resources(found, fits, basis)
    found = _kept(design)
    basis = "sizes, and operators counted in the LLVM IR of the sources (docs/resources.md); not confirmed by synthesis"
    if found["unknown"]:
        basis = f"sizes only: {'; '.join(found['unknown'])}"
    return _resources(found, found["fits"], basis)


def _resources(found: dict[str, Any], fits: bool | None, basis: str) -> DesignResources:
    return DesignResources(found["used"], found["available"], fits, tuple(found["problems"]), basis)


def _kept(design: Design) -> dict[str, Any]:
    """The whole estimate, from the cache if sources and design are those of before."""
    key = xclbin_build.cache.digest([*contents(design, "hw"), *_sources()])
    with suppress(OSError):
        path = xclbin_build.cache.folder("estimates") / f"{key}.json"
        if path.is_file():
            kept: dict[str, Any] = json.loads(path.read_text())
            return kept
    found = document(estimate(design, advise=False))
    if not found["unknown"]:  # else clang may be there the next time
        with suppress(OSError):
            atomic_file.write(xclbin_build.cache.folder("estimates") / f"{key}.json", json.dumps(found))
    return found


@cache
def _sources() -> tuple[bytes, ...]:
    """All that an estimate is made from."""
    import hls_kernels

    roots = [(hls_kernels.ROOT, "*.h*"), (hls_kernels.ROOT, "*.toml"), (Path(xclbin_build.__file__).parent, "*")]
    paths = sorted({path for root, glob in roots for path in root.rglob(glob) if path.is_file()})
    return tuple(path.read_bytes() for path in paths if path.suffix in (".hpp", ".toml", ".py", ".h"))
