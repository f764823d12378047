"""Matrix products of bfloat16: their error beside that of eager in bfloat16, and what lies on the card in two bytes.

On a host without such products all but the looks at commands runs as well, on the core `gemm`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from fpga_dynamo.ir.elements import BF16
from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering.ops.matmul.bf16 import pack_pairs
from fpga_dynamo.lowering.ops.matmul.bf16_casts import multiplies_bf16
from tests.lowering.lowering_cases import GREEDY, programs_of
from xclbin_build.toolchain.isa import chosen, compiler_flags

Example = tuple[torch.Tensor, ...]


class Function(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        return self._function(*given)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 96), nn.Linear(96, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.down(nn.functional.gelu(self.up(x))))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 96, activation="gelu", batch_first=True, dropout=0)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


NUMBERS = torch.Generator().manual_seed(0)


def of(*shapes: tuple[int, ...]) -> Example:
    return tuple(torch.randn(shape, generator=NUMBERS) for shape in shapes)


CASES: dict[str, tuple[Callable[[], nn.Module], Example]] = {
    "layers": (lambda: nn.Sequential(nn.Linear(100, 70), nn.ReLU(), nn.Linear(70, 33)), of((40, 100))),
    "a row": (lambda: nn.Sequential(nn.Linear(96, 64), nn.Tanh(), nn.Linear(64, 45)), of((1, 96))),
    "no bias, one column": (lambda: nn.Linear(33, 1, bias=False), of((3, 33))),
    "depth 1": (lambda: nn.Linear(1, 20), of((17, 1))),
    "a batch of rows": (lambda: nn.Linear(32, 48), of((2, 3, 5, 32))),
    "a residual": (Residual, of((2, 9, 64))),
    "flattened images": (
        lambda: nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6 * 9, 10)),
        of((2, 6, 6, 6)),
    ),
    "turned": (lambda: Function(lambda a, b: a.t() @ b.t()), of((40, 35), (18, 40))),
    "computed operands": (lambda: Function(lambda a, b: (a * 2) @ torch.relu(b)), of((5, 64), (64, 70))),
    "batches": (lambda: Function(lambda a, b: a @ b.transpose(1, 2) * 0.5), of((6, 7, 24), (6, 9, 24))),
    "an addend": (lambda: Function(lambda c, a, b: torch.addmm(c, a, b, alpha=0.25)), of((8, 20), (8, 32), (32, 20))),
    "a broadcast addend": (lambda: Function(torch.baddbmm), of((1, 20), (3, 8, 32), (3, 32, 20))),
    "a product of products": (lambda: Function(lambda a, b, c: (a @ b) @ c), of((70, 64), (64, 96), (96, 32))),
    "several users": (lambda: Function(lambda a, b: torch.softmax(a @ b, -1) + a @ b), of((16, 32), (32, 48))),
    "an encoder": (encoder, of((2, 24, 64))),
}


def compiled(model: nn.Module, **options: Any) -> Callable[..., torch.Tensor]:
    return torch.compile(model, backend="fpga", options={**GREEDY, "strict": True, **options})


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    return float((result.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("name", CASES)
def test_the_error_is_of_the_size_of_eagers(name: str) -> None:
    torch.manual_seed(0)
    build, given = CASES[name]
    model, narrow = build().eval().bfloat16(), tuple(x.bfloat16() for x in given)
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(*(x.double() for x in narrow))
        eager = model(*narrow)
        result = compiled(model)(*narrow)
    assert result.dtype is torch.bfloat16 and result.stride() == eager.stride()
    assert error(result, exact) <= 1.2 * error(eager, exact) + 1e-3
    assert error(result, exact) <= 0.02


def test_a_host_that_multiplies_bfloat16_is_known_as_one(target: Target) -> None:
    assert multiplies_bf16(target) == ("-mavx512bf16" in compiler_flags(chosen()[0]))


def test_between_products_there_are_two_bytes_and_no_conversions(target: Target) -> None:
    if not multiplies_bf16(target):
        pytest.skip("the host does not multiply bfloat16")
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 48)).eval().bfloat16()
    (program,) = programs_of(model, torch.randn(20, 64).bfloat16())
    (launch,) = program.card_tasks
    assert [command.opcode for command in launch.commands] == ["gemm_bf16", "gemm_bf16"]
    buffers = {buffer for command in launch.commands for buffer in (*command.reads, *command.writes)}
    biases = [buffer for buffer in buffers if buffer.element is not BF16]
    assert len(buffers) == 7 and len(biases) == 2 and all(buffer.in_weights for buffer in biases)


def test_what_others_read_is_not_narrowed(target: Target) -> None:
    """A softmax sees sums that are not rounded."""
    if not multiplies_bf16(target):
        pytest.skip("the host does not multiply bfloat16")
    a, b = (torch.randn(size).bfloat16() for size in ((16, 32), (32, 48)))
    (program,) = programs_of(Function(lambda a, b: torch.softmax(a @ b, -1)), a, b)
    product = next(command for command in program.card_tasks[0].commands if command.opcode == "gemm_bf16")
    assert all(buffer.element.bytes == 4 for buffer in product.writes)


def test_casts_around_a_product_take_no_command(target: Target) -> None:
    """As autocast puts them: the operands' roundings and the result's widening are those of the product."""
    if not multiplies_bf16(target):
        pytest.skip("the host does not multiply bfloat16")
    x, w = torch.randn(18, 64), torch.randn(32, 64)
    function = Function(lambda x, w: (x.bfloat16() @ w.bfloat16().t()).t().float())
    (program,) = programs_of(function, x, w)
    assert [command.opcode for command in program.card_tasks[0].commands] == ["gemm_bf16"]
    result = compiled(function)(x, w)
    exact = (x.bfloat16().double() @ w.bfloat16().double().t()).t()
    assert result.dtype is torch.float32 and error(result, exact) < 1e-6


def test_what_is_saved_rounded_is_rounded_once(target: Target) -> None:
    """A product and the graph's user get the same numbers, in two bytes."""
    if not multiplies_bf16(target):
        pytest.skip("the host does not multiply bfloat16")
    x, w = torch.randn(18, 64), torch.randn(64, 32).bfloat16()

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        narrow = x.bfloat16()
        return narrow, narrow @ w

    (program,) = programs_of(function, x, w)
    assert [command.opcode for command in program.card_tasks[0].commands] == ["convert", "gemm_bf16"]
    narrow, product = torch.compile(function, backend="fpga", options=GREEDY)(x, w)
    assert torch.equal(narrow, x.bfloat16())
    assert error(product, x.bfloat16().double() @ w.double()) < 0.01


@pytest.mark.parametrize("depth", [1, 31, 32, 33, 64])
@pytest.mark.parametrize("columns", [1, 16, 40])
def test_pairs(depth: int, columns: int) -> None:
    matrix = torch.randn(depth, columns).bfloat16()
    packed = pack_pairs((1, None), matrix).reshape(-(-columns // 16), -1, 16, 2)
    assert packed.shape[1] == -(-depth // 32) * 16
    unpacked = packed.permute(1, 3, 0, 2).reshape(2 * packed.shape[1], -1)
    assert torch.equal(unpacked[:depth, :columns], matrix)
    assert not unpacked[depth:].any() and not unpacked[:, columns:].any()


def test_infinities_and_nan_spread_as_in_eager() -> None:
    model = nn.Linear(40, 20).eval().bfloat16()
    x = torch.randn(18, 40).bfloat16()
    x[3, 5], x[4, 7] = float("inf"), float("nan")
    with torch.no_grad():
        result, eager = compiled(model)(x), model(x)
    assert torch.equal(result.isnan(), eager.isnan()) and torch.equal(result.isinf(), eager.isinf())


def test_changed_weights_are_packed_again() -> None:
    model = nn.Linear(40, 20).eval().bfloat16()
    x, run = torch.randn(18, 40).bfloat16(), compiled(model)
    with torch.no_grad():
        before = run(x).clone()
        model.weight.mul_(2)
        model.bias.mul_(2)
        assert torch.equal(run(x), 2 * before)


def test_sizes_that_change() -> None:
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 48)).eval().bfloat16()
    run = torch.compile(model, backend="fpga", dynamic=True, options={**GREEDY, "strict": True})
    for rows in (3, 1, 40, 17):
        x = torch.randn(rows, 64).bfloat16()
        with torch.no_grad():
            exact = copy.deepcopy(model).double()(x.double())
            assert error(run(x), exact) <= 1.2 * error(model(x), exact) + 1e-3


def test_gradients_under_autocast() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 48)), torch.randn(40, 64)

    def gradients(run: Callable[[torch.Tensor], torch.Tensor], own: nn.Module, given: torch.Tensor) -> torch.Tensor:
        own.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=given.dtype is torch.float32):
            run(given).square().mean().backward()
        return torch.cat([parameter.grad.flatten() for parameter in own.parameters()])  # type: ignore[union-attr]

    doubled = copy.deepcopy(model).double()
    exact = gradients(doubled, doubled, x.double())
    eager = gradients(model, model, x)
    ours = gradients(torch.compile(model, backend="fpga", options=GREEDY), model, x)
    assert error(ours, exact) <= 1.2 * error(eager, exact) + 1e-3
