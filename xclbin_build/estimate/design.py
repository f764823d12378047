"""The estimate of a design: its kernels, and whether its compute units fit the card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .. import platform as platforms
from .. import recipe as recipes
from ..design import Design, Kernel, elaborate
from ..errors import RecipeError
from ..platform import NO_PART, Platform
from . import cores, engine, kernels
from .fit import Fit, Unit, fit
from .operators import Operators
from .resources import Part, Resources


@dataclass
class Estimate:
    """kernels: what each takes, once. units: the compute units. unknown: sentences about what could not be counted.
    advice: the recipe that would fit, in a sentence; "" if this one does."""

    recipe: str
    platform: Platform
    kernels: list[Part]
    units: list[Unit]
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
    """Estimates a design. whole: with the logic, from the sources' IR, which needs clang 19 and takes half a minute;
    else what the sizes alone tell, at least so much. advise: look for a recipe that fits where this one does not. only:
    of an engine's processes count these, all if empty.

    Raises RecipeError for a design without a card.
    """
    platform = design.platform
    if platform.part == NO_PART or not platform.regions:
        raise RecipeError(
            f"platform '{platform.name}' has no resources to fit: it is the software card, or its file has no [[slr]]; "
            "give --platform u250, for example."
        )
    operators = Operators(1000 / platform.speeds["clock_mhz"])
    parts: list[Part] = []
    units: list[Unit] = []
    unknown: list[str] = []
    for kernel in design.kernels:
        part = _kernel(kernel, design, operators, whole, only)
        unknown += [note for note in _notes(part) if note not in unknown]
        parts.append(part)
        banks = tuple(bound.bank for bound in kernel.arguments if bound.bank)
        units += [Unit(unit.name, part, unit.slr, banks) for unit in kernel.compute_units]
    if only:
        unknown.append(f"of the processes only {', '.join(only)} were counted")
    found = Estimate(design.recipe.name, platform, parts, units, fit(units, platform), unknown)
    if advise and not found.fit.fits:
        found.advice = _advice(design)
    return found


def check_fit(design: Design) -> Estimate:
    """The estimate of what a design takes at least, by its sizes alone.

    Raises RecipeError, which says what is too large, for a design of which already that does not fit its card.
    """
    found = estimate(design, whole=False)
    if not found.fit.fits:
        name, platform = design.recipe.name, design.platform.name
        problems = " ".join(found.fit.problems)
        raise RecipeError(
            f"recipe '{name}' does not fit platform '{platform}': {problems} {found.advice} "
            f"(`xclbin-build estimate --recipe {name} --platform {platform}` shows each part; "
            "--no-fit-check builds all the same.)"
        )
    return found


def _kernel(kernel: Kernel, design: Design, operators: Operators, whole: bool, only: Sequence[str]) -> Part:
    has_uram = any(region.usable["uram"] for region in design.platform.regions)
    if kernel.engine is not None:
        part = engine.least(kernel.engine, kernel.name, operators)
        return kernels.engine_logic(part, kernel, design, operators, only) if whole else part
    if kernel.source is not None:
        if whole:
            return kernels.plain(kernel, design, operators, has_uram)
        return Part("kernel", kernel.name, Resources(), "counted", "not counted without its source")
    part = cores.least(kernel, design.tiles, operators, has_uram)
    return kernels.sequencer_logic(kernel, design, operators, has_uram) if whole else part


def _notes(part: Part) -> list[str]:
    own = [part.note] if part.basis == "unknown" and part.note else []
    return own + [note for child in part.parts for note in _notes(child)]


def _advice(design: Design) -> str:
    """A sentence with the recipes that fit the design's platform, the platform's own first."""
    fitting = []
    for name in recipes.for_platform(design.platform.name):
        try:
            other = estimate(
                elaborate(recipes.load(name), platforms.load(design.platform.name)), whole=False, advise=False
            )
        except RecipeError:
            continue
        if other.fit.fits:
            fitting.append(name)
    if design.recipe.name in fitting:  # as far as sizes tell, from which what was too large is missing
        return "Its sizes alone fit, its logic does not: give it a smaller array, fewer lanes or no vector side."
    if not fitting:
        return "No recipe that comes along fits this platform; make its engine or its tiles smaller."
    return f"The sizes of recipe '{fitting[0]}' fit."
