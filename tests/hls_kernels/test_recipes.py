"""The recipes that come along, built for the emulator (in the user's cache, which other tests share)."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

import xclbin_build
from hls_kernels import ROOT
from xclbin_build.axlf import Section
from xclbin_build.records import parse_command


@pytest.mark.parametrize("recipe", ["emulator", "single", "split"])
def test_recipe_builds_and_exports_its_kernels(recipe: str, tmp_path: Path) -> None:
    axlf = xclbin_build.read(xclbin_build.cached(recipe))
    shared_object = tmp_path / "kernels.so"
    shared_object.write_bytes(axlf.sections[Section.BITSTREAM])
    library = ctypes.CDLL(str(shared_object))
    for kernel in axlf.manifest["kernels"]:
        assert ctypes.c_uint32.in_dll(library, f"fpga_cu_{kernel['name']}").value == 5  # CARD_ABI


SIGNAL = {"fft", "zip"}
"""Opcodes of cores that only the recipe `signal` has."""
NARROW = {
    "conv2d_int8", "depthwise_int8", "gemm_int8", "pool_int8", "add_int8", "lookup_int8", "quantize", "dequantize",
    "gemm_bf16",
}  # fmt: skip


@pytest.mark.parametrize(("recipe", "left_out"), [("emulator", SIGNAL), ("single", SIGNAL | NARROW)])
def test_all_opcodes_have_a_core(recipe: str, left_out: set[str]) -> None:
    manifest = xclbin_build.read(xclbin_build.cached(recipe)).manifest
    (kernel,) = manifest["kernels"]
    assert set(kernel["opcodes"]) == set(parse_command(ROOT / "command.hpp").records) - left_out


def test_signal_has_what_the_others_leave_out() -> None:
    kernels = xclbin_build.read(xclbin_build.cached("signal")).manifest["kernels"]
    assert {opcode for kernel in kernels for opcode in kernel["opcodes"]} >= SIGNAL


def test_split_divides_the_work() -> None:
    manifest = xclbin_build.read(xclbin_build.cached("split")).manifest
    opcodes = {kernel["name"]: set(kernel["opcodes"]) for kernel in manifest["kernels"]}
    assert "conv2d" in opcodes["convolver"] - opcodes["matrix"]
    assert "gemm" in opcodes["matrix"] - opcodes["convolver"]
    assert {"pointwise", "move"} <= opcodes["convolver"] & opcodes["matrix"]
