"""PyTorch's threads as lanes of an emulator, as they spin behind an operator of eager."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from fpga_dynamo._native import borrowed_runs
from fpga_dynamo.runtime.drivers import emulated as xrt
from tests.driver.card_kit import HANG, Card
from tests.driver.test_driver_faults import CRASHES, KERNEL
from tests.driver.test_driver_runs import expected_steps

COMPLETED = xrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED
PATIENCE = 60.0  # seconds: a thread that a busy machine has just stopped is not borrowed
FACTOR = torch.randn(384, 384)
PRODUCT = FACTOR @ FACTOR

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2 or os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive",
        reason="one CPU, or threads that do not spin",
    ),
]


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def two_lanes(pack: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Card:
    monkeypatch.setenv("FPGA_DYNAMO_LANES", "2")
    return Card(10, pack(platform="two lanes"))


def until_borrowed(run: Callable[[], None]) -> None:
    """Calls `run` behind an operator of eager until it has had borrowed threads."""
    before, end = borrowed_runs(), time.monotonic() + PATIENCE
    while borrowed_runs() == before:
        assert time.monotonic() < end, "no thread was borrowed behind an operator of eager"
        torch.mm(FACTOR, FACTOR)
        run()


def test_a_run_behind_an_operator_of_eager_takes_its_threads(two_lanes: Card) -> None:
    values = np.arange(2000, dtype=np.uint32)

    def steps() -> None:
        data = two_lanes.array(values)
        run = xrt.run(two_lanes.kernel("steps"))
        arguments: tuple[xrt.bo | int, ...] = (data, 1000, 99, 28)
        for index, value in enumerate(arguments):
            run.set_arg(index, value)
        assert run.execute(60000) == COMPLETED
        np.testing.assert_array_equal(two_lanes.fetch(data, np.uint32), expected_steps(values, 99))

    until_borrowed(steps)
    for count in (1, 2, 1, 2):
        torch.set_num_threads(count)  # ends the threads that were known
        steps()
    until_borrowed(steps)


@pytest.mark.parametrize(("what", "message"), CRASHES)
def test_a_crash_in_a_borrowed_thread_is_an_error_of_the_run(two_lanes: Card, what: int, message: str) -> None:
    def crash() -> None:
        run, _ = two_lanes.misbehaving(what, step=1)
        assert run.execute(10000) == xrt.ert_cmd_state.ERT_CMD_STATE_ERROR
        assert re.fullmatch(KERNEL + message, run.error), run.error

    until_borrowed(crash)
    until_borrowed(two_lanes.check_works)
    torch.testing.assert_close(torch.mm(FACTOR, FACTOR), PRODUCT)  # its threads are whole


def test_a_time_out_ends_a_borrowed_thread(two_lanes: Card) -> None:
    def hang() -> None:
        run, _ = two_lanes.misbehaving(HANG, step=1)
        assert run.execute(50) == xrt.ert_cmd_state.ERT_CMD_STATE_TIMEOUT

    until_borrowed(hang)
    until_borrowed(two_lanes.check_works)


def test_other_threads_of_a_program_borrow_none(two_lanes: Card) -> None:
    """One that calls no operators of its own has no team; a team for each would be too many threads."""
    before = borrowed_runs()

    def many() -> None:
        for _ in range(50):
            torch.mm(FACTOR, FACTOR)
            two_lanes.check_works()

    thread = threading.Thread(target=many)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert borrowed_runs() == before
