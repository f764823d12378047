"""torch.compile on a hardware engine: eager mode's bits, and cycles in traces, Gantt charts and explanations."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import fpga_dynamo
import xclbin_build
from fpga_dynamo.errors import NotLoweredError
from fpga_dynamo.quantize import FPGAQuantizer, quantize
from fpga_dynamo.runtime.observe.card_time import in_card_time
from fpga_dynamo.runtime.observe.events import CommandEvent, CountedCommand, CountedEvent, Event, TaskEvent
from tests.lowering import engine_kit
from tests.lowering.test_engine_lowering import Joined, Residual
from tests.marks import EXTENDED


@functools.cache
def options(target: str = "cycles") -> dict[str, Any]:
    return {"xclbin": str(xclbin_build.cached(engine_kit.recipe(), target, platform="u250"))}


def quantised(model: nn.Module, *inputs: Tensor) -> Any:
    torch.manual_seed(0)
    return quantize(model.eval(), [inputs], scales="pow2", bias="int32", progress=False)


def compiled(model: Any, **more: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(model, backend="fpga", options={**options(), **more})


class Upsampled(nn.Module):
    """What the engine does, what it does not (a transposed convolution and an addition), and a value that both read."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.up = nn.Conv2d(3, 20, 3, 2, 1), nn.ConvTranspose2d(20, 20, 1)
        self.last, self.classes = nn.Conv2d(20, 20, 3, 1, 1), nn.Linear(20, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.last(self.up(x) + x) + x)
        result: Tensor = self.classes(x.mean((2, 3)))
        return result


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


class Sized(nn.Module):
    """Images of any size, and the mean of each."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.classes = nn.Conv2d(3, 20, 3, 2, 1), nn.Linear(20, 5)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.classes(torch.relu(self.first(x)).mean((2, 3)))
        return result


class Shuffled(nn.Module):
    """Halves of channels that end within a block, one of which goes through a convolution, joined and shuffled."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.side, self.last = nn.Conv2d(3, 20, 3, 2), nn.Conv2d(10, 10, 1), nn.Conv2d(20, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = torch.relu(self.first(x)).chunk(2, 1)
        x = torch.cat([a, torch.relu(self.side(b))], 1)
        n, c, h, w = x.shape
        result: Tensor = self.last(x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w))
        return result


@torch.no_grad()
def test_each_of_many_sizes_has_a_launch_of_its_own() -> None:
    torch.manual_seed(0)
    sizes = {0: Dim("images", min=1), 2: Dim("height", min=8), 3: Dim("width", min=8)}
    first = torch.randn(2, 3, 32, 32)
    exported = torch.export.export(Sized().eval(), (first,), dynamic_shapes=(sizes,)).module()
    prepared = prepare_pt2e(exported, FPGAQuantizer("pow2", bias="int32"))
    prepared(first)
    model = convert_pt2e(prepared)
    run = compiled(model)
    for size in ((2, 32, 32), (1, 24, 40), (2, 30, 38)):
        x = torch.randn(size[0], 3, *size[1:])
        before = fpga_dynamo.stats()
        assert torch.equal(run(x), model(x))
        after = fpga_dynamo.stats()
        assert after["pl_launches"] - before["pl_launches"] == 1
        assert after["ps_nodes"] - before["ps_nodes"] == 0


@pytest.mark.parametrize(
    ("make", "size", "launches"),
    [
        (Residual, (1, 3, 33, 35), 1),
        (Residual, (2, 3, 17, 19), 1),
        (Upsampled, (1, 3, 18, 22), 2),
        (lambda: Joined((32, 16, 40)), (1, 16, 12, 12), 1),
        (lambda: Joined((24, 16)), (1, 16, 12, 12), 1),
        (Shuffled, (1, 3, 11, 13), 1),
        (lambda: nn.Sequential(nn.Linear(40, 70), nn.GELU(), nn.Linear(70, 9)), (13, 40), 1),
    ],
    ids=["residual", "two images", "two launches", "joined", "joined within a block", "shuffled", "rows"],
)
@pytest.mark.parametrize("target", ["cycles", pytest.param("emu", marks=EXTENDED)])
@torch.no_grad()
def test_a_quantised_model_has_eager_s_bits(make: Any, size: tuple[int, ...], launches: int, target: str) -> None:
    x = torch.randn(size)
    model = quantised(make(), x)
    run = compiled(model, **options(target))
    fpga_dynamo.reset_stats()
    for given in (x, torch.randn(size)):
        torch.testing.assert_close(run(given), model(given), rtol=0, atol=0)
    found = fpga_dynamo.stats()
    assert (found["pl_launches"], found["ps_fallbacks"]) == (2 * launches, 0)
    assert bool(found["card_cycles"]) == (target == "cycles")
    assert found["card_seconds"] == pytest.approx(found["card_cycles"] / 300e6)


@torch.no_grad()
def test_an_encoder_differs_by_a_last_rounding_at_most() -> None:
    x = torch.randn(1, 21, 32)
    model = quantised(Encoder(), x)
    wanted = model(x)
    step = wanted.unique().diff().min()
    assert (compiled(model, strict=False)(x) - wanted).abs().max() <= 2 * step
    found = fpga_dynamo.explain(model, x, options=options())
    assert found.pl_launches == 1 and found.mac_offload == 1


@torch.no_grad()
def test_traces_show_card_time(tmp_path: Path) -> None:
    x = torch.randn(1, 3, 33, 35)
    run = compiled(quantised(Residual(), x))
    run(x)
    fpga_dynamo.reset_stats()
    with fpga_dynamo.trace() as recorder:
        run(x)
    (launch,) = [task for task in recorder.tasks if task.pe == "engine_1"]
    cycles = fpga_dynamo.stats()["card_cycles"]
    assert launch.arguments["cycles"] == cycles and launch.arguments["clock_mhz"] == 300
    assert launch.stop - launch.start == pytest.approx(cycles / 300e6, rel=1e-3)
    assert launch.arguments["card_ms"] == pytest.approx(cycles / 300e3)
    commands = recorder.commands
    assert [command.name for command in commands] == ["vector", *["mac"] * 6, "vector"]
    assert [command.arguments["layer"] for command in commands][1:4] == ["first.0", "depthwise", "narrow"]
    assert sum(command.stop - command.start for command in commands) == pytest.approx(cycles / 300e6, rel=0.02)
    assert all(launch.start <= command.start < command.stop <= launch.stop + 1e-9 for command in commands)
    assert launch.arguments["simulated_s"] > 10 * cycles / 300e6
    picture = recorder.gantt(tmp_path / "card.svg").read_text()
    assert recorder.in_card_time and "the length of a launch is its simulated cycles" in picture
    json.loads(recorder.save(tmp_path / "card.json").read_text())


@torch.no_grad()
def test_explain_tells_cycles_and_what_they_rest_on() -> None:
    x = torch.randn(1, 3, 33, 35)
    model = quantised(Residual(), x)
    (graph,) = fpga_dynamo.explain(model, x, options=options()).graphs
    assert {step.basis for step in graph.steps} == {"counted"}
    fpga_dynamo.reset_stats()
    compiled(model)(x)
    cycles = fpga_dynamo.stats()["card_cycles"]
    assert sum(step.cycles for step in graph.steps) == pytest.approx(cycles, rel=0.02)
    text = str(fpga_dynamo.explain(model, x, options=options(), by="command"))
    assert "counted: by the cycle simulator" in text and "depthwise" in text and "300 MHz" in text
    (modelled,) = fpga_dynamo.explain(model, x, options=options("emu")).graphs
    assert {step.basis for step in modelled.steps} == {"cost model"}
    assert [step.layer for step in modelled.steps] == [step.layer for step in graph.steps]
    assert "card time" not in str(fpga_dynamo.explain(model, x, options=options("emu")))


@torch.no_grad()
@pytest.mark.parametrize("target", ["cycles", "emu"])
def test_a_layer_in_parts_is_a_command_each(target: str) -> None:
    """Of 152 steps of weights the memory holds 128, of 5 x 480 words the window holds 2,048."""
    torch.manual_seed(0)
    x = torch.randn(1, 8, 5, 480)
    deep, wide = nn.Conv2d(2432, 24, 1), nn.Conv2d(24, 20, 5, padding=2)
    model = quantised(nn.Sequential(nn.Conv2d(8, 2432, 1), nn.ReLU(), deep, nn.ReLU(), wide), x)
    run = compiled(model, **options(target))
    assert torch.equal(run(x), model(x)) and torch.equal(run(-x), model(-x))
    (graph,) = fpga_dynamo.explain(model, x, options=options(target)).graphs
    layers = [step.layer for step in graph.steps]
    assert layers.count("0") == 1 and layers.count("2") > 1 and layers.count("4") > 1
    assert all(step.cycles > 0 for step in graph.steps)


@torch.no_grad()
def test_what_stays_on_the_host_says_why() -> None:
    x = torch.randn(1, 3, 18, 22)
    found = fpga_dynamo.explain(quantised(Upsampled(), x), x, options=options())
    left = {node.op: node.how for node in found.graphs[0].nodes if node.place == "PS" and node.macs}
    assert list(left) == ["aten.convolution.default"] and "transposed convolution" in left.popitem()[1]
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="transposed convolution") as error:
        compiled(quantised(Upsampled(), x), strict=True)(x)
    assert isinstance(error.value.inner_exception, NotLoweredError)


@torch.no_grad()
def test_a_disabled_pattern_is_the_hosts() -> None:
    x = torch.randn(1, 3, 33, 35)
    model = quantised(Residual(), x)
    run = compiled(model, disable=["maxima_int8", "cat_int8", "limits"])  # of cores and engines, integers and floats
    torch.testing.assert_close(run(x), model(x), rtol=0, atol=0)
    found = fpga_dynamo.explain(model, x, options={**options(), "disable": ["maxima_int8"]})
    assert found.pl_launches == 2


@torch.no_grad()
def test_float_graphs_run_in_eager() -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(3, 8)
    torch.testing.assert_close(compiled(model)(x), model(x), rtol=0, atol=0)
    assert fpga_dynamo.explain(model, x, options=options()).pl_launches == 0


@torch.no_grad()
def test_batches_of_any_size_are_lowered_one_by_one() -> None:
    x = torch.randn(2, 40)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 9)).eval()
    converted = quantize(model, [(x,)], scales="pow2", bias="int32", progress=False)
    run = compiled(converted, **options("emu"))
    fpga_dynamo.reset_stats()
    for rows in (2,):
        given = torch.randn(rows, 40)
        torch.testing.assert_close(run(given), converted(given), rtol=0, atol=0)
    assert fpga_dynamo.stats()["pl_launches"] == 1


def test_the_clock_of_a_trace_is_slow_while_a_launch_is_simulated() -> None:
    def task(name: str, pe: str, start: float, stop: float) -> TaskEvent:
        return TaskEvent(1, "p", name, pe, start, stop)

    def counted(name: str, pe: str, start: float, stop: float, cycles: int) -> CountedEvent:
        half = cycles // 2
        commands = CountedCommand(pe, "mac", 0, half), CountedCommand(pe, "mac", half, cycles)
        return CountedEvent(pe, name, start, stop, cycles, 100.0, (half, cycles), commands)

    events: list[Event] = [
        task("before", "ps", 1, 3),
        task("launch", "cu", 3, 14),
        counted("launch", "cu", 4, 14, 200),
        task("beside", "ps", 9, 16),
        task("behind", "ps", 16, 17),
    ]
    found = in_card_time(events)
    spans = {("task", e.task): (e.start, e.stop) for e in found if isinstance(e, TaskEvent)}
    spans |= {("command", e.name): (e.start, e.stop) for e in found if isinstance(e, CommandEvent)}
    assert spans["task", "before"] == (1, 3)
    assert spans["task", "launch"] == (4, 6)  # 200 cycles at 100 Hz
    assert spans["task", "beside"] == (5, 8)
    assert spans["task", "behind"] == (8, 9)
    assert spans["command", "mac"] == (5, 6)  # the later one
    # Of two at once the one that is slowed down least is right, the other is shown longer.
    both = in_card_time([counted("a", "1", 0, 10, 100), counted("b", "2", 0, 10, 200)])
    assert [(e.start, e.stop) for e in both if isinstance(e, CommandEvent)] == [(0, 1), (1, 2)] * 2
