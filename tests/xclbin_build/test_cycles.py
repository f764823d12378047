"""--target cycles: kernels that count, what they count, and which designs are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xclbin_build
from fpga_dynamo.runtime.drivers import choose
from fpga_dynamo.runtime.drivers import emulated as pyxrt
from tests.marks import EXTENDED
from tests.xclbin_build.test_engine_kernel import RECIPE, Product
from xclbin_build import BuildError, RecipeError, counting, read
from xclbin_build.build import load_design
from xclbin_build.generate import hls_sources
from xclbin_build.signature import Argument, parse_kernel

EXAMPLE = Path(__file__).parents[2] / "examples" / "dataflow_kernel"
COMPLETED, ERROR = pyxrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED, pyxrt.ert_cmd_state.ERT_CMD_STATE_ERROR


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A copy of the example that a test may change."""
    shutil.copytree(EXAMPLE, tmp_path / "kernel")
    return tmp_path / "kernel" / "scale.toml"


def change(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))


class Card:
    """The example's kernel on a card, with buffers of `beats` beats of 64 bytes."""

    def __init__(self, xclbin: Path, beats: int) -> None:
        self.device = pyxrt.device(0)
        self.kernel = pyxrt.kernel(self.device, self.device.load_xclbin(str(xclbin)), "scale")
        self.buffers = [
            pyxrt.bo(self.device, 64 * beats, pyxrt.bo.flags.normal, self.kernel.group_id(i)) for i in (0, 1)
        ]
        self.data = np.random.default_rng(0).standard_normal(16 * beats, np.float32)
        self.buffers[0].write(self.data.tobytes(), 0)
        self.buffers[0].sync(pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, 64 * beats, 0)

    def run(self, beats: int) -> Any:
        run = self.kernel(*self.buffers, int(np.float32(3).view(np.int32)), beats)
        run.wait(20_000)
        return run

    def right(self, beats: int) -> bool:
        self.buffers[1].sync(pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE, 64 * beats, 0)
        result = np.frombuffer(self.buffers[1].read(64 * beats, 0), np.float32)
        return bool(np.array_equal(result, self.data[: 16 * beats] * np.float32(3)))


def test_cycles_are_counted(recipe: Path, tmp_path: Path) -> None:
    card = Card(xclbin_build.build("cycles", recipe, output=tmp_path / "k.xclbin"), 300)
    run = card.run(300)
    assert run.state() == COMPLETED, run.error
    assert card.right(300)
    counted = json.loads(run.counters)
    assert counted["clock_khz"] == 300_000
    processes = {process["process"]: process for process in counted["processes"]}
    # (n - 1) * II + depth, and a cycle for a request and for a response.
    assert [processes[p]["busy"] for p in ("load", "multiply", "store")] == [1 + 302, 305, 1 + 302 + 1]
    assert max(p["last"] for p in counted["processes"]) == counted["cycles"] > 300
    assert {cause for p in counted["processes"] for cause in p["stalls"]} == {
        "in read data", "'loaded' empty", "'scaled' empty", "out write response",
    }  # fmt: skip
    assert {(port["port"], port["direction"], port["bank"]) for port in counted["ports"]} == {
        ("in", "read", "DDR[0]"), ("out", "write", "DDR[1]"),
    }  # fmt: skip
    assert all(port["burst_lengths"] == {"44": 1, "64": 4} for port in counted["ports"])
    again = card.run(300)
    assert again.counters == run.counters, "runs are alike"
    assert json.loads(card.run(10).counters)["cycles"] < 300


@pytest.mark.slow
@pytest.mark.extended
def test_contract_clock_and_platform_change_the_count(recipe: Path, tmp_path: Path) -> None:
    def cycles(name: str, platform: str = "u250") -> int:
        xclbin = xclbin_build.build("cycles", recipe, output=tmp_path / name, platform=platform)
        run = Card(xclbin, 300).run(300)
        return int(json.loads(run.counters)["cycles"])

    usual = cycles("usual")
    change(recipe, 'memory = { in = "DDR[0]", out = "DDR[1]" }\n', "")  # HBM[0] for both
    assert cycles("hbm", "u280") > usual
    change(recipe.with_name("qor.toml"), "depth = 6", "depth = 16")
    assert cycles("contract", "u250") >= usual + 10


def test_emu_runs_the_same_kernel_without_counting(recipe: Path, tmp_path: Path) -> None:
    recipe.with_name("qor.toml").unlink()
    card = Card(xclbin_build.build("emu", recipe, output=tmp_path / "k.xclbin"), 20)
    run = card.run(20)
    assert run.state() == COMPLETED, run.error
    assert card.right(20)
    assert run.counters == ""


@pytest.mark.parametrize("target", ["emu", pytest.param("cycles", marks=EXTENDED)])
def test_a_run_that_fails_does_not_spoil_the_next(target: str, recipe: Path, tmp_path: Path) -> None:
    change(
        recipe.with_name("scale.cpp"),
        "static void multiply(beats& loaded, float factor, int count, beats& scaled) {\n",
        "static void multiply(beats& loaded, float factor, int count, beats& scaled) {\n"
        "    if (count == 7) *(volatile int*)8 = 1;\n    if (count == 8) throw 3;\n    if (count == 40) count = 5;\n",
    )
    card = Card(xclbin_build.build(target, recipe, output=tmp_path / "k.xclbin"), 100)
    for beats, words in (
        (7, "crashed: segmentation fault at 0x8"),
        (8, "threw int"),
        (40, "threw sim::deadlock: deadlock: no process can go on."),
        (101, "threw sim::error: load: port 'in' requests elements 0 to 101 of 100."),
    ):
        run = card.run(beats)
        assert run.state() == ERROR
        assert words in run.error
        assert run.counters == ""
        after = card.run(20)
        assert after.state() == COMPLETED, after.error
        assert card.right(20)
        assert bool(after.counters) == (target == "cycles")


def test_the_driver_is_the_software_card() -> None:
    assert choose(None, "cycles") == "emulated"


def refused(recipe: Path, platform: str | None = None) -> str:
    with pytest.raises(BuildError) as error:
        xclbin_build.build("cycles", recipe, output=recipe.with_name("never.xclbin"), platform=platform)
    return str(error.value)


def test_what_cannot_be_counted_is_refused(recipe: Path) -> None:
    words = "kernel 'sequencer' is made of cores, which the cycle simulator does not support"
    assert words in refused(Path("emulator"))
    assert "'emu' has no memory model" in refused(recipe, "emu")
    change(recipe.with_name("qor.toml"), "[loop.store_beats]", "[loop.stores]")
    assert "kernel 'scale': PIPELINED(store_beats) in scale.cpp has no [loop.store_beats] in" in refused(recipe)
    change(recipe.with_name("scale.cpp"), "max_write_burst_length = 64", "max_write_burst_length = 0")
    assert "a length or number of the port 'out' is 0" in refused(recipe)
    recipe.with_name("scale.cpp").write_text(
        'extern "C" void scale(const float* in, float* out, float factor, int n) {}'
    )
    assert "scale.cpp has no argument hls::burst_maxi<...>" in refused(recipe)


def test_ports_are_read_from_pragmas(recipe: Path) -> None:
    change(
        recipe.with_name("scale.cpp"),
        "port = in bundle = gmem0 max_read_burst_length = 64",
        "mode=m_axi port=in num_read_outstanding=32 // max_read_burst_length=8",
    )
    (kernel,) = load_design(recipe).kernels
    assert counting.ports(kernel) == {
        "in": counting.Port(num_read_outstanding=32),
        "out": counting.Port(max_write_burst_length=64),
    }


def test_signature_with_ports(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(
        "struct beat { int x[16]; };\ntypedef hls::burst_maxi<beat> port;\n"
        'extern "C" void k(hls::burst_maxi<ap_uint<512>> a, port b, int n) {}'
    )
    assert parse_kernel(tmp_path / "k.cpp", "k") == [
        Argument("a", "global", "ap_uint<512>", 8, burst=True),
        Argument("b", "global", "beat", 8, burst=True),
        Argument("n", "scalar", "int", 4),
    ]
    (tmp_path / "k.cpp").write_text('extern "C" void k(hls::burst_maxi<int>* a) {}')
    with pytest.raises(RecipeError, match="is not passed by value"):
        parse_kernel(tmp_path / "k.cpp", "k")


def test_vitis_gets_the_header_that_leads_to_its_own(recipe: Path) -> None:
    sources = hls_sources(load_design(recipe))
    assert [name for name in sources if name.startswith("sim/")] == ["sim/dataflow.hpp"]


@pytest.mark.slow
@pytest.mark.extended
def test_engine_counts_in_its_hardware_schedule(tmp_path: Path) -> None:
    (tmp_path / "engine.toml").write_text(RECIPE)
    xclbin = xclbin_build.build("cycles", tmp_path / "engine.toml", output=tmp_path / "k.xclbin", platform="u280")
    product = Product(read(xclbin).manifest)
    device = pyxrt.device(0)
    kernel = pyxrt.kernel(device, device.load_xclbin(str(xclbin)), "array")
    arrays = {"commands": product.commands, "arena": product.arena, "weights": product.weights}
    buffers = {}
    for index, name in ((0, "commands"), (2, "arena"), (3, "weights")):
        data = arrays[name].tobytes()
        buffers[name] = pyxrt.bo(device, len(data), pyxrt.bo.flags.normal, kernel.group_id(index))
        buffers[name].write(data, 0)
        buffers[name].sync(pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, len(data), 0)
    arena = buffers["arena"]
    run = kernel(buffers["commands"], 2, arena, buffers["weights"], arena, arena)
    assert run.wait(20_000) == COMPLETED, run.error
    arena.sync(pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE, product.arena.nbytes, 0)
    product.arena[:] = np.frombuffer(arena.read(product.arena.nbytes, 0), np.int8).reshape(product.arena.shape)
    product.check()
    counted = json.loads(run.counters)
    array = next(process for process in counted["processes"] if process["process"] == "mac_array")
    assert [command["index"] for command in array["commands"] if command["index"] >= 0] == [0, 1]
    assert {port["port"] for port in counted["ports"]} == {
        "commands", "arena", "weights", "arena_residual", "arena_output",
    }  # fmt: skip
    assert sum(port["bytes"] for port in counted["ports"] if port["port"] == "commands") == 2 * 256
