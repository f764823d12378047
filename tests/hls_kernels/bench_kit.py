"""Test benches of the cores: what they are compiled for, and their programs, compiled side by side."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hls_kernels import CORES, ROOT, STAND_INS
from xclbin_build.build import load_design
from xclbin_build.generate import hls_sources, stage
from xclbin_build.toolchain.gxx import find_compiler
from xclbin_build.toolchain.isa import compiler_flags, host_isa, native, plan_flags

_FILES = {path.parent.name: path for path in CORES.glob("*/tb.cpp")} | {
    path.stem.removesuffix("_tb"): path for path in ROOT.rglob("*_tb.cpp")
}
BENCHES = tuple(sorted(_FILES))
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
COMPILE_SECONDS, RUN_SECONDS = 900, 900

SHAPES = {
    "default": "",
    "small": "ROWS = 4\nMAX_VECTORS = 1\n",  # that of docs/on-a-card.md
    "short": "ROWS = 5\nMAX_VECTORS = 2\nK_BLOCK = 512\nSLAB_FLOATS = 32768\nOUT_FLOATS = 8192\n"
    "WINOGRAD_INPUT_FLOATS = 262144\nWINOGRAD_PRODUCT_FLOATS = 32768\nPOINTWISE_BLOCK = 64\nREDUCE_ROW = 512\n",
}
"""Tile shapes, as a recipe's [tiles]."""


@dataclass(frozen=True)
class Build:
    """A bench and how it is compiled.

    synthesis: as Vitis would see it, with `__SYNTHESIS__` and a stand-in for hls_vector.h. isa, plan: as xclbin-build
    has them. -O1 keeps a compilation short, and without it the vector code is too slow to run; from -O2 on
    multiplications and additions are fused, unless not `fused`.
    """

    bench: str
    standard: str = "c++17"
    synthesis: bool = False
    shape: str = "default"
    isa: str = native()
    plan: str = host_isa()
    sanitized: bool = True
    optimisation: str = "-O1"
    fused: bool = True

    def __str__(self) -> str:
        how = [self.standard, self.shape] if self.synthesis else [self.isa, self.plan]
        return "-".join([self.bench, *how, *([] if self.fused else ["unfused"])])

    def command(self, sources: Path, program: Path) -> list[str]:
        """The compiler's call; `sources` is a copy of hls_kernels with the tiles of `shape`."""
        return [
            *find_compiler().command, f"-std={self.standard}", self.optimisation,
            f"-ffp-contract={'fast' if self.fused else 'off'}", "-fno-math-errno", "-Wno-psabi",
            "-faligned-new",  # as C++17 has it: a bench's memory is a std::vector of beats
            "-Wno-unknown-pragmas", f"-I{sources}",
            *(["-D__SYNTHESIS__", f"-I{sources / 'headers'}"] if self.synthesis else []),
            *(SANITIZERS if self.sanitized else ()),
            *compiler_flags(self.isa), *plan_flags(self.isa, self.plan),
            str(sources / _FILES[self.bench].relative_to(ROOT)), "-o", str(program),
        ]  # fmt: skip


class Programs:
    """Compiles builds in the background, as many at a time as there are CPUs."""

    def __init__(self, directory: Path, builds: Sequence[Build]) -> None:
        self._directory = directory
        self._pool = ThreadPoolExecutor(os.cpu_count())
        for shape in {build.shape for build in builds}:
            write_sources(directory / shape, shape)
        self._programs: dict[Build, tuple[Path, Future[subprocess.CompletedProcess[str]]]] = {}
        for i, build in enumerate(dict.fromkeys(builds)):
            program = directory / f"{i}-{build.bench}"
            self._programs[build] = (program, self._pool.submit(self._compile, build, program))

    def _compile(self, build: Build, program: Path) -> subprocess.CompletedProcess[str]:
        command = build.command(self._directory / build.shape, program)
        return subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS)

    def run(self, build: Build, percent: int) -> str:
        """Runs so many percent of a bench's random cases, and all others; returns the digest of its results."""
        program, compilation = self._programs[build]
        compiled = compilation.result()
        assert compiled.returncode == 0, compiled.stderr[-4000:]
        result = subprocess.run([str(program), str(percent)], capture_output=True, text=True, timeout=RUN_SECONDS)
        assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
        found = re.search(r": [1-9]\d* cases, 0 failures, digest (\w+)", result.stdout)
        assert found, "the bench does not say how many cases it has run"
        return found[1]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def write_sources(directory: Path, shape: str) -> None:
    """hls_kernels as xclbin-build stages it for a recipe with these tiles, and the benches."""
    directory.mkdir()
    recipe = directory / "recipe.toml"
    recipe.write_text(f'[kernel.k]\ncores = ["gemm"]\n[tiles]\n{SHAPES[shape]}')
    stage(hls_sources(load_design(recipe, platform="u250")), directory)
    for folder in ("tb", STAND_INS.name):
        shutil.copytree(ROOT / folder, directory / folder)
    for bench in _FILES.values():
        shutil.copy(bench, directory / bench.relative_to(ROOT))
