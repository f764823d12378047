"""Compute units that work together on a real card, as one kernel.

Everybody else knows such units as the emulator runs them, in one process: a launch has one list of commands for
all of them (each unit's behind the other's), one region of maps, and one of weights. On a card that is a run of each
unit and of the kernel that synchronizes them. Maps are spread over banks by pages, and each unit has commands and
weights in a bank of its own (xclbin_build/peers.py). `PeerDriver` stands in front of a driver and makes the one of the
other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from time import monotonic
from typing import Any, cast

from fpga_dynamo.errors import DeviceError
from fpga_dynamo.runtime.drivers import Driver
from fpga_dynamo.runtime.drivers.status import RECORD_BYTES, refused

Piece = tuple[int, int, int]
"""Host address, bytes, offset in a buffer."""
_FAILURES = ("ERROR", "ABORT", "NORESPONSE", "SKERROR", "SKCRASHED")
"""States of a run that is over, which those that wait for it do not hear of."""
_LOOK = 0.25
"""Seconds after which a run that waits for a unit looks whether that has failed."""
_Span = tuple[int, int, int, int]
"""Which part of a buffer, offset in it, offset in what is written, bytes."""


def behind_peers(driver: Driver, manifest: Mapping[str, Any]) -> Driver:
    """The driver for an xclbin: with a `PeerDriver` in front if its compute units work together on a card."""
    found = next((kernel for kernel in manifest["kernels"] if "peers" in kernel), None)
    return driver if found is None else cast(Driver, PeerDriver(driver, found))


class PeerDriver:
    """A driver for an xclbin with one kernel, whose units work together; `kernel` is its table in the manifest."""

    COPIES_ON_CARD = False

    def __init__(self, driver: Driver, kernel: Mapping[str, Any]) -> None:
        self.inner = driver
        self.units = [unit["name"] for unit in kernel["compute_units"]]
        self.name = kernel["name"]
        self.names = {argument["index"]: argument["name"] for argument in kernel["args"]}
        self.indices: Mapping[str, Any] = kernel["peers"]["arguments"]
        self.barrier: str = kernel["peers"]["barrier"]
        self.page: int = kernel["peers"]["page_bytes"]
        self.at_work = threading.Lock()
        """Units that take runs of two launches would wait for each other for ever."""
        self.bo = _Buffers(self)
        self._opened: PeerKernel | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def kernel(self, device: Any, uuid: Any, _name: str) -> PeerKernel:
        """All of its units, and their barrier."""
        self._opened = PeerKernel(self, device, uuid)
        return self._opened

    def run(self, kernel: PeerKernel) -> PeerRun:
        """A run of all units."""
        return PeerRun(self, kernel)

    def clear_status(self, maps: PeerBuffer) -> None:
        """Of units that share the status record only one that does not succeed writes it."""
        maps.write(bytes(RECORD_BYTES), 0)
        maps.sync(self.inner.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, RECORD_BYTES, 0)

    @property
    def opened(self) -> PeerKernel:
        """The kernel, in whose units' banks buffers lie."""
        assert self._opened is not None, "open a kernel before allocating buffers"
        return self._opened


class PeerKernel:
    """The kernels of the units and of their barrier."""

    def __init__(self, driver: PeerDriver, device: Any, uuid: Any) -> None:
        opened = [driver.inner.kernel(device, uuid, f"{driver.name}:{{{unit}}}") for unit in driver.units]
        self.units: Sequence[Any] = opened
        self.barrier = driver.inner.kernel(device, uuid, driver.barrier)

    def group_id(self, argument: int) -> int:
        """Which of the arguments: several banks of memory, which :class:`_Buffers` knows."""
        return argument


class _Buffers:
    """``bo`` of the driver: a buffer of several parts, by the argument that it is for."""

    def __init__(self, driver: PeerDriver) -> None:
        self._driver = driver

    @property
    def flags(self) -> Any:
        return self._driver.inner.bo.flags

    def __call__(self, device: Any, nbytes: int, flags: Any, group: int) -> PeerBuffer:
        driver = self._driver
        name, units, make = driver.names[group], driver.opened.units, driver.inner.bo
        indices = driver.indices[name]
        if name == "commands":
            own = nbytes // len(units)
            parts = [make(device, own, flags, unit.group_id(indices)) for unit in units]
            return PagedBuffer(parts, nbytes, own)
        if name == "weights":
            return CopiedBuffer([make(device, nbytes, flags, unit.group_id(indices)) for unit in units], nbytes)
        pages = -(-nbytes // driver.page)
        own = -(-pages // len(indices)) * driver.page
        normal = driver.inner.bo.flags.normal  # the host's side is where pages are put together
        parts = [make(device, own, normal, units[0].group_id(index)) for index in indices]
        maps = PagedBuffer(parts, nbytes, driver.page)
        driver.clear_status(maps)
        return maps


class PeerBuffer:
    """A buffer whose bytes lie in `parts`, as :meth:`spans` says."""

    def __init__(self, parts: Sequence[Any], nbytes: int) -> None:
        self.parts = parts
        self._nbytes = nbytes

    def spans(self, offset: int, nbytes: int) -> Iterator[_Span]:
        """Where the bytes from `offset` on lie."""
        raise NotImplementedError

    def size(self) -> int:
        return self._nbytes

    def write(self, data: Any, seek: int = 0) -> None:
        view = memoryview(data).cast("B")
        for part, offset, at, nbytes in self._checked(seek, view.nbytes):
            self.parts[part].write(view[at : at + nbytes], offset)

    def write_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """As write, from host memory at `address`."""
        for part, place, at, length in self._checked(offset, nbytes):
            self.parts[part].write_ptr(address + at, length, place)

    def read_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """To host memory at `address`."""
        for part, place, at, length in self._checked(offset, nbytes):
            self.parts[part].read_ptr(address + at, length, place)

    def sync(self, direction: Any, size: int | None = None, offset: int = 0) -> None:
        """Of each part what lies between the first and the last of these bytes."""
        bounds: dict[int, tuple[int, int]] = {}
        for part, place, _, length in self._checked(offset, self._nbytes - offset if size is None else size):
            first, last = bounds.get(part, (place, place))
            bounds[part] = min(first, place), max(last, place + length)
        for part, (first, last) in bounds.items():
            self.parts[part].sync(direction, last - first, first)

    def map(self) -> Any:
        """The host's side, where it lies in one piece."""
        raise DeviceError("this buffer lies in several banks, so it has no contiguous host mapping")

    def _checked(self, offset: int, nbytes: int) -> Iterator[_Span]:
        if offset < 0 or offset + nbytes > self._nbytes:
            raise DeviceError(f"{nbytes} bytes at offset {offset} lie outside a buffer of {self._nbytes} bytes")
        return self.spans(offset, nbytes)


class PagedBuffer(PeerBuffer):
    """Page p of n parts is page p // n of part p % n: of maps (hls_kernels/engine/paged_port.hpp), and of lists of
    commands, of which each unit's is a page."""

    def __init__(self, parts: Sequence[Any], nbytes: int, page: int) -> None:
        super().__init__(parts, nbytes)
        self._page = page

    def spans(self, offset: int, nbytes: int) -> Iterator[_Span]:
        at = 0
        while at < nbytes:
            page, within = divmod(offset + at, self._page)
            length = min(self._page - within, nbytes - at)
            yield page % len(self.parts), page // len(self.parts) * self._page + within, at, length
            at += length


class CopiedBuffer(PeerBuffer):
    """Weights: each unit has all of them."""

    def spans(self, offset: int, nbytes: int) -> Iterator[_Span]:
        return ((part, offset, 0, nbytes) for part in range(len(self.parts)))

    def map(self) -> Any:
        return self.parts[0].map()


class PeerRun:
    """A run of all units and of their barrier."""

    def __init__(self, driver: PeerDriver, kernel: PeerKernel) -> None:
        self._driver = driver
        self._units = [driver.inner.run(unit) for unit in kernel.units]
        self._barrier = driver.inner.run(kernel.barrier)
        self.reads_status = False
        self.error = ""

    def set_arg(self, index: int, value: Any) -> None:
        """By the argument's index in an engine that is alone: a `PeerBuffer` made for it, or the number of commands."""
        name = self._driver.names[index]
        indices = self._driver.indices[name]
        if name == "count":
            self._barrier.set_arg(0, value)
        for number, unit in enumerate(self._units):
            if name == "count":
                unit.set_arg(indices, value)
            elif name in ("commands", "weights"):
                unit.set_arg(indices, value.parts[number])
            else:
                for argument, part in zip(indices, value.parts, strict=True):
                    unit.set_arg(argument, part)

    def execute_io(self, inputs: Sequence[Piece], outputs: Sequence[Piece], bo: PeerBuffer, timeout_ms: int = 0) -> Any:
        """As `Run.execute_io`. What one unit ends in that is not completed ends all."""
        directions = self._driver.inner.xclBOSyncDirection
        with self._driver.at_work:
            for address, nbytes, offset in inputs:
                bo.write_ptr(address, nbytes, offset)
                bo.sync(directions.XCL_BO_SYNC_BO_TO_DEVICE, nbytes, offset)
            state = self._execute(timeout_ms)
            states = self._driver.inner.ert_cmd_state
            if state == states.ERT_CMD_STATE_COMPLETED and self.reads_status:
                self.error = refused(bo, directions.XCL_BO_SYNC_BO_FROM_DEVICE)
                if self.error:
                    state = states.ERT_CMD_STATE_ERROR
                    self._driver.clear_status(bo)
            if state == states.ERT_CMD_STATE_COMPLETED:
                for address, nbytes, offset in outputs:
                    bo.sync(directions.XCL_BO_SYNC_BO_FROM_DEVICE, nbytes, offset)
                    bo.read_ptr(address, nbytes, offset)
        return state

    def _execute(self, timeout_ms: int) -> Any:
        runs = {"barrier": self._barrier} | dict(zip(self._driver.units, self._units, strict=True))
        started = []
        state: Any = None
        self.error = ""
        try:
            for run in runs.values():
                run.start()
                started.append(run)
            where, state = self._ended(runs, timeout_ms)
            if where:
                why = getattr(runs[where], "error", "") or f"it ended in state {getattr(state, 'name', state)}"
                self.error = f"{self._driver.name} of {len(self._units)} compute units: {where}: {why}"
        finally:
            if state is None or self.error:
                for run in started:
                    run.abort()
        return state

    def _ended(self, runs: Mapping[str, Any], timeout_ms: int) -> tuple[str, Any]:
        """Waits for all: who did not complete, "" if all did, and its state. One that fails keeps others waiting."""
        states = self._driver.inner.ert_cmd_state
        failures = [getattr(states, f"ERT_CMD_STATE_{name}", None) for name in _FAILURES]
        end = monotonic() + timeout_ms / 1000 if timeout_ms else inf
        for name, run in runs.items():
            while (state := run.wait(round(max(1.0, 1000 * min(_LOOK, end - monotonic()))))) != (
                states.ERT_CMD_STATE_COMPLETED
            ):
                for other, beside in runs.items():
                    if (found := beside.state()) in failures:
                        return other, found
                if monotonic() >= end or state != states.ERT_CMD_STATE_TIMEOUT:
                    return name, state
        return "", states.ERT_CMD_STATE_COMPLETED
