"""What a driver must do with kernels that misbehave: one error of the run, the process and the card go on.

test_conformance.py runs this file like conformance.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.driver.conformance_kit import COMPLETED, CRASH, DRIVER, HANG, LONG, TIMEOUT, Card, State, xrt


@pytest.fixture(scope="module")
def card() -> Iterator[Card]:
    yield Card()


def test_a_crash_is_an_error_of_the_run(card: Card) -> None:
    run = card.misbehaving(CRASH)
    run.start()
    assert run.wait(LONG) == State.ERT_CMD_STATE_ERROR
    if DRIVER != "pyxrt":
        assert "kernel 'misbehave' (compute unit misbehave_1) crashed: segmentation fault at 0x10" in run.error
    run = card.misbehaving(0)
    run.start()
    assert run.wait(LONG) == COMPLETED
    card.add()


MISBEHAVIOUR = {
    4: "threw std::runtime_error: no such row",
    5: "threw int",
    6: r"threw \(anonymous namespace\)::odd",
    7: "threw std::bad_alloc",
    8: "threw std::out_of_range: vector::_M_range_check: .*",
    9: "failed the assertion `rows > 0' at conformance_misbehave.cpp:[0-9]+",
    10: r"called abort\(\)",
    11: r"called exit\(3\)",
    12: r"called _exit\(4\)",
    13: r"called _Exit\(5\)",
    14: r"called quick_exit\(6\)",
    15: r"called pthread_exit\(\)",
    16: r"ended in std::terminate\(\)",
    17: r"ended in std::terminate\(\) because of std::logic_error: it went too far",
    18: r"ended in std::terminate\(\) because of std::logic_error: it went too far",
    19: r"crashed: SIGABRT of abort\(\) or of a check of the C library",
    20: "called a pure virtual function",
    21: "crashed: integer division by zero at 0x[0-9a-f]+",
}


@pytest.mark.parametrize("how", ["start", "execute_io"])
@pytest.mark.parametrize("what", MISBEHAVIOUR)
def test_what_would_end_the_process_is_an_error_of_the_run(card: Card, what: int, how: str) -> None:
    for _ in range(3):
        run = card.misbehaving(what)
        if how == "start":
            run.start()
            state = run.wait(LONG)
        else:
            arena = card.array(np.zeros(16, np.int32), "misbehave")
            run.set_arg(0, arena)
            state = run.execute_io([], [], arena, LONG)
        assert state == State.ERT_CMD_STATE_ERROR
        if DRIVER != "pyxrt":
            sentence = rf"kernel 'misbehave' \(compute unit misbehave_1\) {MISBEHAVIOUR[what]}"
            assert re.fullmatch(sentence, run.error), run.error
        run = card.misbehaving(0)
        run.start()
        assert run.wait(LONG) == COMPLETED
    card.add()


WRITE = 22
WHOLE_PAGES = os.environ.get("FPGA_DYNAMO_XRT") == "process"
"""XRT's sw_emu driver rounds buffers up before the process that emulates the card hears of them."""
PLACE = r"crashed: segmentation fault at 0x[0-9a-f]+ \((card address 0x[0-9a-f]+.*, )?"
STRAY = "wrote behind the end of argument 0 \\('out'\\): bytes {} to {} behind its buffer of {} bytes have changed"


@pytest.mark.parametrize("how", ["start", "execute_io"])
@pytest.mark.parametrize(
    ("count", "index", "message"),
    [
        (16, 16, STRAY.format(0, 3, 64)),
        (17, 17, STRAY.format(0, 3, 68)),
        (16, 200, STRAY.format(736, 739, 64)),
        (1, 1, STRAY.format(0, 3, 4)),
        (1023, 1023, STRAY.format(0, 3, 4092)),
        (1024, 1024, PLACE + r"0 bytes behind the end of argument 0 \('out'\)\)"),
        (2048, 2050, PLACE + r"8 bytes behind the end of argument 0 \('out'\)\)"),
        (16, -1, PLACE + r"4 bytes in front of argument 0 \('out'\)\)"),
        (1024, -3, PLACE + r"12 bytes in front of argument 0 \('out'\)\)"),
    ],
)
def test_a_write_beside_a_buffer_is_an_error_of_the_run(
    card: Card, count: int, index: int, message: str, how: str
) -> None:
    if WHOLE_PAGES and message.startswith("wrote"):
        pytest.skip("the card does not know where the buffer ends in its page")
    zeros = np.zeros(count, np.int32)
    before, out, behind = (card.array(zeros, "misbehave") for _ in range(3))
    run, output = xrt.run(card.kernels["misbehave"]), np.full(count, -1, np.int32)

    def ends(what: int, where: int) -> Any:
        for position, value in enumerate((out, what, where)):
            run.set_arg(position, value)
        if how == "execute_io":
            return run.execute_io([], [(output.ctypes.data, output.nbytes, 0)], out, LONG)
        run.start()
        return run.wait(LONG)

    for _ in range(2):
        assert ends(WRITE, count - 1) == COMPLETED, "the last element is the kernel's"
        assert ends(WRITE, index) == State.ERT_CMD_STATE_ERROR
        if DRIVER != "pyxrt":
            sentence = rf"kernel 'misbehave' \(compute unit misbehave_1\) {message}"
            assert re.fullmatch(sentence, run.error), run.error
        assert ends(0, 0) == COMPLETED, "the next run begins clean"
    for other in (before, behind):
        np.testing.assert_array_equal(card.fetch(other, np.int32), zeros)
    assert card.fetch(out, np.int32)[-1] == (7 if count > 1 else 1)


@pytest.mark.skipif(WHOLE_PAGES, reason="the card does not know where the buffers end in their pages")
def test_of_several_arguments_the_one_behind_which_was_written_is_named(card: Card) -> None:
    ones = np.ones(60, np.float32)
    buffers = [card.array(ones, "vadd", index) for index in range(3)]
    run = card.kernels["vadd"](*buffers, 62)
    assert run.wait(LONG) == State.ERT_CMD_STATE_ERROR
    if DRIVER != "pyxrt":
        assert re.search(r"vadd_[12]\) wrote behind the end of argument 2 \('out'\): bytes \d to \d behind", run.error)
    card.add()


def test_a_run_that_never_ends_is_ended(card: Card) -> None:
    run = card.misbehaving(HANG)
    run.start()
    assert run.wait(100) == TIMEOUT
    state = run.abort()
    assert state == State.ERT_CMD_STATE_ABORT == run.state()
    run = card.misbehaving(0)
    run.start()
    assert run.wait(LONG) == COMPLETED
    card.add()
