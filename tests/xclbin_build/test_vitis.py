"""The Vitis flow, as far as it goes without Vitis: sources, link configuration, calls of v++, the added manifest.

The HLS sources are compiled and run by g++, once as C simulation and once as Vitis sees them (__SYNTHESIS__ and a
stand-in for hls_vector.h).
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

import xclbin_build
from hls_kernels import ROOT
from tests.xclbin_build import fake_vitis
from tests.xclbin_build.cu_card import aligned, encode
from xclbin_build import RecipeError, ToolchainError, read
from xclbin_build.axlf import Mode, Section
from xclbin_build.build import load_design
from xclbin_build.flow.commands import synthesis
from xclbin_build.flow.config import link_config
from xclbin_build.flow.tools import Release
from xclbin_build.flow.vitis import write_sources
from xclbin_build.manifest import decode, describe
from xclbin_build.toolchain.gxx import INCLUDES, find_compiler

DATA = Path(__file__).parent / "data"
DESIGN = load_design(DATA / "user.toml", platform="u250")
VIEWS = {"simulation": [], "synthesis": ["-D__SYNTHESIS__", f"-I{ROOT / 'headers'}"]}


def compile_hls(directory: Path, source: str, *options: str) -> None:
    command = [
        *find_compiler().command, "-std=c++17", "-O1", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-Wno-psabi",
        "-Wno-unused-label", "-Wno-unused-variable", *INCLUDES, f"-I{DATA}", source, *options,
    ]  # fmt: skip
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("view", VIEWS)
def test_hls_kernel_computes_what_its_commands_say(tmp_path: Path, view: str) -> None:
    write_sources(DESIGN, "hw", tmp_path)
    compile_hls(tmp_path, "engine.cpp", "-shared", "-fPIC", "-o", "engine.so", *VIEWS[view])
    kernel = ctypes.CDLL(str(tmp_path / "engine.so")).engine
    kernel.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p]
    manifest = describe(DESIGN, "hw", "")
    count, factor = 32, np.arange(20, dtype=np.float32)
    program = [
        encode(manifest, "accumulate", a=16, b=0, output=64, count=count, factor=factor, shift=0.5),
        encode(manifest, "negate", input=64, output=128, count=count),
        encode(manifest, "negate", input=0, output=0, count=3),
        encode(manifest, "negate", input=64, output=160, count=count),
    ]
    commands, arena, weights = aligned(256, np.uint32), aligned(192), aligned(32)
    commands[:] = np.concatenate(program)
    arena[16 : 16 + count], weights[:] = np.arange(count), 100
    kernel(commands.ctypes.data, len(program), arena.ctypes.data, weights.ctypes.data)
    np.testing.assert_array_equal(arena[128:160], -(np.arange(count) * (np.arange(count) % 20) + 100.5))
    assert np.isnan(arena[160:]).all(), "a command after the failed one has run"
    assert list(arena[:4].view(np.uint32)) == [manifest["enums"]["status"]["STATUS_INDEX_RANGE"], 2, 0, 0]
    commands[64] = 999
    kernel(commands.ctypes.data, len(program), arena.ctypes.data, weights.ctypes.data)
    assert list(arena[:2].view(np.uint32)) == [manifest["enums"]["status"]["STATUS_BAD_OPCODE"], 1]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("recipe", ["emulator", "split", "signal"])
def test_hls_sources_of_the_recipes_compile(tmp_path: Path, recipe: str, view: str) -> None:
    design = load_design(recipe, platform="u250")
    write_sources(design, "hw", tmp_path)
    for kernel in design.kernels:
        compile_hls(tmp_path, f"{kernel.name}.cpp", "-fsyntax-only", *VIEWS[view])


def test_link_config_places_every_compute_unit() -> None:
    lines = link_config(DESIGN).splitlines()
    assert "nk=engine:2:engine_1.engine_2" in lines
    assert "nk=vadd:1:vadd_1" in lines
    assert "sp=engine_2.arena:DDR[1]" in lines
    assert "sp=vadd_1.out:DDR[0]" in lines
    assert not any("count" in line for line in lines), "a scalar has no memory"
    assert "kernel_frequency=300" in lines[: lines.index("[connectivity]")]


def test_slr_goes_to_the_link_config(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('[kernel.k]\nsource="k.cpp"\ncu=2\nslr=["SLR0", "SLR2"]\n')
    (tmp_path / "k.cpp").write_text('extern "C" void k(int* data) { data[0] = 1; }\n')
    lines = link_config(load_design(tmp_path / "my.toml", platform="u250")).splitlines()
    assert {"slr=k_1:SLR0", "slr=k_2:SLR2"} <= set(lines)


def test_a_project_of_kernels_goes_to_v_plus_plus(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "my.toml").write_text("""streams = ["first.out:sink_1.in:64"]
[kernel.source]
source = ["source.cpp", "part.cpp"]
include = ["inc"]
define = ["FACTOR=3"]
units = ["first"]
memory = { "first.in" = "DDR[1]" }
[kernel.sink]
source = "sink.cpp"
""")
    head = '#include <hls_stream.h>\nextern "C" void '
    (tmp_path / "source.cpp").write_text(
        f"{head}source(const int* in, hls::stream<int>& out) {{ out.write(in[0]); }}\n"
    )
    (tmp_path / "part.cpp").write_text("int part() { return FACTOR; }\n")
    (tmp_path / "sink.cpp").write_text(f"{head}sink(hls::stream<int>& in, int* out) {{ out[0] = in.read(); }}\n")
    design = load_design(tmp_path / "my.toml", platform="u250")
    lines = link_config(design).splitlines()
    assert {"nk=source:1:first", "sp=first.in:DDR[1]", "sp=sink_1.out:DDR[0]"} <= set(lines)
    assert "stream_connect=first.out:sink_1.in:64" in lines
    calls = [call.command for call in synthesis(design, "hw", Release(2022, 2))]
    compiles = {call[call.index("-k") + 1]: call for call in calls}
    assert compiles["source"][-2:] == ("user/source.cpp", "user/part.cpp")
    assert {"-DFACTOR=3", f"-I{tmp_path / 'inc'}"} <= set(compiles["source"]) - set(compiles["sink"][-1:])
    assert "-DFACTOR=3" not in compiles["sink"]


def test_sources_only_writes_all_that_is_needed(tmp_path: Path) -> None:
    files = write_sources(DESIGN, "hw_emu", tmp_path)
    assert {"engine.cpp", "link.cfg", "build.sh", "manifest.json", "tiles.hpp", "command_decode.hpp"} <= {
        path.name for path in files
    }
    script = (tmp_path / "build.sh").read_text()
    assert "v++ -t hw_emu --platform xilinx_u250_gen3x16_xdma_4_1_202210_1 -c -k engine" in script
    assert "-o vadd.xo user/vadd.cpp" in script
    assert "v++ -c --mode hls --config vadd.run.cfg --work_dir vadd.hls" in script
    assert subprocess.run(["sh", "-n", str(tmp_path / "build.sh")]).returncode == 0
    assert decode((tmp_path / "manifest.json").read_bytes())["target"] == "hw_emu"


def test_without_vitis_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"v\+\+ is not on PATH; .*--sources-only"):
        xclbin_build.build("hw", DATA / "user.toml", platform="u250", output=tmp_path / "x")


def test_the_software_card_is_no_hardware(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="give --platform u250"):
        write_sources(load_design(DATA / "user.toml"), "hw", tmp_path)


def test_manifest_is_added_to_what_vitis_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch, "2022.2")
    path = xclbin_build.build("hw", DATA / "user.toml", platform="u250", output=tmp_path / "torch.xclbin")
    result, linked = read(path), read(fake.folder / "card.xclbin", foreign=True)
    assert result.sections[Section.BITSTREAM] == b"bits"
    assert (result.uuid, result.timestamp, result.mode) == (linked.uuid, 77, Mode.FLAT)
    assert result.manifest["target"] == "hw"
    assert result.manifest["platform"]["name"] == "u250"
    assert [call[call.index("-k") + 1] for call in fake.calls if "-c" in call] == ["engine", "vadd"]
    assert fake.calls[-1][-2:] == ["engine.xo", "vadd.xo"]
