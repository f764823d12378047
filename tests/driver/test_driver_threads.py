"""Many threads at once, and that waiting leaves the interpreter to others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fpga_dynamo.runtime.drivers import emulated as xrt
from tests.driver.card_kit import DIVIDE, HANG, SLEEP, Card

State = xrt.ert_cmd_state
THREADS = 8


def test_eight_threads(card: Card) -> None:
    def work(seed: int) -> int:
        rng = np.random.default_rng(seed)
        completed = 0
        for round_ in range(25):
            n = int(rng.integers(1, 5000))
            x, y = rng.random(n, np.float32), rng.random(n, np.float32)
            a, b, out = card.array(x), card.array(y), card.array(np.full(n, np.nan, np.float32))
            run = xrt.run(card.kernel("vadd"))
            arguments: tuple[xrt.bo | int, ...] = (a, b, out, n)
            for index, value in enumerate(arguments):
                run.set_arg(index, value)
            if round_ % 2:
                run.start()
                state = run.wait(60000)
            else:
                state = run.execute(60000)
            assert state == State.ERT_CMD_STATE_COMPLETED, run.error
            np.testing.assert_array_equal(card.fetch(out, np.float32), x + y)
            if round_ % 8 == seed:
                bad, _ = card.misbehaving([DIVIDE, HANG][seed % 2])
                assert bad.execute(300) in (State.ERT_CMD_STATE_ERROR, State.ERT_CMD_STATE_TIMEOUT)
            completed += 1
        return completed

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(work, range(THREADS))) == [25] * THREADS


def test_threads_with_slices_on_two_units(card: Card) -> None:
    def work(group: int) -> None:
        values = np.arange(512, dtype=np.uint32)
        for _ in range(20):
            data = card.bo(2048, xrt.bo.normal, group)
            data.write(values, 0)
            data.sync(xrt.XCL_BO_SYNC_BO_TO_DEVICE)
            assert card.kernel("steps")(data, 256, 40, 12).wait(60000) == State.ERT_CMD_STATE_COMPLETED
            first, second = values[:256].copy(), values[256:].copy()
            for step in range(40):
                source, target = (second, first) if step % 2 else (first, second)
                target[:] = 2 * np.roll(source, -129) + 1
            np.testing.assert_array_equal(card.fetch(data, np.uint32), np.concatenate([first, second]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [0, 1, 0, 1]))


def wait(run: xrt.run) -> None:
    run.start()
    run.wait()


@pytest.mark.parametrize("use", [wait, lambda run: run.execute()])
def test_waiting_leaves_the_interpreter_to_others(card: Card, use: Callable[[xrt.run], object]) -> None:
    run, _ = card.misbehaving(SLEEP, ms=300)
    run.start()
    run.wait()
    counted = 0
    thread = threading.Thread(target=use, args=(run,))
    thread.start()
    while thread.is_alive():
        counted += 1
        time.sleep(0.001)
    assert counted > 5, "the wait held the GIL"


def test_one_run_object_started_by_many(card: Card) -> None:
    run, _ = card.misbehaving(0)
    refused = 0

    def work(_: int) -> int:
        failures = 0
        for _round in range(50):
            try:
                run.execute()
            except RuntimeError as error:
                assert "under way already" in str(error)
                failures += 1
        return failures

    with ThreadPoolExecutor(THREADS) as pool:
        refused = sum(pool.map(work, range(THREADS)))
    assert refused < 50 * THREADS
    card.check_works()


def test_callback_may_start_the_next_run(card: Card) -> None:
    run, _ = card.misbehaving(0)
    rounds = threading.Semaphore(0)
    left = [20]

    def again(*_: object) -> None:
        rounds.release()
        left[0] -= 1
        if left[0]:
            run.start()

    run.add_callback(State.ERT_CMD_STATE_COMPLETED, again)
    run.start()
    for _ in range(20):
        assert rounds.acquire(timeout=10)
    run.wait(10000)


def test_a_kernel_has_the_stack_that_it_needs_on_any_thread(card: Card) -> None:
    """Its local arrays are larger than the stacks of the caller and of threads made by default."""
    out = card.array(np.zeros(6, np.int32))
    run = xrt.run(card.kernel("deep"))
    run.set_arg(0, out)
    states = []
    before = threading.stack_size(512 << 10)
    try:
        caller = threading.Thread(target=lambda: states.append(run.execute(60000)))
        caller.start()
    finally:
        threading.stack_size(before)
    caller.join()
    assert states == [State.ERT_CMD_STATE_COMPLETED], run.error
    np.testing.assert_array_equal(card.fetch(out, np.int32), np.arange(6) + 1)
