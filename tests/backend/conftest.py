"""Every test of the backend starts from a fresh Dynamo. Cards beyond the first are for tests that break or swap one."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
import torch

CARDS = 6
os.environ.setdefault("FPGA_DYNAMO_EMULATED_CARDS", str(CARDS))


@pytest.fixture(scope="session", autouse=True)
def one_thread_for_eager() -> Iterator[None]:
    """The tensors are small: waking threads for them takes longer than the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No compiled code, no weights on the card, and random numbers that are the same in every run."""
    monkeypatch.setenv("FPGA_DYNAMO_EMULATED_CARDS", str(CARDS))
    torch._dynamo.reset()
    gc.collect()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
