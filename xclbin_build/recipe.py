"""Recipes: which kernels an xclbin holds, how many compute units of each, with which cores and tile sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hls_kernels import RECIPES

from . import engine as engines
from . import names as kinds
from . import platform as platforms
from . import toml_table
from .connectivity import Stream, parse_stream
from .declaration import KEYWORDS
from .errors import RecipeError, did_you_mean
from .trusted_path import check_named

EMULATOR = "emu"
"""The platform of a recipe that names none."""
MAX_COMPUTE_UNITS = 60  # what XRT's connection of CUs to one OCL region allows
_SOURCE_KEYS = ("include", "define")
MAILBOXES = ("in", "out", "both")
"""Registers of a kernel that the host reaches while it runs: arguments, results, or both."""
_REGISTER_KEYS = ("mailbox", "auto_restart")
_KERNEL_KEYS = (
    "cores",
    "source",
    *_SOURCE_KEYS,
    *_REGISTER_KEYS,
    "cu",
    "units",
    "together",
    "memory",
    "slr",
    *engines.KEYS,
)


@dataclass(frozen=True)
class KernelRecipe:
    """A kernel: a sequencer of `cores`, an `engine`, or a plain HLS kernel of one's own in `sources`.

    `cores` are names of hls_kernels/cores or paths of headers; `include` folders of headers and `define` macros of
    plain kernels. `memory` gives the bank of pointer arguments, `ARGUMENT` or `UNIT.ARGUMENT` (others lie in the
    platform's first bank); `units` the names of the compute units, if not NAME_1, NAME_2, ...; `slr` the die region of
    each, for the hardware targets. `together`: the compute units of an engine share each command of one launch.
    `mailbox`: one of MAILBOXES; `auto_restart`: the kernel runs again and again, as often as the host says.
    """

    name: str
    cores: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    engine: engines.Engine | None = None
    cu: int = 1
    memory: dict[str, str] = field(default_factory=dict)
    slr: tuple[str, ...] = ()
    together: bool = False
    include: tuple[str, ...] = ()
    define: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    mailbox: str = ""
    auto_restart: bool = False


@dataclass(frozen=True)
class Recipe:
    """What a recipe file says. Paths in it are relative to `directory`; `streams` connect plain kernels."""

    name: str
    directory: Path
    kernels: tuple[KernelRecipe, ...]
    tiles: dict[str, int] = field(default_factory=dict)
    platform: str = EMULATOR
    streams: tuple[Stream, ...] = ()

    def resolve(self, path: str) -> Path:
        """A path that the recipe names, as an absolute one."""
        return (self.directory / path).resolve()

    def resolve_all(self, paths: Sequence[str]) -> tuple[Path, ...]:
        return tuple(self.resolve(path) for path in paths)

    def with_compute_units(self, counts: Mapping[str, int]) -> Recipe:
        """The recipe with other numbers of compute units: `{"sequencer": 4}`."""
        known = [kernel.name for kernel in self.kernels]
        for name, count in counts.items():
            if name not in known:
                raise RecipeError(f"--cu {name}={count}: no kernel '{name}' in recipe '{self.name}'; "
                                  f"{did_you_mean(name, known)}")  # fmt: skip
        kernels = tuple(
            replace(kernel, cu=checked_cu(f"--cu {kernel.name}", counts[kernel.name]), slr=(), units=())
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
    table.allow(["name", "kernel", "tiles", "platform", "streams"])
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
        streams=tuple(parse_stream(text, f"{path}: 'streams'") for text in table.strings("streams", kinds.TEXT)),
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
        counts[name] = checked_cu(f"--cu {word}", int(count))
    return counts


def _kernel(name: str, table: toml_table.Table) -> KernelRecipe:
    table.allow(_KERNEL_KEYS)
    if name in KEYWORDS or name == "main":
        raise RecipeError(f"{table.where}: '{name}' cannot be the name of a C++ function; choose another name.")
    kinds.check(name, kinds.KERNEL, f"{table.where}: the kernel's name")
    cores, sources = table.strings("cores", kinds.FILE), _sources(table)
    engine = engines.parse(table) if "engine" in table.values else None
    if [bool(cores), bool(sources), engine is not None].count(True) != 1:
        raise RecipeError(
            f"{table.where}: give either 'cores' (a sequencer), 'engine' (the dataflow engine) or 'source' (a kernel "
            "of your own)."
        )
    if engine is None and (lost := next((key for key in engines.KEYS if key in table.values), "")):
        raise RecipeError(f"{table.where}: '{lost}' is a size of an engine; give the array in 'engine'.")
    if len(set(cores)) != len(cores):
        raise RecipeError(f"{table.where}: 'cores' lists a core twice.")
    if not sources and (lost := next((key for key in _SOURCE_KEYS if key in table.values), "")):
        raise RecipeError(f"{table.where}: '{lost}' is for the sources of a kernel of your own; leave it out.")
    units = table.strings("units", kinds.KERNEL)
    cu = checked_cu(table.where, table.get("cu", int, len(units) or 1))
    check_units(table.where, units, cu)
    slr = table.strings("slr", kinds.WORD)
    if slr and len(slr) != cu:
        raise RecipeError(f"{table.where}: 'slr' must name one region for each of the {cu} compute units.")
    together, memory = table.get("together", bool, False), table.names("memory", kinds.BANK, kinds.PORT)
    if together and engine is None:
        raise RecipeError(
            f"{table.where}: 'together' is supported for the compute units of an engine only; leave it out."
        )
    if together and memory:
        raise RecipeError(
            f"{table.where}: with 'together', feature maps lie in the banks of all compute units and weights in the "
            "unit's own bank; leave out 'memory'."
        )
    mailbox, auto_restart = table.get("mailbox", str, ""), table.get("auto_restart", bool, False)
    if (mailbox or auto_restart) and not sources:
        raise RecipeError(f"{table.where}: 'mailbox' and 'auto_restart' are for kernels of your own; leave them out.")
    check_mailbox(f"{table.where}: 'mailbox'", mailbox)
    include, define = table.strings("include", kinds.FILE), table.strings("define", kinds.MACRO)
    return KernelRecipe(
        name, tuple(cores), sources, engine, cu, memory, tuple(slr), together, tuple(include), tuple(define),
        tuple(units), mailbox, auto_restart,
    )  # fmt: skip


def check_mailbox(where: str, value: str) -> str:
    """`value` if it is a mailbox, or "" for no mailbox; RecipeError for another."""
    if value and value not in MAILBOXES:
        raise RecipeError(f"{where}: '{value[:40]}' is not a mailbox; {did_you_mean(value, MAILBOXES)}")
    return value


def _sources(table: toml_table.Table) -> tuple[str, ...]:
    """`source`: a file, or a list of files."""
    if isinstance(table.values.get("source"), list):
        files = table.strings("source", kinds.FILE)
        if not files or len(set(files)) != len(files):
            raise RecipeError(f"{table.where}: 'source' must be a file, or a list of different files.")
        return tuple(files)
    return (table.name("source", kinds.FILE),) if "source" in table.values else ()


def check_units(where: str, units: Sequence[str], cu: int) -> None:
    """Raises RecipeError unless there is a name for each compute unit, or none at all."""
    if units and (len(units) != cu or len(set(units)) != cu):
        raise RecipeError(f"{where}: {cu} compute units need as many different names in 'units', not {len(units)}.")


def checked_cu(where: str, count: int) -> int:
    if not 1 <= count <= MAX_COMPUTE_UNITS:
        raise RecipeError(f"{where}: the number of compute units must be 1 to {MAX_COMPUTE_UNITS}, not {count}.")
    return count
