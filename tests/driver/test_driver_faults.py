"""Kernels that crash or never end: the run fails with a sentence, the process and the compute unit live on."""

from __future__ import annotations

import re
import threading
import time

import numpy as np
import pytest

from fpga_dynamo.runtime.drivers import emulated as xrt
from tests.driver.card_kit import (
    ABORT,
    CRASH_IN_HANDLER,
    DIVIDE,
    EXIT,
    EXIT_IN_END,
    HANG,
    HANG_IN_END,
    LOOK_FOR_EXCEPTIONS,
    OVERFLOW_STACK,
    OVERRUN,
    SEGFAULT,
    STATUS,
    TERMINATE_IN_UNWINDING,
    THROW,
    THROW_IN_ALL,
    THROW_IN_BEGIN,
    THROW_IN_END,
    THROW_IN_SLICES,
    Card,
    until_running,
)

State = xrt.ert_cmd_state
KERNEL = r"kernel 'misbehave' \(compute unit misbehave_1\) "
CRASHES = [
    (SEGFAULT, "crashed: segmentation fault at 0x10 in step 1, slice 3 of 4"),
    (DIVIDE, "crashed: integer division by zero at 0x[0-9a-f]+ in step 1, slice 3 of 4"),
    (OVERFLOW_STACK, r"crashed: local variables overflow its thread's stack of \d+ MiB in step 1, slice 3 of 4; .*"),
    (
        OVERRUN,
        r"crashed: segmentation fault at 0x[0-9a-f]+ \(card address 0x[0-9a-f]+ in bank 'DDR\[0\]', 0 bytes behind the "
        r"end of argument 0 \('out'\)\) in step 1, slice 3 of 4",
    ),
    (THROW, r"threw std::runtime_error: as it was told \(in step 1, slice 3 of 4\)"),
    (THROW_IN_ALL, r"threw std::runtime_error: as it was told \(in step 1, slice [0-3] of 4\)"),
    (THROW_IN_SLICES, r"threw std::runtime_error: as it was told \(in slices\)"),
    (EXIT, r"called exit\(3\) \(in step 1, slice 3 of 4\)"),
    (ABORT, r"called abort\(\) \(in step 1, slice 3 of 4\)"),
]
AT_THE_ENDS = [
    (THROW_IN_BEGIN, r"threw std::runtime_error: as it was told \(in begin\)"),
    (THROW_IN_END, r"threw std::runtime_error: as it was told \(in end\)"),
    (EXIT_IN_END, r"called exit\(3\) \(in end\)"),
]


@pytest.mark.parametrize("how", ["start", "execute", "thread"])
@pytest.mark.parametrize(("what", "message"), CRASHES)
def test_a_crash_is_an_error_of_the_run(card: Card, what: int, message: str, how: str) -> None:
    for _ in range(3):
        out = fails(card, what, message, how)
        assert card.fetch(out, np.uint32)[0] == 0xFFFFFFFF, "`end` must be told"
    card.check_works()


@pytest.mark.parametrize("how", ["start", "execute", "thread"])
@pytest.mark.parametrize(("what", "message"), AT_THE_ENDS)
def test_an_exception_in_begin_or_end_is_an_error_of_the_run(card: Card, what: int, message: str, how: str) -> None:
    for _ in range(3):
        fails(card, what, message, how)
    card.check_works()


@pytest.mark.parametrize("how", ["start", "execute"])
@pytest.mark.parametrize(
    ("what", "message"),
    [
        (CRASH_IN_HANDLER, "crashed: segmentation fault at 0x10 in end"),
        (TERMINATE_IN_UNWINDING, r"ended in std::terminate\(\) because of std::runtime_error: .* \(in end\)"),
    ],
)
def test_a_jump_out_of_a_handler_leaves_no_exception_behind(card: Card, what: int, message: str, how: str) -> None:
    fails(card, what, message, how)
    run, out = card.misbehaving(LOOK_FOR_EXCEPTIONS)
    assert ends(run, how) == State.ERT_CMD_STATE_COMPLETED
    assert card.fetch(out, np.uint32)[1] == 0


def fails(card: Card, what: int, message: str, how: str) -> xrt.bo:
    """Runs `misbehave`, which must end with this error; returns its buffer."""
    run, out = card.misbehaving(what, step=1)
    assert ends(run, how) == State.ERT_CMD_STATE_ERROR
    assert re.fullmatch(KERNEL + message, run.error), run.error
    assert run.return_code() == 0xFFFFFFFF
    return out


def ends(run: xrt.run, how: str) -> xrt.ert_cmd_state:
    if how == "start":
        run.start()
        return run.wait(10000)
    if how == "execute":
        return run.execute(10000)
    thread = threading.Thread(target=run.execute, args=(10000,))  # one that has no signal stack of its own
    thread.start()
    thread.join(20)
    return run.state()


def test_error_is_cleared_by_the_next_run(card: Card) -> None:
    run, _ = card.misbehaving(STATUS)
    assert run.execute(10000) == State.ERT_CMD_STATE_ERROR and run.error and run.return_code() == 42
    run.set_arg(1, 0)
    assert run.execute(10000) == State.ERT_CMD_STATE_COMPLETED and not run.error and run.return_code() == 0


@pytest.mark.parametrize("what", [HANG, HANG_IN_END])
def test_execute_ends_a_hung_run(card: Card, what: int) -> None:
    for _ in range(3):
        run, _ = card.misbehaving(what, step=2)
        begin = time.monotonic()
        assert run.execute(100) == State.ERT_CMD_STATE_TIMEOUT
        assert 0.09 < time.monotonic() - begin < 5
        assert "was ended in " in run.error and run.error.endswith(" ms, its time-out"), run.error
        if what == HANG:
            assert "in step 2, slice 3 of 4 after " in run.error, run.error
    card.check_works()


def test_execute_ends_a_hung_run_on_the_units_own_thread(card: Card) -> None:
    hung, _ = card.misbehaving(HANG)
    hung.start()
    waiting, _ = card.misbehaving(0)
    assert waiting.execute(100) == State.ERT_CMD_STATE_TIMEOUT
    assert "had not been started: compute unit misbehave_1 was busy" in waiting.error
    assert hung.state() == State.ERT_CMD_STATE_RUNNING
    assert hung.abort() == State.ERT_CMD_STATE_ABORT
    assert hung.error.endswith(", by abort")
    card.check_works()


def test_wait_times_out_and_abort_ends(card: Card) -> None:
    run, _ = card.misbehaving(HANG)
    run.start()
    assert run.wait(50) == State.ERT_CMD_STATE_TIMEOUT and run.state() == State.ERT_CMD_STATE_RUNNING
    assert run.abort() == State.ERT_CMD_STATE_ABORT and run.state() == State.ERT_CMD_STATE_ABORT
    assert run.abort() == State.ERT_CMD_STATE_ABORT  # nothing left to end
    card.check_works()


def test_abort_of_a_queued_run(card: Card) -> None:
    hung, _ = card.misbehaving(HANG)
    queued, _ = card.misbehaving(0)
    hung.start()
    until_running(hung)
    queued.start()
    assert queued.abort() == State.ERT_CMD_STATE_ABORT
    assert hung.state() == State.ERT_CMD_STATE_RUNNING
    hung.abort()
    card.check_works()


def test_abort_from_another_thread_ends_execute(card: Card) -> None:
    run, _ = card.misbehaving(HANG)
    states: list[xrt.ert_cmd_state] = []
    thread = threading.Thread(target=lambda: states.append(run.execute()))
    thread.start()
    until_running(run)
    run.abort()
    thread.join(20)
    assert states == [State.ERT_CMD_STATE_ABORT]
    card.check_works()


def test_a_failure_on_one_unit_leaves_the_other_alone(card: Card) -> None:
    hung, _ = card.misbehaving(HANG)
    hung.start()
    values = np.arange(1 << 14, dtype=np.float32)
    a, out = card.array(values), card.array(np.full_like(values, np.nan))
    for _ in range(20):
        crashing, _ = card.misbehaving(SEGFAULT)
        crashing.start()  # queues up behind the hung run
        assert card.kernel("vadd")(a, a, out, values.size).wait(10000) == State.ERT_CMD_STATE_COMPLETED
        np.testing.assert_array_equal(card.fetch(out, np.float32), values * 2)
        crashing.abort()
    hung.abort()
    card.check_works()
