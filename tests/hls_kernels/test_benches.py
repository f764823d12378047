"""Every test bench of the cores, as the emulator compiles them, and as synthesis sees them.

`make benches` runs all random cases as synthesis sees them, in both C++ standards at all tile shapes. `make test` runs
a twentieth of them, without the few large ones, at the smallest shape, and most as the emulator compiles them;
`make benches-sampled`, which `.ci/run` calls, runs a tenth as synthesis sees them at all shapes, and all of the
emulator's. All but those of `make test` are compiled with the sanitizers for memory and undefined behaviour, which
double the time that a compiler takes.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hls_kernels import CORES
from tests.hls_kernels.bench_kit import BENCHES, SHAPES, Build, Programs
from tests.marks import SAMPLED

STANDARDS = ("gnu++14", "gnu++17")  # Vitis HLS has the first by default
ON_THE_MAC_ARRAY = {"attention", "conv2d", "gemm", "winograd"}
"""Their vector code takes longest to compile, and each model that `make test` runs is a bench of it."""
OWN_TILES = {"convert", "math", "requantize"}  # benches to which tiles are nothing


def as_synthesis_sees(bench: str) -> list[Build]:
    shapes = [shape for shape in SHAPES if shape == "default" or bench not in OWN_TILES]
    return [Build(bench, standard, True, shape) for shape in shapes for standard in STANDARDS]


SYNTHESIS = [build for bench in BENCHES for build in as_synthesis_sees(bench)]
SHARE = [build for build in SYNTHESIS if build.standard == ("gnu++17" if build.shape == "small" else "gnu++14")]
SHARE_PERCENT = 10
FEW_PERCENT = 5
SMALLEST = "small"
"""The shape that takes the least time to compile, and has the most edges of tiles."""

AT_SMALLEST = [
    replace(build, sanitized=False) for build in SHARE if build.shape == SMALLEST or build.bench in OWN_TILES
]


def test_every_core_has_a_bench() -> None:
    cores = {path.parent.name for path in CORES.glob("*/core.hpp")}
    assert cores
    assert cores <= set(BENCHES)


@pytest.mark.parametrize(
    "build", [Build(bench, sanitized=False) for bench in BENCHES if bench not in ON_THE_MAC_ARRAY], ids=str
)
def test_bench(programs: Programs, build: Build) -> None:
    programs.run(build, FEW_PERCENT)


@pytest.mark.parametrize("build", [pytest.param(Build(bench), marks=SAMPLED) for bench in BENCHES], ids=str)
def test_all_of_a_bench(programs: Programs, build: Build) -> None:
    programs.run(build, 100)


@pytest.mark.parametrize("build", AT_SMALLEST, ids=str)
def test_bench_as_synthesis_sees_it(programs: Programs, build: Build) -> None:
    programs.run(build, FEW_PERCENT)


@pytest.mark.parametrize("build", [pytest.param(build, marks=SAMPLED) for build in SHARE], ids=str)
def test_share_of_a_bench_as_synthesis_sees_it(programs: Programs, build: Build) -> None:
    programs.run(build, SHARE_PERCENT)


@pytest.mark.slow
@pytest.mark.parametrize("build", SYNTHESIS, ids=str)
def test_all_of_a_bench_as_synthesis_sees_it(programs: Programs, build: Build) -> None:
    programs.run(build, 100)
