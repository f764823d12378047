"""Buffer objects: what the host sees and when, where they lie, and that freed memory comes back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpga_dynamo.errors import DeviceError
from fpga_dynamo.runtime.drivers import emulated as xrt
from tests.driver.card_kit import MIB, Card

TO_DEVICE, FROM_DEVICE = xrt.XCL_BO_SYNC_BO_TO_DEVICE, xrt.XCL_BO_SYNC_BO_FROM_DEVICE


def test_what_is_not_synced_is_not_seen(card: Card) -> None:
    a, b, out = (card.bo(4096) for _ in range(3))
    for buffer, value in ((a, 1), (b, 2), (out, np.nan)):
        buffer.write(np.full(1024, value, np.float32), 0)
    a.sync(TO_DEVICE)
    out.sync(TO_DEVICE)  # b is left out: the card's memory still holds the zeros it began with
    run = card.kernel("vadd")(a, b, out, 1024)
    assert run.wait(10000) == xrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED
    assert np.isnan(np.frombuffer(memoryview(out), np.float32)).all(), "the result was seen before a sync"
    out.sync(FROM_DEVICE)
    np.testing.assert_array_equal(np.frombuffer(memoryview(out), np.float32), np.ones(1024, np.float32))


def test_partial_sync_moves_only_its_range(card: Card) -> None:
    buffer = card.bo(64)
    buffer.write(np.arange(64, dtype=np.uint8), 0)
    buffer.sync(TO_DEVICE, 8, 16)
    np.asarray(buffer.map())[:] = 0xEE
    buffer.sync(FROM_DEVICE, 32, 8)
    expected = np.full(64, 0xEE)
    expected[8:40] = 0
    expected[16:24] = np.arange(16, 24)
    np.testing.assert_array_equal(np.frombuffer(memoryview(buffer), np.uint8), expected)


def test_read_returns_int8_as_pyxrt_does(card: Card) -> None:
    buffer = card.bo(16)
    buffer.write(bytes(range(250, 256)) + b"\1\2", 3)
    read = buffer.read(8, 3)
    assert read.dtype == np.int8
    assert read.tobytes() == bytes(range(250, 256)) + b"\1\2"


def test_raw_pointers(card: Card) -> None:
    source, target = np.arange(100, dtype=np.int32), np.zeros(50, np.int32)
    buffer = card.bo(1000)
    buffer.write_ptr(source.ctypes.data, source.nbytes, 8)
    buffer.read_ptr(target.ctypes.data, target.nbytes, 8 + 200)
    np.testing.assert_array_equal(target, source[50:])
    with pytest.raises(DeviceError, match="a write of 400 bytes at offset 604 lies outside a buffer of 1000 bytes"):
        buffer.write_ptr(source.ctypes.data, source.nbytes, 604)


def test_one_memory_for_host_only(card: Card) -> None:
    a, b = card.array(np.ones(16, np.float32)), card.array(np.ones(16, np.float32))
    out = card.bo(64, xrt.bo.host_only)
    np.frombuffer(memoryview(out), np.float32)[:] = np.nan
    card.kernel("vadd")(a, b, out, 16).wait(10000)
    np.testing.assert_array_equal(np.frombuffer(memoryview(out), np.float32), np.full(16, 2, np.float32))


def test_device_only_has_no_host_side(card: Card) -> None:
    buffer = card.bo(4096, xrt.bo.device_only)
    for use in (buffer.map, lambda: buffer.write(b"x", 0), lambda: buffer.read(1, 0), lambda: buffer.sync(TO_DEVICE)):
        with pytest.raises(DeviceError, match="device_only buffer has no host mapping"):
            use()
    with pytest.raises(BufferError, match="device_only"):
        memoryview(buffer)
    source = card.array(np.arange(1024, dtype=np.int32))
    back = card.bo(4096)
    buffer.copy(source)
    back.copy(buffer, 4, 400, 0)
    assert card.fetch(back, np.int32)[0] == 100


def test_sub_buffers_share_memory(card: Card) -> None:
    parent = card.bo(8192)
    part = xrt.bo(parent, 100, 4096)
    nested = xrt.bo(part, 10, 50)
    assert nested.address() == parent.address() + 4146
    nested.write(b"0123456789", 0)
    nested.sync(TO_DEVICE)
    assert np.frombuffer(memoryview(parent), np.uint8)[4146:4156].tobytes() == b"0123456789"
    address = parent.address()
    del parent
    part.sync(FROM_DEVICE)
    assert part.read(10, 50).tobytes() == b"0123456789"
    assert part.address() == address + 4096
    with pytest.raises(DeviceError, match="a sub-buffer of 60 bytes at offset 50 lies outside a buffer of 100 bytes"):
        xrt.bo(part, 60, 50)


def test_a_map_keeps_its_buffer(card: Card) -> None:
    before = card.device.memory()[0]["buffers"]
    view = card.bo(MIB).map()
    view[-1] = 7
    assert view[-1] == 7 and card.device.memory()[0]["buffers"] == before + 1


def test_addresses_are_aligned_and_in_the_bank(card: Card) -> None:
    for group, base, size in ((0, 0, 64 * MIB), (1, 1 << 36, 16 * MIB)):
        buffers = [card.bo(n, xrt.bo.normal, group) for n in (1, 4096, 5000, 3 * MIB)]
        for buffer in buffers:
            assert buffer.address() % 4096 == 0
            assert base <= buffer.address() <= base + size - buffer.size()


def test_full_bank_says_which_and_how_much(card: Card) -> None:
    held = card.bo(8 * MIB, xrt.bo.normal, 1)
    with pytest.raises(
        xrt.DeviceMemoryError, match=r"bank 'DDR\[1\]': a buffer of 16777216 bytes does not fit: 8384512 of 16777216"
    ) as caught:
        card.bo(16 * MIB, xrt.bo.normal, 1)
    assert isinstance(caught.value, MemoryError) and isinstance(caught.value, DeviceError)
    del held
    assert card.bo(15 * MIB, xrt.bo.normal, 1).size() == 15 * MIB


def test_unused_or_unknown_group(card: Card) -> None:
    for group in (2, 77):
        with pytest.raises(DeviceError, match=f"memory group {group} is not in use"):
            card.bo(64, xrt.bo.normal, group)
    with pytest.raises(DeviceError, match="at least one byte"):
        card.bo(0)
    with pytest.raises(DeviceError, match="svm"):
        card.bo(64, xrt.bo.svm)


def test_freed_memory_goes_back_to_the_host(card: Card) -> None:
    before = resident()
    buffer = card.bo(32 * MIB)
    np.asarray(buffer.map())[:] = 1
    buffer.sync(TO_DEVICE)
    assert resident() - before > 60 * MIB  # the host's copy and the card's
    del buffer
    assert resident() - before < 8 * MIB


def test_a_large_buffer_costs_nothing_until_it_is_used(card: Card) -> None:
    before = resident()
    buffer = card.bo(60 * MIB)
    assert buffer.size() == 60 * MIB and resident() - before < 4 * MIB


def test_new_buffers_are_zero(card: Card) -> None:
    for _ in range(2):
        buffer = card.bo(5000)
        np.asarray(buffer.map())[:] = 0xFF
        buffer.sync(FROM_DEVICE)
        assert not np.frombuffer(memoryview(buffer), np.uint8).any()
        np.asarray(buffer.map())[:] = 0xFF
        buffer.sync(TO_DEVICE)
        del buffer


def test_traffic_is_counted(card: Card) -> None:
    before = card.device.counters()
    buffer = card.bo(1000)
    buffer.sync(TO_DEVICE, 600, 0)
    buffer.sync(FROM_DEVICE, 10, 0)
    after = card.device.counters()
    assert after["bytes_to_device"] - before["bytes_to_device"] == 600
    assert after["bytes_from_device"] - before["bytes_from_device"] == 10


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3 * MIB), st.integers(0, 30)), max_size=60))
def test_allocator_never_overlaps_and_coalesces(card_for_hypothesis: Card, steps: list[tuple[int, int]]) -> None:
    live: list[xrt.bo] = []
    for size, victim in steps:
        try:
            live.append(card_for_hypothesis.bo(size, xrt.bo.device_only, 1))
        except xrt.DeviceMemoryError:
            assert live, "an empty bank has room for 3 MiB"
            live.pop(victim % len(live))
        if victim % 3 == 0 and live:
            live.pop(victim % len(live))
        spans = sorted((b.address(), b.address() + b.size()) for b in live)
        for (_, end), (start, _) in itertools.pairwise(spans):
            assert start >= -(-end // 4096) * 4096 + 4096, "no guard page between two buffers"
    live.clear()
    whole = card_for_hypothesis.bo(16 * MIB - 4096, xrt.bo.device_only, 1)  # only fits if all holes have merged
    assert whole.address() == 1 << 36


@pytest.fixture(scope="module")
def card_for_hypothesis(test_xclbin: object) -> Card:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FPGA_DYNAMO_EMULATED_CARDS", "12")
        return Card(9, test_xclbin)  # type: ignore[arg-type]


def resident() -> int:
    """Resident memory of this process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_discarded_pages_are_zeros_and_their_neighbours_stay(card: Card) -> None:
    buffer = card.bo(4 * 4096)
    buffer.write(np.full(4 * 4096, 7, np.uint8), 0)
    buffer.sync(TO_DEVICE)
    buffer.discard(2 * 4096 + 100, 4096 - 50)  # whole pages: the second and the third one
    buffer.sync(FROM_DEVICE)
    expected = np.full(4 * 4096, 7)
    expected[4096 : 3 * 4096] = 0
    np.testing.assert_array_equal(np.asarray(buffer.map()).view(np.uint8), expected)
    buffer.discard(10, 4090)  # no whole page
    np.testing.assert_array_equal(np.asarray(buffer.map()).view(np.uint8), expected)
    with pytest.raises(DeviceError, match="a discard of 1 bytes at offset 16384 lies outside"):
        buffer.discard(1, 4 * 4096)
