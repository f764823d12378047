"""The build: a recipe in, an xclbin out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from . import cache_key
from . import platform as platforms
from . import recipe as recipes
from .axlf import read, write
from .cache import digest, locked
from .design import Design, elaborate
from .errors import RecipeError, ToolchainError, XclbinError, did_you_mean
from .estimate.design import check_fit
from .flow import vitis
from .manifest import EMULATED, TARGETS
from .metadata import container
from .toolchain import gxx
from .toolchain import isa as isas
from .toolchain.argument_bytes import ArgumentBytes
from .toolchain.ninja_file import Progress
from .trusted_path import printable, weakness


def load_design(
    recipe: str | Path | None = None, cu: Mapping[str, int] | None = None, platform: str | Path | None = None
) -> Design:
    """A recipe, worked out for a platform.

    recipe: name or path of a .toml; None: the platform's own. platform: the same; None: the recipe's.
    cu: numbers of compute units that replace those of the recipe, `{"sequencer": 4}`.
    """
    return design_of(recipes.load(recipes.chosen(recipe, platform)).with_compute_units(cu or {}), platform)


def design_of(recipe: recipes.Recipe, platform: str | Path | None = None) -> Design:
    """A recipe that has been read, worked out for a platform; None: the recipe's."""
    return elaborate(recipe, platforms.load(recipe.platform if platform is None else platform), ArgumentBytes)


def build(
    target: str = "emu",
    recipe: str | Path | None = None,
    cu: Mapping[str, int] | None = None,
    output: str | Path = "torch.xclbin",
    *,
    platform: str | Path | None = None,
    isa: str | None = None,
    plan: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Builds an xclbin and returns its path.

    target: `emu` or `sw_emu` (the emulator; g++ or clang++ compiles the kernels), `cycles` (the same, of
    plain kernels whose processes count their cycles), `hw_emu` or `hw` (Vitis).
    isa: instruction set of an emulation, by default $FPGA_DYNAMO_ISA or the best that this machine has.
    plan: instruction set that its tiles are planned for, by default $FPGA_DYNAMO_PLAN or the same.
    progress: called as (steps finished, steps in all, what has finished).

    Raises RecipeError, RecordError or ToolchainError (all BuildError).
    """
    check_target(target)
    return build_design(load_design(recipe, cu, platform), target, output, isa=isa, plan=plan, progress=progress)


def build_design(
    design: Design,
    target: str,
    output: str | Path,
    *,
    isa: str | None = None,
    plan: str | None = None,
    progress: Progress | None = None,
    fit_check: bool = True,
    sanitize: bool = False,
    uninitialized: bool = False,
) -> Path:
    """`build` for a recipe that has been worked out. fit_check: refuse what is too large for its card.

    sanitize: plain kernels on the emulator check array bounds, shifts and divisions, and end with file and line.
    uninitialized: they find reads of variables without a value; requires clang.
    """
    output = Path(output)
    check_output(output)
    if target in EMULATED:
        emulation = gxx.build(
            design, isa, plan, progress, counting=target == "cycles", sanitize=sanitize, uninitialized=uninitialized
        )
        multiplies = isas.multiplies(emulation.isa)
        write(output, container(design, target, emulation.isa, emulation.plan, emulation.shared_object, multiplies))
    else:
        if fit_check and design.platform.regions:
            check_fit(design)
        vitis.build(design, target, output, progress)
    return output


def cached(
    recipe: str | Path | None = None,
    target: str = "emu",
    *,
    cu: Mapping[str, int] | None = None,
    platform: str | Path | None = None,
    isa: str | None = None,
    plan: str | None = None,
    progress: Progress | None = None,
    show: AbstractContextManager[Progress] | None = None,
) -> Path:
    """The xclbin of a recipe from the user's cache, built on first use.

    show: is entered if it has to be built, and gives what is called as `progress` then (:mod:`xclbin_build.progress`).

    The cache's key is the content of all sources, the recipe, the platform, this package, the compiler and the
    instruction sets (`isa` and `plan`, as for `build`); several processes that ask at once build once. A cached file
    that is damaged, or that others can write to, is built again. Without a compiler, what any compiler has built of the
    same sources for an instruction set that this machine runs is found.
    """
    check_target(target)
    return cached_design(load_design(recipe, cu, platform), target, isa=isa, plan=plan, progress=progress, show=show)


def cached_design(
    design: Design,
    target: str = "emu",
    *,
    isa: str | None = None,
    plan: str | None = None,
    progress: Progress | None = None,
    show: AbstractContextManager[Progress] | None = None,
) -> Path:
    """`cached` for a recipe that has been worked out."""
    key = digest(cache_key.contents(design, target))
    try:
        chosen_isa, chosen_plan = isas.chosen(isa, plan)
        path = cache_key.path_of(key, target, chosen_isa, chosen_plan)
    except ToolchainError:  # where there is no compiler, what one has built will do
        before = cache_key.built_before(key, isa, plan)
        if before is None:
            raise
        return before
    if _intact(path):  # before the lock: the cache may be one that cannot be written to
        return path
    with locked(path):
        if not _intact(path):
            with show or nullcontext() as shown:
                reported = shown or progress
                build_design(design, target, path, isa=chosen_isa, plan=chosen_plan, progress=reported)
    return path


def check_target(target: str) -> None:
    """Raises RecipeError for an unknown target."""
    if target not in TARGETS:
        raise RecipeError(f"unknown target '{target}'; {did_you_mean(target, TARGETS)}")


def check_output(output: Path) -> None:
    """Raises RecipeError for a place where no file can be."""
    if output.is_dir():
        example = printable(output / "torch.xclbin")
        raise RecipeError(f"{printable(output)} is a directory; give the file's name, too, such as {example}.")


def _intact(path: Path) -> bool:
    if not path.is_file():
        return False
    weak = weakness(path)
    if weak is not None:
        warnings.warn(f"the cached xclbin is built again, because {weak}", RuntimeWarning, stacklevel=5)
        return False
    try:
        read(path)
    except XclbinError:
        return False
    return True
