"""A component of Vitis HLS: its sources, its test bench and their options, of a `.cfg` file or of a Tcl script.

Of a script the commands `open_component`, `open_project`, `set`, `add_files`, `set_top`, `csim_design` and `source`
are read, with the values of variables, and of `if` the first branch; nothing in it is executed. Directives,
the part and the clock are for synthesis: C simulation leaves them out. Of several solutions the last counts.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .documents import DocumentError, read_json, read_text
from .errors import RecipeError
from .hls import directives
from .hls.directives import Directive
from .trusted_path import printable

CODE = (".cpp", ".cc", ".cxx", ".c++", ".c")
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc")
_TAKEN = re.compile(r"-[DUIW].|-(isystem|iquote|include)$")
_VALUED = ("-D", "-U", "-I", "-isystem", "-iquote", "-include")
_MOST_SCRIPTS = 16


@dataclass(frozen=True)
class SourceFile:
    """A file and the compiler's options for it alone."""

    path: Path
    flags: tuple[str, ...] = ()


@dataclass
class HlsProject:
    """What a component has. data: what the test bench reads; ignored: options without effect. directives,
    part, clock_ns: for synthesis; clock_ns is the period."""

    folder: Path
    top: str = ""
    sources: list[SourceFile] = field(default_factory=list)
    bench: list[SourceFile] = field(default_factory=list)
    data: list[Path] = field(default_factory=list)
    source_flags: list[str] = field(default_factory=list)
    bench_flags: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    link: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    directives: list[Directive] = field(default_factory=list)
    part: str = ""
    clock_ns: float | None = None

    def add(self, name: str, *, bench: bool, flags: Sequence[str] = ()) -> None:
        """A source or a file of the test bench. Raises RecipeError if it does not exist."""
        path = self.folder / name
        if not path.exists() and path.suffix.lower() in _HEADERS:
            self.ignored.append(name)  # the compiler finds headers by itself
            return
        if not path.exists():
            raise RecipeError(f"{printable(path)} does not exist, which {printable(self.folder)}'s component names.")
        if path.suffix.lower() in CODE:
            (self.bench if bench else self.sources).append(SourceFile(path, tuple(flags)))
        elif path.suffix.lower() not in _HEADERS:
            self.data.append(path)

    def add_blackbox(self, name: str) -> None:
        """The C model of a function that is Verilog on a card: `c_files` of its JSON file."""
        path = self.folder / name
        try:
            description = read_json(path)
        except DocumentError as error:
            raise RecipeError(f"{printable(path)} cannot be read: {error}.") from error
        files = description.get("c_files", []) if isinstance(description, dict) else []
        for entry in files if isinstance(files, list) else []:
            if isinstance(entry, dict) and isinstance(entry.get("c_file"), str):
                self.add(entry["c_file"], bench=False, flags=self.taken(str(entry.get("cflag", ""))))

    def add_directive(self, directive: Directive | None) -> None:
        """A directive; None for one without an effect on loops and variables."""
        if directive is not None:
            self.directives.append(directive)

    def values(self, option: str) -> list[str]:
        """The values of an option of the sources, such as -I."""
        flags = [*self.source_flags, *(flag for each in self.sources for flag in each.flags)]
        return [flag[len(option) :] for flag in flags if flag.startswith(option) and len(flag) > len(option)]

    def taken(self, text: str) -> list[str]:
        """Of a compiler's options those that C simulation needs, with folders as from this component."""
        words = _words(text)
        found: list[str] = []
        at = 0
        while at < len(words):
            word = words[at]
            if word in _VALUED and at + 1 < len(words):
                at += 1
                word = f"{word} {words[at]}" if word in ("-isystem", "-iquote", "-include") else word + words[at]
            if _TAKEN.match(word.split(" ", 1)[0]):
                option, value = word.split(" ", 1) if " " in word else (word[:2], word[2:])
                if option in ("-I", "-isystem", "-iquote"):
                    value = str(self.folder / value)
                found += [option, value] if option.startswith("-i") else [option + value]
            elif not word.startswith(("-std=", "-O", "-g")):
                self.ignored.append(word)
            at += 1
        return found


def load(path: Path) -> list[HlsProject]:
    """The components that a file describes: a Tcl script by its ending, which may have several, else a configuration.

    Raises RecipeError for a file that cannot be read or understood, or that names what does not exist.
    """
    folder = path.absolute().parent
    if path.suffix == ".tcl":
        script = _Script(folder)
        script.run(path)
        return [project for project in script.projects if project.sources or project.bench]
    project = HlsProject(folder)
    _read_config(path, project)
    return [project]


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except DocumentError as error:
        raise RecipeError(f"{printable(path)} cannot be read: {error}.") from error


def _period_ns(text: str) -> float | None:
    """A clock as its period: `4`, `4ns`, `250MHz`; None for another text."""
    number = re.fullmatch(r"([\d.]*\d)\s*(ns|MHz)?", text.strip(), re.I)
    if number is None or not float(number[1]):
        return None
    return 1000 / float(number[1]) if (number[2] or "").lower() == "mhz" else float(number[1])


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise RecipeError(f"the options {text[:80]!a} cannot be read: {error}.") from error


def _read_config(path: Path, project: HlsProject) -> None:
    later: dict[str, list[str]] = {}
    own: dict[str, list[str]] = {}  # options for one file
    for number, line in enumerate(_text(path).splitlines(), start=1):
        line = line.split("#", 1)[0].strip()
        if not line or line.startswith((";", "[")):
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            raise RecipeError(f"{printable(path)}:{number}: '{line[:80]}' is no key=value and no [section].")
        key = key.removeprefix("hls.")
        if key.startswith(directives.CONFIG):
            project.add_directive(directives.of_config(key, value))
        elif key == "part":
            project.part = value
        elif key == "clock":
            project.clock_ns = _period_ns(value)
        elif key in ("syn.file_cflags", "tb.file_cflags", "syn.file_csimflags", "tb.file_csimflags"):
            file, _, flags = value.partition(",")
            own.setdefault(file.strip(), []).extend(project.taken(flags))
        else:
            later.setdefault(key, []).append(value)
    for value in later.get("syn.cflags", []) + later.get("syn.csimflags", []):
        project.source_flags += project.taken(value)
    for value in later.get("tb.cflags", []) + later.get("tb.csimflags", []):
        project.bench_flags += project.taken(value)
    project.top = (later.get("syn.top") or [""])[-1]
    for key, bench in (("syn.file", False), ("tb.file", True)):
        for value in later.get(key, []):
            for name in value.split(","):
                project.add(name.strip(), bench=bench, flags=own.get(name.strip(), ()))
    for value in later.get("syn.blackbox.file", []):
        project.add_blackbox(value)
    for value in later.get("csim.argv", []):
        project.arguments += _words(value)
    for value in later.get("csim.ldflags", []) + later.get("csim.mldflags", []):
        project.link += _words(value)


class _Script:
    """A Tcl script while it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.projects = [HlsProject(folder)]
        self.variables: dict[str, str] = {}
        self.scripts = 0

    @property
    def project(self) -> HlsProject:
        return self.projects[-1]

    def run(self, path: Path) -> None:
        self.scripts += 1
        if self.scripts > _MOST_SCRIPTS:
            raise RecipeError(f"{printable(path)}: scripts that read each other; name the files in a .cfg file.")
        self.commands(_text(path))

    def commands(self, text: str) -> None:
        for words in _commands(text):
            name, *rest = words
            if name == "if" and len(rest) > 1:
                self.branch(rest)
                continue
            values = [self.value(word) for word in rest]
            if name == "set" and len(values) == 2:
                self.variables[values[0]] = values[1]
            elif name in ("open_component", "open_project") and self.project.sources:
                self.projects.append(HlsProject(self.folder))
            elif name == "open_solution":
                self.project.directives.clear()  # of several solutions the last
            elif name.startswith(directives.TCL):
                self.project.add_directive(directives.of_tcl(name, values))
            elif name == "set_part" and values:
                self.project.part = values[0]
            elif name == "create_clock" and "-period" in values[:-1]:
                self.project.clock_ns = _period_ns(values[values.index("-period") + 1])
            elif name == "set_top" and values:
                self.project.top = values[-1]
            elif name == "add_files":
                self.add_files(values)
            elif name == "csim_design":
                self.csim_design(values)
            elif name == "source" and values and (self.folder / values[-1]).is_file():
                self.run(self.folder / values[-1])

    def branch(self, words: list[str]) -> None:
        """The first branch; of `if {![info exists NAME]}` only where the variable has no value yet."""
        missing = re.search(r"!\s*\[\s*info\s+exists\s+(?:::)?(\w+)", words[0])
        if missing and missing[1] in self.variables:
            return
        body = words[2] if words[1] == "then" and len(words) > 2 else words[1]
        self.commands(body.removeprefix("{").removesuffix("}"))

    def value(self, word: str) -> str:
        """A word without its quotes, with the values of variables."""
        if word.startswith("{"):
            return word[1:-1]
        if word.startswith('"'):
            word = word[1:-1]

        def of(match: re.Match[str]) -> str:
            name = (match[1] or match[2]).removeprefix("::")
            inside = re.fullmatch(r"env\((\w+)\)", name)
            if inside:
                return os.environ.get(inside[1], match[0])
            return self.variables.get(name, os.environ.get(name, match[0]))  # as a settings.tcl would set it

        word = re.sub(r"\[\s*pwd\s*\]", lambda _: str(self.folder), word)
        return re.sub(r"\$(?:\{([^}]*)\}|((?:::)?\w+(?:\(\w+\))?))", of, word)

    def add_files(self, values: list[str]) -> None:
        files, flags, bench = [], [], False
        at = 0
        while at < len(values):
            word = values[at]
            if word in ("-cflags", "-csimflags", "-blackbox") and at + 1 < len(values):
                at += 1
                if word == "-blackbox":
                    self.project.add_blackbox(values[at])
                else:
                    flags += self.project.taken(values[at])
            elif word.startswith("-tb"):
                bench = True
            elif not word.startswith("-"):
                files += word.split()
            at += 1
        for name in files:
            self.project.add(name, bench=bench, flags=flags)

    def csim_design(self, values: list[str]) -> None:
        for option, value in itertools.pairwise(values):
            if option == "-argv":
                self.project.arguments = _words(value)
            elif option in ("-ldflags", "-mflags"):
                self.project.link += _words(value)


def _commands(text: str) -> list[list[str]]:
    """The commands of a script, each as its words with braces, brackets and quotes."""
    text = re.sub(r"\\\r?\n[ \t]*", " ", text)
    found: list[list[str]] = []
    words: list[str] = []
    at = 0
    while at < len(text):
        c = text[at]
        if c == "#" and not words:
            at = _end(text, at, "\n")
        elif c in "\n;":
            if words:
                found.append(words)
            words = []
            at += 1
        elif c.isspace():
            at += 1
        else:
            end = _word_end(text, at)
            words.append(text[at:end])
            at = end
    return [*found, words] if words else found


def _end(text: str, at: int, mark: str) -> int:
    end = text.find(mark, at)
    return len(text) if end < 0 else end


def _word_end(text: str, at: int) -> int:
    """Behind the word that begins here."""
    if text[at] == '"':
        return _end(text, at + 1, '"') + 1
    depth = 0
    while at < len(text):
        c = text[at]
        if not depth and (c.isspace() or c == ";"):
            return at
        depth += (c in "{[") - (c in "}]")
        at += 1
        if not depth and c == "}" and (at >= len(text) or text[at].isspace() or text[at] == ";"):
            return at
    return at
