"""A kernel that is an engine: built for the emulator and for Vitis, started with a command list."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import xclbin_build
from fpga_dynamo.codegen.requantize import channels, factor
from hls_kernels import ROOT
from tests.marks import EXTENDED
from tests.xclbin_build.cu_card import Card, Refused, aligned, encode
from xclbin_build import read
from xclbin_build.build import load_design
from xclbin_build.flow.config import link_config
from xclbin_build.flow.vitis import write_sources
from xclbin_build.manifest import describe
from xclbin_build.peers import PAGE_BYTES
from xclbin_build.toolchain.gxx import INCLUDES, find_compiler

RECIPE = """name = "engine test"
[kernel.array]
engine = "8x16x16"
window = 64
weights = 64
"""
ROWS, DEPTH, OUTPUTS = 10, 40, 24  # of the matrices
ABSENT = 0xFFFF_FFFF


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engine") / "engine.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture(scope="module")
def card(recipe: Path) -> Card:
    return Card(read(xclbin_build.cached(recipe)))


def lines(count: int) -> np.ndarray:
    """So many lines of 64 bytes."""
    return aligned(16 * count, np.uint32).view(np.int8).reshape(count, 64)


class Product:
    """A product of int8 matrices, twice in a list: the second one takes the first one's result as its residual.

    Maps are [block of 16 channels][row][16], rows rounded up to 4; weights [block of 16 columns][16 of the depth][a
    quarter of these][16 columns][4], params [block][offset, scale, bias][16]: hls_kernels/engine/layout.hpp.
    """

    def __init__(self, manifest: dict[str, Any]) -> None:
        random = np.random.default_rng(3)
        self.a = random.integers(-128, 128, (ROWS, DEPTH), np.int8)
        self.b = random.integers(-128, 128, (DEPTH, OUTPUTS), np.int8)
        scale = np.full(OUTPUTS, 2.0**-10, np.float32)
        bias = random.integers(-20, 20, OUTPUTS).astype(np.float32)
        blocks, columns, plane = -(-DEPTH // 16), -(-OUTPUTS // 16), -(-ROWS // 4)
        self.arena, self.weights = lines(1 + plane * (blocks + 2 * columns)), lines(columns * (4 * blocks + 3))
        self.plane, self.columns = plane, columns
        padded = np.zeros((4 * plane, 16 * blocks), np.int8)
        padded[:ROWS, :DEPTH] = self.a
        self.arena[1 : 1 + plane * blocks] = padded.reshape(plane * 4, blocks, 16).swapaxes(0, 1).reshape(-1, 64)
        of_b = np.zeros((16 * blocks, 16 * columns), np.int8)
        of_b[:DEPTH, :OUTPUTS] = self.b
        packed = of_b.reshape(blocks, 4, 4, columns, 16).transpose(3, 0, 1, 4, 2)
        self.weights[: packed.size // 64] = packed.reshape(-1, 64)
        made = channels(torch.from_numpy(scale).double(), torch.from_numpy(bias).double(), DEPTH * 128 * 128)
        params = np.zeros((columns, 3, 16), np.int32)
        for row, values in enumerate((made.offset, made.scale, made.bias)):
            params[:, row] = np.append(values.numpy(), np.zeros(16 * columns - OUTPUTS, np.int32)).reshape(columns, 16)
        self.weights[packed.size // 64 :] = params.view(np.int8).reshape(-1, 64)
        self.output = 1 + plane * blocks
        fields: dict[str, object] = {
            "operation": 0, "weight_kind": 0, "input": 1, "weight": 0, "params": packed.size // 64, "residual": ABSENT,
            "sums": ABSENT, "output": self.output, "input_after": 0, "residual_after": 0, "weight_after": 0,
            "pixel_channels": 16, "in_blocks": blocks, "in_height": plane, "in_width": 4, "out_blocks": columns,
            "out_height": plane, "out_width": 4, "kernel": [1, 1], "stride": [1, 1], "padding": [0, 0],
            "dilation": [1, 1], "group_in": DEPTH, "group_out": OUTPUTS, "tile_blocks": 1, "tile_depth": blocks,
            "weight_plane": 0, "heads": [1, 1], "images": 1, "input_head": [0, 0], "input_image": 0,
            "weight_head": [0, 0], "residual_head": [0, 0], "residual_image": 0, "output_head": [0, 0],
            "output_image": 0, "pad": 0, "weight_zero": 0, "flags": 0, "zero": 0, "low": -128, "high": 127,
            "residual_factor": factor(1.0), "residual_zero": 0, "middle_factor": 0, "middle_zero": 0,
            "band_rows": 1, "set_tiles": 1, "order": 0, "peers": 0, "out_plane": 0, "table": 0,
        }  # fmt: skip
        second = {"residual": self.output, "output": self.output + plane * columns, "residual_after": 1, "slices": 3}
        self.fields, self.manifest = fields, manifest
        self.commands = aligned(128, np.uint32)
        self.set(0)
        self.set(1, **second)
        y = np.float32(self.a.astype(np.int32) @ self.b.astype(np.int32)) * scale + bias
        self.once = np.clip(np.rint(y), -128, 127)
        self.twice = np.clip(np.rint(y + self.once), -128, 127)

    def set(self, index: int, **changes: object) -> None:
        self.commands[64 * index : 64 * (index + 1)] = encode(self.manifest, "mac", **(self.fields | changes))

    def result(self, which: int) -> np.ndarray:
        begin = self.output + which * self.plane * self.columns
        rows: np.ndarray = self.arena[begin : begin + self.plane * self.columns].reshape(self.columns, -1, 16)
        return rows.swapaxes(0, 1).reshape(-1, 16 * self.columns)[:ROWS, :OUTPUTS]

    def check(self) -> None:
        np.testing.assert_array_equal(self.result(0), self.once)
        np.testing.assert_array_equal(self.result(1), self.twice)
        assert list(self.arena[0].view(np.uint32)[:2]) == [0, 0]


def start(card: Card, product: Product, **changes: int) -> list[int]:
    arena = card.place(product.arena)
    arguments = {
        "commands": card.place(product.commands), "count": 2, "arena": arena, "weights": card.place(product.weights),
        "arena_residual": arena, "arena_output": arena,
    }  # fmt: skip
    return card.start("array", arguments | changes)


def test_command_list_on_the_software_card(card: Card) -> None:
    product = Product(card.manifest)
    assert start(card, product) == [1, 3]
    product.check()


def test_command_of_the_vector_side_on_the_software_card(card: Card) -> None:
    product = Product(card.manifest)
    fields: dict[str, object] = {
        "slices": 2, "operation": 2, "flags": 0, "input": product.output, "other": product.output, "params": 0,
        "output": product.output + product.plane * product.columns, "input_after": 1, "other_after": 1,
        "channels": OUTPUTS, "pixels": ROWS, "heads": [1, 1], "input_head": [0, 0], "other_head": [0, 0],
        "output_head": [0, 0], "group_lines": 1, "epsilon": 0.0, "row_scale": 0.0,
        "input_scale": int(channels(torch.tensor([0.5]), 0.0, 255.0).scale[0]), "other_factor": factor(0.25),
        "input_zero": 0, "other_zero": 3, "zero": 1, "low": -100, "high": 100, "peers": 0, "plane": 0, "turns": [0, 0],
        "row": 0, "taken": [0, 0], "runs": 0,
    }  # fmt: skip
    product.commands[64:] = encode(card.manifest, "vector", **fields)
    assert start(card, product) == [1, 2]
    expected = np.clip(np.rint(product.once * 0.5 + (product.once - 3) * 0.25) + 1, -100, 100)
    np.testing.assert_array_equal(product.result(1), expected)
    product.commands[64:] = encode(card.manifest, "vector", **(fields | {"output": 5000}))
    with pytest.raises(Refused, match=r"command 1 \(vector\) writes bytes 320000 to"):
        start(card, product)


@pytest.mark.parametrize(("element", "lanes"), [("bfloat16", 2), pytest.param("float32", 0, marks=EXTENDED)])
def test_engines_of_other_elements_build(element: str, lanes: int, tmp_path: Path) -> None:
    path = tmp_path / "engine.toml"
    path.write_text(f'name = "e"\n[kernel.array]\nengine = "4x16x8"\nelement = "{element}"\nvector_lanes = {lanes}\n')
    manifest = read(xclbin_build.cached(path)).manifest
    assert manifest["kernels"][0]["opcodes"] == (["mac", "vector"] if lanes else ["mac"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"opcode": 1}, "command 1 (opcode 1) has an opcode that kernel array does not execute"),
        ({"output": 5000}, "command 1 (mac) writes bytes 320000 to"),
        ({"params": 500}, "command 1 (mac) reads bytes 32000 to"),
        ({"in_blocks": 1 << 30}, "command 1 (mac) has sizes beyond what the engine counts"),
        ({"kernel": [20, 20]}, "command 1 (mac) has a kernel of more positions than the engine's table"),
        ({"set_tiles": 40}, "command 1 (mac) has more weights in a set than the engine's memory"),
        ({"out_plane": 1}, "command 1 (mac) has blocks that lie nearer to each other than their rows take"),
        ({"images": 0}, "command 1 (mac) has a size that is not positive"),
        ({"in_height": 400, "out_height": 400, "band_rows": 400}, "has bands whose input is more than the window"),
    ],
)
def test_bad_command_is_refused_before_anything_runs(card: Card, changes: dict[str, Any], words: str) -> None:
    product = Product(card.manifest)
    product.set(1, **changes)
    before = product.arena.copy()
    with pytest.raises(Refused) as refused:
        start(card, product)
    assert words in str(refused.value)
    np.testing.assert_array_equal(product.arena, before)


def test_ports_to_the_maps_lead_to_one_buffer(card: Card) -> None:
    product = Product(card.manifest)
    with pytest.raises(Refused, match="argument arena_output is another buffer than arena"):
        start(card, product, arena_output=card.place(product.weights))


# Calls the kernel with ports that the simulator offers.
WRAPPER = """
#include "array.cpp"
extern "C" void start(void* commands, uint32_t count, void* arena, void* weights) {
    const auto port = [](void* at) { return engine::port_t(static_cast<engine::line_t*>(at)); };
    const auto in = [](void* at) { return engine::input_port_t(static_cast<engine::beat_t*>(at)); };
    array(static_cast<uint32_t*>(commands), count, in(arena), in(weights), port(arena), port(arena));
}
"""


def test_hls_kernel_computes_what_its_commands_say(recipe: Path, tmp_path: Path) -> None:
    design = load_design(recipe, platform="u250")
    write_sources(design, "hw", tmp_path)
    (tmp_path / "wrapper.cpp").write_text(WRAPPER)
    command = [
        *find_compiler().command, "-std=c++17", "-O1", "-ffp-contract=off", "-Wall", "-Werror", "-Wno-unknown-pragmas",
        "-Wno-unused-label", *INCLUDES, "wrapper.cpp", "-shared", "-fPIC", "-o", "kernel.so",
    ]  # fmt: skip
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    product = Product(describe(design, "hw", ""))
    kernel = ctypes.CDLL(str(tmp_path / "kernel.so")).start
    kernel.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p]
    at = (product.commands.ctypes.data, 2, product.arena.ctypes.data, product.weights.ctypes.data)
    kernel(*at)
    product.check()
    # An unknown command, and what comes behind it, does not run.
    product = Product(describe(design, "hw", ""))
    product.commands[0] = 999
    before = product.arena[1:].copy()
    kernel(product.commands.ctypes.data, 2, product.arena.ctypes.data, product.weights.ctypes.data)
    assert list(product.arena[0].view(np.uint32)[:2]) == [1, 0]
    np.testing.assert_array_equal(product.arena[1:], before)


@pytest.mark.parametrize(
    ("recipe", "kernels"), [("engine-u250", ["engine"]), ("engine-u250-4cu", ["engine", "engine_barrier"])]
)
def test_a_kernel_may_be_called_engine(recipe: str, kernels: list[str], tmp_path: Path) -> None:
    write_sources(load_design(recipe, platform="u250"), "hw", tmp_path)
    for kernel in kernels:
        command = [*find_compiler().command, "-std=c++17", "-fsyntax-only", "-w", *INCLUDES, f"{kernel}.cpp"]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
    script = (tmp_path / "build.sh").read_text()
    assert all(f"-c -k {kernel} " in script for kernel in kernels)
    assert f"linked.xclbin {' '.join(f'{kernel}.xo' for kernel in kernels)}" in script


def test_units_that_work_together_have_banks_and_streams_of_their_own() -> None:
    lines = link_config(load_design("engine-u250-4cu")).splitlines()
    assert {"nk=engine:4:engine_1.engine_2.engine_3.engine_4", "nk=engine_barrier:1:engine_barrier_1"} <= set(lines)
    for unit in (1, 2, 3, 4):
        own = f"DDR[{unit - 1}]"
        assert {f"sp=engine_{unit}.weights:{own}", f"sp=engine_{unit}.commands:{own}"} <= set(lines)
        assert {f"sp=engine_{unit}.arena_residual_{bank}:DDR[{bank}]" for bank in range(4)} <= set(lines)
        assert f"stream_connect=engine_{unit}.to_peers:engine_barrier_1.from_{unit}:16" in lines
        assert f"stream_connect=engine_barrier_1.to_{unit}:engine_{unit}.from_peers:16" in lines
        assert f"slr=engine_{unit}:SLR{unit - 1}" in lines
    text = (ROOT / "engine" / "config.hpp").read_text()
    assert f"#define ENGINE_PAGE_BYTES {PAGE_BYTES}\n" in text


def test_every_port_has_a_bank(recipe: Path) -> None:
    config = link_config(load_design("engine-u250", platform="u250"))
    assert "sp=engine_1.arena_output:DDR[0]" in config
    assert "sp=engine_1.weights:DDR[1]" in config
    assert (ROOT / "recipes" / "engine-u250.toml").is_file()
