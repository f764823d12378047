"""Vector norms and root mean squares of int8 rows on the hardware engine: one launch, and the bits of eager mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from fpga_dynamo.codegen.engine.vector import VectorCommand, VectorFlags
from fpga_dynamo.tools.estimate.program import EngineProgram
from tests.lowering.engine_kit import assert_one_exact_launch
from tests.marks import EXTENDED


class Attention(nn.Module):
    """Attention by cosines: of queries and keys, or of their channels (`cross`, as in XCiT and EdgeNeXt)."""

    def __init__(self, heads: int, size: int, *, cross: bool = False) -> None:
        super().__init__()
        self.heads, self.cross = heads, cross
        self.split, self.project = nn.Linear(heads * size, 3 * heads * size), nn.Linear(heads * size, 24)
        self.temperature = nn.Parameter(torch.rand(heads, 1, 1) + 2)

    def forward(self, x: Tensor) -> Tensor:
        sequences, length, channels = x.shape
        order = (2, 0, 3, 4, 1) if self.cross else (2, 0, 3, 1, 4)
        parts = self.split(x).reshape(sequences, length, 3, self.heads, channels // self.heads)
        q, k, v = parts.permute(order).unbind(0)
        scores = normalize(q, dim=-1) @ normalize(k, dim=-1).transpose(-2, -1) * self.temperature
        mixed = scores.softmax(-1) @ v
        rows = mixed.permute(0, 3, 1, 2) if self.cross else mixed.transpose(1, 2)
        result: Tensor = self.project(rows.reshape(sequences, length, channels))
        return result


class Rows(nn.Module):
    """A root mean square norm between two layers. written: as models without the operator have it."""

    def __init__(self, *, written: bool = False, affine: bool = True) -> None:
        super().__init__()
        self.first, self.last, self.written = nn.Linear(24, 40), nn.Linear(40, 16), written
        self.norm = nn.RMSNorm(40, eps=1e-3, elementwise_affine=affine)
        if affine:
            nn.init.uniform_(self.norm.weight, 0.5, 1.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        result: Tensor = self.last(normalize(x, dim=-1) if self.written else self.norm(x))
        return result


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "cosines": (lambda: Attention(2, 32), (1, 10, 64)),
    "cosines of three sequences": (lambda: Attention(3, 24), (3, 10, 72)),
    "cosines of channels": (lambda: Attention(2, 32, cross=True), (1, 10, 64)),
    "cosines of channels of two sequences": (lambda: Attention(4, 16, cross=True), (2, 19, 64)),
    "rows by their vector norm": (lambda: Rows(written=True), (2, 9, 24)),
    "root mean square": (Rows, (2, 9, 24)),
    "root mean square without a scale": (lambda: Rows(affine=False), (1, 9, 24)),
}
ALWAYS = ("cosines of channels", "root mean square")


def uncentered(program: EngineProgram) -> int:
    """Commands that normalise rows without their mean."""
    commands = (emitted.command for launch in program.lists.launches for emitted in launch)
    return sum(isinstance(c, VectorCommand) and VectorFlags.UNCENTERED in c.flags for c in commands)


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in ALWAYS else EXTENDED) for n in CASES])
def test_one_launch_with_the_bits_of_eager(name: str) -> None:
    torch.manual_seed(4)
    make, size = CASES[name]
    program = assert_one_exact_launch(make(), torch.randn(size))
    assert uncentered(program) == (2 if name.startswith("cosines") else 1)
