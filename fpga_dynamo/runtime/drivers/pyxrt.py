"""AMD's own Python module for XRT, where it can be imported: it comes with AMD's XRT packages.

Within its limits: a scalar is an int of 32 bits (a float is passed as the bits of one), and its waits hold the GIL, so
they are made of questions for the state with pauses between them.
"""

from __future__ import annotations

import ctypes
import struct
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyxrt as amd

from fpga_dynamo._native import DeviceMemoryError, XclbinError
from fpga_dynamo.errors import DeviceError
from fpga_dynamo.runtime.drivers.status import refused

COPIES_ON_CARD = False
uuid = amd.uuid
ert_cmd_state = amd.ert_cmd_state
xclBOSyncDirection = amd.xclBOSyncDirection
xrt_info_device = getattr(amd, "xrt_info_device", None)

_opened: weakref.WeakSet[kernel] = weakref.WeakSet()

Piece = tuple[int, int, int]
"""Host address, bytes, offset in a buffer."""

_PAUSES = (20e-6, 500e-6)
"""Seconds between two looks at a state: at first, and at most."""
_PATIENCE = 3.0
"""Seconds that a card has to end a run."""


def xclbin(path: str) -> Any:
    """An xclbin file. Raises XclbinError if it cannot be read."""
    try:
        return amd.xclbin(path)
    except RuntimeError as error:
        raise XclbinError(f"xclbin '{path}': {error}") from error


class device:
    """Card `index`. Raises DeviceError if XRT sees none."""

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.handle = _call(f"card {index} cannot be opened", amd.device, index)

    def load_xclbin(self, file: Any, /) -> Any:
        """Configures the card from a path or an xclbin object; kernels of another one have to be opened again."""
        content = xclbin(file) if isinstance(file, str) else file
        replaced = [k for k in _opened if k.index == self.index and k.xclbin != content.get_uuid().to_string()]
        for opened in replaced:
            opened.check_idle()
        for opened in replaced:
            opened.close()
        return _call("the card rejects the xclbin", self.handle.load_xclbin, content)

    def get_xclbin_uuid(self) -> Any:
        return self.handle.get_xclbin_uuid()

    def get_info(self, what: Any, /) -> str:
        return str(self.handle.get_info(what))


class bo:
    """A buffer in a memory group. Raises DeviceMemoryError if there is no room for it."""

    flags = getattr(amd.bo, "flags", amd.bo)

    def __init__(self, owner: Any, *arguments: Any) -> None:
        try:
            self.handle = amd.bo(owner.handle, *arguments)
        except (MemoryError, RuntimeError) as error:
            raise DeviceMemoryError(f"a buffer of {arguments[0]} bytes: {error}") from error

    def write(self, data: Any, seek: int = 0) -> None:
        self.handle.write(data, seek)

    def read(self, size: int, skip: int = 0) -> Any:
        return self.handle.read(size, skip)

    def write_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """As write, from host memory at `address`."""
        ctypes.memmove(self._part(nbytes, offset), address, nbytes)

    def read_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """As read, to host memory at `address`."""
        ctypes.memmove(address, self._part(nbytes, offset), nbytes)

    def _part(self, nbytes: int, offset: int) -> int:
        """The address of a part of the host's side."""
        view = np.frombuffer(self.handle.map(), np.uint8)
        if offset + nbytes > view.size:
            raise DeviceError(f"{nbytes} bytes at offset {offset} lie outside a buffer of {view.size} bytes")
        return int(view.ctypes.data) + offset

    def sync(self, direction: Any, size: int | None = None, offset: int = 0) -> None:
        _call("a sync", self.handle.sync, direction, self.size() if size is None else size, offset)

    def map(self) -> Any:
        return self.handle.map()

    def size(self) -> int:
        return int(self.handle.size())

    def address(self) -> int:
        return int(self.handle.address())


class kernel:
    """A kernel of the loaded xclbin, as :class:`run` starts it."""

    def __init__(self, owner: device, xclbin_uuid: Any, name: str) -> None:
        self.name = name
        self.index = owner.index
        self.runs: weakref.WeakSet[run] = weakref.WeakSet()
        self.xclbin = xclbin_uuid.to_string()
        mode = getattr(amd.kernel, "shared", None) or amd.kernel.cu_access_mode.shared
        self.handle = _call(f"kernel '{name}' cannot be opened", amd.kernel, owner.handle, xclbin_uuid, name, mode)
        _opened.add(self)

    def check_idle(self) -> None:
        """Raises DeviceError if one of its runs is under way."""
        if any(one.is_under_way for one in self.runs):
            raise DeviceError(f"a run of kernel '{self.name}' is under way; wait for it before you load another xclbin")

    def close(self) -> None:
        """Lets go of XRT's kernel and runs, which would outlive their xclbin when another one is loaded."""
        for one in self.runs:
            one.close()
        self.handle = None
        _opened.discard(self)

    def check_loaded(self) -> None:
        """Raises DeviceError if the card was given another xclbin since, whether it has taken that or not."""
        if self.handle is None:
            raise DeviceError(
                f"card {self.index} has been loaded with another xclbin since kernel '{self.name}' was opened; "
                "open it again"
            )

    def group_id(self, argument: int) -> int:
        self.check_loaded()
        return int(_call(f"argument {argument} of kernel '{self.name}'", self.handle.group_id, argument))

    def __call__(self, *arguments: Any) -> run:
        started = run(self)
        for index, value in enumerate(arguments):
            started.set_arg(index, value)
        started.start()
        return started


class run:
    """One start at a time of a kernel. It keeps its buffers."""

    def __init__(self, opened: kernel) -> None:
        opened.check_loaded()
        self._kernel = opened
        self._started = False
        self._last: Any = None
        self._refused = ""
        self.reads_status = False
        """Whether execute_io looks at the status record in its buffer's first words, see `Run`."""
        self._arguments: dict[int, Any] = {}
        self._handle = _call(f"a run of kernel '{opened.name}'", amd.run, opened.handle)
        opened.runs.add(self)

    @property
    def is_under_way(self) -> bool:
        return self._handle is not None and self._started and not _is_end(self.state())

    def close(self) -> None:
        """Lets go of XRT's run; its last state is kept."""
        if self._handle is not None:
            self._last, self._handle = self.state(), None
            self._arguments.clear()

    def set_arg(self, index: int, value: bo | float) -> None:
        """A buffer, an int of 32 bits, or a float that becomes an IEEE number of 32 bits."""
        self._kernel.check_loaded()
        if isinstance(value, bo):
            self._arguments[index] = value
            _call(f"argument {index}", self._handle.set_arg, index, value.handle)
            return
        _call(f"argument {index}", self._handle.set_arg, index, _as_int32(index, value))

    def start(self) -> None:
        self._kernel.check_loaded()
        self._refused = ""
        _call(f"kernel '{self._kernel.name}' cannot be started", self._handle.start)
        self._started = True

    def state(self) -> Any:
        if self._refused:
            return ert_cmd_state.ERT_CMD_STATE_ERROR
        return self._last if self._handle is None else self._handle.state()

    def wait(self, timeout_ms: int = 0) -> Any:
        """The state at the end, or ERT_CMD_STATE_TIMEOUT after `timeout_ms` (0: never); other threads go on."""
        if not self._started or self._handle is None:
            return self.state()
        begin = time.monotonic()
        pause, longest = _PAUSES
        while not _is_end(state := self.state()):
            passed = time.monotonic() - begin
            if timeout_ms and passed * 1000 >= timeout_ms:
                return ert_cmd_state.ERT_CMD_STATE_TIMEOUT
            time.sleep(min(max(pause, passed / 32), longest))
        self._handle.wait()  # tells XRT, which refuses another start else
        return state

    def execute_io(self, inputs: Sequence[Piece], outputs: Sequence[Piece], bo: bo, timeout_ms: int = 0) -> Any:
        """Inputs into `bo`, sync, start, wait, sync, and if the run completed outputs out of `bo`; its state.

        One sync each way, from the first piece to the end of the last. A run that passes its time-out is ended.
        """
        for address, nbytes, offset in inputs:
            bo.write_ptr(address, nbytes, offset)
        if inputs:
            bo.sync(xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, *_span(inputs))
        self.start()
        state = self.wait(timeout_ms)
        if state == ert_cmd_state.ERT_CMD_STATE_TIMEOUT:
            self.abort()
        if state == ert_cmd_state.ERT_CMD_STATE_COMPLETED and self.reads_status:
            self._refused = refused(bo, xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE)
            state = self.state()
        if state == ert_cmd_state.ERT_CMD_STATE_COMPLETED and outputs:
            bo.sync(xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE, *_span(outputs))
            for address, nbytes, offset in outputs:
                bo.read_ptr(address, nbytes, offset)
        return state

    def abort(self) -> Any:
        """Ends the run where this pyxrt can; returns the state that it has then."""
        if hasattr(self._handle, "abort") and not _is_end(self.state()):
            self._handle.abort()
            self.wait(int(_PATIENCE * 1000))
        return self.state()

    @property
    def error(self) -> str:
        return self._refused


def _span(pieces: Sequence[Piece]) -> tuple[int, int]:
    """Bytes and offset of what the pieces cover."""
    begin = min(offset for _, _, offset in pieces)
    return max(offset + nbytes for _, nbytes, offset in pieces) - begin, begin


def _is_end(state: Any) -> bool:
    names = ("COMPLETED", "ERROR", "ABORT", "TIMEOUT", "NORESPONSE", "SKERROR", "SKCRASHED")
    return any(state == getattr(ert_cmd_state, f"ERT_CMD_STATE_{name}", None) for name in names)


def _as_int32(index: int, value: float) -> int:
    if isinstance(value, float):
        return int(struct.unpack("<i", struct.pack("<f", value))[0])
    if not -(1 << 31) <= value < 1 << 32:
        raise DeviceError(
            f"argument {index}: pyxrt supports scalars of 32 bits only, and {value} has more; use driver 'xrt'"
        )
    return value - (1 << 32) if value >= 1 << 31 else value


def _call(what: str, function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except DeviceError:
        raise
    except (RuntimeError, IndexError, ValueError) as error:
        raise DeviceError(f"{what}: {error}") from error
