"""Images of one channel or one pixel: a convolution's answer lies as in eager, whatever came before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import symbolic_trace

from fpga_dynamo.lowering.ambiguous import settle_strides
from fpga_dynamo.testing.reference import assert_close_to_eager

GREEDY = {"partition": "greedy"}
SHAPES = {"channel": (3, 1, 5, 6), "pixel": (3, 4, 1, 1)}

BEFORE: dict[str, Callable[[Tensor], Tensor]] = {
    "nothing": lambda x: x,
    "relu": torch.relu,
    "relu and a number": lambda x: torch.relu(x) * 2,
    "number": lambda x: x * 2,
    "two numbers": lambda x: (x * 2) * (x * 3),
    "itself": lambda x: x + x,
    "where": lambda x: torch.where(x > 0, x, 0.5),
    "mask": lambda x: x.masked_fill(x > 0, 0.5),
    "slice": lambda x: torch.sigmoid(x[1:]),
    "transposition": lambda x: torch.relu(x.transpose(2, 3)),
    "type": lambda x: (-x.double()).to(x.dtype),
    "copy": lambda x: x.clone(),
    "row-major copy": lambda x: torch.relu(x.contiguous()),
    "batch norm": lambda x: F.batch_norm(x, x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "group norm": lambda x: F.group_norm(x, 1),
    "softmax": lambda x: x.softmax(1),
    "triangle": torch.tril,
    "pooling": lambda x: F.max_pool2d(torch.relu(x), 1),
    "nearest": lambda x: F.interpolate(x, scale_factor=2.0),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
    "concatenation": lambda x: torch.cat([torch.relu(x), x], 1),
}


class Convolved(nn.Module):
    def __init__(self, before: Callable[[Tensor], Tensor], channels: int) -> None:
        super().__init__()
        self.before = before
        self.conv = nn.Conv2d(channels, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.before(x))


def _step(model: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """The answer, and the gradient of the input."""
    given = x.detach().clone().requires_grad_()
    answer = model(given)
    answer.tanh().sum().backward()
    return answer, given.grad  # type: ignore[return-value]


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", BEFORE)
def test_convolutions_answer_as_in_eager(name: str, shape: str, dynamic: bool) -> None:
    x = torch.randn(SHAPES[shape]).to(memory_format=torch.channels_last)
    model = Convolved(BEFORE[name], BEFORE[name](x).shape[1])
    compiled = torch.compile(model, backend="fpga", dynamic=dynamic, options=GREEDY)
    exact = Convolved(BEFORE[name], model.conv.in_channels).double()
    exact.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert_close_to_eager(compiled(x), model(x), exact(x.double()))
    assert_close_to_eager(_step(compiled, x), _step(model, x), _step(exact, x.double()))


def test_other_sizes_are_asked_anew() -> None:
    model = Convolved(lambda x: torch.relu(x) * 2, 1)
    compiled = torch.compile(model, backend="fpga", dynamic=True, options=GREEDY)
    with torch.no_grad():
        for shape in ((3, 1, 5, 6), (2, 1, 4, 9), (1, 1, 5, 6), (2, 1, 1, 7)):
            x = torch.randn(shape).to(memory_format=torch.channels_last)
            assert compiled(x).stride() == model(x).stride()


def test_what_is_not_ambiguous_is_left_alone() -> None:
    module = symbolic_trace(lambda x: torch.ops.aten.relu.default(x))
    with torch._subclasses.FakeTensorMode():
        for node in module.graph.nodes:
            node.meta["val"] = torch.empty(2, 3, 4, 5, memory_format=torch.channels_last)
    before = [node.meta["val"] for node in module.graph.nodes]
    assert settle_strides(module) == set()
    assert all(node.meta["val"] is val for node, val in zip(module.graph.nodes, before, strict=True))
