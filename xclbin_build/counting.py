"""What a kernel needs to count cycles (`--target cycles`): its ports, the contract of its loops, the platform's memory.

An engine counts in its hardware schedule. A plain kernel counts if its arguments are `hls::burst_maxi` and it is
written with `sim/dataflow.hpp` (see `hls_kernels/sim/README.md`). Beside its source lies `qor.toml`. Bursts are as
long, and as many of them outstanding, as its `#pragma HLS INTERFACE m_axi` says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hls_kernels import ENGINE

from . import memory, qor
from .design import Design, Kernel
from .errors import RecipeError

CONTRACT = "qor.toml"

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_PRAGMA = re.compile(r"#\s*pragma\s+HLS\s+interface\b([^\n]*)", re.IGNORECASE)
_OPTION = re.compile(r"(\w+)\s*=\s*(\w+)")
_LABEL = re.compile(r"\b(PIPELINED|CYCLES)\s*\(\s*(\w+)\s*\)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Port:
    """Beats of an m_axi port's longest bursts, and how many bursts may be outstanding; the defaults of Vitis HLS."""

    max_read_burst_length: int = 16
    max_write_burst_length: int = 16
    num_read_outstanding: int = 16
    num_write_outstanding: int = 16


def ports(kernel: Kernel) -> dict[str, Port]:
    """The ports of a plain kernel's burst_maxi arguments, by argument, as its pragmas have them."""
    wanted = [bound.argument.name for bound in kernel.arguments if bound.argument.burst]
    found = {name: Port() for name in wanted}
    if not wanted or kernel.source is None:
        return found
    for text in _texts(kernel.source).values():
        for pragma in _PRAGMA.finditer(text):
            options = {key.lower(): value for key, value in _OPTION.findall(pragma[1])}
            if options.get("port") in found:
                name = options["port"]
                given = {key: int(value) for key, value in options.items() if key in vars(Port()) and value.isdigit()}
                if any(value < 1 for value in given.values()):
                    raise RecipeError(f"kernel '{kernel.name}': a length or number of the port '{name}' is 0.")
                found[name] = Port(**{**vars(found[name]), **given})
    return found


def headers(design: Design) -> dict[str, str]:
    """The generated headers of a counting build.

    Raises RecipeError for a kernel that cannot count, a label without a contract, a platform without `[memory]`.
    """
    contracts: list[Path] = []
    for kernel in design.kernels:
        source = kernel.source
        if kernel.engine:
            if ENGINE / CONTRACT not in contracts:
                contracts.append(ENGINE / CONTRACT)
            continue
        if source is None:
            raise RecipeError(
                f"kernel '{kernel.name}' is made of cores, which the cycle simulator does not support; leave it out of "
                "the recipe, or build it with --target emu."
            )
        if not ports(kernel):
            raise RecipeError(
                f"kernel '{kernel.name}': {source.name} has no argument hls::burst_maxi<...>, which the cycle "
                "simulator needs to count memory cycles; make its pointers such ports, or build it with --target emu."
            )
        contract = source.parent / CONTRACT
        if contract.is_file() and contract not in contracts:
            contracts.append(contract)
    known = qor.load(*contracts)
    for kernel in design.kernels:
        if kernel.source is not None:
            _check_labels(kernel.name, kernel.source, known)
    clock = design.platform.speeds["clock_mhz"]
    return {qor.HEADER: qor.header(known), memory.HEADER: design.platform.memory_header(clock)}


def _check_labels(kernel: str, source: Path, known: qor.Contract) -> None:
    for path, text in _texts(source).items():
        for kind, label in _LABEL.findall(text):
            table, labels = ("loop", known.loops) if kind == "PIPELINED" else ("code", known.code)
            if label not in labels:
                raise RecipeError(
                    f"kernel '{kernel}': {kind}({label}) in {path.name} has no [{table}.{label}] in "
                    f"{source.parent / CONTRACT}; give its number of cycles there."
                )


def _texts(source: Path) -> dict[Path, str]:
    """The kernel's file and the headers beside it that it includes, without comments."""
    found: dict[Path, str] = {}
    waiting = [source.resolve()]
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found[path] = _COMMENT.sub(" ", path.read_text(encoding="utf-8", errors="replace"))
        waiting += [(path.parent / name).resolve() for name in _INCLUDE.findall(found[path])]
    return found
