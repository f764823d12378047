"""Packed parameters on the card: made once, shared by all graphs, made again when a parameter changes.

All packs lie in one buffer of the weights region, so that commands hold offsets into it and nothing has to be rewritten
when it grows. An entry lives as long as a binding (a graph with a certain set of parameters) uses it.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import operator
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.fx import Node

from fpga_dynamo.errors import DeviceError
from fpga_dynamo.ir.elements import BEAT_BYTES
from fpga_dynamo.ir.weights import Pack
from fpga_dynamo.runtime.cards.change import Stamp, memory_of
from fpga_dynamo.runtime.device_tensors import as_host_tensor
from fpga_dynamo.runtime.observe import counters

MEBIBYTE = 1 << 20
PAGE = 4096


@dataclass(eq=False)
class Entry:
    """A pack on the card, `beats` long, `place` beats into the weights region."""

    key: tuple[Any, ...]
    place: int
    beats: int
    sources: tuple[weakref.ref[object], ...]
    stamps: tuple[Stamp, ...] | None = None
    users: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class WeightUser(Protocol):
    """Who has to know where the weights region is."""

    def weights_moved(self, buffer: Any) -> None: ...


class WeightStore:
    """The weights region of one card.

    With a driver that copies between buffers on the card it has no host side; otherwise the host's side holds what the
    card does, so that the region can grow. What nobody uses any more goes back to the system at once on the software
    card, wherever it lies in the region; the region itself shrinks when something is packed next, as that moves it.
    """

    def __init__(self, driver: Any, device: Any, group: int) -> None:
        self._driver = driver
        self._device = device
        self._group = group
        self._copies = driver.COPIES_ON_CARD
        self._to_device = driver.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
        self._lock = threading.Lock()
        self._entries: dict[tuple[Any, ...], Entry] = {}
        self._free = _Extents()
        self._buffer: Any = None
        self._capacity = 0
        self._users: weakref.WeakSet[WeightUser] = weakref.WeakSet()
        self._released: collections.deque[Entry] = collections.deque()

    def add_user(self, user: WeightUser) -> None:
        """Tells `user` the buffer object, and again whenever it is another one (None: nothing is packed)."""
        with self._at_work():
            self._users.add(user)
            user.weights_moved(self._buffer)

    @property
    def buffer(self) -> Any:
        """The buffer of the region; None if nothing is packed."""
        return self._buffer

    @property
    def nbytes(self) -> int:
        """Bytes of all packs."""
        with self._at_work():
            self._collect()
            return BEAT_BYTES * sum(entry.beats for entry in self._entries.values())

    def reserve(self, packs: Sequence[Pack], tensors: Mapping[Node, torch.Tensor]) -> None:
        """Makes room for what :meth:`acquire` will need for `packs`, so that the region grows once.

        Raises the driver's memory error if the bank is full.
        """
        with self._at_work():
            self._collect()
            missing = {key: pack for pack in packs if (key := _key(pack, tensors)) not in self._entries}
            needed = sum(pack.beats for pack in missing.values())
            if needed > self._free.largest():
                self._resize(self._capacity + needed - self._free.tail(self._capacity))

    def acquire(self, pack: Pack, tensors: Mapping[Node, torch.Tensor], stamps: Mapping[Node, Stamp]) -> Entry:
        """The entry of a pack made from these tensors; packs it if nobody has. Release it once for each time.

        Raises the driver's memory error if the bank is full.
        """
        memories = [memory_of(tensors[node]) for node in pack.sources]
        key = _key(pack, tensors)
        with self._at_work():
            entry = self._entries.get(key)
            alive = entry is not None and all(
                ref() is memory for ref, memory in zip(entry.sources, memories, strict=True)
            )
            if entry is None or not alive:
                if entry is not None:  # ids of dead tensors have been given to new ones
                    entry.key = ("dead", id(entry), key)
                    self._entries[entry.key] = self._entries.pop(key)
                entry = Entry(key, self._take(pack.beats), pack.beats, tuple(map(weakref.ref, memories)))
                self._entries[key] = entry
            entry.users += 1
        try:
            self.refresh(entry, pack, tensors, stamps)
        except BaseException:
            self.release([entry])
            raise
        return entry

    def refresh(
        self, entry: Entry, pack: Pack, tensors: Mapping[Node, torch.Tensor], stamps: Mapping[Node, Stamp]
    ) -> None:
        """Packs again if a source is not what it was when the entry was packed.

        `pack` is the caller's own: equal to the entry's, but in terms of the nodes of the caller's graph.
        """
        current = tuple(stamps[node] for node in pack.sources)
        with entry.lock:
            if entry.stamps != current:
                self._upload(entry, pack.build({node: as_host_tensor(tensors[node]) for node in pack.sources}))
                entry.stamps = current
                counters.add(weights_packed=1)

    def release(self, entries: Iterable[Entry]) -> None:
        """Gives one use of each back. May be called by the garbage collector at any time.

        So it only takes note if a thread, this one perhaps, is at work on the store: that one sees to it as it ends.
        """
        self._released.extend(entries)
        self._free_noted()

    def _free_noted(self) -> None:
        while self._released and self._lock.acquire(blocking=False):
            try:
                self._free_released()
            finally:
                self._lock.release()

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """The store's lock; what other threads released while it was held is freed afterwards."""
        try:
            with self._lock:
                yield
        finally:
            self._free_noted()

    def collect(self) -> None:
        """Frees what nobody uses any more, and gives the end of the region back where much of it is free."""
        with self._at_work():
            self._collect()

    def _collect(self) -> None:
        self._free_released()
        unused = self._free.tail(self._capacity)
        if unused * BEAT_BYTES >= MEBIBYTE or (unused and not self._entries):
            self._resize(self._capacity - unused)

    def _free_released(self) -> None:
        """Makes room of what nobody uses any more, and gives its memory back if the driver can."""
        freed: list[int] = []
        while self._released:
            entry = self._released.popleft()
            entry.users -= 1
            if entry.users == 0:
                self._entries.pop(entry.key, None)
                self._free.give(entry.place, entry.beats)
                freed.append(entry.place)
        discard = getattr(self._buffer, "discard", None)
        if discard is not None:
            with contextlib.suppress(DeviceError):  # of a card that a fork left behind
                for start, size in {self._free.around(place) for place in freed}:
                    discard(size * BEAT_BYTES, start * BEAT_BYTES)

    def invalidate(self) -> None:
        """Has every entry packed again before its next use."""
        with self._at_work():
            for entry in self._entries.values():
                entry.stamps = None

    def _take(self, size: int) -> int:
        start = self._free.take(size)
        if start is None:
            self._resize(self._capacity + size - self._free.tail(self._capacity))
            start = self._free.take(size)
            assert start is not None
        return start

    def _resize(self, capacity: int) -> None:
        """A region of (at least) `capacity` beats with the same content."""
        bo = self._driver.bo
        flags = bo.flags.device_only if self._copies else bo.flags.normal
        capacity = -(-capacity * BEAT_BYTES // PAGE) * PAGE // BEAT_BYTES
        buffer = None
        if capacity:
            buffer = bo(self._device, capacity * BEAT_BYTES, flags, self._group)
            kept = min(capacity, self._capacity)
            taken = self._free.taken(kept)
            unused = kept - sum(size for _, size in taken)
            few = unused * BEAT_BYTES < MEBIBYTE  # which would get memory as well
            if self._copies and capacity * BEAT_BYTES >= MEBIBYTE and few:
                buffer.populate()
            if kept and self._copies:
                for start, size in taken:
                    buffer.copy(self._buffer, size * BEAT_BYTES, start * BEAT_BYTES, start * BEAT_BYTES)
            elif kept:
                buffer.write(memoryview(self._buffer.map())[: kept * BEAT_BYTES], 0)
                buffer.sync(self._to_device, kept * BEAT_BYTES, 0)
        # In this order, as an interrupt in between may lose free space, but must not make room behind the buffer.
        if capacity < self._capacity:
            self._free.resize(self._capacity, capacity)
        grown_from, self._capacity = self._capacity, min(self._capacity, capacity)
        self._buffer = buffer
        if capacity > grown_from:
            self._capacity = capacity
            self._free.resize(grown_from, capacity)
        for user in list(self._users):
            user.weights_moved(buffer)

    def _upload(self, entry: Entry, flat: torch.Tensor) -> None:
        nbytes, offset = flat.nbytes, entry.place * BEAT_BYTES
        with self._at_work():
            if self._copies:
                self._buffer.upload_ptr(flat.data_ptr(), nbytes, offset)
            else:
                self._buffer.write_ptr(flat.data_ptr(), nbytes, offset)
                self._buffer.sync(self._to_device, nbytes, offset)


class _Extents:
    """Free extents (start, size), merged with their neighbours; first fit keeps the region compact.

    Each change is one assignment to a slice, so that no exception leaves half of one.
    """

    def __init__(self) -> None:
        self._free: list[tuple[int, int]] = []

    def take(self, size: int) -> int | None:
        for i, (start, length) in enumerate(self._free):
            if length >= size:
                self._free[i : i + 1] = [(start + size, length - size)] if length > size else []
                return start
        return None

    def around(self, place: int) -> tuple[int, int]:
        """Start and size of the free extent that `place` lies in."""
        return self._free[bisect.bisect(self._free, place, key=_start) - 1]

    def taken(self, end: int) -> list[tuple[int, int]]:
        """Starts and sizes of the extents below `end` that are not free."""
        bounds = [0, *(bound for start, size in self._free for bound in (start, start + size)), end]
        return [(a, min(b, end) - a) for a, b in zip(bounds[::2], bounds[1::2], strict=True) if a < min(b, end)]

    def largest(self) -> int:
        return max((size for _, size in self._free), default=0)

    def tail(self, end: int) -> int:
        """Size of the free extent that ends at `end`, or 0."""
        if self._free and sum(self._free[-1]) == end:
            return self._free[-1][1]
        return 0

    def resize(self, old: int, new: int) -> None:
        """Moves the end of the managed range; an extent that is cut off must be free."""
        if new > old:
            self.give(old, new - old)
        elif new < old:
            start, size = self._free[-1]
            self._free[-1:] = [(start, size - (old - new))] if size > old - new else []

    def give(self, start: int, size: int) -> None:
        begin = end = bisect.bisect(self._free, start, key=_start)
        if end < len(self._free) and start + size == self._free[end][0]:
            size += self._free[end][1]
            end += 1
        if begin and sum(self._free[begin - 1]) == start:
            begin -= 1
            start, size = self._free[begin][0], self._free[begin][1] + size
        self._free[begin:end] = [(start, size)]


_start = operator.itemgetter(0)


def _key(pack: Pack, tensors: Mapping[Node, torch.Tensor]) -> tuple[Any, ...]:
    return (pack.key, tuple(id(tensors[node]) for node in pack.sources))


def source_nodes(packs: Sequence[Pack]) -> tuple[Node, ...]:
    """The graph inputs and constants that packs read, each once, in order."""
    return tuple(dict.fromkeys(node for pack in packs for node in pack.sources))
