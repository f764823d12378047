"""Scales behind layers become part of their weights: which, and that the function stays the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("torchao")

from fpga_dynamo.quantize import compare, quantize
from fpga_dynamo.quantize.flow import exported
from fpga_dynamo.quantize.operators import MULTIPLICATIONS
from fpga_dynamo.quantize.scales_of_layers import fold_scales

IMAGE, SIGNAL, ROWS = (2, 4, 6, 5), (2, 4, 9), (2, 7, 4)
Forward = Callable[[Any, Tensor], Tensor]


class Scaled(nn.Module):
    def __init__(self, layer: nn.Module, scale: tuple[int, ...], forward: Forward) -> None:
        super().__init__()
        self.layer, self.scale, self.way = layer, nn.Parameter(torch.empty(scale).uniform_(-2.0, 2.0)), forward

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self, x)


def times(m: Any, x: Tensor) -> Tensor:
    return m.layer(x) * m.scale


FOLDED: dict[str, tuple[nn.Module, tuple[int, ...], Forward, tuple[int, ...]]] = {
    "convolution": (nn.Conv2d(4, 8, 3), (8, 1, 1), times, IMAGE),
    "without a bias": (nn.Conv2d(4, 8, 3, bias=False), (1, 8, 1, 1), times, IMAGE),
    "the scale first": (nn.Conv2d(4, 8, 3), (8, 1, 1), lambda m, x: m.scale * m.layer(x), IMAGE),
    "one number": (nn.Conv2d(4, 8, 3), (1,), times, IMAGE),
    "no dimension": (nn.Linear(4, 8), (), times, ROWS),
    "groups": (nn.Conv2d(4, 8, 3, groups=4), (8, 1, 1), times, IMAGE),
    "signal": (nn.Conv1d(4, 8, 3), (8, 1), times, SIGNAL),
    "transposed convolution": (nn.ConvTranspose2d(4, 8, 2, 2), (8, 1, 1), times, IMAGE),
    "linear": (nn.Linear(4, 8), (8,), times, ROWS),
    "channels moved": (nn.Linear(5, 8), (8, 1, 1), lambda m, x: m.layer(x).permute(0, 3, 1, 2) * m.scale, IMAGE),
    "channels swapped": (nn.Linear(4, 8), (8, 1), lambda m, x: m.layer(x).transpose(1, 2) * m.scale, ROWS),
}
LEFT: dict[str, tuple[nn.Module, tuple[int, ...], Forward, tuple[int, ...]]] = {
    "of pixels": (nn.Conv2d(4, 8, 3), (4, 3), times, IMAGE),
    "of channels and pixels": (nn.Conv2d(4, 8, 3), (8, 4, 1), times, IMAGE),
    "of rows": (nn.Linear(4, 8), (7, 1), times, ROWS),
    "of another axis": (nn.Linear(4, 7), (7, 1), times, ROWS),
    "read twice": (nn.Conv2d(4, 8, 3), (8, 1, 1), lambda m, x: (y := m.layer(x)) * m.scale + y, IMAGE),
    "behind an activation": (nn.Conv2d(4, 8, 3), (8, 1, 1), lambda m, x: torch.relu(m.layer(x)) * m.scale, IMAGE),
    "broadcast": (nn.Linear(4, 1), (8,), times, ROWS),
    "groups of a transposed one": (nn.ConvTranspose2d(4, 8, 2, 2, groups=2), (8, 1, 1), times, IMAGE),
}


def multiplications(graph: torch.fx.GraphModule) -> int:
    return sum(node.target in MULTIPLICATIONS for node in graph.graph.nodes)


@pytest.mark.parametrize("name", [*FOLDED, *LEFT])
def test_a_scale_of_channels_becomes_part_of_the_weights(name: str) -> None:
    torch.manual_seed(0)
    layer, scale, forward, size = (FOLDED | LEFT)[name]
    x = torch.randn(size)
    graph = exported(Scaled(layer, scale, forward).eval().double(), x.double())
    wanted, before = graph(x.double()), len(list(graph.parameters()))
    fold_scales(graph)
    assert multiplications(graph) == (name in LEFT)
    torch.testing.assert_close(graph(x.double()), wanted, rtol=1e-12, atol=1e-12)
    if name in FOLDED:
        assert len(list(graph.parameters())) == before - 1, "those that were scaled are gone"


def test_what_is_kept_is_not_scaled() -> None:
    graph = exported(Scaled(nn.Linear(4, 8), (8,), times).eval(), torch.randn(ROWS))
    fold_scales(graph, [node for node in graph.graph.nodes if node.target in MULTIPLICATIONS])
    assert multiplications(graph) == 1


def test_a_weight_that_another_layer_reads_stays_as_it_is() -> None:
    twice = Scaled(nn.Linear(4, 4), (4,), lambda m, x: m.layer(m.layer(x) * m.scale)).eval().double()
    x = torch.randn(ROWS).double()
    graph = exported(twice, x)
    fold_scales(graph)
    assert multiplications(graph) == 0
    torch.testing.assert_close(graph(x), twice(x), rtol=1e-12, atol=1e-12)


def test_quantised_layers_take_their_scales_in_and_are_compared_with_them() -> None:
    torch.manual_seed(0)
    model = Scaled(nn.Conv2d(4, 8, 3), (8, 1, 1), times).eval()
    data = [torch.randn(IMAGE) for _ in range(2)]
    graph = quantize(model, data, progress=False)
    assert multiplications(graph) == 0
    (layer,) = compare(model, graph, data).layers
    assert layer.own_db > 30 and layer.total_db > 30
    kept = quantize(model, data, progress=False, keep_float=["mul"])
    assert multiplications(kept) == 1
