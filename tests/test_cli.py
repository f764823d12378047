"""The command fpga-dynamo: what it says of models that it cannot run, and what it shows of one that it can."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fpga_dynamo.tools.cli import main
from fpga_dynamo.tools.zoo import load, resolve

MODELS = """
import torch
from torch import nn

number = 3
class Nested:
    @staticmethod
    def make():
        return nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), (torch.randn(2, 4),)
def raising():
    raise ValueError("no weights\\nhere")
def a_string():
    return "model"
def alone():
    return nn.Linear(4, 4)
def a_tensor():
    return nn.Conv2d(2, 4, 3), torch.randn(1, 2, 8, 8)
def a_number():
    return nn.Linear(4, 4), 4
class Asking(nn.Module):
    def example_inputs(self, batch):
        return [torch.zeros(batch, self.missing)]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with modules that models come from."""
    (tmp_path / "cli_models.py").write_text(MODELS)
    (tmp_path / "cli_broken.py").write_text("import a_package_that_is_nowhere\n")
    (tmp_path / "cli_syntax.py").write_text("def f(:\n")
    (tmp_path / "cli_dividing.py").write_text("x = 1\ny = x / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


@pytest.mark.parametrize(
    ("model", "sentence"),
    {
        "cli_nowhere:make": "cannot import 'cli_nowhere' for 'cli_nowhere:make': No module named 'cli_nowhere'",
        "elsewhere/nowhere.py:make": "cannot import 'elsewhere/nowhere.py' for 'elsewhere/nowhere.py:make': "
        "the file does not exist",
        "./cli_dividing.py:make": "ZeroDivisionError: division by zero (cli_dividing.py:2)",
        "cli_broken:make": "cannot import 'cli_broken' for 'cli_broken:make': "
        "No module named 'a_package_that_is_nowhere'",
        "cli_syntax:make": "cannot import 'cli_syntax' for 'cli_syntax:make': SyntaxError: ",
        "cli_dividing:make": "ZeroDivisionError: division by zero (cli_dividing.py:2)",
        "cli_models:alon": "module 'cli_models' has no 'alon'; did you mean 'alone'?",
        "cli_models:": "'cli_models:' is not module:callable",
        "cli_models:number": "'cli_models:number' is a int, not a callable that returns a model",
        "cli_models:raising": "'cli_models:raising': raising() raised ValueError: no weights here (cli_models.py:11)",
        "cli_models:a_string": "'cli_models:a_string' returns a str, not a module or (module, inputs)",
        "cli_models:a_number": "'cli_models:a_number' returns inputs of type int, not a tensor or a tuple",
        "cli_models:alone": "'cli_models:alone' returns a module without inputs",
        "cli_models:Asking": "'cli_models:Asking': example_inputs() raised AttributeError: ",
    }.items(),
)
def test_a_model_that_cannot_be_made_gets_a_sentence(
    model: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", model]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("fpga-dynamo: ") and sentence in err, err
    assert len(err.splitlines()) == 1 and "Traceback" not in err


def test_a_tensor_beside_a_model_is_one_input_and_not_its_rows() -> None:
    found = load("cli_models:a_tensor", batch=3)
    assert [tuple(x.shape) for x in found.inputs] == [(3, 2, 8, 8)]


@pytest.mark.parametrize("where", ["relative", "absolute"])
def test_a_model_in_a_file_of_any_folder(folder: Path, where: str) -> None:
    """It may import what lies beside it, and its name may be a module's that is known."""
    (folder / "deep").mkdir()
    (folder / "deep" / "cli_size.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Size:\n    n: int = 7\nSIZE = Size().n\n"
    )
    (folder / "deep" / "json.py").write_text(
        "import torch\nfrom cli_size import SIZE\n"
        "def make():\n    return torch.nn.Linear(SIZE, 2), torch.randn(1, SIZE)\n"
    )
    path = "deep/json.py" if where == "relative" else str(folder / "deep" / "json.py")
    assert resolve("deep/cli_size.py:SIZE") == 7
    assert load(f"{path}:make").inputs[0].shape == (1, 7)
    assert hasattr(sys.modules["json"], "loads")


@pytest.mark.parametrize("by", ["node", "op", "module", "reason"])
def test_run_explains_in_rows_of_any_kind(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [] if by == "node" else ["--by", by]
    assert main(["run", "cli_models:Nested.make", "--explain", *rows, "--options", "partition=greedy"]) == 0
    shown = capsys.readouterr().out
    assert {"node": "addmm  ", "op": "aten.addmm.default", "module": "0 ", "reason": "sequencer: matmul"}[by] in shown
    assert "node offload 100.0%" in shown and any(line.split()[:1] == [by] for line in shown.splitlines())
