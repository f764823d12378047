"""The dataflow simulator: benches whose cycles can be told by hand, with and without counting, under sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hls_kernels import ROOT
from tests.hls_kernels.bench_kit import SANITIZERS
from tests.marks import EXTENDED
from xclbin_build import RecipeError, qor
from xclbin_build.toolchain.gxx import find_compiler

SIM = ROOT / "sim"
CONTRACT = SIM / "tb" / "qor.toml"
BENCHES = ("streams", "ports")


def build(
    bench: str, directory: Path, *, counting: bool, contract: str | None = None, flags: tuple[str, ...] = ()
) -> Path:
    """Compiles a bench of sim/tb with the loops of `contract`, by default its own."""
    toml = directory / "qor.toml"
    toml.write_text(CONTRACT.read_text() if contract is None else contract)
    (directory / qor.HEADER).write_text(qor.header(qor.load(toml)))
    program = directory / bench
    command = [
        *find_compiler().command, "-std=c++17", *(flags or ("-O0", *SANITIZERS)), "-Wall", "-Wextra", "-Werror",
        "-Wno-unused-label", "-Wno-unknown-pragmas", f"-DFPGA_COUNT_CYCLES={int(counting)}", f"-I{ROOT}",
        f"-I{directory}", str(SIM / "tb" / f"{bench}.cpp"), "-o", str(program),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-4000:]
    return program


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("counting", [pytest.param(False, marks=EXTENDED), True], ids=["functional", "counting"])
@pytest.mark.parametrize("bench", BENCHES)
def test_bench(bench: str, counting: bool, tmp_path: Path) -> None:
    result = run(build(bench, tmp_path, counting=counting))
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    assert " cases, 0 failures" in result.stdout


@pytest.mark.slow
@pytest.mark.extended
def test_random_networks_against_a_clock(tmp_path: Path) -> None:
    """Cycles and deadlocks of random networks, in several orders of their processes, are those of a clocked model."""
    result = run(build("clocked", tmp_path, counting=True, flags=("-O1", *SANITIZERS)))
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    assert " cases, 0 failures" in result.stdout


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.parametrize("flags", [("-O2",), ("-O1", "-DFPGA_SIM_UCONTEXT")], ids=["own switch", "ucontext"])
def test_speed_bench_runs(flags: tuple[str, ...], tmp_path: Path) -> None:
    """Without sanitizers, with either way to switch stacks; its figures depend on the machine and are not looked at."""
    result = run(build("speed", tmp_path, counting=True, flags=flags), "1000")
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    assert "4 cases, 0 failures" in result.stdout


@pytest.mark.parametrize(
    ("figure", "bench"),
    [("[loop.send]\nii = 1", "streams"), ("[loop.use_block]\nii = 2\ndepth = 6", "streams"),
     ("[code.think]\ncycles = 7", "streams"), ("[loop.store_beats]\nii = 1\ndepth = 4", "ports")],
)  # fmt: skip
def test_another_contract_changes_the_count(figure: str, bench: str, tmp_path: Path) -> None:
    number = figure.rpartition(" ")[2]
    contract = CONTRACT.read_text()
    assert contract.count(figure) == 1
    other = contract.replace(figure, figure.removesuffix(number) + str(int(number) + 1))
    result = run(build(bench, tmp_path, counting=True, contract=other, flags=("-O0",)))
    assert result.returncode == 1, result.stdout
    assert ", not " in result.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[loop.a]\nii = 0\ndepth = 1\nwhy = ''", "[loop.a]: 'ii' must be at least 1, not 0."),
        ("[loop.a]\nii = 1\nwhy = ''", "[loop.a]: key 'depth' is missing"),
        ("[loop.a]\nii = 1\ndepth = 1", "[loop.a]: key 'why' is missing"),
        ("[loop.a-b]\nii = 1\ndepth = 1\nwhy = ''", "'a-b' is not a C identifier"),
        ("[loop.a]\nii = 1\ndepth = 1\nwhy = ''\n[code.a]\ncycles = 1\nwhy = ''", "the label 'a' is defined twice"),
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
