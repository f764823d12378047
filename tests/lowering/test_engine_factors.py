"""Maps times a number for each channel on engines of floats: eager mode's bits, in one launch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import fpga_dynamo
import xclbin_build
from fpga_dynamo.codegen.engine.command import MacCommand, WeightKind
from fpga_dynamo.codegen.engine.launch import modelled_ends, moved_bytes
from fpga_dynamo.tools.estimate.accuracy import errors
from fpga_dynamo.tools.estimate.simulation import EngineRun, counted
from tests.lowering.test_engine_floats import DTYPES, card, lowered, recipe
from tests.marks import EXTENDED


class Scaled(nn.Module):
    """An image times numbers that a pooling takes of it; what follows is a part of the command."""

    def __init__(self, after: Callable[[Tensor], Tensor] = lambda x: x, *, first: bool = False) -> None:
        super().__init__()
        self.after, self.first = after, first

    def forward(self, x: Tensor) -> Tensor:
        small = nn.functional.max_pool2d(x, (7, 6)) if x.shape[-1] > 16 else x
        numbers = nn.functional.max_pool2d(small, small.shape[-2:])
        return self.after(numbers * x if self.first else x * numbers)


class Expanded(nn.Module):
    """Numbers that come as rows, and are repeated by a view."""

    def forward(self, x: Tensor) -> Tensor:
        rows = nn.functional.max_pool2d(x, x.shape[-2:]).flatten(1)
        return x * rows.view(*rows.shape, 1, 1).expand_as(x)


MODELS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "plain": (Scaled(), (1, 48, 7, 7)),
    "the other order": (Scaled(first=True), (1, 32, 4, 5)),
    "channels that fill no block": (Scaled(), (1, 40, 5, 3)),
    "of one block": (Scaled(), (1, 3, 6, 6)),
    "of one pixel": (nn.Sequential(nn.MaxPool2d(4), Scaled()), (1, 48, 4, 4)),
    "images": (Scaled(), (3, 24, 5, 5)),
    "bands": (Scaled(), (1, 32, 56, 60)),
    "limits behind": (Scaled(torch.relu), (1, 32, 6, 6)),
    "repeated rows": (Expanded(), (1, 40, 6, 6)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", ["bf16", pytest.param("fp32", marks=EXTENDED)])
def test_products_have_eagers_bits(name: str, dtype: str) -> None:
    model, size = MODELS[name]
    program, captured = lowered(model, dtype, *size)
    assert not program.left and len(program.lists.launches) == 1
    run = EngineRun(program, card(dtype), captured.tensors())
    torch.testing.assert_close(run.results()[0], captured.results[0], rtol=0, atol=0)


def test_numbers_are_spread_by_two_commands_and_multiply_as_heads() -> None:
    program, _ = lowered(Scaled(nn.functional.silu), "bf16", 2, 40, 6, 6)
    (launch,) = program.lists.launches
    assert [e.pattern for e in launch] == ["maxima", "factors", "factors", "factors"]
    column, square, product = (e.command for e in launch[1:])
    assert isinstance(column, MacCommand) and isinstance(square, MacCommand) and isinstance(product, MacCommand)
    assert (column.kernel, column.padding) == ((4, 1), (3, 0)) and (square.kernel, square.padding) == ((1, 4), (0, 3))
    assert product.weight_kind is WeightKind.TRANSPOSED and product.heads == (2, 3)
    assert product.weight == square.output and product.flags


@pytest.mark.parametrize("target", ["emu", "cycles"])
def test_a_compiled_product_has_eagers_bits_in_both_schedules(target: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 40, 7, 9).bfloat16()
    built = xclbin_build.cached(recipe("bf16"), target, platform="u250")
    torch._dynamo.reset()
    compiled = torch.compile(Scaled(), backend="fpga", options={"xclbin": str(built)})
    with fpga_dynamo.trace() as recorder, torch.no_grad():
        made = compiled(x)
    torch.testing.assert_close(made, Scaled()(x), rtol=0, atol=0)
    assert [task.pe for task in recorder.tasks if task.pe == "engine_1"] == ["engine_1"]


class SqueezeExcite(nn.Module):
    """A block of MobileNet V3: depthwise, scaled by what it makes of its own mean, and brought back to its input."""

    def __init__(self, narrow: int = 16, wide: int = 40) -> None:
        super().__init__()
        self.wide, self.deep = nn.Conv2d(narrow, wide, 1), nn.Conv2d(wide, wide, 3, padding=1, groups=wide)
        self.squeeze, self.excite = nn.Conv2d(wide, 8, 1), nn.Conv2d(8, wide, 1)
        self.narrow = nn.Conv2d(wide, narrow, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.hardswish(self.deep(nn.functional.hardswish(self.wide(x))))
        numbers = nn.functional.hardsigmoid(self.excite(torch.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        result: Tensor = self.narrow(y * numbers) + x
        return result


def test_squeeze_and_excitation_is_one_launch() -> None:
    program, captured = lowered(SqueezeExcite(), "bf16", 1, 16, 9, 9)
    (launch,) = program.lists.launches
    assert not program.left and len(launch) == 9
    run = EngineRun(program, card("bf16"), captured.tensors())
    for node, error in errors(program, run.value, captured.tensors()).items():
        assert error.card <= 2 * max(error.eager, torch.finfo(DTYPES["bf16"]).eps / 4), (node, error)


def test_the_cost_model_agrees_with_what_is_counted() -> None:
    """Of each product and of the launch within a tenth; bytes within a hundredth, functions among them."""
    program, captured = lowered(SqueezeExcite(32, 160), "bf16", 1, 32, 14, 14)
    (launch,) = program.lists.launches
    of = counted(program, card("bf16"), captured.tensors())
    modelled = modelled_ends(launch, program.engine)
    assert modelled[-1] == pytest.approx(of.ends[0][-1], rel=0.1)
    names = [e.pattern for e in launch]
    first = names.index("factors")
    took = [ends[first + 2] - ends[first - 1] for ends in (modelled, of.ends[0])]
    assert took[0] == pytest.approx(took[1], rel=0.1)
    assert sum(moved_bytes(launch, program.engine.sizes)) == pytest.approx(of.moved, rel=0.01)
