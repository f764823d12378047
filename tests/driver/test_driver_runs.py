"""Runs: arguments, states, compute units, slices and barriers, callbacks, execute and execute_io."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fpga_dynamo.errors import DeviceError
from fpga_dynamo.runtime.drivers import emulated as xrt
from tests.driver.card_kit import SLEEP, STATUS, Card, until_running

State = xrt.ert_cmd_state
COMPLETED = State.ERT_CMD_STATE_COMPLETED


def test_states(card: Card) -> None:
    run, _ = card.misbehaving(SLEEP, ms=200)
    assert run.state() == State.ERT_CMD_STATE_NEW
    assert run.wait(1) == State.ERT_CMD_STATE_NEW  # as XRT: nothing to wait for
    run.start()
    assert run.state() in (State.ERT_CMD_STATE_QUEUED, State.ERT_CMD_STATE_RUNNING)
    assert run.wait(20) == State.ERT_CMD_STATE_TIMEOUT
    assert run.state() == State.ERT_CMD_STATE_RUNNING, "wait must leave the run alone"
    with pytest.raises(DeviceError, match="this run of kernel 'misbehave' is under way already"):
        run.start()
    assert run.wait() == COMPLETED and run.state() == COMPLETED
    run.start()
    assert run.wait(10000) == COMPLETED
    assert 190e6 < run.stop_ns - run.start_ns < 5e9
    assert abs(time.monotonic_ns() - run.stop_ns) < 5e9


def test_runs_of_one_unit_queue_up(card: Card) -> None:
    first, _ = card.misbehaving(SLEEP, ms=150)
    second, _ = card.misbehaving(SLEEP, ms=1)
    first.start()
    until_running(first)
    second.start()
    assert second.wait(30) == State.ERT_CMD_STATE_TIMEOUT
    assert second.state() == State.ERT_CMD_STATE_QUEUED
    assert second.wait(10000) == COMPLETED and first.state() == COMPLETED
    assert second.start_ns >= first.stop_ns


def test_step_times_are_noted_when_asked_for(card: Card) -> None:
    data = card.bo(64)
    run = card.kernel("steps")(data, 4, 5, 2)
    assert run.wait(10000) == COMPLETED and run.step_times == [], "off at first"
    run.trace_steps(True)
    for _ in range(2):
        run.start()
        assert run.wait(10000) == COMPLETED
        times = [time for step in run.step_times for time in step]
        assert len(times) == 2 * 5
        assert [run.start_ns, *times, run.stop_ns] == sorted([run.start_ns, *times, run.stop_ns])
    run.trace_steps(False)
    run.start()
    assert run.wait(10000) == COMPLETED and run.step_times == []


def test_step_times_of_a_run_under_way_are_refused(card: Card) -> None:
    run, _ = card.misbehaving(SLEEP, ms=100)
    run.trace_steps(True)
    run.start()
    with pytest.raises(DeviceError, match="step times can be read when it has ended"):
        _ = run.step_times
    assert run.wait(10000) == COMPLETED and run.step_times


def test_step_times_end_with_the_step_that_failed(card: Card) -> None:
    run, _ = card.misbehaving(STATUS, step=1)
    run.trace_steps(True)
    run.start()
    assert run.wait(10000) == State.ERT_CMD_STATE_ERROR and len(run.step_times) == 2


def test_least_loaded_unit_takes_the_run(card: Card) -> None:
    data = card.bo(64)
    runs = [card.kernel("steps")(data, 4, 1, 1) for _ in range(2)]
    assert {run.compute_unit for run in runs if run.wait(10000)} == {"steps_1"}, "steps_2 does not reach DDR[0]"
    out = card.bo(4096)
    runs = [card.kernel("pair")(out, SLEEP, 0, 300) for _ in range(2)]
    assert {run.compute_unit for run in runs if run.wait(10000)} == {"pair_1", "pair_2"}
    assert max(run.start_ns for run in runs) < min(run.stop_ns for run in runs), "they did not run side by side"


def test_a_unit_by_name(card: Card) -> None:
    a = card.array(np.zeros(4, np.float32))
    run = card.kernel("vadd:{vadd_2}")(a, a, a, 4)
    assert run.wait(10000) == COMPLETED and run.compute_unit == "vadd_2"
    with pytest.raises(DeviceError, match="kernel 'vadd' has no compute unit 'vadd_7'"):
        card.kernel("vadd:{vadd_1,vadd_7}")
    for name in ("vadd:vadd_1", "vadd:{}", "vadd:{vadd_1"):
        with pytest.raises(DeviceError, match="choose compute units as"):
            card.kernel(name)
    with pytest.raises(DeviceError, match="has no kernel 'mul'; it has: vadd, empty, steps, misbehave, pair"):
        card.kernel("mul")


def test_the_bank_of_a_buffer_chooses_the_unit(card: Card) -> None:
    kernel = card.kernel("steps")
    assert kernel.group_id(0) == 0
    run = xrt.run(kernel)
    arguments: tuple[xrt.bo | int, ...] = (card.bo(64, xrt.bo.normal, 1), 4, 1, 1)
    for index, value in enumerate(arguments):
        run.set_arg(index, value)
    assert run.execute(10000) == COMPLETED and run.compute_unit == "steps_2"
    run.set_arg(0, card.bo(64, xrt.bo.normal, 0))
    assert run.execute(10000) == COMPLETED and run.compute_unit == "steps_1"
    with pytest.raises(DeviceError, match=r"allocate it in group 0 \(kernel.group_id\(0\)\)"):
        card.kernel("steps:{steps_1}")(card.bo(64, xrt.bo.normal, 1), 4, 1, 1)


def test_wrong_arguments(card: Card) -> None:
    kernel, buffer = card.kernel("vadd"), card.bo(64)
    with pytest.raises(DeviceError, match="kernel 'vadd' takes 4 arguments, 1 were given"):
        kernel(buffer)
    with pytest.raises(DeviceError, match=r"argument 3 \('n'\) of kernel 'vadd' is a scalar"):
        kernel(buffer, buffer, buffer, buffer)
    with pytest.raises(DeviceError, match=r"argument 0 \('a'\) of kernel 'vadd' must be a buffer"):
        kernel(7, buffer, buffer, 4)
    with pytest.raises(TypeError, match=r"argument 3 \('n'\) of kernel 'vadd' cannot be a str"):
        kernel(buffer, buffer, buffer, "4")  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="there is no argument 4"):
        xrt.run(kernel).set_arg(4, 1)
    with pytest.raises(DeviceError, match="is a scalar and lies in no memory group"):
        kernel.group_id(3)
    with pytest.raises(DeviceError, match=r"argument 0 \('a'\) of kernel 'vadd' has not been set"):
        xrt.run(kernel).start()
    for value in (1 << 32, -(1 << 31) - 1, 1 << 70):
        with pytest.raises(DeviceError, match=r"argument 3 \('n'\) of kernel 'vadd' does not fit into 4 bytes"):
            xrt.run(kernel).set_arg(3, value)


def test_scalars_are_latched_at_the_start(card: Card) -> None:
    run, out = card.misbehaving(SLEEP, ms=100)
    run.start()
    run.set_arg(1, 6)  # STATUS, from the next start on
    assert run.wait(10000) == COMPLETED
    assert run.execute(10000) == State.ERT_CMD_STATE_ERROR and run.return_code() == 42
    assert card.fetch(out, np.uint32)[0] == 42, "`end` must be told the status"


def test_float_scalar_has_the_bits_of_a_float(card: Card) -> None:
    run, out = card.misbehaving(SLEEP, ms=np.float32(1e-44).view(np.int32).item())  # 7 as an integer
    run.set_arg(3, 9.80908925027372e-45)  # the float whose bits are 7
    begin = time.monotonic()
    assert run.execute(10000) == COMPLETED and 0.006 < time.monotonic() - begin < 5
    assert card.fetch(out, np.uint32)[0] == 1


def expected_steps(data: np.ndarray, steps: int) -> np.ndarray:
    halves = [data[: data.size // 2].copy(), data[data.size // 2 :].copy()]
    for step in range(steps):
        source = halves[step % 2]
        halves[(step + 1) % 2] = 2 * np.roll(source, -(source.size // 2 + 1)) + 1
    return np.concatenate(halves)


@pytest.mark.parametrize(("n", "steps", "slices"), [(1000, 1, 1), (1000, 300, 12), (37, 200, 5), (64, 50, 1000)])
def test_slices_and_barriers(card: Card, n: int, steps: int, slices: int) -> None:
    values = np.arange(2 * n, dtype=np.uint32)
    for execute in (False, True):
        data = card.array(values)
        run = xrt.run(card.kernel("steps"))
        arguments: tuple[xrt.bo | int, ...] = (data, n, steps, slices)
        for index, value in enumerate(arguments):
            run.set_arg(index, value)
        if execute:
            assert run.execute(60000) == COMPLETED
        else:
            run.start()
            assert run.wait(60000) == COMPLETED
        np.testing.assert_array_equal(card.fetch(data, np.uint32), expected_steps(values, steps))


def test_lanes_do_not_change_a_result(pack: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(2000, dtype=np.uint32)
    for lanes in (1, 2, 7):
        monkeypatch.setenv("FPGA_DYNAMO_LANES", str(lanes))
        card = Card(10, pack(platform=f"lanes {lanes}"))
        data = card.array(values)
        assert card.kernel("steps")(data, 1000, 99, 28).wait(60000) == COMPLETED
        np.testing.assert_array_equal(card.fetch(data, np.uint32), expected_steps(values, 99))


def test_execute_io(card: Card) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(256, np.float32), rng.random(256, np.float32)
    first, second = np.full(100, np.nan, np.float32), np.full(156, np.nan, np.float32)
    arena = card.bo(4096)
    np.asarray(arena.map())[:] = 0xFF
    run = xrt.run(card.kernel("vadd"))
    for index, offset in enumerate((0, 1024, 2048)):
        run.set_arg(index, xrt.bo(arena, 1024, offset))
    run.set_arg(3, 256)
    before = card.device.counters()
    state = run.execute_io(
        inputs=[(a.ctypes.data, a.nbytes, 0), (b.ctypes.data, b.nbytes, 1024)],
        outputs=[(first.ctypes.data, first.nbytes, 2048), (second.ctypes.data, second.nbytes, 2048 + first.nbytes)],
        bo=arena,
        timeout_ms=10000,
    )
    assert state == COMPLETED
    np.testing.assert_array_equal(np.concatenate([first, second]), a + b)
    assert np.asarray(arena.map()).min() == 0xFF, "the host's side must not be touched"
    after = card.device.counters()
    assert {key: after[key] - before[key] for key in after} == {
        "bytes_to_device": 2048, "bytes_from_device": 1024, "runs": 1,
    }  # fmt: skip
    with pytest.raises(DeviceError, match="an output of 1024 bytes at offset 4000 lies outside a buffer of 4096"):
        run.execute_io([], [(first.ctypes.data, 1024, 4000)], arena)
    with pytest.raises(DeviceError, match="an input of 1024 bytes at offset 4000"):
        run.execute_io([(a.ctypes.data, 1024, 4000)], [], arena)
    with pytest.raises((TypeError, RuntimeError)):
        run.execute_io([("a", 1, 2)], [], arena)  # type: ignore[list-item]


def test_outputs_of_a_failed_run_are_not_copied(card: Card) -> None:
    run, out = card.misbehaving(6)
    target = np.full(4, 99, np.int32)
    state = run.execute_io([], [(target.ctypes.data, 16, 0)], out, 10000)
    assert state == State.ERT_CMD_STATE_ERROR and (target == 99).all()


def test_execute_waits_for_a_busy_unit(card: Card) -> None:
    first, _ = card.misbehaving(SLEEP, ms=150)
    second, _ = card.misbehaving(0)
    first.start()
    assert second.execute(10000) == COMPLETED
    assert first.state() == COMPLETED and second.start_ns >= first.stop_ns


def test_wait2_raises(card: Card) -> None:
    run, _ = card.misbehaving(SLEEP, ms=100)
    with pytest.raises(xrt.CommandError, match="has not been started"):
        run.wait2()
    run.start()
    with pytest.raises(xrt.CommandError, match="has not ended within 10 ms"):
        run.wait2(10)
    run.wait2(10000)
    assert run.state() == COMPLETED
    run, _ = card.misbehaving(6, step=2)
    run.start()
    with pytest.raises(
        xrt.CommandError,
        match=r"^kernel 'misbehave' \(compute unit misbehave_1\) reported status 42 in step 2, slice 3 of 4$",
    ):
        run.wait2(10000)


def test_callbacks(card: Card) -> None:
    run, _ = card.misbehaving(0)
    seen: list[tuple[object, ...]] = []
    called = threading.Semaphore(0)

    def note(key: object, state: xrt.ert_cmd_state, data: object) -> None:
        seen.append((key, state, data))
        called.release()

    run.add_callback(COMPLETED, note, "first")
    with pytest.raises(DeviceError, match="for ERT_CMD_STATE_COMPLETED only"):
        run.add_callback(State.ERT_CMD_STATE_ERROR, note)
    run.start()
    assert called.acquire(timeout=10)
    run.wait(10000)
    run.add_callback(COMPLETED, note, "late")  # at once: the run has ended
    assert called.acquire(timeout=1)
    run.set_arg(1, 6)
    run.execute(10000)
    assert called.acquire(timeout=10) and called.acquire(timeout=10)
    assert seen == [(None, COMPLETED, "first"), (None, COMPLETED, "late"),
                    (None, State.ERT_CMD_STATE_ERROR, "first"), (None, State.ERT_CMD_STATE_ERROR, "late")]  # fmt: skip


def test_a_callback_that_raises_harms_nobody(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = card.misbehaving(0)
    reported: list[object] = []
    called = threading.Event()

    def report(unraisable: Any) -> None:
        reported.append(unraisable.exc_value)
        called.set()

    def bad(*_: object) -> None:
        raise ValueError("from a callback")

    monkeypatch.setattr(sys, "unraisablehook", report)
    run.add_callback(COMPLETED, bad)
    run.start()
    assert called.wait(10) and run.wait(10000) == COMPLETED
    assert str(reported[0]) == "from a callback"
    card.check_works()


def test_exclusive_access(card: Card) -> None:
    exclusive = card.kernel("vadd:{vadd_1}", xrt.kernel.exclusive)
    with pytest.raises(DeviceError, match="'vadd_1' is in exclusive use by another kernel object"):
        card.kernel("vadd")
    shared = card.kernel("vadd:{vadd_2}")
    with pytest.raises(DeviceError, match="'vadd_2' is in shared use"):
        card.kernel("vadd:{vadd_2}", xrt.kernel.exclusive)
    del exclusive, shared
    card.kernel("vadd", xrt.kernel.exclusive)
    with pytest.raises(DeviceError, match="access mode none"):
        card.kernel("empty", xrt.kernel.none)()


def test_a_dropped_run_still_runs(card: Card) -> None:
    blocker, _ = card.misbehaving(SLEEP, ms=100)
    blocker.start()
    data = card.array(np.zeros(1024, np.uint32))
    card.kernel("misbehave")(data, 0, 0, 0)  # the run object is gone before it could start
    blocker.wait(10000)
    deadline = time.monotonic() + 10
    while card.fetch(data, np.uint32)[0] != 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert card.fetch(data, np.uint32)[0] == 1
    while card.device.memory()[0]["buffers"] > 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    del data


def test_begin_refuses(card: Card) -> None:
    a = card.bo(64)
    run = card.kernel("vadd")(a, a, a, 17)
    assert run.wait(10000) == State.ERT_CMD_STATE_ERROR
    assert run.error == (
        "kernel 'vadd' (compute unit vadd_1) refused to start: the pointer at 0x10 has room for 64 bytes, n is 17"
    )
