"""Results made of parameters alone, and new parameters for an exported model: what a module of PyTorch gives."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fpga_dynamo
from tests.deployment.deployment_kit import SmallCnn, assert_same, exported
from tests.deployment.test_damaged_files import mutate
from tests.marks import EXTENDED


class Constants(nn.Module):
    """Results that depend on no input: a buffer, views of it, and what is computed from it."""

    table: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("table", torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        table = self.table
        computed = table[:4] + 3, table[1:3] - 1, table * 2, torch.relu(table), table.sort(-1).values, table.half()
        return self.layer(x) * table[0], table, table[2:], table.t(), torch.var_mean(table, 0)[1], *computed


def test_results_made_of_parameters_alone(tmp_path: Path) -> None:
    """None of them is a view of the buffer at another place, though such arithmetic on positions looks like one."""
    model, x = Constants().eval(), torch.randn(4, 8)
    loaded = exported(model, tmp_path / "model", x)
    assert_same(loaded, model, x)
    other = Constants().eval()
    loaded.load_state_dict(other.state_dict())
    assert_same(loaded, other, x)


class Double(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.relu(x), torch.arange(3, dtype=torch.float64)


def test_a_result_that_no_directory_can_hold(tmp_path: Path) -> None:
    with pytest.raises(fpga_dynamo.ExportError, match="float64, which exported models do not support"):
        fpga_dynamo.export(Double().eval(), (torch.randn(3),), tmp_path / "model")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_entries_of_another_dtype_are_converted_as_a_module_does(dtype: torch.dtype, tmp_path: Path) -> None:
    model, x = Constants().eval(), torch.randn(4, 8)
    loaded = exported(model, tmp_path / "model", x)
    state = Constants().to(dtype).state_dict()
    model.load_state_dict(state)
    loaded.load_state_dict(state)
    assert_same(loaded, model, x)


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("text", "must be a tensor, not str"),
        (torch.zeros(8, 8, device="meta"), "must be a dense tensor, not one on 'meta'"),
        (torch.zeros(8, 8).to_sparse(), "must be a dense tensor, not one on 'cpu' with torch.sparse_coo"),
    ],
)
def test_entries_without_elements(entry: Any, sentence: str, tmp_path: Path) -> None:
    model = Constants().eval()
    loaded = exported(model, tmp_path / "model", torch.randn(4, 8))
    with pytest.raises(ValueError, match=sentence):
        loaded.load_state_dict({**model.state_dict(), "table": entry})


class Mixed(nn.Module):
    """A weight that is computed from a parameter and a tensor that no state_dict has."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))
        self.mask = torch.randn(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.weight * self.mask)


def test_parameters_that_are_combined_with_other_tensors_need_a_new_export(tmp_path: Path) -> None:
    model, x = Mixed().eval(), torch.randn(4, 8)
    loaded = exported(model, tmp_path / "model", x)
    assert_same(loaded, model, x)
    with pytest.raises(ValueError, match="'weight' cannot be replaced"):
        loaded.load_state_dict(Mixed().state_dict())


OPERATORS = ("aten.zero_.default", "aten.from_file.default", "aten.set_.source_Storage", "os.system.x", "aten.t", "t")


@pytest.mark.parametrize("target", OPERATORS)
def test_a_recipe_uses_no_operator_but_those_that_compute(target: str, tmp_path: Path) -> None:
    model, x = SmallCnn().eval(), torch.randn(1, 3, 8, 8)
    loaded = exported(model, tmp_path / "model", x)
    file = tmp_path / "model" / "weights.json"
    about = json.loads(file.read_text())
    about["steps"][0][0] = target
    file.write_text(json.dumps(about))
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(fpga_dynamo.ModelFileError, match=r"weights\.json' is damaged"):
        loaded.load_state_dict(model.state_dict())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert_same(loaded, model, x)


@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=EXTENDED)])
def test_mutated_recipes_are_refused_in_one_sentence(count: int, tmp_path: Path) -> None:
    model = SmallCnn().eval()
    loaded = exported(model, tmp_path / "model", torch.randn(1, 3, 8, 8))
    file = tmp_path / "model" / "weights.json"
    right, draw = json.loads(file.read_text()), random.Random(0)
    for _ in range(count):
        about = copy.deepcopy(right)
        mutate(draw, about)
        file.write_text(json.dumps(about))
        try:
            loaded.load_state_dict(model.state_dict())
        except (ValueError, fpga_dynamo.FpgaError) as error:
            assert "\n" not in str(error), "one sentence"
