"""The estimate of a design: its kernels, and whether its compute units fit the card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .. import platform as platforms
from .. import recipe as recipes
from ..design import Design, Kernel, elaborate
from ..errors import RecipeError
from ..hls import clang
from ..hls.operators import Operators
from ..hls.resources import Component, Resources
from ..platform import NO_PART, Platform
from . import cores, engine, kernels
from .fit import Fit, PlacedUnit, fit


@dataclass
class Estimate:
    """kernels: what each takes, once. units: the compute units. unknown: sentences about what could not be counted.
    advice: the recipe that would fit, in a sentence; "" if this one does."""

    recipe: str
    platform: Platform
    kernels: list[Component]
    units: list[PlacedUnit]
    fit: Fit
    unknown: list[str] = field(default_factory=list)
    advice: str = ""

    @property
    def fits(self) -> bool | None:
        """Whether the design fits; None where what is known does, and not all is known."""
        if not self.fit.fits:
            return False
        return None if self.unknown else True


def estimate(design: Design, *, whole: bool = True, advise: bool = True, only: Sequence[str] = ()) -> Estimate:
    """Estimates a design. whole: with the logic, from the sources' IR, which needs clang 19 and takes half a minute, of
    the cores of the emulator some minutes. Otherwise the sizes alone give a lower bound. Where the sizes alone are too
    large, no logic is counted. advise: look for a recipe that fits where this one does not. only:
    of an engine's processes count these, all if empty.

    Raises RecipeError for a design without a card, and for a name in `only` that is not a process of the design.
    """
    platform = design.platform
    if platform.part == NO_PART or not platform.regions:
        raise RecipeError(
            f"platform '{platform.name}' has no resource figures: it is the emulator, or its file has no [[slr]]; give "
            "--platform u250, for example."
        )
    if only and not any(kernel.engine for kernel in design.kernels):
        raise RecipeError(
            f"recipe '{design.recipe.name}' has no process {only[0]!a}: it has no engine; leave --process out."
        )
    operators = Operators(1000 / platform.speeds["clock_mhz"])
    if whole and not only and any(kernel.cores for kernel in design.kernels):
        least = estimate(design, whole=False, advise=advise)
        if not least.fit.fits:
            least.unknown.append("its arrays alone are too large, so its logic was not counted")
            return least
    parts: list[Component] = []
    units: list[PlacedUnit] = []
    unknown: list[str] = []
    for kernel in design.kernels:
        part = _kernel(kernel, design, operators, whole, only)
        unknown += [note for note in _notes(part) if note not in unknown]
        parts.append(part)
        banks = tuple(bound.bank for bound in kernel.arguments if bound.bank)
        units += [PlacedUnit(unit.name, part, unit.slr, banks) for unit in kernel.compute_units]
    if only:
        _refuse_unknown_processes(design, parts, only)
        unknown.append(f"of the processes only {', '.join(only)} were counted")
    found = Estimate(design.recipe.name, platform, parts, units, fit(units, platform), unknown)
    if advise and not found.fit.fits:
        found.advice = _advice(design)
    return found


def _refuse_unknown_processes(design: Design, parts: Sequence[Component], only: Sequence[str]) -> None:
    logic = [child for part in parts for child in part.parts]
    if any(child.kind == "logic" for child in logic):  # the names are unknown: the sources were not read
        return
    known = {child.name for child in logic if child.kind == "process"}
    if missing := [name for name in only if name not in known]:
        raise RecipeError(
            f"recipe '{design.recipe.name}' has no process {missing[0]!a}; leave --process out to see the names of an "
            "engine's processes."
        )


def check_fit(design: Design) -> Estimate:
    """The estimate of what a design takes, for a build: by its sizes, and where these fit with the logic of engines and
    of the user's kernels as well, which takes seconds. What was left out is said in `unknown`.

    Raises RecipeError, which says what is too large and which recipe would fit, for a design that does not fit its
    card.
    """
    found = estimate(design, whole=False, advise=False)
    if found.fit.fits:
        if any(kernel.engine is None and kernel.source is None for kernel in design.kernels):
            words = "the logic of its cores was not counted (it takes minutes): `xclbin-build estimate` counts it"
            found.unknown.append(words)
        elif not clang.available():
            found.unknown.append(
                f"its logic was not counted, because clang {clang.VERSION} is missing ('apt-get install "
                f"clang-{clang.VERSION} llvm-{clang.VERSION}'); the build continues, because the sizes of "
                "its arrays fit"
            )
        else:
            found = estimate(design, advise=False)
    if not found.fit.fits:
        name, platform = design.recipe.name, design.platform.name
        problems = " ".join(found.fit.problems)
        raise RecipeError(
            f"recipe '{name}' does not fit platform '{platform}': {problems} {_advice(design)} "
            f"(`xclbin-build estimate --recipe {name} --platform {platform}` shows each part; --no-fit-check builds "
            "nevertheless.)"
        )
    return found


def _kernel(kernel: Kernel, design: Design, operators: Operators, whole: bool, only: Sequence[str]) -> Component:
    has_uram = any(region.usable["uram"] for region in design.platform.regions)
    if kernel.engine is not None:
        part = engine.least(kernel.engine, kernel.name, operators, design.peer_banks)
        return kernels.engine_logic(part, kernel, design, operators, only) if whole else part
    if kernel.source is not None:
        if whole:
            return kernels.plain(kernel, operators, has_uram)
        return Component("kernel", kernel.name, Resources(), "counted", "not counted without its source")
    part = cores.least(kernel, design.tiles, operators, has_uram)
    return kernels.sequencer_logic(kernel, design, operators, has_uram) if whole else part


def _notes(part: Component) -> list[str]:
    own = [part.note] if part.basis == "unknown" and part.note else []
    return own + [note for child in part.parts for note in _notes(child)]


def _advice(design: Design) -> str:
    """A sentence with a recipe that comes along and fits the design's platform by its sizes, the platform's own first:
    that it fits with its logic, tests hold. Of a design with engines one that computes with the same elements."""
    elements = _elements(design)
    for name in recipes.for_platform(design.platform.name):
        if name == design.recipe.name:
            continue
        try:
            other = elaborate(recipes.load(name), platforms.load(design.platform.name))
            if elements and _elements(other) != elements:
                continue
            if estimate(other, whole=False, advise=False).fit.fits:
                return f"Recipe '{name}' fits."
        except RecipeError:
            continue
    return "No built-in recipe fits this platform; reduce the array, the tiles or the lanes."


def _elements(design: Design) -> set[str]:
    """What the design's engines compute with."""
    return {kernel.engine.element for kernel in design.kernels if kernel.engine is not None}
