"""`xclbin-build A.cpp -k NAME ...`: a recipe from a command line and a configuration file in the words of AMD's v++.

v++ compiles and links in two commands. Here one does both: each `-k` names the kernel of the sources in front of it, or
of all sources where it is the only one. Options of v++ that change nothing in emulation are accepted and named.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import names as kinds
from . import recipe as recipes
from .command_line import parse as parse_options
from .connectivity import parse_stream
from .documents import DocumentError, read_text
from .errors import RecipeError, did_you_mean
from .flow.command import VALUED as HARDWARE_OPTIONS
from .trusted_path import printable

SOURCES = (".cpp", ".c", ".cc", ".cxx")
_OBJECTS = (".xo", ".o", ".cl", ".xsa")
_STEPS = {"-c": "compiles", "--compile": "compiles", "-l": "links", "--link": "links", "-p": "packages",
          "--package": "packages"}  # fmt: skip
_CONNECTIVITY = {"nk": "nk", "sp": "sp", "sc": "sc", "stream_connect": "sc", "slr": "slr"}
_VALUED = (
    "-k", "--kernel", "-o", "--output", "-t", "--target", "-f", "--platform", "--config", "-I", "--include", "-D",
    "--define", "--isa", "--plan", "--sources-only", "--recipe", "--cu", *HARDWARE_OPTIONS,
    *(f"--connectivity.{key}" for key in _CONNECTIVITY),
)  # fmt: skip
_IGNORED_VALUED = (
    "--temp_dir", "--log_dir", "--report_dir", "-R", "--report_level", "-O", "--optimize", "-j", "--jobs",
    "--kernel_frequency", "--hls.clock", "--hls.jobs", "--input_files",
)  # fmt: skip
_REGISTERS = re.compile(r"\bs_axilite_(mailbox|auto_restart_counter)[ =]\s*(\w+)")
_IGNORED = ("-g", "--debug", "-s", "--save-temps", "--no_ip_cache", "--verbose")


@dataclass
class Connectivity:
    """Entries of `[connectivity]`, as they are spelled, and what else a configuration file has."""

    nk: list[str] = field(default_factory=list)
    sp: list[str] = field(default_factory=list)
    sc: list[str] = field(default_factory=list)
    slr: list[str] = field(default_factory=list)
    mailbox: str = ""
    auto_restart: bool = False
    ignored: list[str] = field(default_factory=list)

    def add(self, key: str, value: str) -> None:
        getattr(self, _CONNECTIVITY[key]).append(value)


@dataclass(frozen=True)
class CommandLine:
    """The recipe that a command line says, the options that a recipe does not have, and what has no effect."""

    recipe: recipes.Recipe
    options: argparse.Namespace
    ignored: tuple[str, ...]


def names_sources(words: Sequence[str]) -> bool:
    """Whether a command line of xclbin-build has sources or kernels, and no recipe."""
    return any(kind in ("source", "kernel") for kind, _ in _scan(words))


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> CommandLine:
    """The command line. parser: of the options that builds from recipes have, too.

    Raises RecipeError for sources without a kernel, an unknown or malformed entry, or a step that v++ does apart.
    """
    groups: list[tuple[str, tuple[str, ...]]] = []  # kernels and their sources
    sources: list[str] = []
    everything: list[str] = []
    rest: list[str] = []
    ignored: list[str] = []
    for kind, word in _scan(words):
        if kind == "source":
            _check_source(word)
            sources.append(word)
            everything.append(word)
        elif kind == "kernel":
            before = groups[-1][1] if groups else ()
            groups.append((kinds.check(word, kinds.KERNEL, "the name behind -k"), tuple(sources) or before))
            sources = []
        elif kind == "ignored":
            ignored.append(word)
        elif word in _STEPS:
            raise RecipeError(
                f"{word}: v++ {_STEPS[word]} in a step of its own, and xclbin-build does all in one; leave it out and "
                "name the C++ sources."
            )
        else:
            rest.append(word)
    if not groups:
        raise RecipeError("-k is missing: name the kernel of the sources, such as: xclbin-build vadd.cpp -k vadd.")
    if len(groups) == 1:
        groups = [(groups[0][0], tuple(everything))]
    elif sources:
        raise RecipeError(f"-k is missing behind {sources[0]}: give each kernel's name behind its sources.")
    if not all(files for _, files in groups):
        raise RecipeError(f"-k {groups[0][0]} has no sources in front of it; name its C++ files.")
    options = parse_options(parser, rest)
    connectivity = Connectivity()
    for path in options.config:
        read_config(path, connectivity)
    for key in _CONNECTIVITY:
        for value in getattr(options, f"connectivity_{key}"):
            connectivity.add(key, value)
    recipe = _recipe(groups, options, connectivity)
    return CommandLine(recipe, options, tuple(dict.fromkeys([*ignored, *connectivity.ignored])))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of v++ that have an effect, in addition to those of builds from recipes."""
    parser.add_argument("--config", type=Path, action="append", default=[], metavar="FILE",
                        help="a configuration file of v++; its [connectivity] counts")  # fmt: skip
    parser.add_argument("-I", "--include", action="append", default=[], metavar="DIR", help="a folder of headers")
    parser.add_argument("-D", "--define", action="append", default=[], metavar="NAME[=VALUE]", help="a macro")
    for key in _CONNECTIVITY:
        parser.add_argument(f"--connectivity.{key}", dest=f"connectivity_{key}", action="append", default=[],
                            metavar="ENTRY", help=f"as {key}=ENTRY of a configuration file")  # fmt: skip


def read_config(path: Path, into: Connectivity) -> None:
    """Reads a configuration file of v++: lines `key=value` in sections, or `section.key=value`.

    Raises RecipeError for a file that cannot be read, a line that is neither, and an unknown key of [connectivity].
    """
    try:
        text = read_text(path)
    except DocumentError as error:
        raise RecipeError(f"{printable(path)} cannot be read: {error}.") from error
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.split("#", 1)[0].strip()
        if not line or line.startswith(";"):
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
            continue
        name, equals, value = line.partition("=")
        where = f"{printable(path)}:{number}"
        if not equals:
            raise RecipeError(f"{where}: '{line[:80]}' is no key=value and no [section].")
        owner, dot, key = name.strip().rpartition(".")
        owner = owner if dot else section
        if owner == "connectivity" or (not owner and key in _CONNECTIVITY):
            if key not in _CONNECTIVITY:
                raise RecipeError(f"{where}: unknown key '{key}' of [connectivity]; {did_you_mean(key, _CONNECTIVITY)}")
            into.add(key, value.strip())
        elif key == "pre_tcl" and any([_interface(owner, each, into, where) for each in _script(path, value.strip())]):
            continue
        elif not _interface(owner, f"{key}={value}", into, where):
            into.ignored.append(f"{owner + '.' if owner else ''}{key}")


def _script(config: Path, name: str) -> list[str]:
    """Lines of a Tcl script that runs before synthesis; of one that cannot be read none."""
    candidates = [folder / name for folder in (Path(), config.parent)]
    path = next((each for each in candidates if each.is_file()), None)
    try:
        lines = read_text(path).splitlines() if path else []
    except DocumentError:
        lines = []
    return [line.strip() for line in lines if line.strip().startswith("config_interface")]


def _interface(owner: str, entry: str, into: Connectivity, where: str) -> bool:
    """Takes in what an entry says of the control registers of all kernels; False for another entry.

    Vitis spells it `config_interface -s_axilite_mailbox both` in a script that `pre_tcl` of `[hls]` names, or
    `syn.interface.s_axilite_mailbox=both`.
    """
    match = _REGISTERS.search(entry) if owner.split(".")[0] in ("hls", "syn", "") else None
    if match is None:
        return False
    value = match[2].strip()
    if match[1] == "mailbox":
        into.mailbox = "" if value == "none" else recipes.check_mailbox(f"{where}: s_axilite_mailbox", value)
    else:
        into.auto_restart = value not in ("0", "false")
    return True


def _scan(words: Sequence[str]) -> Iterable[tuple[str, str]]:
    """The words with their kinds: source, kernel, ignored, option (also the values of options)."""
    at = 0
    while at < len(words):
        word = words[at]
        name, equals, value = word.partition("=")
        if name in ("-k", "--kernel"):
            if not equals:
                at += 1
                value = words[at] if at < len(words) else ""
            yield "kernel", value
        elif word in _VALUED:
            yield "option", word
            at += 1
            if at < len(words):
                yield "option", words[at]
        elif name in _IGNORED_VALUED or name in _IGNORED:
            at += name in _IGNORED_VALUED and not equals
            yield "ignored", name
        elif word.startswith("-") or not word:
            yield "option", word
        else:
            yield "source", word
        at += 1


def _check_source(word: str) -> None:
    suffix = Path(word).suffix
    if suffix in _OBJECTS:
        raise RecipeError(
            f"{word}: '{suffix}' files are what Vitis has made of sources; name the C++ sources instead, which are "
            "compiled and linked in one command."
        )
    if suffix not in SOURCES:
        raise RecipeError(f"{word}: a kernel's source ends in {', '.join(SOURCES)}.")
    kinds.check(word, kinds.FILE, f"the source {word!a}")


def _recipe(
    groups: Sequence[tuple[str, tuple[str, ...]]], options: argparse.Namespace, connectivity: Connectivity
) -> recipes.Recipe:
    names = [name for name, _ in groups]
    if len(set(names)) != len(names):
        raise RecipeError(f"-k names a kernel twice; {', '.join(names)}.")
    units = _units(names, connectivity.nk)
    memory: dict[str, dict[str, str]] = {name: {} for name in names}
    for entry in connectivity.sp:
        port, _, bank = entry.partition(":")
        unit = port.partition(".")[0].strip()
        owner = _owner(unit, units, f"sp={entry}", "sp=UNIT.ARGUMENT:BANK, such as sp=vadd_1.a:DDR[0]")
        port = kinds.check(port.strip(), kinds.PORT, f"sp={entry}: the argument")
        memory[owner][port] = kinds.check(bank.strip(), kinds.BANK, f"sp={entry}: the bank")
    regions: dict[str, str] = {}
    for entry in connectivity.slr:
        unit, _, region = entry.partition(":")
        _owner(unit.strip(), units, f"slr={entry}", "slr=UNIT:SLR, such as slr=vadd_1:SLR0")
        regions[unit.strip()] = kinds.check(region.strip(), kinds.WORD, f"slr={entry}: the region")
    include = tuple(kinds.check(path, kinds.FILE, f"the folder {path!a}") for path in options.include)
    define = tuple(kinds.check(macro, kinds.MACRO, f"the macro {macro!a}") for macro in options.define)
    kernels = []
    for name, files in groups:
        placed = [regions[unit] for unit in units[name] if unit in regions]
        if placed and len(placed) != len(units[name]):
            raise RecipeError(f"slr: give the region of each compute unit of '{name}', or of none.")
        kernels.append(
            recipes.KernelRecipe(
                name,
                sources=files,
                cu=len(units[name]),
                memory=memory[name],
                slr=tuple(placed),
                include=include,
                define=define,
                units=tuple(units[name]),
                mailbox=connectivity.mailbox,
                auto_restart=connectivity.auto_restart,
            )
        )
    return recipes.Recipe(
        name=options.output.stem,
        directory=Path.cwd(),
        kernels=tuple(kernels),
        platform=options.platform or recipes.EMULATOR,
        streams=tuple(parse_stream(entry, f"stream_connect={entry}") for entry in connectivity.sc),
    )


def _units(names: Sequence[str], entries: Sequence[str]) -> dict[str, list[str]]:
    """The compute units of each kernel: NAME_1, or what `nk=NAME:COUNT:UNIT.UNIT` says."""
    units = {name: [f"{name}_1"] for name in names}
    for entry in entries:
        name, *rest = (word.strip() for word in entry.split(":"))
        if name not in units:
            raise RecipeError(f"nk={entry}: no kernel '{name}'; {did_you_mean(name, names)}")
        if not rest or not rest[0].isdecimal() or not rest[0].isascii() or len(rest) > 2:
            raise RecipeError(f"nk={entry}: write nk=KERNEL:COUNT or nk=KERNEL:COUNT:UNIT.UNIT, such as nk={name}:2.")
        count = recipes.checked_cu(f"nk={entry}", int(rest[0]))
        given = rest[1].replace(",", ".").split(".") if len(rest) == 2 else []
        for unit in given:
            kinds.check(unit, kinds.KERNEL, f"nk={entry}: the compute unit's name")
        recipes.check_units(f"nk={entry}", given, count)
        units[name] = given or [f"{name}_{number}" for number in range(1, count + 1)]
    return units


def _owner(unit: str, units: dict[str, list[str]], where: str, form: str) -> str:
    """The kernel that a compute unit is of."""
    known = [name for names in units.values() for name in names]
    if unit not in known:
        raise RecipeError(f"{where}: no compute unit '{unit}'; write {form}; {did_you_mean(unit, known)}")
    return next(kernel for kernel, names in units.items() if unit in names)
