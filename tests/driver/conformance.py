"""What a driver must do, whichever it is. test_conformance.py runs this file and conformance_faults.py once for each,
in a process of its own.
"""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import xclbin_build
from fpga_dynamo.errors import DeviceError
from tests.driver.conformance_kit import (
    COMPLETED,
    DRIVER,
    FROM,
    HANG,
    HERE,
    IS_EMULATOR,
    LONG,
    SLEEP,
    TIMEOUT,
    TO,
    Card,
    State,
    xrt,
)


@pytest.fixture(scope="module")
def card() -> Iterator[Card]:
    yield Card()


# Description


def test_names_of_pyxrt_are_there() -> None:
    names = ["device", "xclbin", "uuid", "bo", "kernel", "run", "ert_cmd_state", "xclBOSyncDirection"]
    assert not [name for name in names if not hasattr(xrt, name)]


def test_xclbin_describes_itself(card: Card) -> None:
    file = xrt.xclbin(str(card.path))
    assert {(k.get_name(), k.get_num_args()) for k in file.get_kernels()} == {
        ("vadd", 4), ("scalars", 5), ("misbehave", 3), ("counts", 1),
    }  # fmt: skip
    assert {m.get_tag() for m in file.get_mems() if m.get_used()} == {"DDR[0]", "DDR[1]"}
    assert file.get_uuid().to_string() == card.uuid.to_string() == card.device.get_xclbin_uuid().to_string()


def test_same_xclbin_again_changes_nothing(card: Card) -> None:
    buffer = card.array(np.arange(4, dtype=np.int32))
    assert card.device.load_xclbin(str(card.path)).to_string() == card.uuid.to_string()
    np.testing.assert_array_equal(card.fetch(buffer, np.int32), np.arange(4))


# Buffers


def test_buffers_lie_in_the_bank_of_their_group(card: Card) -> None:
    assert card.kernels["vadd"].group_id(0) == card.kernels["vadd"].group_id(2) != card.kernels["vadd"].group_id(1)
    for argument in (0, 1):
        buffers = [card.bo(size, "vadd", argument) for size in (1, 5000, 1 << 20)]
        assert all(buffer.address() % 4096 == 0 for buffer in buffers)
        spans = sorted((b.address(), b.address() + b.size()) for b in buffers)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_what_is_not_synced_is_not_seen(card: Card) -> None:
    ones = np.ones(1024, np.float32)
    a, b = card.array(ones), card.array(ones, "vadd", 1)
    out = card.array(np.full(1024, np.nan, np.float32), "vadd", 2)
    a.write((3 * ones).tobytes(), 0)
    assert card.kernels["vadd"](a, b, out, 1024).wait(LONG) == COMPLETED
    assert np.isnan(np.frombuffer(bytes(out.map()), np.float32)).all(), "the result was seen before a sync"
    np.testing.assert_array_equal(card.fetch(out, np.float32), 2 * ones)


def test_partial_sync_moves_only_its_range(card: Card) -> None:
    buffer = card.array(np.zeros(64, np.uint8))
    buffer.write(bytes(range(64)), 0)
    buffer.sync(TO, 8, 16)
    np.frombuffer(buffer.map(), np.uint8)[:] = 0xEE
    buffer.sync(FROM, 32, 8)
    expected = np.full(64, 0xEE)
    expected[8:40] = 0
    expected[16:24] = np.arange(16, 24)
    np.testing.assert_array_equal(np.frombuffer(bytes(buffer.map()), np.uint8), expected)


def test_raw_pointers(card: Card) -> None:
    source, target = np.arange(100, dtype=np.int32), np.full(50, -1, np.int32)
    buffer = card.bo(1000)
    buffer.write_ptr(source.ctypes.data, source.nbytes, 8)
    buffer.read_ptr(target.ctypes.data, target.nbytes, 8 + 200)
    np.testing.assert_array_equal(target, source[50:])


def test_large_transfer(card: Card) -> None:
    values = np.random.default_rng(0).integers(0, 255, 24 << 20, dtype=np.uint8)
    np.testing.assert_array_equal(card.fetch(card.array(values), np.uint8), values)


def test_no_room_on_the_bank_is_one_error(card: Card) -> None:
    held = []
    with pytest.raises(MemoryError) as caught:
        for _ in range(64):
            held.append(card.bo((1 << 30) - 4096, flags=xrt.bo.flags.device_only))
    assert isinstance(caught.value, DeviceError) and str(caught.value)
    held.clear()
    card.add()


def test_buffers_leave_no_descriptors(card: Card) -> None:
    card.add()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(30):
        card.array(np.zeros(16, np.int32))
    assert len(os.listdir("/proc/self/fd")) <= before


def test_memory_comes_back(card: Card) -> None:
    for _ in range(40):
        card.bo(1 << 30, flags=xrt.bo.flags.device_only)  # 40 GiB in all, of 16
    card.add()


# Runs


def test_adds(card: Card) -> None:
    for count in (1, 1000, 1 << 18):
        card.add(count)


def test_scalars_keep_their_bits(card: Card) -> None:
    out = card.array(np.full(5, np.nan), "scalars")
    if DRIVER == "pyxrt":
        pytest.skip("pyxrt supports 32 bits only")
    wide, word, single = (7 << 32) + 5, 0xFFFFFFFF, 0.1
    assert card.kernels["scalars"](out, wide, word, single, single).wait(LONG) == COMPLETED
    exact = [wide >> 32, wide & 0xFFFFFFFF, word, single, np.float64(np.float32(single))]
    np.testing.assert_array_equal(card.fetch(out, np.float64), exact)


def test_execute_io_moves_its_pieces_and_no_more(card: Card) -> None:
    run = xrt.run(card.kernels["misbehave"])
    arena = card.array(np.arange(16, dtype=np.int32), "misbehave")
    for index, value in enumerate((arena, 0, 0)):
        run.set_arg(index, value)
    inputs, outputs = np.array([7, 8, 9], np.int32), np.full(6, -1, np.int32)
    to, back = [(inputs.ctypes.data, 12, 8)], [(outputs.ctypes.data, 8, 0), (outputs[2:].ctypes.data, 16, 8)]
    assert run.execute_io(to, back, arena, LONG) == COMPLETED
    np.testing.assert_array_equal(outputs, [1, 1, 7, 8, 9, 5])  # the kernel has written the first
    np.testing.assert_array_equal(card.fetch(arena, np.int32)[:7], [1, 1, 7, 8, 9, 5, 6])
    with pytest.raises(DeviceError):
        run.execute_io([], [(outputs.ctypes.data, 8, 60)], arena, LONG)


def test_execute_io_of_a_kernel_that_reads_its_own_buffers(card: Card) -> None:
    """Large pieces at whole pages, which other kernels of the emulator read and write where they lie."""
    run, count, page = xrt.run(card.kernels["misbehave"]), 1 << 16, 4096
    arena = card.array(np.zeros(count, np.int32), "misbehave")
    for index, value in enumerate((arena, 0, 0)):
        run.set_arg(index, value)
    memory = np.zeros(2 * (4 * count + page), np.uint8)
    halves = [memory[begin : begin + 4 * count] for begin in (0, 4 * count + page)]
    given, result = (memory[(half.ctypes.data + -half.ctypes.data % page) - memory.ctypes.data :] for half in halves)
    values = np.arange(5, count + 5, dtype=np.int32)
    given[: 4 * count] = values.view(np.uint8)
    pieces = [[(each.ctypes.data, 4 * count, 0)] for each in (given, result)]
    assert run.execute_io(*pieces, arena, LONG) == COMPLETED
    found = result[: 4 * count].view(np.int32)
    assert found[0] == 1, "the kernel has written the first"
    np.testing.assert_array_equal(found[1:], values[1:])


@pytest.mark.skipif(IS_EMULATOR, reason="this card tells of lists that did not come to their end")
def test_execute_io_looks_at_the_status_record(card: Card) -> None:
    a, out = card.array(np.ones(64, np.float32)), card.array(np.zeros(64, np.float32), "vadd", 2)
    run = xrt.run(card.kernels["vadd"])
    for index, value in enumerate((a, card.array(np.ones(64, np.float32), "vadd", 1), out, 64)):
        run.set_arg(index, value)
    record = np.zeros(64, np.uint32)
    record[:2] = 2, 7
    given, result = card.array(record), np.full(64, 9, np.uint32)
    back = [(result.ctypes.data, 256, 0)]
    assert run.execute_io([], back, given, LONG) == COMPLETED
    np.testing.assert_array_equal(result, record)
    run.reads_status = True
    result[:] = 9
    assert run.execute_io([], back, given, LONG) == run.state() == State.ERT_CMD_STATE_ERROR
    assert "command 7 ended with status 2" in run.error
    assert (result == 9).all()
    assert run.execute_io([], back, card.array(np.zeros(64, np.uint32)), LONG) == run.state() == COMPLETED
    assert run.error == ""
    assert not result.any()


def test_execute_io_ends_a_run_that_passes_its_time_out(card: Card) -> None:
    run, output = card.misbehaving(HANG), np.full(1, -1, np.int32)
    arena = card.array(np.zeros(16, np.int32), "misbehave")
    run.set_arg(0, arena)
    assert run.execute_io([], [(output.ctypes.data, 4, 0)], arena, 100) == TIMEOUT
    assert output[0] == -1 and run.state() not in (COMPLETED, State.ERT_CMD_STATE_RUNNING)
    card.add()


def test_states_and_time_outs(card: Card) -> None:
    run = card.misbehaving(HANG)
    run.start()
    begin = time.monotonic()
    assert run.wait(50) == TIMEOUT
    assert time.monotonic() - begin > 0.04
    assert run.state() != COMPLETED, "wait must leave the run alone"
    assert run.wait(50) == TIMEOUT
    run.abort()
    run = card.misbehaving(SLEEP, 100)
    run.start()
    assert run.wait(LONG) == COMPLETED and run.state() == COMPLETED
    assert time.monotonic() - begin > 0.15
    run.start()
    assert run.wait(0) == COMPLETED


def test_time_out_comes_while_another_run_is_waited_for(card: Card) -> None:
    run = card.misbehaving(HANG)
    run.start()
    thread = threading.Thread(target=run.wait, args=(0,))
    thread.start()
    assert run.wait(50) == TIMEOUT
    run.abort()
    thread.join(20)
    assert not thread.is_alive() and run.state() == State.ERT_CMD_STATE_ABORT


def test_waiting_leaves_other_threads_alone(card: Card) -> None:
    run = card.misbehaving(HANG)
    run.start()
    thread = threading.Thread(target=run.wait, args=(LONG,))
    thread.start()
    for _ in range(30):
        time.sleep(0.001)
    assert thread.is_alive(), "the wait held the GIL until its time-out"
    run.abort()
    thread.join(20)
    assert not thread.is_alive()


def test_two_runs_on_two_units(card: Card) -> None:
    ones = np.ones(1 << 16, np.float32)
    a, b = card.array(ones), card.array(ones, "vadd", 1)
    outs = [card.array(np.full_like(ones, np.nan), "vadd", 2) for _ in range(2)]
    kernels = [xrt.kernel(card.device, card.uuid, f"vadd:{{vadd_{i}}}") for i in (1, 2)]
    runs = [kernel(a, b, out, ones.size) for kernel, out in zip(kernels, outs, strict=True)]
    assert [run.wait(LONG) for run in runs] == [COMPLETED] * 2
    for out in outs:
        np.testing.assert_array_equal(card.fetch(out, np.float32), 2 * ones)


def test_many_threads(card: Card) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(10):
                card.add(100 * seed + i + 1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_a_run_that_nobody_holds_goes_on(card: Card) -> None:
    card.misbehaving(SLEEP, 100).start()
    gc.collect()
    card.add()
    run = card.misbehaving(0)  # behind it on the only unit
    run.start()
    assert run.wait(LONG) == COMPLETED


def counted(card: Card, unit: int) -> list[int]:
    """What the kernel has counted on this unit, in variables of every kind."""
    out = card.array(np.full(5, -1, np.int32), "counts")
    assert xrt.kernel(card.device, card.uuid, f"counts:{{counts_{unit}}}")(out).wait(LONG) == COMPLETED
    return card.fetch(out, np.int32).tolist()


def test_variables_of_a_kernel_belong_to_a_compute_unit_and_a_load(card: Card) -> None:
    other = str(xclbin_build.cached(HERE / "data/another.toml", "sw_emu"))
    for _ in range(2):
        card.device.load_xclbin(other)
        card.device.load_xclbin(str(card.path))
        card.open_kernels()
        assert [counted(card, 1) for _ in range(3)] == [[1] * 5, [2] * 5, [3] * 5]
        assert [counted(card, 2) for _ in range(2)] == [[1] * 5, [2] * 5]
        assert counted(card, 1) == [4] * 5


# Faults


def test_damaged_xclbin_is_one_error(card: Card, tmp_path: Path) -> None:
    content = bytearray(card.path.read_bytes())
    for name, broken in (("short", content[: len(content) // 2]), ("empty", b""), ("text", b"no xclbin" * 100)):
        path = tmp_path / f"{name}.xclbin"
        path.write_bytes(broken)
        with pytest.raises(DeviceError):
            card.device.load_xclbin(str(path))
    with pytest.raises(DeviceError):
        card.device.load_xclbin(str(tmp_path / "none.xclbin"))
    card.add()


def test_wrong_arguments_are_errors(card: Card) -> None:
    for index in (3, 17):
        with pytest.raises(DeviceError):
            card.kernels["vadd"].group_id(index)
    with pytest.raises(DeviceError):
        xrt.kernel(card.device, card.uuid, "nothing")
    with pytest.raises(DeviceError):
        xrt.device(63)


def test_a_second_process_has_a_card_of_its_own(card: Card) -> None:
    """While this one's is busy; on a real card it is XRT that says whether two may share it."""
    busy = card.misbehaving(HANG)
    busy.start()
    uses = "from tests.driver.conformance_kit import Card; Card().add(); print('right')"
    script = f"import tests.driver.bare_package; {uses}"
    child = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=HERE.parents[1], timeout=120, check=False
    )
    assert child.returncode == 0 and "right" in child.stdout, child
    assert busy.state() != COMPLETED
    busy.abort()
    card.add()


def test_kernels_of_a_replaced_xclbin_do_not_start(card: Card) -> None:
    run = xrt.run(card.kernels["vadd"])
    buffers = [card.array(np.zeros(16, np.float32), "vadd", index) for index in range(3)]
    for index, argument in enumerate((*buffers, 16)):
        run.set_arg(index, argument)
    state = run.state()
    busy = card.misbehaving(HANG)
    busy.start()
    other = str(xclbin_build.cached(HERE / "data/another.toml", "sw_emu"))
    with pytest.raises(DeviceError, match="under way"):
        card.device.load_xclbin(other)
    card.add()  # what was refused has changed nothing
    busy.abort()
    uuid = card.device.load_xclbin(other)
    assert uuid.to_string() != card.uuid.to_string()
    assert run.state() == state
    with pytest.raises(DeviceError, match="since kernel 'vadd' was opened"):
        run.start()
    for buffer in buffers:
        buffer.write(b"\1" * buffer.size(), 0)  # the host's side is still there
    again = xrt.kernel(card.device, uuid, "scalars")
    del run, again, buffers
    card.device.load_xclbin(str(card.path))
    card.open_kernels()
    card.add()


@pytest.mark.skipif(DRIVER == "pyxrt", reason="AMD's module knows nothing of forks")
def test_a_forked_child_gets_an_error_and_leaves_the_card_alone(card: Card) -> None:
    buffer, run = card.array(np.arange(4, dtype=np.int32)), card.misbehaving(0)
    child = os.fork()
    if child == 0:
        uses = [run.start, lambda: buffer.sync(TO, 4, 0), lambda: card.bo(64), lambda: xrt.device(0)]
        for use in uses:
            try:
                use()
            except DeviceError as error:
                if "was forked after a card had been opened" in str(error):
                    continue
            os._exit(1)
        del buffer, run, uses
        gc.collect()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    np.testing.assert_array_equal(card.fetch(buffer, np.int32), np.arange(4))
    card.add()


def test_signals_and_children_are_left_alone(card: Card) -> None:
    card.add()
    assert subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=False).returncode == 3
