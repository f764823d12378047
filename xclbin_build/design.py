"""A recipe worked out: kernels with registers and banks, cores with opcodes, compute units with addresses, tiles.

Everything that is generated (sources, metadata, manifest) is written from the `Design`, and from nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hls_kernels import CORES, ENGINE, ROOT

from . import recipe as recipes
from .connectivity import bank_names, banks_of, check_streams
from .engine import Engine
from .errors import RecipeError, did_you_mean
from .plain_kernel import PlainKernel, ValueBytes, find_kernel
from .platform import NO_PART, Platform
from .records import Header, Record, parse_command, parse_core_line, parse_header, parse_tiles
from .signature import BEHIND_MAILBOX, FIRST_ARGUMENT, Argument, register_offsets

FIRST_CU_BASE = 0x0140_0000
CU_RANGE = 0x1_0000
NO_BASE = 2**64 - 1  # of a compute unit without control registers, as XRT spells it

_HEADER = "core.hpp"  # of a core in its folder

SEQUENCER_ARGUMENTS = (
    Argument("commands", "global", "fpga::vec16", 8, const=True),
    Argument("count", "scalar", "uint32_t", 4),
    Argument("arena", "global", "fpga::vec16", 8),
    Argument("weights", "global", "fpga::vec16", 8, const=True),
)


# Three ports lead to the same maps, because a process of the engine owns its port.
ENGINE_ARGUMENTS = (
    Argument("commands", "global", "uint32_t", 8, const=True),
    Argument("count", "scalar", "uint32_t", 4),
    Argument("arena", "global", "engine::beat_t", 8, const=True),
    Argument("weights", "global", "engine::beat_t", 8, const=True),
    Argument("arena_residual", "global", "engine::beat_t", 8, const=True, same_as="arena"),
    Argument("arena_output", "global", "engine::line_t", 8, same_as="arena"),
)
ENGINE_RECORDS = ("record.hpp", "vector/record.hpp")


@dataclass(frozen=True)
class Core:
    """A header with the functions of its opcodes; `user` when the recipe brought it along."""

    name: str
    header: Path
    opcodes: tuple[str, ...]
    user: bool
    elements: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def include(self) -> str:
        """Path of the header in the staged sources."""
        return f"user/{self.header.name}" if self.user else self.header.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class BoundArgument:
    """An argument with its place in the register map and, for a pointer, its memory bank."""

    argument: Argument
    index: int
    offset: int
    bank: str | None


@dataclass(frozen=True)
class ComputeUnit:
    """A compute unit. banks: those that an argument's buffers may lie in, by the argument's index."""

    name: str
    base: int
    slr: str | None
    banks: dict[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Kernel:
    """A kernel of the design: with `cores` a sequencer, with `engine` an engine, else a plain kernel from `source`.

    source: the file that defines a plain kernel; more_sources: what else it is linked from. include: folders of
    headers; define: macros. free_running: without control registers (`ap_ctrl_none`), it runs from the load on.
    mailbox, auto_restart: see KernelRecipe.
    """

    name: str
    cores: tuple[Core, ...]
    source: Path | None
    arguments: tuple[BoundArgument, ...]
    compute_units: tuple[ComputeUnit, ...]
    engine: Engine | None = None
    together: bool = False
    more_sources: tuple[Path, ...] = ()
    include: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()
    free_running: bool = False
    mailbox: str = ""
    auto_restart: bool = False

    @property
    def files(self) -> tuple[Path, ...]:
        """The user's sources that a plain kernel is compiled from."""
        return (self.source, *self.more_sources) if self.source else ()

    @property
    def flags(self) -> list[str]:
        """Options of the compiler for them."""
        return [*(f"-D{macro}" for macro in self.define), *(f"-I{path}" for path in self.include)]

    @property
    def peers(self) -> int:
        """Compute units that share each command of a launch."""
        return len(self.compute_units) if self.together else 1

    @property
    def takes_commands(self) -> bool:
        """Whether it runs a command list, whose commands the emulator cuts into slices."""
        return bool(self.cores) or self.engine is not None

    @property
    def opcodes(self) -> tuple[str, ...]:
        if self.engine is not None:
            return self.engine.opcodes
        return tuple(opcode for core in self.cores for opcode in core.opcodes)


@dataclass(frozen=True)
class Design:
    recipe: recipes.Recipe
    platform: Platform
    kernels: tuple[Kernel, ...]
    header: Header
    opcodes: dict[str, int]
    tiles: dict[str, int]

    @property
    def cores(self) -> tuple[Core, ...]:
        """Cores of all kernels, each once."""
        return tuple({core.name: core for kernel in self.kernels for core in kernel.cores}.values())

    @property
    def engine(self) -> Engine | None:
        """The sizes of all engines of the design, if it has one."""
        return next((kernel.engine for kernel in self.kernels if kernel.engine is not None), None)

    @property
    def peers(self) -> int:
        """Compute units of its engines that share each command of a launch."""
        return max((kernel.peers for kernel in self.kernels), default=1)

    @property
    def peer_banks(self) -> int:
        """Banks that the maps of such units are spread over: one for each, where there are as many."""
        return min(self.peers, len(self.platform.banks))

    def record(self, opcode: str) -> Record:
        return self.header.records[opcode]


def elaborate(recipe: recipes.Recipe, platform: Platform, value_bytes: ValueBytes | None = None) -> Design:
    """Works out a recipe for a platform. value_bytes: see :func:`xclbin_build.plain_kernel.find_kernel`.

    Raises RecipeError for an unknown core, tile constant or bank, RecordError for a header that cannot be understood.
    """
    header = parse_command(ROOT / "command.hpp")
    opcodes = {
        name.removeprefix("OP_").lower(): value for name, value in header.enums["opcode"].items() if name != "OP_USER"
    }
    next_user_opcode = header.enums["opcode"]["OP_USER"]
    cores: dict[str, Core] = {}
    for kernel in recipe.kernels:
        for reference in kernel.cores:
            core = _core(recipe, kernel.name, reference)
            known = cores.setdefault(core.name, core)
            if known.header != core.header:
                raise RecipeError(
                    f"recipe '{recipe.name}': {known.header} and {core.header} both name a core '{core.name}'."
                )
            if known is not core:
                continue
            if core.user:
                header = header.merge(parse_header(core.header), str(core.header))
            _check_elements(core, header)
            for opcode in core.opcodes:
                if opcode not in header.records:
                    raise RecipeError(
                        f"core '{core.name}': no 'struct {opcode}_command' gives the record of '{opcode}'."
                    )
                owner = next((c.name for c in cores.values() if c is not core and opcode in c.opcodes), None)
                if owner or (core.user and opcode in opcodes):
                    raise RecipeError(
                        f"core '{core.name}': opcode '{opcode}' is already used by {owner or 'command.hpp'}."
                    )
                if opcode not in opcodes:
                    opcodes[opcode] = next_user_opcode
                    next_user_opcode += 1
    _distinct_headers(recipe, cores)
    named = [tag for kernel in recipe.kernels for text in kernel.memory.values() for tag in banks_of(text)]
    platform = platform.with_implied(named)
    if any(kernel.engine is not None for kernel in recipe.kernels):
        _same_engines(recipe)
        for path in (ENGINE / name for name in ENGINE_RECORDS):
            header = header.merge(parse_header(path), str(path))
        numbers = header.enums["engine_opcode"]
        opcodes |= {name.removeprefix("ENGINE_").lower(): number for name, number in numbers.items()}
    kernels = _kernels(recipe, platform, cores, value_bytes)
    return Design(recipe, platform, kernels, header, opcodes, _tiles(recipe))


def _same_engines(recipe: recipes.Recipe) -> None:
    """Raises RecipeError for engines of several sizes: the emulator compiles them as one program."""
    kernels = [kernel for kernel in recipe.kernels if kernel.engine is not None]
    engines = {kernel.engine: kernel.name for kernel in kernels}
    for kernel in kernels:
        if kernel.together and len(recipe.kernels) > 1:
            raise RecipeError(
                f"recipe '{recipe.name}': the compute units of '{kernel.name}' work together, which requires a card "
                "without other kernels; leave out the others."
            )
    if len(engines) > 1:
        one, other = list(engines.values())[:2]
        raise RecipeError(
            f"recipe '{recipe.name}': the engines of '{one}' and '{other}' differ; give them the same sizes, or put "
            "them into two recipes."
        )


def _check_elements(core: Core, header: Header) -> None:
    known = [name.removeprefix("FORMAT_") for name in header.enums["element_format"]]
    for operand, table in core.elements.items():
        for name in (name for names in table.values() for name in names):
            if name not in known:
                hint = did_you_mean(name, known)
                raise RecipeError(f"core '{core.name}': unknown type '{name}' of {operand}; {hint}")


def core_names() -> list[str]:
    """Cores that come with hls_kernels."""
    return sorted(path.parent.name for path in CORES.glob(f"*/{_HEADER}"))


def is_path(reference: str) -> bool:
    """Whether an entry of `cores` is a header of the user's, not a name of hls_kernels/cores."""
    return reference.endswith((".hpp", ".h"))


def _core(recipe: recipes.Recipe, kernel: str, reference: str) -> Core:
    if is_path(reference):
        header = recipe.resolve(reference)
        if not header.is_file():
            raise RecipeError(f"recipe '{recipe.name}', kernel '{kernel}': core {header} does not exist.")
    else:
        header = _header_of_core(reference)
        if not header.is_file():
            known = core_names()
            raise RecipeError(
                f"recipe '{recipe.name}', kernel '{kernel}': unknown core '{reference}'; "
                f"{did_you_mean(reference, known)} A core of your own is given by a path that ends in .hpp."
            )
    line = parse_core_line(header)
    return Core(line.core, header, line.opcodes, is_path(reference), line.elements)


def _header_of_core(name: str) -> Path:
    """Where the core `name` of hls_kernels is, if there is one."""
    return CORES / name / _HEADER


def _distinct_headers(recipe: recipes.Recipe, cores: dict[str, Core]) -> None:
    names = [core.include for core in cores.values()]
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(
                f"recipe '{recipe.name}': two cores have headers of the name '{Path(name).name}'; rename one."
            )


def _kernels(
    recipe: recipes.Recipe, platform: Platform, cores: dict[str, Core], value_bytes: ValueBytes | None
) -> tuple[Kernel, ...]:
    kernels = []
    base = FIRST_CU_BASE
    by_header = {core.header: core for core in cores.values()}
    for entry in recipe.kernels:
        include = tuple(recipe.resolve(folder) for folder in entry.include)
        plain = find_kernel(recipe.resolve_all(entry.sources), entry.name, include, entry.define, value_bytes)
        own = SEQUENCER_ARGUMENTS if entry.engine is None else ENGINE_ARGUMENTS
        arguments = plain.arguments if plain else own
        names = entry.units or [f"{entry.name}_{index + 1}" for index in range(entry.cu)]
        bound, banks = _bind(recipe, entry, platform, arguments, names, plain)
        units = []
        for index, name in enumerate(names):
            slr = entry.slr[index] if entry.slr else None
            units.append(ComputeUnit(name, NO_BASE if plain and plain.free_running else base, slr, banks[name]))
            base += CU_RANGE
        headers = [recipe.resolve(name) if is_path(name) else _header_of_core(name) for name in entry.cores]
        _check_regions(recipe, entry, platform)
        used = tuple(by_header[path] for path in headers)
        kernel = Kernel(entry.name, used, None, bound, tuple(units), entry.engine, entry.together)
        if plain:
            kernel = replace(
                kernel, source=plain.source, more_sources=plain.more_sources, include=include, define=entry.define,
                free_running=plain.free_running, mailbox=entry.mailbox, auto_restart=entry.auto_restart,
            )  # fmt: skip
        kernels.append(kernel)
    check_streams(
        recipe.streams,
        [
            f"{unit.name}.{bound.argument.name}"
            for kernel in kernels
            for unit in kernel.compute_units
            for bound in kernel.arguments
            if bound.argument.kind == "stream"
        ],
    )
    total = sum(len(kernel.compute_units) for kernel in kernels)
    if total > recipes.MAX_COMPUTE_UNITS:
        raise RecipeError(
            f"recipe '{recipe.name}': {total} compute units; at most {recipes.MAX_COMPUTE_UNITS} are possible."
        )
    return tuple(kernels)


def _check_regions(recipe: recipes.Recipe, entry: recipes.KernelRecipe, platform: Platform) -> None:
    """RecipeError for a name in `slr` that the platform does not have; without a card, one that no card has."""
    where = f"recipe '{recipe.name}', kernel '{entry.name}'"
    known = [f"SLR{i}" for i in range(platform.slrs)]
    for name in entry.slr:
        if platform.part == NO_PART and not re.fullmatch(r"SLR[0-3]", name):
            raise RecipeError(f"{where}: '{name}' in 'slr' is not a region of a card; cards have SLR0 to SLR3.")
        if platform.part != NO_PART and name not in known:
            raise RecipeError(f"{where}: platform '{platform.name}' has no region '{name}'; it has {', '.join(known)}.")


def _bind(
    recipe: recipes.Recipe,
    entry: recipes.KernelRecipe,
    platform: Platform,
    arguments: Sequence[Argument],
    units: Sequence[str],
    plain: PlainKernel | None,
) -> tuple[tuple[BoundArgument, ...], dict[str, dict[int, tuple[str, ...]]]]:
    """The arguments, each with the bank that its first compute unit has for it, and all banks by compute unit."""
    where = f"recipe '{recipe.name}', kernel '{entry.name}'"
    pointers = [argument.name for argument in arguments if argument.kind == "global"]
    tags = [bank.tag for bank in platform.banks]
    chosen: dict[tuple[str, str], tuple[str, ...]] = {}  # by unit ("" for all) and argument
    for key, text in entry.memory.items():
        unit, _, port = key.rpartition(".")
        if unit and unit not in units:
            raise RecipeError(f"{where}: memory for '{key}': no such compute unit; {did_you_mean(unit, units)}")
        names = plain.arguments_of(port) if plain else [port] * (port in pointers)
        if not names:
            raise RecipeError(
                f"{where}: memory for '{port}', which is not a pointer argument; {did_you_mean(port, pointers)}"
            )
        for tag in banks_of(text):
            if tag not in tags:
                near = did_you_mean(tag, tags)
                all_of_them = f" It has {bank_names(tags)}." if near.startswith("did") else ""
                raise RecipeError(f"{where}: platform '{platform.name}' has no bank '{tag}'; {near}{all_of_them}")
        chosen |= {(unit, name): banks_of(text) for name in names}

    def banks(unit: str, argument: Argument) -> tuple[str, ...]:
        # What is the same buffer lies in the same bank.
        keys = [(owner, name) for name in (argument.name, argument.same_as) for owner in (unit, "")]
        return next((chosen[key] for key in keys if key in chosen), (tags[0],))

    by_unit = {
        unit: {i: banks(unit, argument) for i, argument in enumerate(arguments) if argument.kind == "global"}
        for unit in units
    }
    first = BEHIND_MAILBOX if entry.mailbox or entry.auto_restart else FIRST_ARGUMENT
    bound = tuple(
        BoundArgument(argument, index, offset, by_unit[units[0]][index][0] if argument.kind == "global" else None)
        for index, (argument, offset) in enumerate(zip(arguments, register_offsets(arguments, first), strict=True))
    )
    return bound, by_unit


def _tiles(recipe: recipes.Recipe) -> dict[str, int]:
    tiles = parse_tiles(ROOT / "tiles.hpp")
    for name, value in recipe.tiles.items():
        if name not in tiles:
            raise RecipeError(f"recipe '{recipe.name}': unknown tile constant '{name}'; {did_you_mean(name, tiles)}")
        if not 1 <= value < 1 << 31:
            raise RecipeError(f"recipe '{recipe.name}': tile constant '{name}' must be at least 1, not {value}.")
    return tiles | recipe.tiles
