"""The dataflow simulator: benches whose cycles can be told by hand, with and without counting, under sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hls_kernels import ROOT
from tests.hls_kernels.bench_kit import SANITIZERS
from xclbin_build import RecipeError, qor
from xclbin_build.toolchain.gxx import find_compiler

SIM = ROOT / "sim"
CONTRACT = SIM / "tb" / "qor.toml"
BENCHES = ("streams", "ports")


def build(
    bench: str, directory: Path, *, counting: bool, contract: str | None = None, flags: tuple[str, ...] = ()
) -> Path:
    """Compiles a bench of sim/tb with the loops of `contract`, its own if there is none."""
    toml = directory / "qor.toml"
    toml.write_text(CONTRACT.read_text() if contract is None else contract)
    (directory / qor.HEADER).write_text(qor.header(qor.load(toml)))
    program = directory / bench
    command = [
        *find_compiler().command, "-std=c++17", *(flags or ("-O1", *SANITIZERS)), "-Wall", "-Wextra", "-Werror",
        "-Wno-unused-label", "-Wno-unknown-pragmas", f"-DFPGA_COUNT_CYCLES={int(counting)}", f"-I{ROOT}",
        f"-I{directory}", str(SIM / "tb" / f"{bench}.cpp"), "-o", str(program),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-4000:]
    return program


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("counting", [False, True], ids=["functional", "counting"])
@pytest.mark.parametrize("bench", BENCHES)
def test_bench(bench: str, counting: bool, tmp_path: Path) -> None:
    result = run(build(bench, tmp_path, counting=counting))
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    assert " cases, 0 failures" in result.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[loop.a]\nii = 0\ndepth = 1\nwhy = ''", "[loop.a]: 'ii' must be at least 1, not 0."),
        ("[loop.a]\nii = 1\nwhy = ''", "[loop.a]: key 'depth' is missing"),
        ("[loop.a]\nii = 1\ndepth = 1", "[loop.a]: key 'why' is missing"),
        ("[loop.a-b]\nii = 1\ndepth = 1\nwhy = ''", "'a-b' is no C identifier"),
        ("[loop.a]\nii = 1\ndepth = 1\nwhy = ''\n[code.a]\ncycles = 1\nwhy = ''", "the label 'a' comes twice"),
        ("[code.a]\ncycle = 1", "unknown key 'cycle'; did you mean 'cycles'?"),
        ("[loops.a]\nii = 1", "unknown key 'loops'; did you mean 'loop'?"),
    ],
)
def test_contract_that_is_wrong(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "qor.toml"
    path.write_text(text)
    with pytest.raises(RecipeError) as error:
        qor.load(path)
    assert words in str(error.value)
