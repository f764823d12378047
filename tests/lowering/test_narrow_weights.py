"""Weights of 16 bits lie on the card in two bytes: half the memory, and the same results to the bit.

That is so of the cores that widen them; products of bfloat16 have a core of their own (test_bf16.py).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from fpga_dynamo.ir.elements import BF16, F16, F32, Element
from fpga_dynamo.ir.program import Program
from fpga_dynamo.ir.target import KernelInfo, Target
from fpga_dynamo.lowering.ops.packing import packed_panels
from fpga_dynamo.lowering.passes.pipeline import lower
from fpga_dynamo.options import Options
from tests.lowering.lowering_cases import GREEDY, programs_of

each_half = pytest.mark.parametrize("element", [BF16, F16], ids=("bfloat16", "float16"))

Model = tuple[Callable[[], nn.Module], tuple[int, ...]]

NARROW: dict[str, Model] = {
    "a row": (lambda: nn.Linear(300, 70), (1, 300)),
    "a few rows": (lambda: nn.Linear(33, 130), (3, 33)),
    "rows of several tiles": (lambda: nn.Linear(600, 17), (41, 600)),
    "several blocks of k": (lambda: nn.Linear(4100, 20), (30, 4100)),
    "a batch": (lambda: nn.Linear(24, 40, bias=False), (2, 3, 5, 24)),
    "rows that are images": (lambda: nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5 * 9, 10)), (2, 5, 6, 6)),
    "3x3": (lambda: nn.Conv2d(5, 20, 3, padding=1), (2, 5, 9, 8)),
    "groups": (lambda: nn.Conv2d(6, 40, 3, groups=2, stride=2), (1, 6, 9, 8)),
    "1x1": (lambda: nn.Conv2d(20, 70, 1), (1, 20, 6, 7)),
    "1x1 of a pixel": (lambda: nn.Conv2d(200, 20, 1), (1, 200, 1, 1)),
    "dilated": (lambda: nn.Conv2d(40, 20, 3, padding=4, dilation=4), (1, 40, 5, 5)),
    "transposed": (lambda: nn.ConvTranspose2d(6, 18, 3, stride=2, groups=2), (1, 6, 5, 4)),
    "1-D": (lambda: nn.Conv1d(12, 20, 5), (2, 12, 30)),
    "3-D": (lambda: nn.Conv3d(3, 20, 3, padding=1), (1, 3, 4, 5, 6)),
}

WIDE: dict[str, Model] = {
    "batch norm": (lambda: nn.Sequential(nn.Conv2d(5, 20, 3), nn.BatchNorm2d(20)), (1, 5, 9, 8)),
    "depthwise": (lambda: nn.Conv2d(20, 20, 3, groups=20), (1, 20, 6, 7)),
}


@pytest.fixture(autouse=True)
def without_products_of_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "multiplies", ())


def answer(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.reset()
    with torch.no_grad():
        return torch.compile(model, backend="fpga", options={**GREEDY, "strict": True})(x)


def made(model: Model, element: Element) -> tuple[nn.Module, torch.Tensor]:
    build, shape = model
    torch.manual_seed(0)
    return build().eval().to(element.dtype), torch.randn(shape).to(element.dtype)


def packed_as(program: Program) -> set[str]:
    """What the packs of weights are, biases apart."""
    buffers = [buffer for task in program.card_tasks for buffer in task.weights]
    return {b.element.name for b in buffers if b.pack.layout.__name__ not in ("pack_bias", "pack_vector")}


@each_half
@pytest.mark.parametrize("name", NARROW)
def test_results_are_those_of_weights_packed_as_floats(
    name: str, element: Element, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = made(NARROW[name], element)
    (program,) = programs_of(model, x)
    assert packed_as(program) == {element.name}
    narrow = answer(model, x)
    monkeypatch.setattr(KernelInfo, "weight_element", lambda *_: F32)
    (program,) = programs_of(model, x)
    assert packed_as(program) == {"F32"}
    torch.testing.assert_close(answer(model, x), narrow, rtol=0, atol=0)


@each_half
@pytest.mark.parametrize("name", WIDE)
def test_weights_that_are_no_longer_of_16_bits_are_packed_as_floats(name: str, element: Element) -> None:
    model, x = made(WIDE[name], element)
    (program,) = programs_of(model, x)
    assert packed_as(program) == {"F32"}


@each_half
def test_they_take_half_the_memory_and_traffic(element: Element) -> None:
    def bytes_of(model: nn.Module, x: torch.Tensor) -> tuple[int, int]:
        (program,) = programs_of(model, x)
        (task,) = program.card_tasks
        (command,) = [command for command in task.commands if command.opcode == "gemm"]
        return sum(buffer.nbytes for buffer in task.weights), command.bytes

    build: Model = (lambda: nn.Linear(64, 128, bias=False), (1, 64))
    memory, moved = bytes_of(*made(build, element))
    assert memory == 2 * 64 * 128
    assert bytes_of(*made(build, F32)) == (2 * memory, moved + memory)


def without_narrow_weights(target: Target) -> Target:
    """The target of an xclbin that was built before cores took weights of 16 bits."""
    fields = {"b_format", "weight_format"}
    records = {name: tuple(f for f in record if f.name not in fields) for name, record in target.records.items()}
    kernels = tuple(replace(kernel, weights={}) for kernel in target.kernels)
    return replace(target, kernels=kernels, records=records)


@pytest.mark.parametrize("name", ["a row", "3x3", "1x1"])
def test_an_older_xclbin_gets_floats(name: str, target: Target) -> None:
    model, x = made(NARROW[name], BF16)
    (program,) = programs_of(model, x)
    older = lower(program.module, without_narrow_weights(target), Options(), program.graph.static_inputs)
    assert older.card_tasks
    assert packed_as(older) == {"F32"}


def test_weights_that_change_their_type_are_packed_for_it() -> None:
    model, x = made(NARROW["a few rows"], BF16)
    compiled = torch.compile(model, backend="fpga", options=GREEDY)
    with torch.no_grad():
        for dtype in (torch.bfloat16, torch.float32, torch.float16):
            model.to(dtype)
            expected = copy.deepcopy(model).double()(x.to(dtype).double())
            torch.testing.assert_close(compiled(x.to(dtype)).double(), expected, rtol=0.02, atol=0.02)


@each_half
@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_packing_sees_weights_that_are_not_finite(element: Element, value: float) -> None:
    def panels(weight: torch.Tensor, **settings: Any) -> torch.Tensor:
        return packed_panels(weight, range(9), None, 16, **settings)

    weight = torch.randn(20, 3, 9).to(element.dtype)
    packed = panels(weight, meets_zeros=True)
    assert packed.dtype is element.dtype
    torch.testing.assert_close(packed.float(), panels(weight.float(), meets_zeros=True), rtol=0, atol=0)
    weight[7, 1, 4] = torch.finfo(element.dtype).max
    panels(weight, meets_zeros=True)
    weight[7, 1, 4] = value
    panels(weight, meets_zeros=False)
    with pytest.raises(ArithmeticError, match="infinite or NaN"):
        panels(weight, meets_zeros=True)
