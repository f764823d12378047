"""What hosts that share the work of a command must have in common."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from fpga_dynamo import __version__, errors
from fpga_dynamo.cache.keys import sources


def versions() -> dict[str, str]:
    """What this process runs, by name."""
    found = {"Python": platform.python_version(), "fpga_dynamo": __version__, "torch": version("torch")}
    return {**found, "the code of fpga_dynamo": _code()}


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """How another host differs, for a sentence; empty if it does not."""
    other = ((name, there.get(name, "missing"), value) for name, value in here.items())
    return ", ".join(f"{name} is {found}, here {value}" for name, found, value in other if found != value)


@functools.cache
def _code() -> str:
    return sources(Path(errors.__file__).parent, ("",))[:8]
