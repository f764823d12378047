"""What the import of fpga_dynamo.quantize says of a torchao that is missing, or that does not fit."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fpga_dynamo import FpgaError

pytest.importorskip("torchao")
import fpga_dynamo.quantize

BROKEN = {
    "a name that torch does not have": "from torch.utils import a_name_of_a_later_version",
    "a module that torch does not have": "import torch.a_module_of_a_later_version",
    "an attribute that torch does not have": "import torch; torch.an_attribute_of_a_later_version",
    "another package that is missing": "import a_package_that_is_not_installed",
    "a library that does not load": "raise OSError('undefined symbol')",
    "no PT2E flow": "",
}


@pytest.fixture
def without_torchao(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In this test torchao has not been imported yet; what the test imports in its place is forgotten."""

    def imported() -> list[str]:
        return [name for name in sys.modules if name.split(".")[0] == "torchao"]

    for name in imported():
        monkeypatch.delitem(sys.modules, name)
    yield
    for name in imported():
        del sys.modules[name]


def test_a_torchao_that_is_not_installed(without_torchao: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchao", None)  # an import of it is refused
    with pytest.raises(FpgaError, match=r"torchao, which is not installed: pip install"):
        importlib.reload(fpga_dynamo.quantize)


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN)
def test_a_torchao_that_cannot_be_imported(
    source: str, without_torchao: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchao").mkdir()
    (tmp_path / "torchao" / "__init__.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FpgaError, match=r"is installed .* but cannot be imported with torch") as refused:
        importlib.reload(fpga_dynamo.quantize)
    cause = refused.value.__cause__
    assert cause is not None and str(cause) in str(refused.value) and torch.__version__ in str(refused.value)
