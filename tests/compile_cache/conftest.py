"""The cache in a folder of the test's own, with the xclbin that is built already."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import fpga_dynamo
from fpga_dynamo import Options
from fpga_dynamo.cache import store
from fpga_dynamo.runtime.cards.card import xclbin_path


@pytest.fixture(scope="session")
def xclbin() -> str:
    return str(xclbin_path(Options()))


@pytest.fixture(autouse=True)
def cache(xclbin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the entries; counters are at zero."""
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path))
    monkeypatch.setenv(store.LIMIT_VARIABLE, "64")
    torch._dynamo.reset()
    torch.manual_seed(0)
    fpga_dynamo.reset_stats()
    yield store.directory()
    torch._dynamo.reset()
