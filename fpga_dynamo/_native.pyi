"""The software card under pyxrt's names.

All errors derive from ``fpga_dynamo.errors.DeviceError``. Sizes and offsets are in bytes. Whatever waits or copies
releases the GIL. Marked "ours": what pyxrt does not have.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
from typing_extensions import Buffer

from fpga_dynamo.errors import DeviceError

class XclbinError(DeviceError):
    """The file is no xclbin, or none that the software card can run."""

class DeviceMemoryError(DeviceError, MemoryError):
    """A memory bank of the card has no room left."""

class CommandError(DeviceError):
    """A run ended in a state other than ERT_CMD_STATE_COMPLETED (``run.wait2`` only)."""

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
    def __init__(self, text: str) -> None: ...
    def to_string(self) -> str: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class xclbin:
    """An xclbin file; XclbinError if it cannot be read, is damaged, or was not made by xclbin-build."""

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

    def __init__(self, path: str) -> None: ...
    def get_kernels(self) -> list[xclbinkernel]: ...
    def get_mems(self) -> list[xclbinmem]: ...
    def get_uuid(self) -> uuid: ...
    def get_xsa_name(self) -> str: ...
    def get_manifest(self) -> str:
        """The manifest's JSON (ours)."""

class device:
    """Card `index`; $FPGA_DYNAMO_EMULATED_CARDS (default 1) says how many there are. The same index, the same card."""

    def __init__(self, index: int = 0) -> None: ...
    @overload
    def load_xclbin(self, xclbin: xclbin, /) -> uuid: ...
    @overload
    def load_xclbin(self, path: str, /) -> uuid:
        """Configures the card; the same UUID again changes nothing.

        Kernels that were opened before refuse to start afterwards. XclbinError if the file does not run here,
        DeviceError while a run is under way. $FPGA_DYNAMO_LANES (default: usable CPUs) is read here.
        """

    def get_xclbin_uuid(self) -> uuid: ...
    def get_info(self, what: xrt_info_device, /) -> str: ...
    def memory(self) -> list[dict[str, Any]]:
        """Banks in use: tag, index, bytes, used (with guard pages), buffers (ours)."""

    def counters(self) -> dict[str, int]:
        """bytes_to_device, bytes_from_device, runs, since the card was first opened (ours)."""

def enumerate_devices() -> int: ...

class bo:
    """A buffer in a memory group, 4 KiB aligned, zeroed; DeviceMemoryError if the bank is full.

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
    def size(self) -> int: ...
    def address(self) -> int: ...
    def map(self) -> memoryview: ...
    def write(self, data: Buffer, seek: int = 0) -> None: ...
    def read(self, size: int, skip: int = 0) -> np.ndarray[Any, np.dtype[np.int8]]: ...
    def write_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """As write, from a raw pointer (ours)."""

    def read_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """As read, to a raw pointer (ours)."""

    def populate(self) -> None:
        """Has the card's side get real memory in the background, before it is first touched (ours)."""

    def upload_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """A write_ptr and a sync in one, which needs no host side (ours)."""

    @overload
    def sync(self, direction: xclBOSyncDirection) -> None: ...
    @overload
    def sync(self, direction: xclBOSyncDirection, size: int, offset: int) -> None: ...
    def copy(self, source: bo, size: int = 0, source_offset: int = 0, offset: int = 0) -> None:
        """On the card, from another buffer; size 0: the rest of the source."""

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
    def __call__(self, *args: bo | int | float) -> run: ...

class run:
    """One start at a time of a kernel, on its least loaded compute unit that reaches the buffers' banks."""

    def __init__(self, kernel: kernel) -> None: ...
    def set_arg(self, index: int, value: bo | int | float) -> None:
        """A float takes the bits of an IEEE number of the argument's size (pyxrt takes int and bo only)."""

    def start(self) -> None: ...
    def wait(self, timeout_ms: int = 0) -> ert_cmd_state:
        """The state at the end, or ERT_CMD_STATE_TIMEOUT after `timeout_ms` (0: never); the run goes on then."""

    def wait2(self, timeout_ms: int = 0) -> None:
        """As wait, but CommandError for everything other than ERT_CMD_STATE_COMPLETED, a time-out included."""

    def execute(self, timeout_ms: int = 0) -> ert_cmd_state:
        """start and wait in one, without a change of thread if a compute unit is idle (ours).

        A run that takes longer than `timeout_ms` is ended, with ERT_CMD_STATE_TIMEOUT; the compute unit stays usable.
        """

    def execute_io(
        self,
        inputs: Sequence[tuple[int, int, int]],
        outputs: Sequence[tuple[int, int, int]],
        bo: bo,
        timeout_ms: int = 0,
    ) -> ert_cmd_state:
        """Copies inputs into `bo` on the card, executes, and if that completed copies outputs out of it (ours).

        A piece is (host address, bytes, offset in bo). The host's side of `bo` is neither read nor written.
        """

    def abort(self) -> ert_cmd_state: ...
    def state(self) -> ert_cmd_state: ...
    def return_code(self) -> int:
        """What the kernel returned: 0, a status of its own, or 0xffffffff if it crashed or was ended."""

    def add_callback(
        self, state: ert_cmd_state, callback: Callable[[None, ert_cmd_state, Any], object], data: Any = None
    ) -> None:
        """Calls callback(None, final state, data) at each end of the run; `state` must be COMPLETED, as in XRT."""

    @property
    def error(self) -> str:
        """Why the last run did not complete, one sentence; empty if it did (ours)."""

    @property
    def compute_unit(self) -> str | None:
        """Name of the unit that took the last run (ours)."""

    @property
    def start_ns(self) -> int:
        """When the last run began, on the clock of time.monotonic_ns (ours)."""

    @property
    def stop_ns(self) -> int: ...
    def trace_steps(self, wanted: bool) -> None:
        """Has later starts note when each of their steps (commands of a list) began and ended; off at first (ours)."""

    @property
    def step_times(self) -> list[tuple[int, int]]:
        """(start_ns, stop_ns) of each step of the last start that ran, if it was traced (ours).

        DeviceError while the run is under way.
        """

def fingerprints(addresses: Sequence[int], sizes: Sequence[int], samples: int) -> list[int]:
    """A hash of each block of memory: of `samples` (at least 2) words spread over it, or of every byte if 0 (ours)."""

def pack_panels(
    *,
    weight: int,
    factors: int,
    panels: int,
    outs: int,
    ins: int,
    taps: int,
    width: int,
    transform: Sequence[float],
    threads: int,
) -> None:
    """Weights of a convolution, at an address, as panels at another; see fpga_dynamo.lowering.ops.packing (ours).

    factors: address of float64s, or 0. transform: the rows of G one after the other; none: there is no transform.
    """

class bypass:
    """How direct calls and a scheduler keep out of each other's way (ours).

    A direct call begins only while no frame has entered and no other direct call runs; else it goes the whole way.
    """

    def enter(self) -> None:
        """A frame is in the scheduler, until it leaves."""

    def leave(self) -> None: ...
    @property
    def call(self) -> tuple[Any, float] | None:
        """The owner of the direct call that runs, and since when, on the clock of time.perf_counter."""

    def adopt(self, on_end: Callable[[], object]) -> bool:
        """Has `on_end` called when the direct call ends; False if none runs, or one that is adopted already."""

    def reset(self) -> None:
        """Forgets the call and all frames: for a forked child."""

class direct_call:
    """A graph that is one launch, from its inputs to its outputs in one call (ours); see fpga_dynamo.runtime.direct.

    inputs: (position among the arguments, dtype such as "int64", elements, offset in bytes) of each slot.
    outputs: (size, stride and torch.dtype for `empty`, dtype, elements, offset in bytes).
    samples: as for fingerprints; -1: no fingerprints. timeout_ms: as for run.execute.
    otherwise(*args): called for everything that cannot be done here, and after failed(run, state).
    """

    def __init__(
        self,
        *,
        otherwise: Callable[..., Any],
        failed: Callable[[run, ert_cmd_state], object],
        gate: bypass,
        empty: Callable[..., Any],
        profiling: Callable[[], bool],
        arity: int,
        inputs: Sequence[tuple[int, str, int, int]],
        outputs: Sequence[tuple[tuple[int, ...], tuple[int, ...], Any, str, int, int]],
        commands: int,
        timeout_ms: int,
        samples: int,
    ) -> None: ...
    def __call__(self, *args: Any) -> Any: ...
    def bind(
        self,
        run: run,
        memory: bo,
        owner: object,
        guard: Callable[..., bool],
        sources: Sequence[tuple[int, Any, int, int, int, int]],
    ) -> None:
        """Calls with these parameters may be done here from now on, by `run`, whose arguments are all set.

        guard: whether inputs are of the kind that fills the slots. sources: (position or -1 for a constant, tensor,
        bytes, and its address, version and fingerprint when it was packed) of each parameter; held weakly.
        """

    def unbind(self) -> None:
        """Lets go of everything that was bound."""

    def take_durations(self) -> list[float]:
        """Seconds that the last calls (at most 8) took since this was last asked."""

def direct_totals() -> tuple[int, int, int, int]:
    """Launches, commands, bytes in and bytes out of all direct calls of the process (ours)."""

def observe_calls(wanted: bool) -> None:
    """True: no direct calls, until this is called with False as many times (ours)."""
