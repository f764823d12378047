"""Chains of convolutions in bands of rows: values against float64, which chains there are, memory, and traces."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fpga_dynamo
from fpga_dynamo import explain
from fpga_dynamo.ir.command import Command
from fpga_dynamo.ir.elements import U8
from fpga_dynamo.ir.program import CardTask
from fpga_dynamo.ir.tuning import BandLimits, Tuning
from fpga_dynamo.ir.view import Buffer
from fpga_dynamo.lowering.passes.cores.bands import in_bands
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.cards.card import open_card
from fpga_dynamo.testing.reference import measure
from tests.lowering.lowering_cases import GREEDY, programs_of, randomise
from tests.lowering.quantised_kit import POSITIVE, Layer, RandomWeights
from tests.lowering.test_memory import assert_disjoint

FRESH: dict[str, Any] = {**GREEDY, "cache": False, "winograd": False}
FACTOR = 8.0  # of eager float32's own error against float64


class Residual(nn.Module):
    """MobileNet's block: expand, depthwise, project, and the input added."""

    def __init__(self, channels: int, wide: int, kernel: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, wide, 1), nn.ReLU6(),
            nn.Conv2d(wide, wide, kernel, padding=kernel // 2, groups=wide), nn.BatchNorm2d(wide), nn.ReLU6(),
            nn.Conv2d(wide, channels, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class Inner(nn.Module):
    """A residual block whose input is an image of the chain, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(16, 32, 1)
        self.block = Residual(32, 48)
        self.last = nn.Conv2d(32, 16, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.block(self.first(x)))


def depthwise(channels: int, **how: Any) -> nn.Conv2d:
    return nn.Conv2d(channels, channels, 3, groups=channels, **how)


SHAPES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "a residual block": (Residual(16, 48), (1, 16, 12, 12)),
    "odd height": (Residual(24, 40, 5), (1, 24, 13, 9)),
    "residual within": (Inner(), (1, 16, 11, 7)),
    "strides": (
        nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), depthwise(32, stride=2, padding=1), nn.Conv2d(32, 20, 1)
        ),
        (1, 3, 39, 22),
    ),
    "no padding": (nn.Sequential(nn.Conv2d(16, 32, 3), depthwise(32), nn.Conv2d(32, 16, 3)), (1, 16, 15, 10)),
    "dilation": (nn.Sequential(nn.Conv2d(16, 32, 1), depthwise(32, dilation=3, padding=3)), (1, 16, 14, 8)),
    "padding of two": (nn.Sequential(nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 3, padding=2)), (1, 16, 9, 8)),
    "fewer rows than lanes": (nn.Sequential(nn.Conv2d(16, 32, 1), depthwise(32)), (1, 16, 4, 9)),
    "rows that no window meets": (nn.Sequential(nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 1, stride=3)), (1, 16, 14, 9)),
}  # fmt: skip


@pytest.fixture(params=[1, 2, 3])
def lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Lowering counts so many lanes, and takes every chain that there is; a band is small."""
    card = open_card(Options())
    tuning = replace(card.target.tuning, bands=BandLimits(band=24 << 10, link=0, chain=1, again=100.0, count=32))
    monkeypatch.setattr(card, "target", replace(card.target, lanes=request.param, tuning=tuning))
    return int(request.param)


def tasks_of(model: nn.Module, x: torch.Tensor, **options: object) -> list[CardTask]:
    return [task for program in programs_of(model, x, **{**FRESH, **options}) for task in program.card_tasks]


def groups(task: CardTask) -> list[Command]:
    return [command for command in task.commands if command.opcode == "streams"]


def lengths(head: Command) -> tuple[int, ...]:
    given = head.fields["length"]
    assert isinstance(given, tuple)
    return tuple(int(length) for length in given if length)


@pytest.mark.parametrize("name", SHAPES)
def test_values_are_those_of_float64(lanes: int, name: str) -> None:
    model, shape = SHAPES[name]
    model = randomise(copy.deepcopy(model))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        compiled = torch.compile(model, backend="fpga", options=FRESH)
        compiled(torch.full_like(x, float("nan")))  # what is not written again stays visible
        card, eager = compiled(x), model(x)
        exact = copy.deepcopy(model).double()(x.double())
    errors = measure(card, eager, exact, FACTOR)
    assert torch.isfinite(card).all()
    assert errors.compiled <= errors.bound, errors
    (task,) = tasks_of(model, x)
    (head,) = groups(task)
    assert len(lengths(head)) == min(lanes, eager.shape[2])
    assert len(task.commands) > head.group > len(lengths(head))


def test_bands_give_the_bits_of_the_whole(lanes: int) -> None:
    """Where tiles of the MAC array end with the rows of an image, so that every sum has the same order."""
    model, x = randomise(Residual(32, 32)), torch.randn(1, 32, 10, 12)
    with torch.no_grad():
        whole = torch.compile(model, backend="fpga", options={**FRESH, "bands": False})(x)
        torch._dynamo.reset()
        in_bands = torch.compile(model, backend="fpga", options=FRESH)(x)
    torch.testing.assert_close(in_bands, whole, rtol=0, atol=0)


def quantised(*weights: RandomWeights) -> nn.Module:
    """Convolutions between integers: 1 x 1, depthwise, 1 x 1."""
    first, middle, end = weights
    return nn.Sequential(
        Layer(first, lambda x, w, b: F.conv2d(x, w, b).relu()),
        Layer(middle, lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=len(w)).relu(), POSITIVE),
        Layer(end, F.conv2d, POSITIVE),
    )


def test_bands_of_integers_have_eagers_bits(lanes: int) -> None:
    """Rows that the next band needs move as bytes."""
    model = quantised(RandomWeights(48, 16, 1, 1), RandomWeights(48, 1, 3, 3), RandomWeights(16, 48, 1, 1))
    x = torch.randn(1, 16, 40, 23, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        compiled = torch.compile(model, backend="fpga", options={**FRESH, "strict": True})
        compiled(-x)  # what is not written again stays visible
        torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
    (task,) = tasks_of(model, x)
    (head,) = groups(task)
    assert len(lengths(head)) == lanes
    moves = [command for command in task.commands if command.pattern == "bands" and command.opcode == "move"]
    assert moves and all(command.fields["format"] == open_card(Options()).target.format_of(U8) for command in moves)


@pytest.mark.parametrize("lanes", [2], indirect=True)
def test_a_kernel_that_cannot_move_rows_gets_no_bands(lanes: int) -> None:
    target = open_card(Options()).target
    (task,) = tasks_of(randomise(Residual(32, 32)), torch.randn(1, 32, 10, 12), bands=False)
    (kernel,) = (kernel for kernel in target.kernels if kernel.name == task.kernel)
    assert len(in_bands(task.commands, target, kernel)) > len(task.commands)
    unmoved = replace(kernel, opcodes=kernel.opcodes - {"move"})
    assert in_bands(task.commands, target, unmoved) == task.commands


def test_streams_that_run_side_by_side_share_no_memory_that_one_of_them_writes(lanes: int) -> None:
    model = randomise(nn.Sequential(Inner(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), Residual(16, 32)))
    (task,) = tasks_of(model, torch.randn(1, 16, 24, 20))
    for head in groups(task):
        first = task.commands.index(head) + 1
        own: list[set[Buffer]] = []
        for length in lengths(head):
            own.append({b for c in task.commands[first : first + length] for b in c.writes})
            first += length
        for i, mine in enumerate(own):
            for others in own[i + 1 :]:
                assert len(mine & others) == 1, "the rows of the result are shared out, all else is private"
    spans: dict[Buffer, tuple[int, int]] = {}
    i = 0
    while i < len(task.commands):
        for member in task.commands[i : i + 1 + task.commands[i].group]:
            for buffer in member.uses:
                if buffer in task.plan.places:
                    spans[buffer] = (spans.get(buffer, (i, i))[0], i)
        i += 1 + task.commands[i].group
    assert_disjoint(task.plan, spans)


class Branches(nn.Module):
    """The image between two convolutions is read by a third one, behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(16, 16, 3, padding=1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        return torch.cat([self.second(y).sin(), self.third(y)], 1)


@pytest.mark.parametrize("lanes", [2], indirect=True)
def test_an_image_that_somebody_else_reads_ends_the_chain(lanes: int) -> None:
    (task,) = tasks_of(randomise(Branches()), torch.randn(1, 16, 12, 12))
    assert not groups(task)


@pytest.mark.parametrize("lanes", [2], indirect=True)
@pytest.mark.parametrize("what", [{"bands": False}, {"verify": True}])
def test_without_bands(lanes: int, what: dict[str, bool]) -> None:
    (task,) = tasks_of(randomise(Residual(16, 48)), torch.randn(1, 16, 12, 12), **what)
    assert not groups(task)


@pytest.mark.parametrize("lanes", [2], indirect=True)
def test_a_host_that_nothing_is_known_of_gets_no_bands(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    card = open_card(Options())
    monkeypatch.setattr(card, "target", replace(card.target, tuning=Tuning()))
    (task,) = tasks_of(randomise(Residual(32, 32)), torch.randn(1, 32, 10, 12))
    assert groups(task) == []


@pytest.mark.parametrize("lanes", [2], indirect=True)
def test_several_images_are_not_cut(lanes: int) -> None:
    (task,) = tasks_of(randomise(Residual(16, 48)), torch.randn(2, 16, 12, 12))
    assert not groups(task)


@pytest.mark.parametrize(
    ("lanes", "side", "channels", "chosen"),
    [(0, 56, 144, 0), (1, 56, 144, 1), (2, 56, 144, 2), (4, 56, 144, 0), (2, 28, 192, 0), (33, 224, 512, 0)],
)
def test_the_choice(monkeypatch: pytest.MonkeyPatch, lanes: int, side: int, channels: int, chosen: int) -> None:
    """Images that outgrow the caches of the lanes, and seams that cost little: those of MobileNet V2's third block."""
    card = open_card(Options())
    monkeypatch.setattr(card, "target", replace(card.target, lanes=lanes))
    model = nn.Sequential(nn.Conv2d(24, 24, 3, stride=4, padding=1), Residual(24, channels)).eval()
    (task,) = tasks_of(model, torch.randn(1, 24, 4 * side, 4 * side))
    assert [len(lengths(head)) for head in groups(task)] == [chosen] * bool(chosen)


@pytest.mark.parametrize("lanes", [2], indirect=True)
def test_a_group_is_one_event_of_a_trace_and_one_command_of_explain(lanes: int) -> None:
    model, x = randomise(Residual(16, 48)), torch.randn(1, 16, 12, 12)
    with torch.no_grad():
        compiled = torch.compile(model, backend="fpga", options=FRESH)
        compiled(x)
        with fpga_dynamo.trace() as trace:
            compiled(x)
    (event,) = [event for event in trace.commands if event.name == "streams"]
    assert event.arguments["macs"] >= 144 * (16 * 48 + 9 * 48), "what the seam adds counts"
    assert "convolution_1" in event.arguments["nodes"]
    assert "depthwise" not in {event.name for event in trace.commands}
    report = explain(model, x, options=FRESH).graphs[0]
    (how,) = {node.how for node in report.nodes if node.op == "aten.relu6.default" or "hardtanh" in node.op}
    assert how.count(",") == 1, "one command, that of the group"
    assert report.opcodes["streams"] == 1
