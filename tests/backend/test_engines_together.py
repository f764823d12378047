"""torch.compile on compute units that share each command of a launch: eager mode's bits, and what each of them did."""

from __future__ import annotations

import functools
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

import fpga_dynamo
import xclbin_build
from fpga_dynamo.quantize import quantize
from fpga_dynamo.runtime.drivers import DRIVERS
from fpga_dynamo.tools import zoo
from tests.backend.sources_card import SourcesCard
from tests.backend.test_counting_card import Encoder
from tests.lowering.test_engine_lowering import Residual
from tests.marks import EXTENDED

RECIPE = """name = "four"
platform = "u250"
[kernel.engine]
engine = "2x16x16"
cu = 4
together = true
window = 1024
weights = 128
vector_lanes = 4
vector_depth = 256
"""
UNITS = [f"engine_{unit}" for unit in (1, 2, 3, 4)]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("four") / "four.toml"
    path.write_text(RECIPE)
    return path


def options(recipe: str | Path, target: Any = "cycles") -> dict[str, Any]:
    return {"xclbin": str(xclbin_build.cached(recipe, target, platform="u250"))}


@functools.cache
def quantised(make: Any, *size: int) -> tuple[Any, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(size)
    return quantize(make().eval(), [(x,)], scales="pow2", bias="int32", progress=False), x


def compiled(model: Any, card: dict[str, Any]) -> Any:
    torch._dynamo.reset()
    return torch.compile(model, backend="fpga", options=card)


@pytest.mark.parametrize("target", ["emu", pytest.param("cycles", marks=EXTENDED)])
@pytest.mark.parametrize("make", [Residual, lambda: nn.Sequential(nn.Linear(40, 70), nn.GELU(), nn.Linear(70, 9))])
@torch.no_grad()
def test_a_quantised_model_has_eager_s_bits(recipe: Path, make: Any, target: str) -> None:
    model, x = quantised(make, *((1, 3, 33, 35) if make is Residual else (13, 40)))
    run = compiled(model, options(recipe, target))
    fpga_dynamo.reset_stats()
    for given in (x, x.flip(0, -1) * 0.7):
        torch.testing.assert_close(run(given), model(given), rtol=0, atol=0)
    found = fpga_dynamo.stats()
    assert (found["pl_launches"], found["ps_fallbacks"]) == (2, 0)


@pytest.mark.slow
@pytest.mark.extended
@torch.no_grad()
def test_a_trace_shows_what_each_unit_does(recipe: Path, tmp_path: Path) -> None:
    model, x = quantised(Residual, 1, 3, 33, 35)
    run = compiled(model, options(recipe))
    fpga_dynamo.reset_stats()
    with fpga_dynamo.trace() as recorder:
        torch.testing.assert_close(run(x), model(x), rtol=0, atol=0)
    launches = [task for task in recorder.tasks if task.pe in UNITS]
    assert sorted(task.pe for task in launches) == UNITS
    cycles = fpga_dynamo.stats()["card_cycles"]
    for launch in launches:
        assert launch.arguments["cycles"] == cycles
        assert launch.stop - launch.start == pytest.approx(cycles / 300e6, rel=1e-3)
    own = {unit: [command for command in recorder.commands if command.pe == unit] for unit in UNITS}
    for commands in own.values():
        assert "first.0" in [command.arguments["layer"] for command in commands]
        assert all(before.stop <= after.start + 1e-12 for before, after in pairwise(commands))
    # The last layer has one block of channels of one pixel, so three of them have no part of it.
    assert sum(commands[-1].arguments["index"] == 5 for commands in own.values()) == 1
    picture = recorder.gantt(tmp_path / "card.svg").read_text()
    assert all(unit in picture for unit in UNITS)
    (graph,) = fpga_dynamo.explain(model, x, options=options(recipe)).graphs
    assert {step.basis for step in graph.steps} == {"counted"}
    assert sum(step.cycles for step in graph.steps) == pytest.approx(cycles, rel=0.02)


@pytest.mark.parametrize("target", [pytest.param(target, marks=EXTENDED) for target in ("emu", "cycles")])
@torch.no_grad()
def test_heads_and_norms_of_an_encoder_are_shared(recipe: Path, target: str) -> None:
    model, x = quantised(Encoder, 1, 21, 32)
    wanted, alone = model(x), xclbin_build.cached(recipe, "emu", cu={"engine": 1}, platform="u250")
    shared = compiled(model, options(recipe, target))(x)
    torch.testing.assert_close(shared, compiled(model, {"xclbin": str(alone)})(x), rtol=0, atol=0)
    assert (shared - wanted).abs().max() <= 2 * wanted.unique().diff().min()


@torch.no_grad()
def test_all_units_are_told_of_a_card(recipe: Path) -> None:
    model, x = quantised(Residual, 1, 3, 33, 35)
    card = options(recipe, "emu")
    compiled(model, card)(x)
    (found,) = [report for report in fpga_dynamo.devices() if report.xclbin == card["xclbin"]]
    assert list(found.compute_units) == UNITS


@pytest.fixture(scope="module")
def sources_card(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> SourcesCard:
    return SourcesCard(recipe, tmp_path_factory.mktemp("hw"))


@pytest.fixture
def on_a_card(sources_card: SourcesCard, monkeypatch: pytest.MonkeyPatch) -> SourcesCard:
    monkeypatch.setitem(sys.modules, "sources_card", cast(Any, sources_card))
    monkeypatch.setitem(DRIVERS, "xrt", "sources_card")
    return sources_card


@pytest.mark.parametrize(
    ("make", "size"), [(Residual, (1, 3, 33, 35)), pytest.param(Encoder, (1, 21, 32), marks=EXTENDED)]
)
@torch.no_grad()
def test_the_sources_for_vitis_give_the_same_bits(
    recipe: Path, on_a_card: SourcesCard, make: Any, size: tuple[int, ...]
) -> None:
    """Kernels, links and banks as v++ gets them, started unit by unit, with maps in pages of four banks."""
    model, x = quantised(make, *size)
    run, wanted = compiled(model, {"xclbin": str(on_a_card.xclbin)}), compiled(model, options(recipe, "emu"))
    before = on_a_card.launches
    fpga_dynamo.reset_stats()
    for given in (x, x.flip(0, -1) * 0.7):
        torch.testing.assert_close(run(given), wanted(given), rtol=0, atol=0)
    weight = next(buffer for buffer in model.buffers() if buffer.dtype is torch.int8 and buffer.dim() > 1)
    former = run(x)
    weight.bitwise_not_()  # packed again, in the bank of each unit
    changed = run(x)
    weight.bitwise_not_()
    assert not torch.equal(changed, former)
    torch.testing.assert_close(run(x), former, rtol=0, atol=0)
    assert on_a_card.launches - before == 5
    assert fpga_dynamo.stats()["ps_fallbacks"] == 0  # which would give eager mode's bits, too


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        pytest.param("fails", "engine_3: it ended in state error", id="a unit that fails"),
        # Of which a card's run says nothing, but the status record does.
        pytest.param("corrupts", "command 0 ended with status 1", id="a list that does not come to its end"),
    ],
)
@torch.no_grad()
def test_trouble_in_a_unit_ends_all_and_the_process_goes_on(
    on_a_card: SourcesCard, monkeypatch: pytest.MonkeyPatch, trouble: str, words: str
) -> None:
    model, x = quantised(Residual, 1, 3, 33, 35)
    run, wanted = compiled(model, {"xclbin": str(on_a_card.xclbin)}), model(x)
    torch.testing.assert_close(run(x), wanted, rtol=0, atol=0)
    with monkeypatch.context() as patched, pytest.warns(RuntimeWarning, match=words):
        patched.setattr(on_a_card, trouble, "engine_3")
        torch.testing.assert_close(run(x), wanted, rtol=0, atol=0)  # by eager
    before = on_a_card.launches
    fpga_dynamo.reset_stats()
    torch.testing.assert_close(run(x), wanted, rtol=0, atol=0)
    assert on_a_card.launches == before + 1
    assert fpga_dynamo.stats()["ps_fallbacks"] == 0


@pytest.mark.slow
@torch.no_grad()
def test_four_units_of_a_u250_run_resnet18() -> None:
    torch.manual_seed(0)
    example = zoo.load("resnet18")
    model = quantize(
        zoo.randomise_batch_norm(example.model), [example.inputs], scales="pow2", bias="int32", progress=False
    )
    card = options("engine-u250-4cu")
    run = compiled(model, card)
    fpga_dynamo.reset_stats()
    torch.testing.assert_close(run(*example.inputs), model(*example.inputs), rtol=0, atol=0)
    assert fpga_dynamo.stats()["card_seconds"] <= 0.9e-3
