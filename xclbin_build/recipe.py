"""Recipes: which kernels an xclbin holds, how many compute units of each, with which cores and tile sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hls_kernels import RECIPES

from . import engine as engines
from . import names as kinds
from . import platform as platforms
from . import toml_table
from .declaration import KEYWORDS
from .errors import RecipeError, did_you_mean
from .trusted_path import check_named

EMULATOR = "emu"
"""The platform of a recipe that names none."""
MAX_COMPUTE_UNITS = 60  # what XRT's connection of CUs to one OCL region allows
_KERNEL_KEYS = ("cores", "source", "cu", "together", "memory", "slr", *engines.KEYS)


@dataclass(frozen=True)
class KernelRecipe:
    """A kernel: a sequencer of `cores`, an `engine`, or a plain HLS kernel of one's own in `source`.

    `cores` are names of hls_kernels/cores or paths of headers; `memory` gives the bank of pointer arguments (others
    lie in the platform's first bank); `slr` the die region of each compute unit, for the hardware targets. `together`:
    the compute units of an engine share each command of one launch.
    """

    name: str
    cores: tuple[str, ...] = ()
    source: str = ""
    engine: engines.Engine | None = None
    cu: int = 1
    memory: dict[str, str] = field(default_factory=dict)
    slr: tuple[str, ...] = ()
    together: bool = False


@dataclass(frozen=True)
class Recipe:
    """What a recipe file says. Paths in it are relative to `directory`."""

    name: str
    directory: Path
    kernels: tuple[KernelRecipe, ...]
    tiles: dict[str, int] = field(default_factory=dict)
    platform: str = EMULATOR

    def resolve(self, path: str) -> Path:
        """A path that the recipe names, as an absolute one."""
        return (self.directory / path).resolve()

    def with_compute_units(self, counts: Mapping[str, int]) -> Recipe:
        """The recipe with other numbers of compute units: `{"sequencer": 4}`."""
        known = [kernel.name for kernel in self.kernels]
        for name, count in counts.items():
            if name not in known:
                raise RecipeError(f"--cu {name}={count}: no kernel '{name}' in recipe '{self.name}'; "
                                  f"{did_you_mean(name, known)}")  # fmt: skip
        kernels = tuple(
            replace(kernel, cu=_checked_cu(f"--cu {kernel.name}", counts[kernel.name]), slr=())
            if kernel.name in counts
            else kernel
            for kernel in self.kernels
        )
        return replace(self, kernels=kernels)


def names() -> list[str]:
    """Recipes that come with hls_kernels."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def for_platform(platform: str) -> list[str]:
    """Recipes that come with hls_kernels and are made for a platform, its own first."""
    found = [name for name in names() if load(name).platform == platform]
    return sorted(found, key=lambda name: (name != platform, name))


def own(platform: str, element: str | None = None) -> str:
    """The recipe that is a platform's own: the first that is made for it with an engine of `element`, else the first.

    element: `int8`, `bfloat16` or `float32`; None: any. Raises RecipeError if no recipe is made for the platform.
    """
    found = for_platform(platform)
    if not found:
        made = ", ".join(sorted({load(name).platform for name in names()}))
        raise RecipeError(f"no built-in recipe is made for platform '{platform}', only for {made}; give your own.")
    return next((name for name in found if element in elements(name)), found[0])


def elements(recipe: str | Path) -> tuple[str, ...]:
    """The element types of a recipe's engines."""
    return tuple(kernel.engine.element for kernel in load(recipe).kernels if kernel.engine)


def chosen(recipe: str | Path | None, platform: str | Path | None) -> str | Path:
    """The recipe that is built: the one given, else the platform's own, else the emulator's."""
    if recipe is not None:
        return recipe
    return own(EMULATOR if platform is None else platforms.load(platform).name)


def load(name_or_path: str | Path) -> Recipe:
    """A recipe by name (`emulator`, …) or from a file (a path that ends in .toml).

    Raises RecipeError, naming file and key, for whatever is unknown, missing or contradictory.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        if str(name_or_path) not in names():
            raise RecipeError(
                f"unknown recipe '{name_or_path}'; {did_you_mean(str(name_or_path), names())} "
                "Give a recipe of your own as a path that ends in .toml."
            )
        path = RECIPES / f"{name_or_path}.toml"
    else:
        check_named(path, "recipe")
    table = toml_table.load(path)
    table.allow(["name", "kernel", "tiles", "platform"])
    title = table.name("name", kinds.TITLE, path.stem)
    kernels = tuple(_kernel(name, entry) for name, entry in table.tables("kernel", kinds.TITLE).items())
    if not kernels:
        raise RecipeError(f"{path}: a recipe needs at least one [kernel.NAME].")
    return Recipe(
        name=title,
        directory=path.resolve().parent,
        kernels=kernels,
        tiles=table.integers("tiles"),
        platform=table.name("platform", kinds.TITLE, "emu"),
    )


def parse_compute_units(words: list[str]) -> dict[str, int]:
    """`["sequencer=2"]` as `{"sequencer": 2}`."""
    counts: dict[str, int] = {}
    for word in words:
        name, equals, count = word.partition("=")
        if not name or not equals or not (count.isascii() and count.isdigit()):
            raise RecipeError(f"--cu {word}: write KERNEL=COUNT, such as --cu sequencer=2.")
        if name in counts:
            raise RecipeError(f"--cu {word}: {name}={counts[name]} is also given; leave one out.")
        counts[name] = _checked_cu(f"--cu {word}", int(count))
    return counts


def _kernel(name: str, table: toml_table.Table) -> KernelRecipe:
    table.allow(_KERNEL_KEYS)
    if name in KEYWORDS or name == "main":
        raise RecipeError(f"{table.where}: '{name}' cannot be the name of a C++ function; choose another name.")
    kinds.check(name, kinds.KERNEL, f"{table.where}: the kernel's name")
    cores, source = table.strings("cores", kinds.FILE), ""
    if "source" in table.values:
        source = table.name("source", kinds.FILE)
    engine = engines.parse(table) if "engine" in table.values else None
    if [bool(cores), bool(source), engine is not None].count(True) != 1:
        raise RecipeError(
            f"{table.where}: give either 'cores' (a sequencer), 'engine' (the dataflow engine) or 'source' (a kernel "
            "of your own)."
        )
    if engine is None and (lost := next((key for key in engines.KEYS if key in table.values), "")):
        raise RecipeError(f"{table.where}: '{lost}' is a size of an engine; give the array in 'engine'.")
    if len(set(cores)) != len(cores):
        raise RecipeError(f"{table.where}: 'cores' lists a core twice.")
    cu = _checked_cu(table.where, table.get("cu", int, 1))
    slr = table.strings("slr", kinds.WORD)
    if slr and len(slr) != cu:
        raise RecipeError(f"{table.where}: 'slr' must name one region for each of the {cu} compute units.")
    together, memory = table.get("together", bool, False), table.names("memory", kinds.BANK)
    if together and engine is None:
        raise RecipeError(
            f"{table.where}: 'together' is supported for the compute units of an engine only; leave it out."
        )
    if together and memory:
        raise RecipeError(
            f"{table.where}: with 'together', feature maps lie in the banks of all compute units and weights in the "
            "unit's own bank; leave out 'memory'."
        )
    return KernelRecipe(name, tuple(cores), source, engine, cu, memory, tuple(slr), together)


def _checked_cu(where: str, count: int) -> int:
    if not 1 <= count <= MAX_COMPUTE_UNITS:
        raise RecipeError(f"{where}: the number of compute units must be 1 to {MAX_COMPUTE_UNITS}, not {count}.")
    return count
