"""bfloat16 and float32 softmax and layer norm on the engine's sources: errors of the size of eager mode's."""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

import xclbin_build
from fpga_dynamo.codegen.engine.vector import VectorCommand, VectorOperation
from fpga_dynamo.frontend.capture import Captured, capture
from fpga_dynamo.tools.estimate import hardware
from fpga_dynamo.tools.estimate.accuracy import errors
from fpga_dynamo.tools.estimate.program import EngineProgram, lower_for_engine
from fpga_dynamo.tools.estimate.simulation import EngineCard, EngineRun
from tests.lowering.test_engine_floats import DTYPES, OF_EAGERS
from tests.lowering.test_engine_floats import lowered as lowered_without
from tests.marks import EXTENDED


@functools.cache
def recipe(dtype: str = "bf16") -> Path:
    path = Path(tempfile.mkdtemp(prefix="fpga-dynamo-rows-")) / "little.toml"
    path.write_text(
        'name = "little-rows"\nplatform = "u250"\n[kernel.engine]\nengine = "2x32x4"\n'
        f'element = "{hardware.DTYPES[dtype]}"\n'
        "window = 1024\nweights = 512\nvector_lanes = 4\nvector_depth = 512\nvector_blocks = 16\n"
    )
    return path


def on_both_cards(model: nn.Module, x: Tensor) -> list[Tensor]:
    """What a compiled model gives on the emulator and on a counting one."""
    targets: tuple[Literal["emu", "cycles"], ...] = ("emu", "cycles")
    made = []
    for target in targets:
        xclbin = xclbin_build.cached(recipe(), target)
        compiled = torch.compile(model, backend="fpga", options={"xclbin": str(xclbin), "strict": True})
        with torch.no_grad():
            made.append(compiled(x))
        torch._dynamo.reset()
    return made


@functools.cache
def card(dtype: str = "bf16") -> EngineCard:
    return EngineCard(recipe(dtype), "u250")


def lowered(model: nn.Module, x: Tensor, dtype: str = "bf16") -> tuple[EngineProgram, Captured]:
    captured = capture(model.eval().to(DTYPES[dtype]), (x.to(DTYPES[dtype]),))
    engine = hardware.card("u250", str(recipe(dtype)), dtype).engine
    return lower_for_engine(captured.module, engine, captured.static), captured


def results(model: nn.Module, x: Tensor, dtype: str) -> tuple[Tensor, Tensor, Tensor]:
    """The card's, eager mode's and float64's."""
    program, captured = lowered(model, x, dtype)
    assert not program.left and len(program.lists.launches) == 1
    (made,) = EngineRun(program, card(dtype), captured.tensors()).results()
    (eager,) = captured.results
    with torch.no_grad():
        exact = model.double()(x.to(DTYPES[dtype]).double())
    return made, eager, exact


class Softmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(-1)


def norm(channels: int, weight: bool = True, bias: bool = True, eps: float = 1e-5) -> nn.LayerNorm:
    made = nn.LayerNorm(channels, eps=eps, elementwise_affine=weight, bias=bias)
    torch.manual_seed(1)
    for parameter in made.parameters():
        nn.init.uniform_(parameter, -2.0, 2.0)
    return made


def relative(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b).square().mean().sqrt() / b.square().mean().sqrt().clamp_min(1e-30))


SIZES = [(1, 1), (1, 7), (3, 16), (2, 17), (5, 40), (1, 200), (33, 8), (7, 250)]


@pytest.mark.parametrize("dtype", ["bf16", pytest.param("fp32", marks=EXTENDED)])
@pytest.mark.parametrize("of_all", [False, pytest.param(True, marks=EXTENDED)])
def test_errors_of_random_rows_are_of_the_size_of_eagers(of_all: bool, dtype: str) -> None:
    torch.manual_seed(0)
    for count, channels in SIZES if of_all else SIZES[3:5]:
        for model in (Softmax(), norm(channels), norm(channels, bias=False), norm(channels, weight=False)):
            for size in (0.1, 3.0, 30.0) if of_all else (3.0,):
                made, eager, exact = results(model, torch.randn(count, channels) * size, dtype)
                unit = torch.finfo(DTYPES[dtype]).eps / 4
                most = OF_EAGERS[dtype] * max(relative(eager, exact), unit)
                assert relative(made, exact) <= most, (count, channels, model, size)


INF, NAN = math.inf, math.nan
EXTREMES: dict[str, Callable[[], Tensor]] = {
    "masked": lambda: torch.randn(6, 32).masked_fill(torch.rand(6, 32) < 0.5, -INF),
    "one is left": lambda: torch.full((4, 20), -INF).index_fill(1, torch.tensor([7]), 2.0),
    "all masked": lambda: torch.full((3, 24), -INF),
    "infinite": lambda: torch.randn(4, 16).index_fill(1, torch.tensor([3]), INF),
    "no number": lambda: torch.randn(4, 16).index_fill(1, torch.tensor([3]), NAN),
    "all alike": lambda: torch.full((4, 48), 12345.0),
    "large": lambda: torch.randn(4, 48) * 1e15,
    "small": lambda: torch.randn(4, 48) * 1e-30,
    "denormal": lambda: torch.randn(4, 48) * 1e-39,
    "large mean": lambda: 1000.0 + 8 * torch.randn(4, 48),
    "of all sizes": lambda: torch.randn(4, 48) * torch.exp2(torch.randint(-60, 20, (4, 48))),
    "an outlier": lambda: torch.randn(4, 200).index_fill(1, torch.tensor([150]), 5e4),
}


@pytest.mark.parametrize("dtype", ["bf16", pytest.param("fp32", marks=EXTENDED)])
@pytest.mark.parametrize("name", EXTREMES)
def test_rows_of_extremes_are_as_eagers(name: str, dtype: str) -> None:
    torch.manual_seed(0)
    x = EXTREMES[name]()
    for model in (Softmax(), norm(x.shape[-1])):
        made, eager, exact = results(model, x, dtype)
        finite = torch.isfinite(eager)
        assert torch.equal(made.isnan(), eager.isnan()), model
        if finite.any():
            unit = torch.finfo(DTYPES[dtype]).eps / 4
            of_eager = relative(eager[finite], exact[finite])
            assert relative(made[finite], exact[finite]) <= OF_EAGERS[dtype] * max(of_eager, unit), model


class Encoder(nn.Module):
    """Two layers of PyTorch's transformer encoder."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


def test_an_encoder_is_one_launch_with_eagers_errors() -> None:
    torch.manual_seed(0)
    program, captured = lowered(Encoder(), torch.randn(1, 16, 64), "bf16")
    (launch,) = program.lists.launches
    assert not program.left
    rows = [e.command for e in launch if isinstance(e.command, VectorCommand)]
    of = [VectorOperation.SOFTMAX, VectorOperation.NORM, VectorOperation.NORM]
    assert [command.operation for command in rows] == of * 2
    assert rows[0].heads == (1, 4) and rows[0].channels == 16 and rows[1].row_scale == 1 / 64
    found = errors(program, EngineRun(program, card(), captured.tensors()).value, captured.tensors())
    assert len(found) == 18
    for node, error in found.items():
        assert error.card <= OF_EAGERS["bf16"] * error.eager, (node, error)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_an_engine_without_the_side_says_so(dtype: str) -> None:
    class Turned(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.softmax(0)

    if dtype == "fp32":
        for model in (Softmax(), norm(32)):
            program, _ = lowered_without(model, dtype, 4, 32)
            assert list(program.left.values()) == ["the command needs the vector side, which this engine does not have"]
    else:
        program, _ = lowered(Turned(), torch.randn(4, 32))
        (why,) = program.left.values()
        assert why.startswith("only the last dimension is supported")


def test_a_compiled_encoder_has_the_same_bits_on_both_kinds_of_card() -> None:
    torch.manual_seed(0)
    model, x = Encoder().eval().bfloat16(), torch.randn(1, 16, 64).bfloat16()
    assert torch.equal(*on_both_cards(model, x))
