"""Rows that are wider than an engine's window, and kernels' rows of too many positions, have eager mode's bits.

The small engine of engine_kit.py has a window of 4 banks of 512 words, and kernels of 128 positions.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.codegen.engine import emitter as emitting
from fpga_dynamo.codegen.engine import layout
from fpga_dynamo.codegen.engine import width_tiling as module
from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.sizes import EngineSizes
from fpga_dynamo.frontend.capture import capture
from fpga_dynamo.quantize import quantize
from fpga_dynamo.tools.estimate.accuracy import errors
from fpga_dynamo.tools.estimate.program import lower_for_engine
from fpga_dynamo.tools.estimate.simulation import EngineRun, SharedCard, counted
from tests.lowering import test_engine_floats as floats
from tests.lowering.engine_kit import apart, left_of, lowered
from tests.lowering.test_engine_shared import engine
from tests.marks import EXTENDED

WINDOW = 4 * 512
"""Pixels of a block that the small engine's window holds."""


def _stack(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


class _Added(nn.Module):
    """Another map, whose rows begin within lines as well, is added to a convolution's result."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(20, 24, 3, padding=1), nn.Conv2d(20, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.a(x) + self.b(x))


def _behind(layer: nn.Module) -> nn.Module:
    return _stack(nn.Conv2d(3, 20, 1), layer)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "one dimension": (lambda: _stack(nn.Conv1d(16, 24, 9, padding=4), nn.ReLU()), (1, 16, 5000)),
    "few channels": (lambda: _stack(nn.Conv1d(3, 24, 9, 2, padding=4), nn.ReLU()), (1, 3, 9001)),
    "long kernel": (lambda: _stack(nn.Conv1d(16, 24, 201, padding=100), nn.ReLU()), (1, 16, 700)),
    "depthwise row": (lambda: _stack(nn.Conv1d(40, 40, 9, 3, padding=4, groups=40), nn.SiLU()), (2, 40, 6500)),
    "groups of a row": (lambda: _stack(nn.Conv1d(64, 64, 9, 3, padding=4, groups=2), nn.SiLU()), (1, 64, 3001)),
    "image": (lambda: _stack(nn.Conv2d(16, 8, 3, padding=1), nn.ReLU()), (1, 16, 4, 2100)),
    "odd": (lambda: _stack(nn.Conv2d(20, 24, 3, padding=1), nn.ReLU()), (1, 20, 7, 2103)),
    "steps": (lambda: _stack(nn.Conv2d(20, 24, 3, 2, padding=1), nn.ReLU()), (1, 20, 9, 4203)),
    "dilated": (lambda: _stack(nn.Conv2d(20, 24, (3, 5), (1, 2), (4, 2), (2, 3)), nn.ReLU()), (1, 20, 7, 4103)),
    "both": (lambda: _stack(nn.Conv2d(20, 24, (3, 5), (3, 2), (4, 2), (2, 3)), nn.SiLU()), (2, 20, 9, 4103)),
    "two images": (lambda: _stack(nn.Conv2d(5, 24, 3, padding=1), nn.SiLU()), (2, 5, 3, 2101)),
    "depthwise": (lambda: _stack(nn.Conv2d(40, 40, 3, padding=1, groups=40), nn.SiLU()), (1, 40, 5, 2102)),
    "depthwise along": (lambda: _stack(nn.Conv2d(40, 40, (1, 3), padding=(0, 1), groups=40)), (1, 40, 5, 2102)),
    "groups": (lambda: _stack(nn.Conv2d(64, 32, 3, padding=1, groups=4), nn.SiLU()), (1, 64, 5, 1102)),
    "pairs": (lambda: _stack(nn.Conv2d(32, 16, 3, padding=1, groups=16), nn.ReLU()), (1, 32, 3, 1102)),
    "wide kernel": (lambda: _stack(nn.Conv2d(16, 8, (3, 150), padding=(1, 70)), nn.ReLU()), (1, 16, 5, 333)),
    "kernel of a row": (lambda: _stack(nn.Conv2d(16, 8, (1, 150), (2, 1), padding=(0, 70))), (1, 16, 5, 333)),
    "every other pixel": (lambda: _stack(nn.Conv2d(20, 24, 1, 2), nn.ReLU()), (1, 20, 5, 4203)),
    "added": (_Added, (1, 20, 5, 2101)),
    "maxima": (lambda: _behind(nn.MaxPool2d(3, 2, 1)), (1, 3, 7, 4203)),
    "maxima along": (lambda: _behind(nn.MaxPool2d((1, 3), (2, 1), (0, 1))), (1, 3, 6, 2103)),
    "maxima dilated": (lambda: _behind(nn.MaxPool2d((2, 3), (1, 2), (1, 1), (2, 2))), (2, 3, 6, 4103)),
    "large maxima": (lambda: _behind(nn.MaxPool2d((13, 11), 1, (6, 5))), (1, 3, 16, 33)),
    "average": (lambda: _behind(nn.AvgPool2d(2)), (1, 3, 6, 4202)),
    "padded average": (lambda: _behind(nn.AvgPool2d(4, 1, 1)), (1, 3, 6, 2202)),
    "flattened": (lambda: _stack(nn.Conv2d(4, 16, 1), nn.Flatten(), nn.Linear(16 * 3 * 200, 9)), (1, 4, 3, 200)),
    "transposed": (lambda: _stack(nn.Conv2d(4, 16, 1), nn.ConvTranspose2d(16, 9, 4, 2, 1)), (1, 4, 3, 2200)),
}


def _commands(model: nn.Module, size: tuple[int, ...]) -> list[MacCommand]:
    torch.manual_seed(1)
    program, captured = lowered(model, torch.randn(size))
    assert left_of(program) == [] and len(program.lists.launches) == 1
    assert apart(program, captured) == {}
    return [e.command for e in program.lists.launches[0] if isinstance(e.command, MacCommand)]


def _goes_along(commands: list[MacCommand]) -> bool:
    return any(c.in_width == c.out_width == 1 and c.in_height > 100 for c in commands)


FEW = ["one dimension", "dilated", "depthwise", "groups", "wide kernel", "added", "maxima dilated", "padded average"]


@pytest.mark.parametrize("name", [name if name in FEW else pytest.param(name, marks=EXTENDED) for name in NETWORKS])
def test_wide_rows_have_eager_s_bits(name: str) -> None:
    model, size = NETWORKS[name]
    assert _goes_along(_commands(model(), size))


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(
    ("layer", "width"),
    [
        (nn.Conv2d(16, 8, 3), WINDOW),
        (nn.Conv2d(16, 8, (3, 1), padding=(1, 0)), WINDOW),
        (nn.MaxPool2d((1, 3), 1, (0, 1)), WINDOW),
        (nn.MaxPool2d(3, (2, 1), (0, 1)), WINDOW // 4),  # of two phases, with two rows each
        (nn.Conv2d(16, 16, (2, 3), 1, (0, 1), groups=16), WINDOW),
    ],
    ids=["valid", "column", "maxima along", "maxima", "depthwise"],
)
def test_a_row_is_cut_where_the_window_ends(layer: nn.Module, width: int, more: int) -> None:
    """What fits is done as before; a pixel more goes along the row."""
    before = _stack(nn.Conv2d(16, 16, 1), layer)
    assert _goes_along(_commands(before, (1, 16, 3, width + more))) == bool(more)


@pytest.mark.parametrize("more", [0, 1])
def test_a_kernel_s_row_is_cut_where_the_table_ends(more: int) -> None:
    commands = _commands(nn.Conv1d(16, 8, 128 + more, padding=64), (1, 16, 300))
    assert _goes_along(commands) == bool(more) and len(commands) == 1 + more


def _random(seed: int) -> tuple[nn.Module, Tensor]:
    """A convolution, maximum or average of random sizes over rows that are too wide, or with kernels that are."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    kernel, stride = (
        (rng.choice([1, 1, 2, 3, 5]), rng.choice([1, 2, 3, 5])),
        (rng.choice([1, 1, 2, 3]), rng.choice([1, 2, 3])),
    )
    dilation, width = (rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2])), WINDOW * stride[1] + rng.randint(1, 60)
    if rng.random() < 0.2:
        kernel, stride, width = (kernel[0], rng.randint(129, 160)), (stride[0], 1), rng.randint(330, 500)
    padding = (rng.randint(0, kernel[0] // 2), rng.randint(0, min(kernel[1] // 2, 9)))
    height = (kernel[0] - 1) * dilation[0] + 1 + rng.randint(0, 6)
    kind, channels = (
        rng.choice(["dense", "dense", "groups", "depthwise", "maxima", "average"]),
        rng.choice([1, 3, 16, 20, 40]),
    )
    layer: nn.Module
    if kind == "maxima" and kernel[1] < 129:
        layer = nn.MaxPool2d(kernel, stride, padding, dilation)
    elif kind == "average" and kernel[1] < 129:
        layer = nn.AvgPool2d(kernel, stride, (0, 0))
    else:
        groups = {"groups": rng.choice([2, 4]), "depthwise": channels}.get(kind, 1)
        channels = channels * groups if kind == "groups" else channels
        outputs = channels if kind == "depthwise" else groups * rng.randint(1, 20)
        layer = nn.Conv2d(channels, outputs, kernel, stride, padding, dilation, groups)
    model = _stack(nn.Conv2d(3, channels, 1), layer, rng.choice([nn.ReLU(), nn.Identity(), nn.Hardswish()]))
    return model, torch.randn(rng.randint(1, 2), 3, height, width)


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=EXTENDED) for seed in range(2, 60))])
def test_random_wide_layers_have_eager_s_bits(seed: int) -> None:
    program, captured = lowered(*_random(seed))
    assert left_of(program) == []
    assert apart(program, captured) == {}


SHARED = ["one dimension", "odd", "both", "depthwise", "added", "maxima", "transposed"]
SMALL = EngineSizes(2, 16, lanes=16, window_rows=512, weight_steps=128, vector_lanes=16, vector_depth=256)


@pytest.mark.slow
@pytest.mark.parametrize("units", [2, 4])
@pytest.mark.parametrize("name", SHARED)
def test_units_that_share_wide_rows_have_eager_s_bits(name: str, units: int) -> None:
    """What begins within a line is overwritten by the row above it, whichever units make the two."""
    torch.manual_seed(1)
    model, size = NETWORKS[name]
    x = torch.randn(size)
    converted = quantize(model().eval(), [(x,)], scales="pow2", bias="int32", progress=False)
    captured = capture(converted, (x,))
    program = lower_for_engine(captured.module, engine(units, SMALL), captured.static)
    assert left_of(program) == []
    found = counted(program, SharedCard(program.engine, "u250"), captured.tensors())
    assert not found.differences and found.values


_right_transposed = layout._transposed


@pytest.mark.parametrize("mistake", ["order", "lead", "rows", "weights", "filling", "residual"])
def test_mistakes_are_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    name = "added" if mistake == "residual" else "odd"
    right = emitting.EngineEmitter.cut

    def wrong(self: emitting.EngineEmitter, command: MacCommand, made: module.Made, **more: object) -> None:
        if mistake == "lead" and command.padding[0] > 1:
            command = replace(command, padding=(command.padding[0] - 1, 0))
        if mistake == "rows" and command.in_blocks > 4:
            command = replace(command, input=command.input + 1)
        if mistake == "filling" and command.padding[0] == -1 and command.in_height == 1:
            command = replace(command, pad=command.pad + 1)
        if mistake == "residual" and command.has_residual:
            command = replace(command, residual=command.residual + 1)
        right(self, command, made, **more)  # type: ignore[arg-type]

    if mistake == "order":
        monkeypatch.setattr(module, "reversed", iter, raising=False)
    elif mistake == "weights":
        monkeypatch.setattr(layout, "_transposed", lambda weight, group: _right_transposed(weight.flip(2), group))
    else:
        monkeypatch.setattr(emitting.EngineEmitter, "cut", wrong)
    program, captured = lowered(NETWORKS[name][0](), torch.randn(NETWORKS[name][1]))
    assert apart(program, captured) != {}


def test_transposed_weights_are_rows_as_channels() -> None:
    weight = torch.arange(4 * 3 * 2 * 5).view(4, 3, 2, 5)
    transposed = layout._transposed(weight, 2)  # two groups of 3 inputs, in one block
    assert transposed.shape == (4, 2 * 16, 5, 1)
    for output in range(4):
        for row in range(2):
            first = row * 16 + output // 2 * 3
            assert torch.equal(transposed[output, first : first + 3, :, 0], weight[output, :, row])
    assert int((transposed != 0).sum()) == int((weight != 0).sum())
    assert torch.equal(layout._transposed(weight[:, :, :1], 2), weight[:, :, :1].transpose(2, 3))


def test_more_pixels_than_the_engine_counts_are_the_host_s() -> None:
    torch.manual_seed(1)
    program, _ = lowered(nn.Conv1d(2, 8, 3), torch.randn(1, 2, 1 << 20))
    (left,) = left_of(program)
    assert left == f"the command has {1 << 20} pixels in a row, and the engine supports {1 << 20}"


FLOATS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "image": (lambda: nn.Conv2d(20, 24, 3, padding=1), (1, 20, 4, 3103)),
    "row": (lambda: nn.Conv1d(16, 8, 5, 2), (1, 16, 7001)),
    "depthwise": (lambda: nn.Conv2d(24, 24, 3, 2, 1, groups=24), (1, 24, 5, 6201)),
    "maxima along": (lambda: nn.MaxPool2d((1, 3), 1, (0, 1)), (1, 20, 3, 3301)),
}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("dtype", ["bf16", pytest.param("fp32", marks=EXTENDED)])
def test_floats_have_wide_rows_too(name: str, dtype: str) -> None:
    program, captured = floats.lowered(FLOATS[name][0](), dtype, *FLOATS[name][1])
    assert left_of(program) == []
    run = EngineRun(program, floats.card(dtype), captured.tensors())
    (made,) = run.results()
    if name == "maxima along":
        assert torch.equal(made, captured.results[0])
    unit = torch.finfo(made.dtype).eps / 4
    for error in errors(program, run.value, captured.tensors()).values():
        assert error.card <= floats.OF_EAGERS[dtype] * max(error.eager, unit)


def test_floats_have_no_maxima_of_several_wide_rows() -> None:
    program, _ = floats.lowered(nn.MaxPool2d(3, 1, 1), "bf16", 1, 20, 4, 3103)
    (left,) = left_of(program)
    assert left == "the command has max pooling over rows wider than the window, which needs a vector side"
