"""The engine's bench: random programs in both schedules against plain loops, and the mistakes that it must notice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.hls_kernels.engine_kit import ENGINE, MUTATIONS, QUICK, SIZES, assert_noticed, compile_bench, run_bench
from tests.marks import EXTENDED
from xclbin_build import qor

MANY = 10_000
"""Shapes of layers that the slow tests run on each array: a program has three on average."""


def passes(program: Path, programs: int, seed: int = 1) -> None:
    result = run_bench(program, programs, seed)
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    assert f": {programs} cases, 0 failures" in result.stdout


def test_bench_without_sanitizers(tmp_path: Path) -> None:
    passes(compile_bench(tmp_path, SIZES["2x16x16"], sanitized=False, optimisation="-O0"), 50)


@pytest.mark.parametrize(
    "size",
    [pytest.param(size, marks=EXTENDED) for size in ("2x16x16", "bf16-2x16x8", "7x16x16-narrow", "8x32x16")],
)
def test_bench(size: str, tmp_path: Path) -> None:
    # Without optimisation: compiling takes longer than running.
    passes(compile_bench(tmp_path, SIZES[size], sanitized=True, optimisation="-O0"), 50)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_many_shapes(size: str, tmp_path: Path) -> None:
    passes(compile_bench(tmp_path, SIZES[size], sanitized=True), MANY // 3 + 1, seed=1000)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == QUICK[0] else EXTENDED) for name in QUICK])
def test_notices_a_mistake(name: str, tmp_path: Path) -> None:
    notices(name, tmp_path, 120)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MUTATIONS if name not in QUICK])
def test_notices_every_mistake(name: str, tmp_path: Path) -> None:
    notices(name, tmp_path, 1500)


def notices(name: str, directory: Path, programs: int) -> None:
    mutation = MUTATIONS[name]
    sizes = SIZES[mutation.sizes]
    program = compile_bench(directory, sizes, sanitized=mutation.memory, mutation=mutation, optimisation="-O0")
    assert_noticed(run_bench(program, programs), memory=mutation.memory)


def test_contract_has_every_label() -> None:
    text = "".join(
        path.read_text() for folder in ("processes", "vector") for path in sorted((ENGINE / folder).rglob("*.hpp"))
    )
    contract = qor.load(ENGINE / "qor.toml")
    assert set(re.findall(r"PIPELINED\((\w+)\)", text)) == set(contract.loops)
    assert set(re.findall(r"CYCLES\((\w+)\)", text)) == set(contract.code)
