"""One small model of each family of transformers: answers, and gradients of all parameters, as exact as eager mode's.

`make transformers` installs the library and prints a line for each; without it nothing here runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import fpga_dynamo
from fpga_dynamo.testing.calls import check_against_eager
from tests.models.families import FAMILIES

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"partition": "greedy"}
"""So small as they are, the cost model would leave models to eager."""


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Positional(torch.nn.Module):
    """A model that takes its inputs in order and gives the tensors of its answer."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        answer = self.model(**dict(zip(self.names, inputs, strict=True)))
        return [leaf for leaf in tree_leaves(answer) if isinstance(leaf, torch.Tensor)]


CASES = [
    (name, backward)
    for name, family in FAMILIES.items()
    for backward in (False, True)
    if not (backward and family.without_gradients)
]


@pytest.mark.parametrize(
    ("name", "backward"), CASES, ids=[f"{name}, {'gradients' if backward else 'answers'}" for name, backward in CASES]
)
def test_as_exact_as_eager(name: str, backward: bool, library: Any) -> None:
    family = FAMILIES[name]
    model = Positional(family.make(library), tuple(family.inputs()))

    def make_inputs(seed: int) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(seed)
        return tuple(family.inputs().values())

    with torch.no_grad():
        model(*make_inputs(0))  # some keep what they compute at their first call
    before = fpga_dynamo.stats()
    check_against_eager(model, make_inputs, options=OPTIONS, calls=1, backward=backward)
    after = fpga_dynamo.stats()
    ran = {key: round(after[key] - before[key]) for key in ("pl_launches", "ps_nodes", "ps_fallbacks")}
    assert ran["pl_launches"] >= 1 and ran["ps_fallbacks"] == 0
    what = "gradients" if backward else "answers"
    print(f"{name}, {what}: launches {ran['pl_launches']}, nodes on the PS {ran['ps_nodes']}")
