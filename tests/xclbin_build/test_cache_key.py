"""The name of a cached xclbin follows from contents. It is the same in each installation, and found without g++."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import xclbin_build
from xclbin_build import ToolchainError
from xclbin_build.build import load_design
from xclbin_build.cache import digest
from xclbin_build.cache_key import contents
from xclbin_build.toolchain import gxx
from xclbin_build.toolchain import isa as isas

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent / "data"
DESIGNS = (("emulator", "emu"), ("engine-kv260", "cycles"), ("engine-u250-4cu", "hw"))
KEYS = f"""
import xclbin_build, hls_kernels, sys
from xclbin_build.build import load_design
from xclbin_build.cache_key import contents
for recipe, target in {DESIGNS}:
    parts = list(contents(load_design(recipe), target))
    for place in (sys.argv[1], sys.prefix):
        assert not [p for p in parts if place in (p if isinstance(p, str) else p.decode())], (recipe, place)
    print(xclbin_build.cache.digest(parts))
print(xclbin_build.__file__, file=sys.stderr)
"""


def keys_of(copy: Path) -> list[str]:
    """The keys of DESIGNS by the packages in `copy`, which stand before those of this checkout."""
    places = os.pathsep.join([str(copy), *(place for place in sys.path if place)])
    command = [sys.executable, "-S", "-c", KEYS, str(copy)]
    environment = {**os.environ, "PYTHONPATH": places}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and str(copy) in done.stderr, done.stderr
    return done.stdout.split()


def test_two_installations_share_their_xclbins(tmp_path: Path) -> None:
    keys = []
    for name in ("one", "another/lib"):
        for package in ("xclbin_build", "hls_kernels"):
            shutil.copytree(ROOT / package, tmp_path / name / package, ignore=shutil.ignore_patterns("__pycache__"))
        keys.append(keys_of(tmp_path / name))
    assert keys[0] == keys[1] and len(set(keys[0])) == len(DESIGNS)
    headers = [ROOT / "hls_kernels" / name for name in ("lib/vector.hpp", "cores/gemm/core.hpp")]
    assert {path.read_text() for path in headers} <= set(contents(load_design("emulator"), "emu"))


def test_a_header_beside_the_users_core_changes_the_key(tmp_path: Path) -> None:
    recipe = shutil.copytree(DATA, tmp_path / "recipe") / "user.toml"
    before = digest(contents(load_design(recipe), "emu"))
    assert digest(contents(load_design(recipe), "emu")) == before
    (recipe.parent / "beside.hpp").write_text("// new\n")
    assert digest(contents(load_design(recipe), "emu")) != before


@pytest.fixture
def compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An empty cache, and the instruction sets of what g++ has been asked for; it compiles nothing."""
    asked: list[str] = []

    def build(design: object, isa: str, plan: str, *rest: object, **options: object) -> gxx.Emulation:
        asked.append(isa)
        return gxx.Emulation(b"a shared object", isa, plan, 1)

    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path / "cache"))
    for name in ("CXX", "FPGA_DYNAMO_ISA", "FPGA_DYNAMO_PLAN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(gxx, "build", build)
    return asked


def without_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    isas.native.cache_clear()


def test_a_cached_xclbin_is_found_without_a_compiler(
    compiles: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = xclbin_build.cached("emulator")
    least = xclbin_build.cached("emulator", isa=isas.runnable()[-1])
    assert len(compiles) == (1 if built == least else 2)
    without_compiler(monkeypatch, tmp_path)
    try:
        assert xclbin_build.cached("emulator") == built, "the best of what this machine runs"
        assert xclbin_build.cached("emulator", isa=isas.runnable()[-1]) == least
        for other in ({"recipe": "signal"}, {"cu": {"sequencer": 3}}, {"target": "sw_emu"}):
            with pytest.raises(ToolchainError, match="was not found; install g\\+\\+"):
                xclbin_build.cached(**other)
        with pytest.raises(ToolchainError, match="unknown instruction set 'x86-64-v9'"):
            xclbin_build.cached("emulator", isa="x86-64-v9")
        built.write_bytes(built.read_bytes()[:-100])
        least.chmod(0o666)
        with pytest.raises(ToolchainError, match="was not found; install g\\+\\+"):
            xclbin_build.cached("emulator")
    finally:
        isas.native.cache_clear()


def test_what_this_machine_does_not_run_is_not_found(
    compiles: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isas, "host_isa", lambda *_: "x86-64-v4")
    monkeypatch.setattr(isas, "host_flags", lambda *_: set())
    better = xclbin_build.cached("emulator", isa="x86-64-v4")
    monkeypatch.setattr(isas, "host_isa", lambda *_: "x86-64-v2")
    assert isas.runnable() == ["x86-64-v2", "x86-64"]
    without_compiler(monkeypatch, tmp_path)
    try:
        with pytest.raises(ToolchainError, match="was not found; install g\\+\\+"):
            xclbin_build.cached("emulator")
        assert xclbin_build.cached("emulator", isa="x86-64-v4") == better, "as it is asked for"
    finally:
        isas.native.cache_clear()
