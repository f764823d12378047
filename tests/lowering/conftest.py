"""Every test of lowering starts from a fresh Dynamo and leaves the pattern table as it found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering.patterns import TABLE
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.cards.card import open_card
from tests.lowering import engine_kit


@pytest.fixture(scope="session", autouse=True)
def one_thread_for_eager() -> Iterator[None]:
    """The tensors are small: waking threads for them takes longer than the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    before = TABLE.names()
    yield
    assert TABLE.names() == before, "the test took out the patterns that it registered"


@pytest.fixture(scope="module", autouse=True)
def small_engine_of_a_module() -> None:
    """The tests of a module before this one may have loaded another engine onto the card."""
    engine_kit.card.cache_clear()


@pytest.fixture(scope="session")
def target() -> Target:
    """What lowering knows of the default recipe's card."""
    return open_card(Options()).target
