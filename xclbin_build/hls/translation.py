"""Sources as clang has read them. Those of a design are translation units of their own, linked as Vitis HLS does it: a
`static` function is that of its source, and an array that one declares is the one that another defines."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import clang, ir, source
from .directives import Directive
from .reachable import Reachable
from .source import PROBE, MarkedSource

_MOST_RETRIES = 8


@dataclass(frozen=True)
class Compiled:
    """A source, or several that were linked, as clang has read it, before anything is inlined; several functions of it
    can be analysed. path: of the first source; raw: LLVM's IR."""

    path: Path
    raw: str
    source: MarkedSource

    def functions(self) -> list[str]:
        """Symbols of all functions, in the order of the text."""
        return self.module.names()

    @cached_property
    def module(self) -> ir.Module:
        """The IR as it is read."""
        return ir.parse(self.raw)

    @cached_property
    def _reachable(self) -> Reachable:
        return Reachable(self.raw)

    def reached_from(self, symbol: str) -> str:
        """The IR without what a function does not need."""
        return self._reachable.of(symbol)

    def symbol_of(self, top: str) -> str:
        """The symbol of the function `top`, which may be its symbol.

        Raises SourceError, which lists the functions found, if it does not exist.
        """
        names = self.functions()
        mangled = re.compile(rf"_Z(?:N\w*?)?{len(top)}{re.escape(top)}(?![a-z_0-9]\w*\d)")
        found = [n for n in names if n == top] or [n for n in names if mangled.match(n)]
        found = found or [n for n in names if f"{len(top)}{top}" in n]
        if not found:
            known = ", ".join(n for n in names if not n.startswith("_ZN"))[:200]
            raise clang.SourceError(f"{self.path} has no function '{top}'; it has {known or 'none'}.")
        return found[0]


def compile_sources(
    *paths: Path, includes: Sequence[str] = (), defines: Sequence[str] = (), directives: Sequence[Directive] = ()
) -> Compiled:
    """Has clang read a source, or the sources of a design. includes, defines: as for a compiler, without -I and -D.
    directives: pragmas that stand outside of the sources.

    Raises SourceError if clang refuses a source, or several of them together, or if a directive names no function or
    loop of them, ToolchainError without clang.
    """
    units: list[Compiled] = []
    with tempfile.TemporaryDirectory(prefix="hls-check-") as folder:
        for path in paths:
            before = units[-1].source if units else None
            marked = source.read(path, includes=includes, defines=defines, after=before, directives=directives)
            units.append(_compile(marked, Path(folder)))
        for directive in directives:
            if not any(directive in unit.source.placed for unit in units):
                what = f"loop '{directive.loop}' in a function" if directive.loop else "function"
                raise clang.SourceError(
                    f"directive '{directive.text}': the sources have no {what} '{directive.function}'; name a "
                    "function, or a function and the label of a loop as FUNCTION/LABEL."
                )
        return units[0] if len(units) == 1 else _link(units, Path(folder))


def _link(units: Sequence[Compiled], folder: Path) -> Compiled:
    files = [folder / f"{number}.ll" for number, _ in enumerate(units)]
    for file, unit in zip(files, units, strict=True):
        file.write_text(unit.raw)
    raw, _ = clang.run("link", ["-S", *map(str, files), "-o", "-"])
    return Compiled(units[0].path, raw, source.together([unit.source for unit in units]))


def _compile(marked: MarkedSource, folder: Path) -> Compiled:
    """The IR of a marked source; pragmas whose expressions clang refuses are left out, with a note."""
    skip: dict[int, str] = {}  # numbers of pragmas, and what clang says of them
    c = source.is_c(marked.path)
    language = ["-x", "cpp-output", *source.C] if c else ["-x", "c++-cpp-output", *source.CPP, "-fignore-exceptions"]
    raw, output = folder / "marked.ii", folder / "marked.ll"
    for _ in range(_MOST_RETRIES):
        raw.write_text(marked.text)
        command = [
            *language, "-O1", "-Xclang", "-disable-llvm-passes", "-Xclang", "-disable-lifetime-markers",
            "-emit-llvm", "-S", "-g", "-w", "-fno-discard-value-names", "-fno-math-errno", "-ffp-contract=off",
            "-fms-extensions", "-fno-builtin-printf", "-Wno-everything", "-ferror-limit=0", "-o", str(output), str(raw),
        ]  # fmt: skip
        try:
            clang.run("clang", command)
            return Compiled(marked.path, output.read_text(), marked)
        except clang.SourceError as error:
            refused: dict[int, str] = {}
            for file, line, why in error.places:
                if file == PROBE and line not in skip:
                    refused[line] = refused.get(line) or why
            if not refused:
                raise
            skip |= refused
            marked = source.mark(marked.plain, marked.path, frozenset(skip), marked.first, marked.directives)
            for number in sorted(skip):
                p = marked.pragmas[number]
                why = f": {skip[number]}" if skip[number] else ""
                marked.notes.append(f"{Path(p.file).name}:{p.line}: the pragma '{p.kind}' is left out{why}")
    raise clang.SourceError(f"{marked.path}: too many pragmas that clang does not support.")
