"""The offload table, of which each slow model test leaves a row and the end of the session writes Markdown; and the
library of transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fpga_dynamo.tools.zoo import import_torchvision
from tests.models.offload_table import OffloadTable


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--offload-table", type=Path, metavar="FILE", help="write the models' offload table there")


@pytest.fixture(scope="session")
def offload_table(pytestconfig: pytest.Config) -> Iterator[OffloadTable]:
    table = OffloadTable()
    yield table
    path = pytestconfig.getoption("--offload-table", default=None)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(table.markdown(), encoding="utf-8")


@pytest.fixture(scope="module")
def library() -> Any:
    import_torchvision()  # which transformers imports too, and which may lack its native part
    return pytest.importorskip("transformers", reason="make transformers installs it")
