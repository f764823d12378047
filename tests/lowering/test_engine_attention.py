"""Fused attention of bfloat16, whose scores stay float32, and causal ones, on the hardware engine's sources."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from fpga_dynamo.codegen.engine.command import Flags, MacCommand
from fpga_dynamo.codegen.engine.timeline import ends
from fpga_dynamo.codegen.engine.vector import VectorCommand, VectorFlags
from fpga_dynamo.frontend.capture import Captured, capture
from fpga_dynamo.tools.estimate import hardware
from fpga_dynamo.tools.estimate.accuracy import errors
from fpga_dynamo.tools.estimate.program import EngineProgram, lower_for_engine
from fpga_dynamo.tools.estimate.simulation import EngineRun, counted
from tests.lowering.test_engine_floats import DTYPES, OF_EAGERS
from tests.lowering.test_engine_floats import lowered as lowered_without
from tests.lowering.test_engine_rows import card, on_both_cards, recipe, relative
from tests.marks import EXTENDED


class Attention(nn.Module):
    """Of queries (1, L, H E) and keys and values (1, S, 2 H E)."""

    def __init__(self, heads: int, **options: Any) -> None:
        super().__init__()
        self.heads, self.options = heads, options

    def forward(self, queries: Tensor, others: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (queries, *others.chunk(2, -1)))
        return scaled_dot_product_attention(q, k, v, **self.options).transpose(1, 2).flatten(2)


class Layer(nn.Module):
    """An encoder's layer with fused attention."""

    def __init__(self, causal: bool = False) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(64, 192), nn.Linear(64, 64), nn.LayerNorm(64)
        self.up, self.down, self.attend = nn.Linear(64, 128), nn.Linear(128, 64), Attention(4, is_causal=causal)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.qkv(x)
        x = self.norm(x + self.out(self.attend(qkv[..., :64], qkv[..., 64:])))
        result: Tensor = x + self.down(torch.relu(self.up(x)))
        return result


def lowered(model: nn.Module, *inputs: Tensor, dtype: str = "bf16") -> tuple[EngineProgram, Captured]:
    captured = capture(model.eval().to(DTYPES[dtype]), tuple(x.to(DTYPES[dtype]) for x in inputs))
    engine = hardware.card("u250", str(recipe(dtype)), dtype).engine
    return lower_for_engine(captured.module, engine, captured.static), captured


def results(model: nn.Module, *inputs: Tensor, dtype: str = "bf16") -> tuple[Tensor, Tensor, Tensor]:
    """The card's, eager mode's and float64's, of one launch."""
    program, captured = lowered(model, *inputs, dtype=dtype)
    assert not program.left and len(program.lists.launches) == 1
    (made,) = EngineRun(program, card(dtype), captured.tensors()).results()
    (eager,) = captured.results
    with torch.no_grad():
        exact = model.double()(*(x.to(DTYPES[dtype]).double() for x in inputs))
    return made, eager, exact


def inputs_of(queries: int, keys: int, width: int, size: float) -> tuple[Tensor, Tensor]:
    return torch.randn(1, queries, width) * size, torch.randn(1, keys, 2 * width)


@pytest.mark.parametrize("size", [1.0, 50.0, *(pytest.param(size, marks=EXTENDED) for size in (0.1, 10.0, 100.0))])
@pytest.mark.parametrize("causal", [False, True])
def test_errors_are_of_the_size_of_eagers_whatever_that_of_the_scores(causal: bool, size: float) -> None:
    """Rounded to bfloat16, scores around 50 alone would make errors 27 times eager mode's."""
    torch.manual_seed(0)
    for queries, keys, heads, width in [(32, 32, 2, 16), (17, 48, 1, 32), (1, 16, 3, 16)]:
        model, given = Attention(heads, is_causal=causal), inputs_of(queries, keys, heads * width, size)
        made, eager, exact = results(model, *given)
        assert relative(made, exact) <= 2 * max(relative(eager, exact), 2**-10), (queries, keys)


class OfInputs(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize("dtype", ["bf16", pytest.param("fp32", marks=EXTENDED)])
def test_heads_that_the_host_writes_may_be_of_several_sequences(dtype: str) -> None:
    torch.manual_seed(0)
    made, eager, exact = results(OfInputs(), *torch.randn(3, 2, 3, 32, 16), dtype=dtype)
    assert relative(made, exact) <= OF_EAGERS[dtype] * relative(eager, exact)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["bf16", pytest.param("fp32", marks=EXTENDED)])
def test_a_layer_is_one_launch_with_eagers_errors(dtype: str, causal: bool) -> None:
    torch.manual_seed(0)
    program, captured = lowered(Layer(causal), torch.randn(1, 32, 64), dtype=dtype)
    (launch,) = program.lists.launches
    assert not program.left
    commands = [emitted.command for emitted in launch]
    (softmax,) = (c for c in commands if isinstance(c, VectorCommand) and c.heads == (1, 4))
    (scores,) = (c for c in commands if isinstance(c, MacCommand) and c.output == softmax.input)
    assert scores.flags == (Flags.WIDE if dtype == "bf16" else Flags.NONE)
    assert (VectorFlags.WIDE in softmax.flags, VectorFlags.CAUSAL in softmax.flags) == (dtype == "bf16", causal)
    found = errors(program, EngineRun(program, card(dtype), captured.tensors()).value, captured.tensors())
    for node, error in found.items():
        assert error.card <= OF_EAGERS[dtype] * error.eager, (node, error)


EXTREMES: dict[str, Callable[[Tensor, Tensor], object]] = {
    "infinite": lambda q, kv: q[0, 3].fill_(torch.inf),
    "no number": lambda q, kv: kv[0, 5, :16].fill_(torch.nan),
    "no number among the values": lambda q, kv: kv[0, 20, 16:].fill_(torch.nan),
    "all alike": lambda q, kv: (q.fill_(3.0), kv.fill_(3.0)),
    "huge": lambda q, kv: q.mul_(1e18),
    "beyond float32": lambda q, kv: (q.mul_(1e30), kv.mul_(1e30)),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_are_as_eagers(name: str, causal: bool) -> None:
    torch.manual_seed(0)
    queries, others = inputs_of(32, 32, 16, 1.0)
    EXTREMES[name](queries, others)
    made, eager, exact = results(Attention(1, is_causal=causal), queries, others)
    finite = torch.isfinite(eager)
    assert torch.equal(made.isnan(), eager.isnan())
    if finite.any():
        unit = 2**-10
        assert relative(made[finite], exact[finite]) <= 2 * max(relative(eager[finite], exact[finite]), unit)


REFUSED: dict[str, tuple[nn.Module, tuple[int, int, int], str]] = {
    "a mask": (
        Attention(1, attn_mask=torch.zeros(16, 16, dtype=torch.bfloat16)),
        (16, 16, 16),
        "an addend to the attention scores is not supported; the engine supports causal masks only",
    ),
    "a mask of bool": (
        Attention(1, attn_mask=torch.ones(16, 16).tril().bool()),
        (16, 16, 16),
        "an addend to the attention scores is not supported; the engine supports causal masks only",
    ),
    "keys": (
        Attention(1),
        (16, 17, 16),
        "matrices have 16 and 17 rows and columns; multiples of 16 are supported",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_has_a_sentence(name: str) -> None:
    model, (queries, keys, width), sentence = REFUSED[name]
    program, _ = lowered(model, *inputs_of(queries, keys, width, 1.0))
    assert sentence in program.left.values()


def test_an_engine_without_the_vector_side_says_so() -> None:
    program, _ = lowered_without(Layer(), "bf16", 1, 16, 64)
    assert "the command needs the vector side, which this engine does not have" in program.left.values()


def test_the_cost_model_knows_how_long_scores_of_float32_take() -> None:
    torch.manual_seed(0)
    for queries, keys, heads, width in [(64, 64, 4, 32), (100, 96, 1, 64)]:
        program, captured = lowered(Attention(heads), *inputs_of(queries, keys, heads * width, 1.0))
        (found,) = counted(program, card(), captured.tensors()).ends
        commands = [emitted.command for emitted in program.lists.launches[0]]
        model = ends(commands, program.engine.sizes, program.engine.memory)
        # The list's first command waits for its plan, of which the model of a single unit has a part.
        for told, lasted in zip(pairwise(model), pairwise(found), strict=True):
            assert abs((told[1] - told[0]) / (lasted[1] - lasted[0]) - 1) < 0.1


@pytest.mark.parametrize("causal", [False, True])
def test_a_compiled_layer_has_the_same_bits_on_both_kinds_of_card(causal: bool) -> None:
    torch.manual_seed(0)
    model, x = Layer(causal).eval().bfloat16(), torch.randn(1, 32, 64).bfloat16()
    assert torch.equal(*on_both_cards(model, x))
