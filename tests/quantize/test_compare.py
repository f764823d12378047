"""compare and mixed_precision: what they say of layers, and what they choose."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("torchao")

from fpga_dynamo.errors import OptionError
from fpga_dynamo.quantize import compare, mixed_precision, quantize
from tests.quantize.digits import digits

BATCHES = ({0: torch.export.Dim("batch")},)


class Loud(nn.Module):
    """Two products, of which the second has one weight that makes its channel's scale far too coarse."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.good, self.bad = nn.Linear(16, 16), nn.Linear(16, 8)
        with torch.no_grad():
            self.bad.weight[5] *= 0.01
            self.bad.weight[5, 3] = 40.0

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.good(x))
        return self.bad(torch.addcmul(y, y[:, :4].repeat(1, 4), y.new_full((), 3.0), value=-1.0))  # a float32 operator


def inputs() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(8, 16, generator=generator) for _ in range(4)]


def test_noise_of_a_layer_is_that_of_its_own_rounding() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    graph = quantize(model, inputs(), progress=False)
    found = compare(model, graph, inputs())
    by_name = {layer.name: layer for layer in found.layers}
    assert {"linear", "relu", "linear_1"} <= set(by_name)
    for layer in found.layers:
        assert 25 < layer.own_db < 60 and layer.total_db < layer.own_db + 3
        assert layer.worst_db <= layer.own_db + 1e-9 or layer.worst_channel is not None
    assert found.output_db == pytest.approx(by_name["linear_1"].total_db, abs=1e-6)
    # By hand: the last layer's own noise, from the float model's values through the quantised graph's last layer.
    assert [layer.macs for layer in found.layers].count(True) == 2
    assert 0 <= found.agreement <= 1 and found.before is None


def test_a_graph_without_quantisation_is_exact() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU()).eval()
    graph = quantize(model, inputs(), capabilities=set(), progress=False)
    found = compare(model, graph, inputs())
    assert found.output_db == math.inf and found.agreement == 1
    assert all(layer.own_db == math.inf for layer in found.layers)


def test_table_and_picture(tmp_path: Path) -> None:
    task = digits()
    graph = quantize(task.model, task.calibration, progress=False, dynamic_shapes=BATCHES)
    found = compare(task.model, graph, task.calibration[:2], score=task.score)
    text = str(found)
    assert "conv2d_1" in text and "score" in text and "own dB" in text
    assert found.before == task.score(task.model) and found.after == task.score(graph)
    found.save(tmp_path / "noise.svg")
    assert "<svg" in (tmp_path / "noise.svg").read_text()


def test_mixed_precision_leaves_the_worst_in_float() -> None:
    model = Loud().eval()
    data = inputs()
    with torch.no_grad():
        exact = torch.cat([model(x) for x in data])

    def score(candidate: nn.Module) -> float:
        """Decibels of the result."""
        with torch.no_grad():
            error = torch.cat([candidate(x) for x in data]) - exact
        power = float(error.double().square().mean())
        return 100.0 if power == 0 else min(100.0, -10 * math.log10(power))

    all_in_8_bits = score(quantize(model, data, progress=False))
    chosen = mixed_precision(model, data, score, 100 - all_in_8_bits - 3, progress=False)
    worst = compare(model, quantize(model, data, progress=False), data).most_sensitive()[0].name
    assert chosen.in_float == [worst]
    assert chosen.after >= all_in_8_bits + 3
    assert mixed_precision(model, data, score, 100.0, progress=False).in_float == []


def test_bad_data_is_one_sentence() -> None:
    model = nn.Linear(16, 4).eval()
    graph = quantize(model, inputs(), progress=False)
    with pytest.raises(OptionError, match="data is empty"):
        compare(model, graph, [])
    with pytest.raises(OptionError, match="no layer in common"):
        compare(nn.Softmax(-1), graph, inputs())
