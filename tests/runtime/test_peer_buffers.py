"""Buffers of units that work together on a card: where their bytes lie, and that nothing else is touched."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpga_dynamo.errors import DeviceError
from fpga_dynamo.runtime.drivers.peers import CopiedBuffer, PagedBuffer, PeerBuffer
from tests.backend.sources_card import POISON, SourcesCard

PAGE, BANKS, PAGES = 64, 3, 10


def parts(count: int, nbytes: int) -> list[SourcesCard.bo]:
    return [SourcesCard.bo(None, nbytes, "normal", "bank") for _ in range(count)]


def moved(buffer: PeerBuffer, data: np.ndarray, offset: int) -> None:
    """To the card and back, with both of the host's sides poisoned between."""
    buffer.write_ptr(data.ctypes.data, data.size, offset)
    buffer.sync("to", data.size, offset)
    for part in buffer.parts:
        part.map().fill(POISON)
    back = np.zeros_like(data)
    buffer.sync("from", data.size, offset)
    buffer.read_ptr(back.ctypes.data, data.size, offset)
    np.testing.assert_array_equal(back, data)


@given(st.data())
def test_maps_lie_in_pages_of_the_banks_in_turn(data: st.DataObject) -> None:
    size = PAGES * PAGE
    offset = data.draw(st.integers(0, size - 1))
    nbytes = data.draw(st.integers(1, size - offset))
    buffer = PagedBuffer(parts(BANKS, -(-PAGES // BANKS) * PAGE), size, PAGE)
    given_bytes = np.arange(nbytes).astype(np.uint8) % 150
    moved(buffer, given_bytes, offset)
    # Page p of a region is page p // BANKS of bank p % BANKS.
    pages = [buffer.parts[p % BANKS].card[p // BANKS * PAGE :][:PAGE] for p in range(PAGES)]
    region = np.concatenate(pages)
    np.testing.assert_array_equal(region[offset : offset + nbytes], given_bytes)
    assert (region[:offset] == POISON).all()
    assert (region[offset + nbytes :] == POISON).all()


@given(st.integers(0, 127), st.integers(1, 128))
def test_each_unit_has_its_own_commands_and_all_weights(offset: int, nbytes: int) -> None:
    nbytes = min(nbytes, 128 - offset)
    data = np.arange(nbytes).astype(np.uint8)
    lists = PagedBuffer(parts(4, 32), 128, 32)
    moved(lists, data, offset)
    np.testing.assert_array_equal(np.concatenate([part.card for part in lists.parts])[offset : offset + nbytes], data)
    weights = CopiedBuffer(parts(4, 128), 128)
    moved(weights, data, offset)
    for part in weights.parts:
        np.testing.assert_array_equal(part.card[offset : offset + nbytes], data)


def test_what_lies_outside_is_refused() -> None:
    buffer = PagedBuffer(parts(BANKS, 4 * PAGE), PAGES * PAGE, PAGE)
    with pytest.raises(DeviceError, match="20 bytes at offset 630 lie outside a buffer of 640 bytes"):
        buffer.write(bytes(20), 630)
    with pytest.raises(DeviceError, match="several banks"):
        buffer.map()
