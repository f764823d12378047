"""Models in a workload: modelled seconds by default, measurements that are used again, models of equal structure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from fpga_dynamo.tools.soc.tables import StudyError
from fpga_dynamo.tools.soc.workload import Workload

HERE = "tests.soc.test_models"


def tiny() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return nn.Sequential(nn.Linear(16, 8), nn.ReLU()), (torch.randn(1, 16),)


def model(name: str, **values: object) -> dict[str, object]:
    return {"model": f"{HERE}:tiny", "name": name, **values}


def test_models_of_equal_structure_have_equal_graphs_every_time(tmp_path: Path) -> None:
    first = Workload({"application": [model("x"), model("y")]}, tmp_path)
    again = Workload({"application": [model("x"), model("y")]}, tmp_path)
    x, y = first.applications
    assert x.tasks and x.tasks == y.tasks and first.applications == again.applications
    assert all(basis.startswith(("model", "cycles")) for task in x.tasks for basis in task.basis.values())


def test_measurements_are_kept_in_a_file(tmp_path: Path) -> None:
    described = {"application": [model("x", measure=True)]}
    first = Workload(described, tmp_path).applications
    (path,) = tmp_path.glob("*-layer-zcu102.measured.json")
    assert first[0].tasks[0].basis["x86"].startswith("measured")
    assert Workload(described, tmp_path).applications == first
    kept = json.loads(path.read_text())
    kept["tasks"][0]["shapes"]["inputs"] = []
    path.write_text(json.dumps(kept))
    with pytest.raises(StudyError, match="has measurements of another model than"):
        Workload(described, tmp_path)


def test_what_only_a_model_can_have(tmp_path: Path) -> None:
    row = {"graph": "x.json", "measure": True}
    with pytest.raises(StudyError, match="application 1: measure requires a model, and this is a graph"):
        Workload({"application": [row]}, tmp_path)
