"""`xclbin-build --from-model` for whole networks: BERT-base on a U55C, MobileNet V2 and YOLOv3-tiny in one recipe.

The recipe fits, builds, keeps its contracts, and is as fast as the best of a small space. `make recipes` runs them: a
search takes minutes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

import xclbin_build
from benchmarks.engine.networks import NETWORKS
from fpga_dynamo.tools.estimate import model
from fpga_dynamo.tools.recipe_search import recipe_file
from fpga_dynamo.tools.recipe_search.search import Found, Search
from fpga_dynamo.tools.recipe_search.space import Candidate, Card, Space
from fpga_dynamo.tools.recipe_search.workload import TracedModel, Workload
from xclbin_build import platform as platforms
from xclbin_build.build import load_design
from xclbin_build.cli import main
from xclbin_build.estimate.design import estimate

pytestmark = pytest.mark.slow

SPACE = Space(pixels=(4, 8, 14), out_channels=(16,), window_rows=(1024, 2048), weight_steps=(1024,), vector_lanes=(8,))
RECIPES = {"bert": (("bert_base_128",), "u55c"), "detector": (("mobilenet_v2", "yolo_v3_tiny"), "zcu102")}


def _network(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    build, size = NETWORKS[name]
    return build(), (torch.randn(size),)


def bert_base_128() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return _network("bert_base_128")


def mobilenet_v2() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return _network("mobilenet_v2")


def yolo_v3_tiny() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return _network("yolo_v3_tiny")


@cache
def searched(recipe: str) -> tuple[Search, Found]:
    """The search of a recipe in the small space, and what it has found."""
    names, platform = RECIPES[recipe]
    traced = [TracedModel(model.quantised(f"{__name__}:{name}", 1, "pow2", None)) for name in names]
    search = Search(Workload(traced, "sum"), Card(platforms.load(platform)), "int8", "latency", SPACE)
    return search, search.run()


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_engine_is_as_fast_as_the_best_of_all(recipe: str) -> None:
    search, found = searched(recipe)
    needed = found.best.candidate.engine
    base = replace(search.card.base("int8"), gather=needed.gather, row_sums=needed.row_sums)
    every = [c for engine in SPACE.engines(base) if search.card.fits(c := Candidate(engine))]
    several = len(search.card.platform.regions)
    if several > 1:
        every += [c for one in every if search.card.fits(c := Candidate(one.engine, several, together=True))]
    assert len(every) > len(found.evaluated) / 2 > 2
    values = [search.evaluate(candidate).value for candidate in every]
    assert found.best.value <= 1.1 * min(values)
    assert max(values) > 1.5 * min(values)  # so that there was something to find


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_recipe_fits_builds_and_keeps_its_contracts(recipe: str, tmp_path: Path) -> None:
    _, found = searched(recipe)
    platform = RECIPES[recipe][1]
    path = recipe_file.write(tmp_path, found.best.candidate, platform, platforms.load(platform), [])
    assert estimate(load_design(path), whole=True).fit.fits
    assert xclbin_build.cached(path).stat().st_size > 0
    assert main(["--target", "hw", "--recipe", str(path), "--sources-only", str(tmp_path / "hw"), "-q"]) == 0
    assert main(["check", "--recipe", str(path), "--platform", platform]) == 0
