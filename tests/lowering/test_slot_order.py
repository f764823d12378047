"""Results of launches whose strides in eager mode have gaps: what eager mode makes of them is in the same order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

Function = Callable[[torch.Tensor], torch.Tensor]


def _changed_in_place(x: torch.Tensor) -> torch.Tensor:
    piece = x.unsqueeze(0).transpose(0, -1)[1:]
    piece.relu_()
    return piece.squeeze(-1)


FUNCTIONS: dict[str, Function] = {
    "slice_scatter": lambda x: torch.slice_scatter(x.mT, torch.ones(2, 4), 0, 0, 2),
    "select_scatter": lambda x: torch.select_scatter(x.mT, torch.ones(4), 0, 3),
    "in place": _changed_in_place,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_operator_on_the_host_gives_its_result_in_eager_s_order(name: str, dynamic: bool) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        value = FUNCTIONS[name](x)
        return torch.atan2(value, torch.arange(1.0, 1 + value.shape[1]))

    x = torch.randn(4, 16)[:, ::2]
    torch.compiler.reset()
    compiled = torch.compile(model, backend="fpga", options={"partition": "greedy"}, dynamic=dynamic)
    for _ in range(2):
        result, expected = compiled(x), model(x)
        torch.testing.assert_close(result, expected)
        assert dynamic or result.stride() == expected.stride()
