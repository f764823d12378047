"""Compiles and runs every test bench of the cores, with the sanitizers for memory and undefined behaviour."""

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
# -O1 keeps a bench's compilation at some 15 s; without it the vector code is too slow to run.
FLAGS = (
    "-std=c++17", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wno-psabi",
    "-Wno-unknown-pragmas", f"-I{ROOT}",
)  # fmt: skip
COMPILE_SECONDS, RUN_SECONDS = 600, 600


def compile_bench(bench: Path, program: Path) -> subprocess.CompletedProcess[str]:
    command = [*find_compiler().command, *FLAGS, *compiler_flags(host_isa()), str(bench), "-o", str(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS)


@pytest.fixture(scope="module")
def compilations(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Path, tuple[Path, Future[subprocess.CompletedProcess[str]]]]]:
    """The benches that this run has selected, compiled side by side: program and compiler's result of each."""
    directory = tmp_path_factory.mktemp("benches")
    selected = {item.callspec.params.get("bench") for item in request.session.items if hasattr(item, "callspec")}
    pool = ThreadPoolExecutor(os.cpu_count())
    programs = {bench: directory / bench.stem for bench in BENCHES if bench in selected}
    yield {bench: (program, pool.submit(compile_bench, bench, program)) for bench, program in programs.items()}
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


@pytest.mark.parametrize("bench", BENCHES, ids=lambda bench: bench.stem)
def test_bench(bench: Path, compilations: dict[Path, tuple[Path, Future[subprocess.CompletedProcess[str]]]]) -> None:
    program, compilation = compilations[bench]
    compiled = compilation.result()
    assert compiled.returncode == 0, compiled.stderr[-4000:]
    result = subprocess.run([str(program)], capture_output=True, text=True, timeout=RUN_SECONDS)
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    assert "cases" in result.stdout, "the bench does not say how many cases it has run"
