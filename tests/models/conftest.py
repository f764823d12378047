"""The offload table: each slow model test leaves a row, the end of the session writes them as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from offload_table import OffloadTable


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--offload-table", type=Path, metavar="FILE", help="write the models' offload table there")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: whole networks at full resolution (make models)")


@pytest.fixture(scope="session")
def offload_table(pytestconfig: pytest.Config) -> Iterator[OffloadTable]:
    table = OffloadTable()
    yield table
    path = pytestconfig.getoption("--offload-table", default=None)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(table.markdown(), encoding="utf-8")
