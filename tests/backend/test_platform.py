"""The option `platform`: the emulator runs the board's own recipe, chosen by what the graph computes in."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import fpga_dynamo
from fpga_dynamo.tools.explain_text import Explanation
from tests.marks import EXTENDED


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 10)).eval()


def explained(model: nn.Module, x: torch.Tensor, **options: Any) -> Explanation:
    return fpga_dynamo.explain(model, x, options=options)


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=EXTENDED)])
def test_a_board_runs_its_engine_of_the_models_type(dtype: torch.dtype) -> None:
    model, x = network().to(dtype), torch.randn(2, 3, 8, 8).to(dtype)
    found = explained(model, x, platform="kv260")
    (graph,) = found.graphs
    assert graph.launches == 1 and set(graph.opcodes) == {"mac"} and found.mac_offload == 1
    assert graph.clock_mhz == 300
    with torch.no_grad():
        result = torch.compile(model, backend="fpga", options={"platform": "kv260"})(x)
    exact = network().double()(x.double())
    error = (result.double() - exact).abs().max()
    assert error <= 2 * (model(x).double() - exact).abs().max() + 1e-6


def test_the_latency_is_the_sum_of_its_parts() -> None:
    found = explained(network(), torch.randn(1, 3, 8, 8), platform="kv260")
    latency = found.graphs[0].latency
    assert latency is not None and latency.platform == "kv260"
    assert latency.engine == pytest.approx(sum(step.ms for step in found.graphs[0].steps)) and latency.engine > 0
    assert latency.launches == pytest.approx(0.06), "launch_us of kv260.toml"
    assert latency.call == pytest.approx(latency.engine + latency.launches + latency.transfers + latency.host)
    assert f"estimated latency on kv260: {latency.call:.3f} ms a call" in str(found)


def test_without_a_board_no_latency_is_estimated() -> None:
    found = explained(network(), torch.randn(1, 3, 8, 8))
    assert found.graphs[0].latency is None and "estimated latency" not in str(found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"platform": "kv261"}, "option 'platform': unknown platform 'kv261'; did you mean 'kv260'"),
        ({"platform": "none.toml"}, "option 'platform': none.toml"),
        ({"platform": "kv260", "xclbin": "a.xclbin"}, "'platform' has no effect beside 'xclbin'"),
    ],
)
def test_a_board_that_cannot_be_used_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(Exception, match="Error") as error:
        torch.compile(network(), backend="fpga", options=options)(torch.randn(1, 3, 8, 8))
    assert words in str(error.value)


@pytest.mark.slow
@pytest.mark.extended
def test_a_recipe_beside_a_board_is_built_for_it() -> None:
    model, x = network(), torch.randn(1, 3, 8, 8)
    found = explained(model, x, platform="u250", recipe="emulator", partition="greedy")
    assert found.graphs[0].latency is None and found.graphs[0].launches == 1, "cores, not an engine"
    assert found.graphs[0].clock_mhz == 300
