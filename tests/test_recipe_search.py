"""`xclbin-build --from-model`: how good the engines are that it finds, what it writes, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

import xclbin_build
from fpga_dynamo.quantize import quantize
from fpga_dynamo.tools import zoo
from fpga_dynamo.tools.estimate import model
from fpga_dynamo.tools.recipe_search import recipe_file
from fpga_dynamo.tools.recipe_search.limits import limits_of
from fpga_dynamo.tools.recipe_search.search import TIE, Search
from fpga_dynamo.tools.recipe_search.space import Candidate, Card, Space
from fpga_dynamo.tools.recipe_search.workload import TracedModel, Workload
from xclbin_build import platform as platforms
from xclbin_build import recipe as recipes
from xclbin_build.build import load_design
from xclbin_build.cli import main
from xclbin_build.estimate.design import estimate

SMALL_SPACE = Space(
    pixels=(1, 2, 4, 7), out_channels=(16,), window_rows=(512,), weight_steps=(64, 256), vector_lanes=(0, 2)
)


class Small(nn.Module):
    """Layers that the array, the windows and the weights bound."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.ReLU(),
            nn.Conv2d(32, 64, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 40),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x)
        return found

    def example_inputs(self, batch: int) -> tuple[torch.Tensor, ...]:
        return (torch.randn(batch, 3, 64, 64),)


class Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x)
        return found

    def example_inputs(self, batch: int) -> tuple[torch.Tensor, ...]:
        return (torch.randn(4 * batch, 64),)


SMALL, DENSE = f"{__name__}:Small", f"{__name__}:Dense"


@cache
def traced(name: str) -> TracedModel:
    return TracedModel(model.quantised(name, 1, "pow2", None))


def search(*names: str, goal: str = "latency", combine: str = "sum", platform: str = "kv260") -> Search:
    workload = Workload([traced(name) for name in names], combine)
    return Search(workload, Card(platforms.load(platform)), "int8", goal, SMALL_SPACE)


def test_the_engine_is_as_fast_as_the_best_of_all() -> None:
    of = search(SMALL)
    found = of.run()
    base = replace(of.card.base("int8"), gather=False, row_sums=False)
    every = [Candidate(engine) for engine in SMALL_SPACE.engines(base) if of.card.fits(Candidate(engine))]
    assert len(every) > 2 * len(found.evaluated)
    designs = [of.evaluate(candidate) for candidate in every]
    fastest = min(design.value for design in designs)
    assert found.best.value <= 1.1 * fastest
    assert max(design.value for design in designs) > 1.5 * fastest  # so that there was something to find
    smallest = min(design.area for design in designs if design.value <= (1 + TIE) * fastest)
    assert found.best.area <= 1.1 * smallest


def test_no_engine_is_faster_than_its_bound() -> None:
    of = search(SMALL)
    roomy = Candidate(replace(of.card.base("int8"), window_rows=1 << 14, weight_steps=1 << 14))
    (program,) = of.workload.programs(of.card.target(roomy))
    limits = limits_of(program)
    for engine in list(SMALL_SPACE.engines(of.card.base("int8")))[::5]:
        limit = limits.limit(of.card.target(Candidate(engine)))
        assert limit.least <= of.evaluate(Candidate(engine)).costs[0].engine_ms


def test_a_search_repeated_finds_the_same() -> None:
    first, second = search(SMALL, goal="area").run(), search(SMALL, goal="area").run()
    assert first.best == second.best
    assert first.front() == second.front()


def test_less_area_is_slower_and_more_units_are_faster() -> None:
    fast, small, many = (search(SMALL, goal=goal).run().best for goal in ("latency", "area", "throughput"))
    assert small.area < fast.area
    assert fast.value < small.value <= 2 * fast.value
    assert many.value < fast.call_ms
    assert many.candidate.units > 1 or many.value == max(many.costs[0].engine_ms, many.costs[0].host_ms)


def test_nothing_on_the_front_is_beaten() -> None:
    front = search(SMALL).run().front()
    assert len(front) > 2
    assert [design.value for design in front] == sorted(design.value for design in front)
    for one in front:
        for other in front:
            better = (other.value, *other.resources.values()[:4]), (one.value, *one.resources.values()[:4])
            assert one is other or any(a > b for a, b in zip(*better, strict=True))


def test_several_models_share_a_recipe() -> None:
    both, longest = search(SMALL, DENSE).run().best, search(SMALL, DENSE, combine="max").run().best
    assert both.call_ms == pytest.approx(sum(cost.call_ms for cost in both.costs))
    assert longest.call_ms == pytest.approx(max(cost.call_ms for cost in longest.costs))


def test_a_recipe_has_what_the_models_need_and_no_more(tmp_path: Path) -> None:
    best = search(SMALL).run().best
    path = recipe_file.write(tmp_path / "small", best.candidate, "kv260", platforms.load("kv260"), ["Why."])
    (kernel,) = recipes.load(path).kernels
    assert kernel.engine == best.candidate.engine
    assert kernel.engine is not None
    assert kernel.engine.vector_lanes  # for the mean
    assert not kernel.engine.gather and not kernel.engine.row_sums
    assert path.read_text().startswith('# Why.\nname = "small"')


@pytest.mark.parametrize(("platform", "goal"), [("u250", "throughput"), ("u55c", "latency"), ("zcu102", "area")])
def test_recipes_of_other_cards_are_valid(platform: str, goal: str, tmp_path: Path) -> None:
    best = search(DENSE, goal=goal, platform=platform).run().best
    path = recipe_file.write(tmp_path, best.candidate, platform, platforms.load(platform), [])
    found = estimate(load_design(path), whole=False)
    assert found.fit.fits
    assert len(found.units) == best.candidate.units


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--from-model", DENSE, "--platform", "kv260", "--area", "-o", str(tmp_path), "--json", "-q"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    design = load_design(found["recipe"])
    assert design.platform.name == "kv260"
    assert found["best"] in found["front"]
    assert found["best"]["call_ms"] == pytest.approx(sum(found["best"]["models"][DENSE].values()))
    assert any(link["cores"] == ["quantize"] for link in found["links"])


def test_a_program_of_torch_export_is_a_model(tmp_path: Path) -> None:
    path = tmp_path / "dense.pt2"
    torch.export.save(torch.export.export(Dense().eval(), (torch.randn(4, 64),)), path)
    example = zoo.load(str(path))
    assert example.batch == 4
    assert zoo.call(example).shape == (4, 16)
    assert traced(str(path)).cost(search(DENSE).card.target(Candidate(search(DENSE).card.base("int8")))).engine_ms > 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([SMALL, "--platform", "kv261"], "unknown platform 'kv261'"),
        ([SMALL, "--platform", "emu"], "platform 'emu' is not a card"),
        ([SMALL, "--platform", "kv260", "--dtype", "int4"], "--dtype int4 is unknown"),
        (["resnet19", "--platform", "kv260"], "no model 'resnet19'"),
        (["missing.pt2", "--platform", "kv260"], "'missing.pt2' does not exist"),
        (["missing.py:model", "--platform", "kv260"], "cannot import 'missing.py'"),
        ([DENSE, "--platform", "TINY"], "no int8 engine fits platform 'tiny'"),
    ],
)
def test_a_refusal_is_a_sentence(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = tmp_path / "tiny.toml"
    own = Path(platforms.__file__).parent / "platforms" / "kv260.toml"
    tiny.write_text(own.read_text().replace('name = "kv260"', 'name = "tiny"').replace("dsp = 1248", "dsp = 90"))
    given = [word.replace("TINY", str(tiny)) for word in words]
    assert main(["--from-model", *given, "-q", "-o", str(tmp_path / "made")]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert sentence in errors[0]
    assert not (tmp_path / "made").exists()


# --- builds -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.extended
def test_a_recipe_builds_and_runs_its_model(tmp_path: Path) -> None:
    best = search(SMALL).run().best
    path = recipe_file.write(tmp_path, best.candidate, "kv260", platforms.load("kv260"), [])
    torch.manual_seed(0)
    inputs = Small().example_inputs(1)
    quantised = quantize(Small().eval(), [inputs], scales="pow2", bias="int32", progress=False)
    compiled = torch.compile(quantised, backend="fpga", options={"xclbin": str(xclbin_build.cached(path))})
    with torch.no_grad():
        assert torch.equal(compiled(*inputs), quantised(*inputs))
    assert main(["check", "--recipe", str(path), "--platform", "kv260"]) == 0
