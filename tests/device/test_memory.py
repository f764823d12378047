"""The caching allocator: what it counts, reuses, splits, joins and gives back, and what it says when a bank is full."""

from __future__ import annotations

import threading

import pytest
import torch

from fpga_dynamo.device import extension
from tests.device.device_kit import fpga

MEBIBYTE = 1 << 20


@pytest.fixture(autouse=True)
def nothing_cached() -> None:
    fpga.empty_cache()


def test_bytes_of_tensors_are_counted() -> None:
    before = fpga.memory_allocated()
    tensor = torch.empty(1000, device="fpga")
    assert fpga.memory_allocated() == before + 4096 == torch.accelerator.memory_allocated()
    assert fpga.max_memory_allocated() >= before + 4096
    assert fpga.memory_reserved() >= fpga.memory_allocated()
    del tensor
    assert fpga.memory_allocated() == before


def test_peak_begins_again() -> None:
    tensor = torch.empty(4 * MEBIBYTE, dtype=torch.uint8, device="fpga")
    del tensor
    fpga.reset_peak_memory_stats()
    assert fpga.max_memory_allocated() == fpga.memory_allocated()


def test_memory_is_used_again_and_given_back() -> None:
    base = fpga.memory_reserved()
    first = torch.empty(30 * MEBIBYTE, dtype=torch.uint8, device="fpga")
    address = first.data_ptr()
    assert fpga.memory_reserved() == base + 30 * MEBIBYTE
    del first
    assert fpga.memory_reserved() == base + 30 * MEBIBYTE
    second = torch.empty(30 * MEBIBYTE - 100, dtype=torch.uint8, device="fpga")
    assert second.data_ptr() == address
    free = fpga.mem_get_info()[0]
    del second
    fpga.empty_cache()
    assert fpga.memory_reserved() == base
    assert fpga.mem_get_info()[0] >= free + 30 * MEBIBYTE


def test_neighbours_are_joined_in_any_order() -> None:
    reserved = fpga.memory_reserved()
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]):
        pieces: list[torch.Tensor | None] = [
            torch.empty(4 * MEBIBYTE, dtype=torch.uint8, device="fpga") for _ in range(4)
        ]
        for i in order:
            pieces[i] = None
        assert torch.empty(10 * MEBIBYTE, dtype=torch.uint8, device="fpga").numel() == 10 * MEBIBYTE
        assert fpga.memory_reserved() == reserved + 20 * MEBIBYTE
    fpga.empty_cache()
    assert fpga.memory_reserved() == reserved


def test_tensors_lie_in_the_memory_of_the_card() -> None:
    segments = extension.segments()
    used = {row["index"]: row["used"] for row in segments.card(0).device.memory()}
    tensor = torch.empty(8 * MEBIBYTE, dtype=torch.uint8, device="fpga")
    now = {row["index"]: row["used"] for row in segments.card(0).device.memory()}
    assert sum(now.values()) - sum(used.values()) >= tensor.nbytes


def test_a_full_bank_is_named() -> None:
    with pytest.raises(torch.OutOfMemoryError, match=r"fpga:0 is out of memory for a tensor of \d+ bytes: bank '"):
        torch.empty(1 << 46, dtype=torch.uint8, device="fpga")
    assert torch.ones(3, device="fpga").sum().item() == 3


def test_threads_allocate_and_free_at_once() -> None:
    """Each thread fills its tensors with a number of its own, and finds it again."""
    wrong: list[int] = []

    def work(number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        kept: list[torch.Tensor] = []
        for _ in range(200):
            size = int(torch.randint(1, 200_000, (), generator=generator))
            kept.append(torch.full((size,), number, dtype=torch.int32, device="fpga"))
            if len(kept) > 8:
                gone = kept.pop(0)
                if not bool((gone == number).all()):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
