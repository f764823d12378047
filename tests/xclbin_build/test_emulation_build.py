"""Builds for the emulator: determinism, incremental builds, the cache, and the errors of a toolchain."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import xclbin_build
from xclbin_build import RecipeError, ToolchainError, XclbinError, read
from xclbin_build.axlf import Section
from xclbin_build.build import load_design
from xclbin_build.flow import vitis
from xclbin_build.toolchain import elf, gxx
from xclbin_build.toolchain.compiler import find_compiler
from xclbin_build.toolchain.isa import (
    _EXTENSIONS,
    architecture,
    chosen,
    compiler_flags,
    extensions,
    level_of,
    multiplies,
    plan_flags,
)

DATA = Path(__file__).parent / "data"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A copy of the user recipe that a test may change."""
    shutil.copytree(DATA, tmp_path / "recipe")
    return tmp_path / "recipe" / "user.toml"


class Steps(list[str]):
    """A progress that keeps what has been done."""

    def __call__(self, done: int, total: int, what: str) -> None:
        assert 0 < done <= total
        self.append(what)


def test_another_ninja_on_the_path_compiles_nothing_again(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an environment is activated, or not: other versions do not read the log."""
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path / "cache"))
    gxx.build(load_design(recipe))
    other = tmp_path / "bin" / "ninja"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent), prepend=":")
    steps = Steps()
    gxx.build(load_design(recipe), progress=steps)
    assert not steps


def test_same_inputs_give_the_same_file(tmp_path: Path, recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for name in ("a", "b"):
        monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path / f"cache {name}"))
        files.append(xclbin_build.build("emu", recipe, output=tmp_path / name).read_bytes())
    assert files[0] == files[1]
    assert str(tmp_path).encode() not in files[0]


def test_emu_and_sw_emu_hold_the_same_shared_object(tmp_path: Path, user_xclbin: Path) -> None:
    other = read(xclbin_build.build("sw_emu", DATA / "user.toml", output=tmp_path / "sw.xclbin"))
    emu = read(user_xclbin)
    assert other.sections[Section.BITSTREAM] == emu.sections[Section.BITSTREAM]
    assert (other.manifest["target"], emu.manifest["target"]) == ("sw_emu", "emu")


def test_second_build_runs_nothing(recipe: Path) -> None:
    first, second = Steps(), Steps()
    built = gxx.build(load_design(recipe), progress=first)
    again = gxx.build(load_design(recipe), progress=second)
    assert built.edges == len(first) == 4
    assert (again.edges, second) == (0, [])
    assert again.shared_object == built.shared_object


def test_a_changed_core_recompiles_only_itself(recipe: Path) -> None:
    gxx.build(load_design(recipe))
    core = recipe.parent / "accumulate.hpp"
    core.write_text(core.read_text().replace("+ c.shift", "- c.shift"))
    steps = Steps()
    gxx.build(load_design(recipe), progress=steps)
    assert steps == ["compile core_accumulate.cpp", "link kernels.so"]


def test_a_changed_header_beside_a_core_recompiles_it(recipe: Path) -> None:
    gxx.build(load_design(recipe))
    header = recipe.parent / "accumulate_types.hpp"
    header.write_text(header.read_text().replace("int64_t", "uint64_t"))
    steps = Steps()
    gxx.build(load_design(recipe), progress=steps)
    assert steps == ["compile core_accumulate.cpp", "link kernels.so"]


@pytest.mark.slow
@pytest.mark.extended
def test_recipes_share_the_objects_of_cores(recipe: Path) -> None:
    recipe.write_text('[kernel.one]\ncores = ["pool"]\n')
    gxx.build(load_design(recipe))
    other = recipe.with_name("other.toml")
    other.write_text('[kernel.two]\ncores = ["pool", "accumulate.hpp"]\n')
    steps = Steps()
    gxx.build(load_design(other), progress=steps)
    assert sorted(steps) == ["compile core_accumulate.cpp", "compile cu_two.cpp", "link kernels.so"]
    assert gxx.build(load_design(recipe)).edges == 0


def test_manifest_describes_the_build(user_xclbin: Path) -> None:
    manifest = read(user_xclbin).manifest
    engine, vadd = manifest["kernels"]
    assert (engine["lanes"], engine["cores"], engine["opcodes"]) == (True, ["accumulate"], ["accumulate", "negate"])
    assert (vadd["lanes"], vadd["cores"], vadd["opcodes"]) == (False, [], [])
    assert [bank["tag"] for bank in manifest["banks"]] == [f"DDR[{i}]" for i in range(4)]
    assert engine["args"][2] | {"type": ""} == {
        "name": "arena", "kind": "global", "index": 2, "offset": 0x24, "bytes": 8, "type": "", "const": False,
        "bank": "DDR[1]",
    }  # fmt: skip
    assert manifest["platform"]["ps_gflops"] == 60
    assert manifest["tuning"]["bands"]["count"] == 32
    assert manifest["tiles"]["ROWS"] == 5
    assert manifest["enums"]["activation"]["ACT_GELU"] == 7
    assert {"field": "factor", "type": "float", "word": 6, "count": 20} in manifest["commands"]["accumulate"]


def test_instruction_set_can_be_chosen(tmp_path: Path) -> None:
    path = xclbin_build.build("emu", DATA / "user.toml", output=tmp_path / "v2.xclbin", isa="x86-64-v2")
    assert read(path).manifest["isa"] == "x86-64-v2"
    with pytest.raises(ToolchainError, match="unknown instruction set 'x86-64-v9'; did you mean 'x86-64-v"):
        xclbin_build.build("emu", DATA / "user.toml", output=tmp_path / "v9.xclbin", isa="x86-64-v9")


def test_kernels_of_another_architecture(tmp_path: Path, user_xclbin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need its cross-compiler, and what another compiler makes is refused."""
    assert [architecture(isa) for isa in ("x86-64", "x86-64-v4+amx", "aarch64")] == ["x86_64", "x86_64", "aarch64"]
    kernels = read(user_xclbin).sections[Section.BITSTREAM]
    assert not elf.fault(kernels, shared=True, architecture=platform.machine())
    other = {"x86_64": "aarch64"}.get(platform.machine(), "x86_64")
    assert elf.fault(kernels, architecture=other) == f"it is machine code of another architecture than {other}"
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=f"{other}-linux-gnu-g[+][+] was not found; install g[+][+]-{other}"):
        find_compiler(other)


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_of_every_instruction_set_it_is_known_what_it_multiplies(level: str) -> None:
    """What the compiler is told to use, lowering must know."""
    every_feature = set().union(*(needed for needed, _ in _EXTENSIONS.values()))
    for isa in (level, *extensions(level, every_feature)):
        flags = compiler_flags(isa)
        assert ("bfloat16" in multiplies(isa)) == ("-mavx512bf16" in flags)
        assert ("tiles" in multiplies(isa)) == ("-mamx-int8" in flags)


def test_manifest_says_what_the_host_multiplies(user_xclbin: Path) -> None:
    manifest = read(user_xclbin).manifest
    assert manifest["multiplies"] == list(multiplies(manifest["isa"]))


def test_the_plan_can_be_of_any_instruction_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = xclbin_build.build("emu", DATA / "user.toml", output=tmp_path / "a", isa="x86-64-v2", plan="x86-64-v4")
    assert (read(path).manifest["isa"], read(path).manifest["plan"]) == ("x86-64-v2", "x86-64-v4")
    assert plan_flags("x86-64-v2", "x86-64-v4") == ["-DFPGA_PLAN_LANES=16", "-DFPGA_PLAN_REGISTERS=32"]
    assert plan_flags("x86-64-v3", "x86-64-v3") == []
    monkeypatch.setenv("FPGA_DYNAMO_ISA", "x86-64-v2")
    assert chosen() == ("x86-64-v2", "x86-64-v2")
    monkeypatch.setenv("FPGA_DYNAMO_PLAN", "x86-64-v3")
    assert chosen() == ("x86-64-v2", "x86-64-v3")
    assert chosen("x86-64", "x86-64-v4") == ("x86-64", "x86-64-v4")
    assert xclbin_build.cached(DATA / "user.toml") != xclbin_build.cached(DATA / "user.toml", plan="x86-64-v4")
    with pytest.raises(
        ToolchainError, match="no tile plan exists for the instruction set 'x86-64-v9'; did you mean 'x86-64-v"
    ):
        chosen(plan="x86-64-v9")


def test_levels_follow_from_the_flags_of_the_cpu() -> None:
    v2 = {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}
    v3 = v2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
    v4 = v3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "other"}
    assert [level_of(flags) for flags in (set(), v2, v3, v4, v4 - {"avx2"})] == [
        "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v2",
    ]  # fmt: skip
    assert compiler_flags("x86-64-v4") == ["-march=x86-64-v4", "-mprefer-vector-width=512"]
    assert compiler_flags("aarch64") == []


def test_extensions_follow_from_the_flags_of_the_cpu() -> None:
    amx = {"avx512_vnni", "avx512_bf16", "avx512vbmi", "amx_tile", "amx_int8", "amx_bf16"}
    assert extensions("x86-64-v3", {"avx_vnni", *amx}) == ["x86-64-v3+vnni"]
    assert extensions("x86-64-v4", amx) == ["x86-64-v4+vnni", "x86-64-v4+bf16", "x86-64-v4+vbmi", "x86-64-v4+amx"]
    assert extensions("x86-64-v4", {"avx512_vnni", "amx_tile"}) == ["x86-64-v4+vnni"]
    assert compiler_flags("x86-64-v4+vnni") == [*compiler_flags("x86-64-v4"), "-mavx512vnni"]
    assert chosen("x86-64-v4+amx") == ("x86-64-v4+amx", "x86-64-v4")
    assert plan_flags("x86-64-v4+amx", "x86-64-v4") == []


def test_unknown_target_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="unknown target 'swemu'; did you mean 'sw_emu'"):
        xclbin_build.build("swemu", output=tmp_path / "x")


def test_missing_compiler_says_how_to_install_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolchainError, match="was not found; install g\\+\\+"):
        xclbin_build.build("emu", DATA / "user.toml", output=tmp_path / "x")
    monkeypatch.setenv("CXX", "no-such-compiler -O9")
    with pytest.raises(ToolchainError, match=r"\$CXX, 'no-such-compiler -O9', was not found"):
        xclbin_build.build("emu", DATA / "user.toml", output=tmp_path / "x")
    monkeypatch.setenv("CXX", "/bin/false")
    with pytest.raises(ToolchainError, match="'/bin/false' does not start"):
        xclbin_build.build("emu", DATA / "user.toml", output=tmp_path / "x")


def test_compiler_error_is_shown(tmp_path: Path, recipe: Path) -> None:
    core = recipe.parent / "accumulate.hpp"
    core.write_text(core.read_text().replace("+ c.shift", "+ c.shfit"))
    with pytest.raises(ToolchainError, match=r"recipe/accumulate\.hpp:\d+:\d+: error: .*shfit"):
        xclbin_build.build("emu", recipe, output=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_cached_builds_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recipe: Path) -> None:
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path / "cache"))
    steps = Steps()
    path = xclbin_build.cached(recipe, progress=steps)
    assert steps
    before, written = len(steps), path.stat().st_mtime_ns
    assert xclbin_build.cached(recipe, progress=steps) == path
    assert (len(steps), path.stat().st_mtime_ns) == (before, written)
    assert xclbin_build.cached(recipe, cu={"engine": 3}) != path
    core = recipe.parent / "accumulate_types.hpp"
    core.write_text(core.read_text() + "// changed\n")
    assert xclbin_build.cached(recipe) != path


def test_cached_file_that_is_damaged_is_built_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path / "cache"))
    path = xclbin_build.cached(DATA / "user.toml")
    good = path.read_bytes()
    path.write_bytes(good[:-100])
    with pytest.raises(XclbinError):
        read(path)
    assert xclbin_build.cached(DATA / "user.toml").read_bytes() == good


def test_threads_and_processes_share_one_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path / "cache"))
    program = f"import xclbin_build; print(xclbin_build.cached({str(DATA / 'user.toml')!r}))"
    package = Path(xclbin_build.__file__).parents[1]
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=package)
    paths, steps = [], Steps()
    threads = [
        threading.Thread(target=lambda: paths.append(xclbin_build.cached(DATA / "user.toml", progress=steps)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert process.stdout is not None
    paths.append(Path(process.stdout.read().strip()))
    assert process.wait() == 0
    assert len(paths) == 5
    assert len(set(paths)) == 1
    assert len(steps) in (0, 5), "it has been built twice, or in part"
    assert read(paths[0]).manifest["recipe"] == "user"


def test_unusable_cache_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path / "file"))
    with pytest.raises(xclbin_build.BuildError, match="set FPGA_DYNAMO_CACHE to a writable directory"):
        xclbin_build.cached(DATA / "user.toml")


@pytest.mark.parametrize("file", ["vadd.cpp", "accumulate.hpp", "accumulate_types.hpp"])
def test_errors_of_the_compiler_name_the_user_s_file_and_line(recipe: Path, file: str) -> None:
    path = recipe.parent / file
    code = path.read_text()
    path.write_text(f'{code}\n#ifndef __SYNTHESIS__\nstatic_assert(sizeof(int) == 5, "not here");\n#endif\n')
    line = code.count("\n") + 3
    with pytest.raises(ToolchainError) as error:
        gxx.build(load_design(recipe))
    assert f"{path}:{line}:" in str(error.value)
    assert f"user/{file}:" not in str(error.value)


def test_file_in_a_kernel_is_the_user_s(recipe: Path) -> None:
    source = recipe.parent / "vadd.cpp"
    source.write_text(
        source.read_text().replace("add:", "static const char* volatile here = __FILE__; (void)here;\nadd:")
    )
    built = gxx.build(load_design(recipe)).shared_object
    assert f"{source}\0".encode() in built and b"user/vadd.cpp" not in built


def test_sources_to_be_built_elsewhere_say_nothing_of_this_machine(recipe: Path, tmp_path: Path) -> None:
    design = load_design(recipe, platform="u250")
    vitis.write_sources(design, "hw", tmp_path / "out")
    assert (tmp_path / "out/user/vadd.cpp").read_text() == (recipe.parent / "vadd.cpp").read_text()
