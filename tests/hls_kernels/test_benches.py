"""Compiles and runs every test bench of the cores, with the sanitizers for memory and undefined behaviour; and some,
without them, for narrower registers than the host's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from hls_kernels import ROOT
from xclbin_build.toolchain.gxx import find_compiler
from xclbin_build.toolchain.isa import compiler_flags, host_isa

BENCHES = sorted((ROOT / "tb").glob("*_tb.cpp"))
# -O1 keeps a bench's compilation short; without it the vector code is too slow to run.
FLAGS = ("-std=c++17", "-O1", "-Wno-psabi", "-Wno-unknown-pragmas", f"-I{ROOT}")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
COMPILE_SECONDS, RUN_SECONDS = 600, 600

# Of the instruction set with the next narrower registers a vec16 takes more. That matters to what shuffles lanes and to
# the MAC array, which has other tiles.
NARROWER = {"x86-64-v4": "x86-64-v3", "x86-64-v3": "x86-64-v2"}.get(host_isa())
NARROW = [ROOT / "tb" / f"{name}_tb.cpp" for name in ("convert", "gemm", "math", "move", "reduce", "winograd")]
RUNS = [(bench, host_isa()) for bench in BENCHES] + [(bench, NARROWER) for bench in NARROW if NARROWER]


def compile_bench(run: tuple[Path, str], program: Path) -> subprocess.CompletedProcess[str]:
    bench, isa = run
    sanitizers = SANITIZERS if isa == host_isa() else ()
    command = [*find_compiler().command, *FLAGS, *sanitizers, *compiler_flags(isa), str(bench), "-o", str(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS)


@pytest.fixture(scope="module")
def compilations(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[Path, str], tuple[Path, Future[subprocess.CompletedProcess[str]]]]]:
    """The benches that this run has selected, compiled side by side: program and compiler's result of each."""
    directory = tmp_path_factory.mktemp("benches")
    selected = {item.callspec.params.get("run") for item in request.session.items if hasattr(item, "callspec")}
    pool = ThreadPoolExecutor(os.cpu_count())
    programs = {run: directory / f"{run[0].stem}-{run[1]}" for run in RUNS if run in selected}
    yield {run: (program, pool.submit(compile_bench, run, program)) for run, program in programs.items()}
    pool.shutdown(cancel_futures=True)


def test_every_core_has_a_bench() -> None:
    cores = {path.stem for path in (ROOT / "cores").glob("*.hpp") if path.read_text().startswith("// core:")}
    assert cores
    assert cores <= {bench.stem.removesuffix("_tb") for bench in BENCHES}


def test_benches_compile_as_synthesis_sees_them() -> None:
    """So that they can be run on that side of every `#ifdef __SYNTHESIS__` too."""
    options = (
        "-std=c++17",
        "-fsyntax-only",
        "-D__SYNTHESIS__",
        "-Wno-unknown-pragmas",
        f"-I{ROOT}",
        f"-I{ROOT}/tb/hls",
    )

    def complaints(bench: Path) -> str:
        command = [*find_compiler().command, *options, str(bench)]
        return subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS).stderr

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        assert "".join(pool.map(complaints, BENCHES)) == ""


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run[0].stem}-{run[1]}")
def test_bench(
    run: tuple[Path, str],
    compilations: dict[tuple[Path, str], tuple[Path, Future[subprocess.CompletedProcess[str]]]],
) -> None:
    program, compilation = compilations[run]
    compiled = compilation.result()
    assert compiled.returncode == 0, compiled.stderr[-4000:]
    result = subprocess.run([str(program)], capture_output=True, text=True, timeout=RUN_SECONDS)
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    assert "cases" in result.stdout, "the bench does not say how many cases it has run"
