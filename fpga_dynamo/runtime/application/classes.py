"""CPU classes: how the seconds of a task on one kind of core become those on another.

The factors are ratios of 7-zip's MIPS, a mix of integer code, from the published results of sbc-bench. One of four
Cortex-A53 cores at 1.4 GHz has 3,700 / 4 ("Khadas VIM1"). One of four Cortex-A72 cores at 2.3 GHz has 8,610 / 4
("Amazon a1.xlarge"). A Kaby Lake core at 3.6 GHz has 4,448 ("Pentium G4600", single thread). Vector code differs more:
an x86 core with AVX-512 has four times the float lanes of these. Give such a task its own seconds for the class.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from fpga_dynamo.runtime.application.graph import ApplicationError


@dataclass(frozen=True)
class CpuClass:
    """A kind of processor core."""

    name: str
    title: str
    clock: float
    """Hz, of the boards that it is named for."""
    work_per_clock: float
    """7-zip MIPS for each MHz of a core."""
    busy_watts: float
    idle_watts: float
    """Of a core at `clock`. Guesses of the size that such cores have; a system file can say better."""

    @property
    def speed(self) -> float:
        """MIPS of 7-zip at `clock`."""
        return self.work_per_clock * self.clock / 1e6


CPU_CLASSES: Mapping[str, CpuClass] = {
    found.name: found
    for found in (
        CpuClass("a53", "Cortex-A53 (ZCU102, KV260)", 1.2e9, 3700 / 4 / 1400, 0.35, 0.05),
        CpuClass("a72", "Cortex-A72 (Versal)", 1.7e9, 8610 / 4 / 2300, 1.2, 0.15),
        CpuClass("x86", "x86-64 server core", 3.6e9, 4448 / 3600, 10.0, 1.5),
    )
}


def cpu_class(name: str, classes: Mapping[str, CpuClass] = CPU_CLASSES) -> CpuClass:
    """The class of that name; ApplicationError names the nearest one."""
    if name not in classes:
        near = difflib.get_close_matches(name, classes, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ApplicationError(
            f"unknown CPU class {name!r}: {hint}known are {', '.join(classes)}; a system can define more in [classes]"
        )
    return classes[name]


def scaled_seconds(
    seconds: Mapping[str, float],
    name: str,
    clock: float | None = None,
    classes: Mapping[str, CpuClass] = CPU_CLASSES,
) -> float | None:
    """Seconds on a core of class `name` (at `clock` Hz), from those stated by kind; None if no CPU class is stated.

    What is stated for the class itself goes first, then the class of the nearest speed.
    """
    wanted = cpu_class(name, classes)
    known = [classes[kind] for kind in seconds if kind in classes]
    if not known:
        return None
    nearest = min(known, key=lambda other: max(other.speed / wanted.speed, wanted.speed / other.speed))
    return seconds[nearest.name] * (nearest.speed / wanted.speed) * (wanted.clock / (clock or wanted.clock))
