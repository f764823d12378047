"""Tutorials as notebooks: all that runs on a page is a cell, and all cells run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import rich.console
import torch

import fpga_dynamo
from fpga_dynamo.quantize.compare import Comparison, LayerNoise
from tests.doc_blocks import ROOT, TUTORIALS, blocks_of
from tests.marks import EXTENDED
from tests.notebooks import main, notebook


def sources(page: Path, kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in notebook(page)["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_page_and_its_notebook_have_the_same_examples(page: Path) -> None:
    found = sources(page, "code")
    wanted = [block for block in blocks_of(page) if block.runs or block.value("write")]
    assert len(found) == len(wanted) > 3
    for source, block in zip(found, wanted, strict=True):
        for line in block.text.splitlines():
            assert line.removeprefix("$ ") in source, block


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_notebook_has_the_text_of_the_page_and_no_outputs(page: Path) -> None:
    text = "\n".join(sources(page, "markdown"))
    headings = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    shown = [line for line in text.splitlines() if line.startswith("#")]
    assert shown == [line for line in headings if line in shown] and len(shown) > 4
    assert "](.." not in text, "a link that leads nowhere from a notebook"
    assert "text output" not in text
    cells = notebook(page)["cells"]
    assert all(not cell["outputs"] for cell in cells if cell["cell_type"] == "code")
    assert len({cell["id"] for cell in cells}) == len(cells)


def test_three_tutorials_or_more_are_notebooks(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    written = sorted(tmp_path.glob("*.ipynb"))
    assert len(written) == len(TUTORIALS) >= 3
    assert all(json.loads(path.read_text(encoding="utf-8"))["nbformat"] == 4 for path in written)


@pytest.mark.parametrize("page", [pytest.param(page, marks=EXTENDED, id=page.stem) for page in TUTORIALS])
def test_the_cells_of_a_notebook_run(page: Path, tmp_path: Path) -> None:
    main([str(tmp_path / "notebooks")])
    folder = tmp_path / "run"
    folder.mkdir()
    paths = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    command = [sys.executable, "-m", "tests.notebooks", "--run", str(tmp_path / f"notebooks/{page.stem}.ipynb")]
    done = subprocess.run(command, cwd=folder, env=os.environ | paths, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_a_cell_that_fails_is_an_error(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "id": "a", "source": ["%%bash\n", "set -e\n", "false\n", "true"]}
    broken = tmp_path / "broken.ipynb"
    broken.write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError):
        main(["--run", str(broken)])


def test_reports_are_text_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    # Within Jupyter rich shows what is printed instead of writing it to the console's file; kernels force colors, too.
    explained = fpga_dynamo.explain(torch.nn.Linear(8, 8).eval(), torch.randn(2, 8))
    compared = Comparison([LayerNoise("conv2d", "convolution", 40.0, 40.0, 1, 30.0, True)], 40.0, 1.0)
    texts = [str(explained), str(compared)]
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert [str(explained), str(compared)] == texts
    assert "addmm" in texts[0] and "conv2d" in texts[1]
