"""AMD's tools on this machine: whether those that a flow needs are there, and which release of Vitis they are of."""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import ToolchainError
from ..toolchain import process

OLDEST, NEWEST_YEAR = (2022, 2), 2026
UNIFIED = (2023, 2)
"""The first release in which `v++ -c --mode hls` and `vitis-run` do what vitis_hls did before."""
WITHOUT_FLOW_TARGET = (2026, 1)
"""The first release in which `syn.interface.default_axi` takes the place of `flow_target` (UG1399)."""
_VERSION = re.compile(r"\bv?(20\d\d)\.(\d)")
_PROBE_S = 120.0
_WHERE = {
    "v++": "run Vitis' settings64.sh first, or use --sources-only DIR to write the sources and build them elsewhere",
    "vitis-run": "run Vitis' settings64.sh first; the release has it beside v++",
    "emconfigutil": "run Vitis' settings64.sh first; it is installed with v++",
    "bootgen": "run Vitis' settings64.sh first, or install the package bootgen-xlnx of the board's Linux",
    "dtc": "install the device tree compiler, such as by 'apt-get install device-tree-compiler'",
}


@dataclass(frozen=True, order=True)
class Release:
    """A release of Vitis, such as 2023.2."""

    year: int
    number: int

    @property
    def unified(self) -> bool:
        """Whether `v++ -c --mode hls` synthesizes, and `vitis-run` packages kernels."""
        return (self.year, self.number) >= UNIFIED

    @property
    def has_flow_target(self) -> bool:
        return (self.year, self.number) < WITHOUT_FLOW_TARGET

    def __str__(self) -> str:
        return f"{self.year}.{self.number}"


def require(tools: Iterable[str], what: str) -> None:
    """Raises ToolchainError for the first tool that is not on PATH, before hours are spent on the steps ahead of it."""
    for tool in dict.fromkeys(tools):
        if not shutil.which(tool):
            raise ToolchainError(f"{what} needs {_owner(tool)}, and {tool} is not on PATH; {_WHERE[tool]}.")


def release() -> Release:
    """The release that v++ on PATH belongs to.

    Raises ToolchainError if v++ does not start, does not say its release, or has one that is not supported.
    """
    return _ask(shutil.which("v++") or "v++")


@functools.lru_cache
def _ask(path: str) -> Release:
    try:
        said = process.run([path, "--version"], timeout=_PROBE_S)
    except (OSError, process.TimedOutError) as error:
        raise ToolchainError(f"{path} does not start ({error}); run Vitis' settings64.sh first.") from error
    found = _VERSION.search(said.output)
    if said.status or not found:
        raise ToolchainError(
            f"{path} --version does not say a release of Vitis (it ended with {said.status}); run Vitis' "
            "settings64.sh first."
        )
    version = Release(int(found[1]), int(found[2]))
    if (version.year, version.number) < OLDEST or version.year > NEWEST_YEAR:
        raise ToolchainError(
            f"Vitis {version} is not supported; use a release from {OLDEST[0]}.{OLDEST[1]} to {NEWEST_YEAR}.x, or "
            "--sources-only DIR, whose files any release can be given by hand."
        )
    return version


def _owner(tool: str) -> str:
    return "the device tree compiler" if tool == "dtc" else "AMD Vitis"
