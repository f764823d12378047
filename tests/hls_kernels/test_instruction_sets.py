"""The cores compiled and planned for every instruction set of x86-64 that this machine runs.

All plans add up in one order. So those compiled for instruction sets with fused multiply-adds give the same bits, and
so do those compiled for one without.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.hls_kernels.bench_kit import Build, Programs
from tests.marks import SAMPLED
from xclbin_build.toolchain.compiler import knows
from xclbin_build.toolchain.isa import compiler_flags, extensions, host_flags, host_isa, level, native, plan_flags

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
RUNS = LEVELS[: LEVELS.index(host_isa()) + 1] if host_isa() in LEVELS else ()
NARROW = "x86-64-v2"
FUSED = [level for level in RUNS if level != NARROW]
ON_THE_MAC_ARRAY = ("attention", "conv2d", "gemm", "winograd")
QUICKEST = "pointwise"  # to compile
OF_BF16 = "gemm_bf16"
OF_INT8 = ("conv2d_int8", "gemm_int8", "pool_int8", "quantize")
ELSEWHERE = ("move", "pointwise", "pool", "reduce")
PERCENT = 10
NO_RESULTS = "cbf29ce484222325"  # digest of a bench that compares in another way

pytestmark = pytest.mark.skipif(not RUNS, reason="needs x86-64-v2 or better")


def build(bench: str, isa: str, plan: str, fused: bool = True) -> Build:
    return Build(bench, isa=isa, plan=plan, sanitized=False, optimisation="-O2", fused=fused)


def with_all_plans(bench: str, isas: Sequence[str]) -> tuple[Build, ...]:
    """Each instruction set with its own plan, and the last of them with all that are left."""
    left = [(isas[-1], plan) for plan in LEVELS if plan not in isas and bench in ON_THE_MAC_ARRAY]
    return tuple(build(bench, *pair) for pair in [*((isa, isa) for isa in isas), *left])


def with_all_instruction_sets(bench: str) -> tuple[Build, ...]:
    """Levels with fused multiply-adds (activations are floats), and the extensions of this machine's."""
    known = [*FUSED, *extensions(host_isa(), host_flags())]
    return tuple(build(bench, isa, level(isa)) for isa in known if knows(tuple(compiler_flags(isa))))


def assert_same_bits(programs: Programs, builds: tuple[Build, ...]) -> None:
    digests = {str(build): programs.run(build, PERCENT) for build in builds}
    assert len(set(digests.values())) == 1, digests
    assert NO_RESULTS not in digests.values()


def of_bench(value: tuple[Build, ...]) -> str:
    return value[0].bench


# Those that add up are compared by what they compute in tests/lowering/test_plans.py, too.
@pytest.mark.parametrize(
    "alike",
    [
        pytest.param(with_all_plans(bench, FUSED), marks=() if bench == QUICKEST else SAMPLED)
        for bench in (*ON_THE_MAC_ARRAY, *ELSEWHERE)
        if FUSED
    ],
    ids=of_bench,
)
def test_instruction_sets_with_fused_multiply_add_give_the_same_bits(
    programs: Programs, alike: tuple[Build, ...]
) -> None:
    assert_same_bits(programs, alike)


# Compiling wide tiles for few registers takes long.
@pytest.mark.parametrize(
    "alike",
    [
        pytest.param((build("gemm", NARROW, NARROW), build("gemm", NARROW, "x86-64-v3")), marks=SAMPLED),
        *(pytest.param(with_all_plans(bench, [NARROW]), marks=pytest.mark.slow) for bench in ON_THE_MAC_ARRAY),
    ],
    ids=of_bench,
)
def test_plans_without_fused_multiply_add_give_the_same_bits(programs: Programs, alike: tuple[Build, ...]) -> None:
    assert_same_bits(programs, alike)


@pytest.mark.parametrize("run", [build(bench, isa, isa) for bench in ("convert", "math") for isa in RUNS], ids=str)
def test_lanes_are_shuffled_rightly_in_registers_of_every_width(programs: Programs, run: Build) -> None:
    programs.run(run, PERCENT)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(build(OF_BF16, isa, level(isa)), marks=() if isa == native() else SAMPLED)
        for isa in (*RUNS, *extensions(host_isa(), host_flags()))
    ],
    ids=str,
)
def test_bf16_is_accurate_on_every_instruction_set(programs: Programs, run: Build) -> None:
    """Each adds its products up in an order of its own, and rounds them as its instruction does."""
    programs.run(run, PERCENT)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("alike", [with_all_instruction_sets(bench) for bench in OF_INT8 if FUSED], ids=of_bench)
def test_int8_gives_the_same_bits_on_every_instruction_set(programs: Programs, alike: tuple[Build, ...]) -> None:
    """Sums of integers are exact, in whatever tiles and with whatever instructions they are made."""
    assert_same_bits(programs, alike)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    "alike",
    [tuple(build(bench, isa, isa, fused=False) for isa in (NARROW, FUSED[0])) for bench in OF_INT8 if FUSED],
    ids=of_bench,
)
def test_int8_gives_the_same_bits_with_narrow_vectors(programs: Programs, alike: tuple[Build, ...]) -> None:
    """Activations in floats are rounded after each operation in both, so that x86-64-v2 can be among them."""
    assert_same_bits(programs, alike)


def test_the_builds_differ() -> None:
    """So that the tests above compare what they say."""
    pairs = [(isa, plan) for isa in LEVELS for plan in LEVELS]
    assert len({tuple(compiler_flags(isa) + plan_flags(isa, plan)) for isa, plan in pairs}) == len(pairs)
