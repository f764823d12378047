"""A plain HLS kernel, as its sources describe it: which one defines it, its arguments, its control, their bundles."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import RecipeError
from .signature import Argument, parse_kernel

ValueBytes = Callable[[Path, str, Sequence[Path], Sequence[str]], Callable[[int], int]]
"""Of a source, a kernel, folders of headers and macros: the bytes of an argument by its number; 0: unknown."""

DEFAULT_BUNDLE = "gmem"
_INTERFACE = re.compile(r"#\s*pragma\s+hls\s+interface\b([^\n]*)", re.IGNORECASE)
_OPTION = re.compile(r"(\w+)\s*=\s*(\w+)")


@dataclass(frozen=True)
class PlainKernel:
    """`source` defines the kernel; bundles: the m_axi bundle of each argument whose pragma names one."""

    source: Path
    more_sources: tuple[Path, ...]
    arguments: list[Argument]
    free_running: bool
    bundles: dict[str, str]

    def arguments_of(self, port: str) -> list[str]:
        """The pointer arguments that v++ means by a port: `NAME`, `NAME_r`, or `m_axi_BUNDLE` for all of a bundle."""
        pointers = [argument.name for argument in self.arguments if argument.kind == "global"]
        bundle = port.removeprefix("m_axi_")
        for names in (
            [port],
            [port.removesuffix("_r")],
            [name for name in pointers if self.bundles.get(name, DEFAULT_BUNDLE) == bundle],
        ):
            if names and all(name in pointers for name in names):
                return names
        return []


def find_kernel(
    sources: Sequence[Path],
    kernel: str,
    include: Sequence[Path] = (),
    define: Sequence[str] = (),
    value_bytes: ValueBytes | None = None,
) -> PlainKernel | None:
    """The kernel `kernel` that one of the sources defines; None without sources.

    value_bytes: who knows the size of structures that are passed by value; without it they are refused.

    Raises RecipeError if none of them does, or if the kernel has an argument that no host can pass.
    """
    if not sources:
        return None
    failures: list[RecipeError] = []
    for source in sources:
        try:
            sizes = value_bytes(source, kernel, include, define) if value_bytes else lambda number: 0
            arguments = parse_kernel(source, kernel, include, define, sizes)
        except RecipeError as error:
            failures.append(error)
            continue
        free_running, bundles = _interface(source, kernel, [argument.name for argument in arguments])
        more = tuple(path for path in sources if path != source)
        return PlainKernel(source, more, arguments, free_running, bundles)
    # The one that says most: of several files all but one lack a definition.
    raise max(failures, key=lambda error: "does not define" not in str(error) and "cannot be read" not in str(error))


def _interface(source: Path, kernel: str, names: Sequence[str]) -> tuple[bool, dict[str, str]]:
    """Whether the kernel has no control registers, and the bundles of its arguments, by its interface pragmas."""
    text = source.read_text(encoding="utf-8", errors="replace")
    begin = max((match.start() for match in re.finditer(rf"\b{re.escape(kernel)}\s*\(", text)), default=0)
    free_running = False
    bundles: dict[str, str] = {}
    for pragma in _INTERFACE.finditer(text, begin):
        options = {key.lower(): value for key, value in _OPTION.findall(pragma[1])}
        mode = options.get("mode") or (re.findall(r"\w+", pragma[1]) or [""])[0]
        port = options.get("port", "")
        if mode.lower() == "ap_ctrl_none" and port in ("return", ""):
            free_running = True
        elif port in names and "bundle" in options:
            bundles.setdefault(port, options["bundle"])
    return free_running, bundles
