"""What the modules of both drivers, ``_native`` and ``_xrt``, have under pyxrt's names. For type checkers only.

All errors derive from ``fpga_dynamo.errors.DeviceError``. Sizes and offsets are in bytes. Loads, starts, waits and
copies release the GIL. Marked "ours": what pyxrt does not have.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
from typing_extensions import Buffer

from fpga_dynamo.errors import DeviceError

class XclbinError(DeviceError):
    """The file is no xclbin, or none that the card can run."""

class DeviceMemoryError(DeviceError, MemoryError):
    """A memory bank of the card has no room left."""

class ert_cmd_state(enum.Enum):
    ERT_CMD_STATE_NEW = 1
    ERT_CMD_STATE_QUEUED = 2
    ERT_CMD_STATE_RUNNING = 3
    ERT_CMD_STATE_COMPLETED = 4
    ERT_CMD_STATE_ERROR = 5
    ERT_CMD_STATE_ABORT = 6
    ERT_CMD_STATE_SUBMITTED = 7
    ERT_CMD_STATE_TIMEOUT = 8
    ERT_CMD_STATE_NORESPONSE = 9
    ERT_CMD_STATE_SKERROR = 10
    ERT_CMD_STATE_SKCRASHED = 11

class xclBOSyncDirection(enum.Enum):
    XCL_BO_SYNC_BO_TO_DEVICE = 0
    XCL_BO_SYNC_BO_FROM_DEVICE = 1

XCL_BO_SYNC_BO_TO_DEVICE: xclBOSyncDirection
XCL_BO_SYNC_BO_FROM_DEVICE: xclBOSyncDirection

class xrt_info_device(enum.Enum):
    bdf = 0
    name = 1  # type: ignore[assignment]  # pyxrt's name, which hides Enum.name
    offline = 2

class uuid:
    def __init__(self, text: str, /) -> None: ...
    def to_string(self) -> str: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class xclbin:
    """An xclbin file; XclbinError if it cannot be read."""

    class xclbinmem:
        def get_tag(self) -> str: ...
        def get_base_address(self) -> int: ...
        def get_size_kb(self) -> int: ...
        def get_used(self) -> bool: ...
        def get_index(self) -> int: ...

    class xclbinkernel:
        def get_name(self) -> str: ...
        def get_num_args(self) -> int: ...
        def get_cus(self) -> list[str]:
            """Names of its compute units (ours)."""

    def __init__(self, path: str, /) -> None: ...
    def get_kernels(self) -> list[xclbinkernel]: ...
    def get_mems(self) -> list[xclbinmem]: ...
    def get_uuid(self) -> uuid: ...
    def get_xsa_name(self) -> str: ...

class device:
    """Card `index`; DeviceError for an unknown index. The same index, the same card, open until the process ends."""

    def __init__(self, index: int = 0) -> None: ...
    @overload
    def load_xclbin(self, xclbin: xclbin, /) -> uuid: ...
    @overload
    def load_xclbin(self, path: str, /) -> uuid:
        """Configures the card; the same UUID again changes nothing.

        XclbinError for a file that cannot be used, DeviceError if the card does not take it.
        """

    def get_xclbin_uuid(self) -> uuid: ...
    def get_info(self, what: xrt_info_device, /) -> str: ...
    def memory(self) -> list[dict[str, Any]]:
        """Banks in use: tag, index, bytes, and used and buffers of this process (ours)."""

    def counters(self) -> dict[str, int]:
        """bytes_to_device, bytes_from_device, runs, of this process (ours)."""

def enumerate_devices() -> int: ...

class bo:
    """A buffer in a memory group, 4 KiB aligned; DeviceMemoryError if there is no room for it.

    normal, cacheable: the host has a copy of its own, and what is not synced is not seen. device_only: no host side.
    host_only, p2p: one memory that both see. ``bo(parent, size, offset)``: a part of another buffer.
    Supports the buffer protocol (``np.asarray(bo.map())``, ``np.frombuffer(bo, ...)``).
    """

    class flags(enum.Enum):
        normal = 0
        cacheable = 1 << 24
        svm = 1 << 27
        device_only = 1 << 28
        host_only = 1 << 29
        p2p = 1 << 30

    normal: flags
    cacheable: flags
    device_only: flags
    host_only: flags
    p2p: flags
    svm: flags

    @overload
    def __init__(self, device: device, size: int, flags: bo.flags, group: int) -> None: ...
    @overload
    def __init__(self, parent: bo, size: int, offset: int) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def size(self) -> int: ...
    def address(self) -> int: ...
    def map(self) -> memoryview: ...
    def write(self, data: Buffer | np.ndarray[Any, Any], seek: int = 0) -> None: ...
    def read(self, size: int, skip: int = 0) -> np.ndarray[Any, np.dtype[np.int8]]: ...
    def write_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """As write, from a raw pointer (ours)."""

    def read_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """As read, to a raw pointer (ours)."""

    @overload
    def sync(self, direction: xclBOSyncDirection) -> None: ...
    @overload
    def sync(self, direction: xclBOSyncDirection, size: int, offset: int) -> None: ...
    def copy(self, source: bo, size: int = 0, source_offset: int = 0, offset: int = 0) -> None:
        """From another buffer, on the card where it can, else through the host's side of both; size 0: all."""

class kernel:
    """A kernel of the loaded xclbin: "vadd", or "vadd:{vadd_1,vadd_3}" for some of its compute units."""

    class cu_access_mode(enum.Enum):
        exclusive = 0
        shared = 1
        none = 2

    exclusive: cu_access_mode
    shared: cu_access_mode
    none: cu_access_mode

    def __init__(self, device: device, uuid: uuid, name: str, mode: cu_access_mode = ...) -> None: ...
    def group_id(self, argument: int) -> int: ...
    def __call__(self, *args: bo | float | bytes | None) -> run:
        """None stands for a stream, which is connected when the xclbin is linked; bytes for a structure (both ours)."""

class run:
    """One start at a time of a kernel. It keeps its buffers while it is under way."""

    def __init__(self, kernel: kernel) -> None: ...
    def set_arg(self, index: int, value: bo | int | float) -> None:
        """An int of up to 64 bits; a float takes the bits of an IEEE number of the argument's size (ours)."""

    def start(self) -> None: ...
    def wait(self, timeout_ms: int = 0) -> ert_cmd_state:
        """The state at the end, or ERT_CMD_STATE_TIMEOUT after `timeout_ms` (0: never); the run goes on then."""

    def execute_io(
        self,
        inputs: Sequence[tuple[int, int, int]],
        outputs: Sequence[tuple[int, int, int]],
        bo: bo,
        timeout_ms: int = 0,
    ) -> ert_cmd_state:
        """Brings inputs into `bo`, starts and waits, and if the run completed fetches outputs from `bo` (ours).

        A piece is (host address, bytes, offset in `bo`). One sync each way: from the first piece to the last one's end.
        A run that takes longer than `timeout_ms` (0: never) is ended, with ERT_CMD_STATE_TIMEOUT.
        """

    def launchable(self, bo: bo) -> object:
        """This run with its inputs and outputs in `bo`, for ``_native.direct_call``; it outlives neither (ours)."""

    def abort(self) -> ert_cmd_state:
        """Ends the run. A state that is no end says that the card has not obeyed within a few seconds (ours)."""

    def state(self) -> ert_cmd_state: ...
    def add_callback(
        self, state: ert_cmd_state, callback: Callable[[None, ert_cmd_state, Any], object], data: Any = None
    ) -> None:
        """Calls callback(None, final state, data) at each end of the run; `state` must be COMPLETED, as in XRT."""

    @property
    def error(self) -> str:
        """Why the last run did not complete, one sentence, if the card knows; else empty (ours)."""

    @property
    def compute_unit(self) -> str | None:
        """The only unit that its kernel was opened with, once it has been started (ours)."""

    @property
    def start_ns(self) -> int:
        """When the last run was started, as the host sees it, on the clock of time.monotonic_ns (ours)."""

    @property
    def stop_ns(self) -> int: ...
