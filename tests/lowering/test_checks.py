"""Checks that torch.export writes into graphs keep nothing on the host; those that fail or cannot be decided stay."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import fpga_dynamo
from fpga_dynamo.lowering.passes.rewrite.checks import drop_checks
from fpga_dynamo.testing.reference import assert_close_to_eager

aten = torch.ops.aten
CPU = torch.device("cpu")


class Positions(nn.Module):
    """Positions, a mask and a rotary table, as exported transformers make them in each call."""

    frequencies: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 32)
        self.register_buffer("frequencies", torch.logspace(0, -2, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[1])
        angles = positions[:, None].float() * self.frequencies
        mask = (positions[None] > positions[:, None]).to(x.dtype) * -1e4
        rotated = self.layer(x) * torch.cat((angles.cos(), angles.sin()), -1)
        return (rotated @ rotated.mT + mask).softmax(-1)


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_exported_model_is_one_launch_without_a_host_node(dynamic: bool) -> None:
    model, x = Positions().eval(), torch.randn(2, 24, 32)
    sizes = {"x": {1: torch.export.Dim("length", min=2, max=64)}} if dynamic else None
    exported = torch.export.export(model, (x,), dynamic_shapes=sizes).module()
    assert "_assert_tensor_metadata" in exported.code
    with torch.no_grad():
        explained = fpga_dynamo.explain(exported, x)
        mine, theirs = torch.compile(exported, backend="fpga")(x), exported(x)
        exact = model.double()(x.double())
    assert explained.pl_launches == 1
    assert [node.op for graph in explained.graphs for node in graph.nodes if node.place == "PS"] == []
    assert_close_to_eager((mine,), (theirs,), (exact,), 4.0)


HELD: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "dtype": ((), {"dtype": torch.float32}),
    "all": (([2, 3], [3, 1], torch.float32), {"device": CPU, "layout": torch.strided}),
    "nothing": ((), {}),
}
FAILING: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "dtype": ((), {"dtype": torch.int64}),
    "size": (([3, 2],), {}),
    "stride": ((None, [1, 2]), {}),
    "device": ((), {"device": torch.device("meta")}),
    "layout": ((), {"layout": torch.sparse_coo}),
}


def targets_after(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The operators of a graph with such a check, after the pass."""
    module = make_fx(lambda x: x + 1, tracing_mode="fake")(torch.ones(2, 3))
    x = next(iter(module.graph.nodes))
    with module.graph.inserting_after(x):
        module.graph.call_function(aten._assert_tensor_metadata.default, (x, *args), kwargs)
    drop_checks(module)
    return [node.target for node in module.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("name", HELD)
def test_what_holds_is_dropped(name: str) -> None:
    assert targets_after(*HELD[name]) == [aten.add.Tensor]


@pytest.mark.parametrize("name", FAILING)
def test_what_fails_stays_for_eager_mode_to_raise(name: str) -> None:
    assert targets_after(*FAILING[name]) == [aten._assert_tensor_metadata.default, aten.add.Tensor]


@pytest.mark.parametrize("number, dropped", [(5, True), (2, False), (9, False)])
def test_ranges_of_constants(number: int, dropped: bool) -> None:
    module = make_fx(lambda x: x + 1, tracing_mode="fake")(torch.ones(2, 3))
    with module.graph.inserting_before(next(iter(module.graph.nodes)).next):
        module.graph.call_function(aten.sym_constrain_range.default, (number,), {"min": 3, "max": 8})
        module.graph.call_function(aten._assert_scalar.default, (True, "always"))
        module.graph.call_function(aten._assert_scalar.default, (False, "never"))
    drop_checks(module)
    left = [node.target for node in module.graph.nodes if node.op == "call_function"]
    assert left == [aten.sym_constrain_range.default] * (not dropped) + [aten._assert_scalar.default, aten.add.Tensor]
