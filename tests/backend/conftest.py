"""Every test of the backend starts from a fresh Dynamo. Cards beyond the first are for tests that break or swap one."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import xclbin_build
from tests.backend.backend_kit import mlp, on_card

CARDS = 6


@pytest.fixture(scope="session", autouse=True)
def one_thread_for_eager() -> Iterator[None]:
    """The tensors are small: waking threads for them takes longer than the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session", autouse=True)
def quick_collections() -> Iterator[None]:
    """Many tests collect garbage, which takes a third of a second with all that PyTorch has imported."""
    on_card(mlp(4, 2))(torch.randn(2, 4))  # imports what Dynamo imports late
    torch._dynamo.reset()
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No compiled code, and random numbers that are the same in every run."""
    monkeypatch.setenv("FPGA_DYNAMO_EMULATED_CARDS", str(CARDS))
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield


@pytest.fixture(scope="session")
def faulty_xclbin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the core that goes wrong, see fault_ops.py."""
    recipe = Path(__file__).parent / "data" / "faulty.toml"
    return xclbin_build.build(recipe=recipe, output=tmp_path_factory.mktemp("faulty") / "faulty.xclbin")
