"""The integers that scales become: Python's and C++'s are the same, and so are the results that Python expects."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

from fpga_dynamo.codegen.requantize import FRACTION, RequantizeError, channels, factor, requantize
from hls_kernels import LIB, ROOT
from xclbin_build.toolchain.gxx import find_compiler


def test_channels_are_those_of_the_header(tmp_path: Path) -> None:
    program = tmp_path / "requantize"
    source = str(LIB / "requantize_tb.cpp")
    flags = ["-std=c++17", "-O1", "-Wno-unknown-pragmas", "-Wno-psabi", f"-I{ROOT}"]
    subprocess.run([*find_compiler().command, *flags, source, "-o", str(program)], check=True, timeout=300)
    lines = subprocess.run([str(program), "channels"], check=True, capture_output=True, text=True).stdout.splitlines()
    made = refused = 0
    for line in lines:
        scale, bias, greatest, offset, residual, *fields = line.split(maxsplit=5)
        scales = torch.tensor([float.fromhex(scale)], dtype=torch.float64)
        numbers = (float.fromhex(bias), float.fromhex(greatest), int(offset), float.fromhex(residual))
        try:
            found = channels(scales, *numbers)
        except RequantizeError as error:
            assert fields == [str(error)], line
            refused += 1
            continue
        assert fields == [f"{found.offset.item()} {found.scale.item()} {found.bias.item()}"], line
        made += 1
    assert made > 1000
    assert refused > 100


def test_channels_of_an_operation_are_made_together() -> None:
    scale = torch.tensor([1e-3, 0.0, 2.0**-9, 3.0, 1e-9], dtype=torch.float64)
    bias = torch.tensor([3.7, -2.5, 700.0, 0.1, 5.0], dtype=torch.float64)
    together = channels(scale, bias, 1e5, torch.tensor([1, 2, 3, 4, 5]))
    for i in range(5):
        alone = channels(scale[i : i + 1], float(bias[i]), 1e5, i + 1)
        for name in ("offset", "scale", "bias"):
            assert getattr(alone, name).item() == getattr(together, name)[i].item()


def test_powers_of_two_are_exact() -> None:
    sums = torch.arange(-40_000, 40_000).view(1, -1)
    scale = torch.tensor([2.0**-8], dtype=torch.float64)
    made = channels(scale, -3.5, 40_000, residual=128 * 0.25)
    residual = (sums % 256) - 128
    y = sums.double() / 256 - 3.5 + (residual.double() - 5) / 4
    expected = (torch.round(y) + 7).clamp(-128, 127).long()
    assert torch.equal(requantize(sums, made, 7, residual=(residual, 5, factor(0.25))), expected)


def test_a_middle_is_rounded_by_itself() -> None:
    sums = torch.tensor([[96, 160, -160, 10_000]])  # 1.5, 2.5, -2.5, beyond 8 bits
    made = channels(torch.tensor([1 / 64], dtype=torch.float64), 0.0, 1e4)
    table = torch.arange(-128, 128).clamp(min=0)
    got = requantize(sums, made, 0, middle=(0, factor(0.5)), middle_table=table)
    assert got.tolist() == [[1, 1, 0, 64]]  # 2, 2, 0, 127, and half of each to even


@pytest.mark.parametrize(
    ("scale", "bias", "greatest", "message"),
    [
        (16.0, 0.0, 1.0, "16 or more times"),
        (float("nan"), 0.0, 1.0, "not finite"),
        (1e-3, 0.0, 4e9, "overflow int32"),
        (15.0, 0.0, 2e9, "more than 53 bits"),
        (2e-7, 1e5, 2e9, "exceeds 512 LSB"),
    ],
)
def test_what_cannot_be_exact_is_refused(scale: float, bias: float, greatest: float, message: str) -> None:
    with pytest.raises(RequantizeError, match=message):
        channels(torch.tensor([scale], dtype=torch.float64), bias, greatest)


def test_a_factor_is_a_multiple_of_the_grid() -> None:
    assert factor(0.75) == 3 << (FRACTION - 2)
    with pytest.raises(RequantizeError, match="residual's or intermediate"):
        factor(16.0)
