"""The emulator under pyxrt's names.

Those of ``_pyxrt`` with what follows. Buffers are zeroed. Kernels that were opened before another xclbin was loaded
refuse to start afterwards, and nothing is loaded while a run is under way. $FPGA_DYNAMO_EMULATED_CARDS (default 1) says
how many cards there are; $FPGA_DYNAMO_LANES (default: usable CPUs) is read at load_xclbin.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from typing_extensions import Self

from fpga_dynamo import _pyxrt
from fpga_dynamo._pyxrt import XCL_BO_SYNC_BO_FROM_DEVICE as XCL_BO_SYNC_BO_FROM_DEVICE
from fpga_dynamo._pyxrt import XCL_BO_SYNC_BO_TO_DEVICE as XCL_BO_SYNC_BO_TO_DEVICE
from fpga_dynamo._pyxrt import DeviceMemoryError as DeviceMemoryError
from fpga_dynamo._pyxrt import XclbinError as XclbinError
from fpga_dynamo._pyxrt import enumerate_devices as enumerate_devices
from fpga_dynamo._pyxrt import ert_cmd_state as ert_cmd_state
from fpga_dynamo._pyxrt import uuid as uuid
from fpga_dynamo._pyxrt import xclBOSyncDirection as xclBOSyncDirection
from fpga_dynamo._pyxrt import xrt_info_device as xrt_info_device
from fpga_dynamo.errors import DeviceError

_Tensor = tuple[str, Sequence[int], Sequence[int], int]

A = TypeVar("A")
R = TypeVar("R")

class CommandError(DeviceError):
    """A run ended in a state other than ERT_CMD_STATE_COMPLETED (``run.wait2`` only)."""

class xclbin(_pyxrt.xclbin):
    def get_manifest(self) -> str:
        """The manifest's JSON (ours)."""

class device(_pyxrt.device):
    def lanes(self) -> int:
        """Host threads that share the steps of a start; DeviceError without an xclbin (ours)."""

    def context(self) -> device:
        """The same card once more, with an xclbin, memory and compute units of its own; see card.hpp (ours)."""

    def windows(self) -> tuple[int, int]:
        """Of a tensor that a core reads or writes in the host's memory: least bytes, and what they and its address are
        multiples of (ours)."""

class bo(_pyxrt.bo):
    def populate(self) -> None:
        """Has the card's side get real memory in the background, before it is first touched (ours)."""

    def discard(self, nbytes: int, offset: int) -> None:
        """Gives the range's whole pages back to the system; they are zeros from now on (ours)."""

    def upload_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """A write_ptr and a sync in one, which needs no host side (ours)."""

class kernel(_pyxrt.kernel):
    def __call__(self, *args: _pyxrt.bo | float | bytes | None) -> run: ...

class run(_pyxrt.run):
    """On its kernel's least loaded compute unit that reaches the buffers' banks.

    execute_io copies straight to and from the card: the host's side of the buffer is neither read nor written.
    """

    def wait2(self, timeout_ms: int = 0) -> None:
        """As wait, but CommandError for everything other than ERT_CMD_STATE_COMPLETED, a time-out included."""

    def execute(self, timeout_ms: int = 0) -> ert_cmd_state:
        """start and wait in one, without a change of thread if a compute unit is idle (ours).

        A run that takes longer than `timeout_ms` is ended, with ERT_CMD_STATE_TIMEOUT; the compute unit stays usable.
        """

    def return_code(self) -> int:
        """What the kernel returned: 0, a status of its own, or 0xffffffff if it crashed or was ended."""

    def trace_steps(self, wanted: bool) -> None:
        """Has later starts note when each of their steps (commands of a list) began and ended; off at first (ours)."""

    @property
    def step_times(self) -> list[tuple[int, int]]:
        """(start_ns, stop_ns) of each step of the last start that ran, if it was traced (ours).

        Zeros for a step that was part of another one. DeviceError while the run is under way.
        """

    @property
    def counters(self) -> str:
        """What the last start has counted, as JSON, if the xclbin was built for `cycles` and it has completed (ours).

        Else empty. DeviceError while the run is under way.
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
    width: int,
    out_stride: int,
    in_stride: int,
    taps: Sequence[int],
    infinity: int,
    transform: Sequence[float],
    threads: int,
) -> bool:
    """Weights of a convolution, at an address, as panels at another; see fpga_dynamo.lowering.ops.packing (ours).

    Strides: elements from channel to channel. Taps: elements from a channel's first weight to each tap.
    factors: address of float64s, or 0.
    infinity: the bits of infinity of a 16-bit element type, whose elements are only reordered; 0: float32.
    transform: the rows of G one after the other; empty: no transform.

    Returns whether all packed weights are finite.
    """

class critical_section:
    """A lock around calls of Python functions: ``section(function, *arguments)`` (ours).

    However an exception leaves the function, the lock is free afterwards, and what `repair` returns (a function; None
    if nothing is left to repair) has been called before, until it ran to its end.
    """

    def __init__(self, repair: Callable[[], Callable[[], object] | None] | None = None) -> None: ...
    def __call__(self, function: Callable[..., R], *arguments: Any) -> R: ...
    def reset(self) -> None:
        """For a forked child: nobody is inside."""

class guarded_scope:
    """What ``with`` enters and leaves by change(self, True) and change(self, False), each run to its end in `section`.

    An exception in between is raised behind them; of one while it is entered nothing stays.
    """

    def __init__(self, section: critical_section, change: Callable[[Any, bool], object]) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...

def run_frame(
    gate: bypass, body: Callable[[A], object], leave: Callable[[A, BaseException], object], argument: A
) -> None:
    """Calls body(argument), entered at `gate`; an exception is raised again after leave(argument, exception)."""

def repeat(body: Callable[[A], bool], leave: Callable[[A, BaseException], object], argument: A) -> None:
    """Calls body(argument) until it returns False; after an exception leave(argument, exception), and goes on."""

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

    def adopt(self, section: critical_section, on_end: Callable[[], object]) -> bool:
        """Has `on_end` called in `section` when the direct call ends; False if none runs, or an adopted one."""

    @property
    def adopted(self) -> bool:
        """Whether a direct call that was adopted still runs."""

    def reset(self) -> None:
        """Forgets the call and all frames: for a forked child."""

class direct_call:
    """A graph that is one launch, from its inputs to its outputs in one call (ours); see runtime/calls/direct.py.

    inputs: (position among the arguments, dtype such as "int64", elements, offset in bytes) of each slot.
    outputs: (size, stride and torch.dtype for `empty`, dtype, elements, offset in bytes).
    samples: as for fingerprints; -1: no fingerprints. timeout_ms: as for run.execute.
    otherwise(*args): called for everything that cannot be done here, and after failed(run, number of its state).
    into: tensors that results are written to, of their shapes, strides and dtypes. They are returned if the call was
    direct; what `otherwise` returns are others.
    """

    def __init__(
        self,
        *,
        otherwise: Callable[..., Any],
        failed: Callable[[Any, int], object],
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
    def __call__(self, *args: Any, into: tuple[Any, ...] = ...) -> Any: ...
    def bind(
        self,
        run: _pyxrt.run,
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

    def __deepcopy__(self, memo: Any) -> direct_call:
        """Itself, as of a function."""

def borrowed_runs() -> int:
    """How many runs of emulators have had PyTorch's threads as lanes, since they were spinning."""

def direct_totals() -> tuple[int, int, int, int]:
    """Launches, commands, bytes in and bytes out of all direct calls of the process (ours)."""

def observe_calls(observers: int) -> None:
    """How many want to see every task: no direct calls unless it is 0 (ours)."""

class system_model:
    """A system for `simulate` and `least_work` (ours): the kind of each PE, the memory (0: the host's) of each kind."""

    def __init__(self, kind_of: Sequence[int], memory_of: Sequence[int]) -> None: ...

class graph_model:
    """A task graph on a system (ours). ValueError for one that cannot run there.

    stated, transfer: seconds by task and kind, row by row, negative where a kind cannot run a task. edges: for each
    task those before it.

    crossing: for each edge the seconds if its tasks run in different memories. outward: the part of transfer that
    follows the task (none).
    """

    def __init__(
        self,
        system: system_model,
        stated: Sequence[float],
        transfer: Sequence[float],
        edges: Sequence[Sequence[int]],
        crossing: Sequence[float],
        outward: Sequence[float] = [],
    ) -> None: ...

def simulate(
    system: system_model,
    graphs: Sequence[graph_model],
    times: Sequence[float],
    applications: Sequence[int],
    policy: str,
    seed: int,
    cost: Sequence[float],
    spread: float,
    tail: float,
    trace: bool,
    deadlines: Sequence[float] = [],
    channels: int = 0,
) -> dict[str, Any]:
    """A run in virtual time (ours), see scheduling/simulator.hpp. cost: seconds of a round, an evaluation, an
    assignment, and the period. deadlines: by application, seconds from an arrival. channels: transfers at
    once (any number). Times come back as arrays."""

class least_work:
    """The default policy (ours), see scheduling/least_work.hpp."""

    def __init__(self, system: system_model) -> None: ...
    def add_graph(self, graph: graph_model) -> int: ...
    def forget_graph(self, graph: int) -> None: ...
    def arrive(self, graph: int, arrival: float, share: float) -> int: ...
    def leave(self, frame: int) -> None: ...
    def add(self, frame: int, task: int, tag: int) -> None: ...
    def decide(self, now: float, available: Sequence[float]) -> list[tuple[int, int, bool]]: ...
    def set_estimate(self, graph: int, task: int, kind: int, seconds: float) -> None: ...
    def applied(self, latency: float) -> None: ...
    def waiting(self) -> int: ...
    def frames(self) -> int: ...

class card_protocol:
    """The card server's protocol (ours), see card_server/protocol.hpp. A module, in truth."""

    MAGIC: bytes
    VERSION: int
    MOST_HEAD: int
    MOST_PAYLOAD: int
    MOST_GREETING: int
    GREETING_SECONDS: int
    QUIET_SECONDS: int
    PROBE_SECONDS: int
    PROBES: int
    MOST_CONNECTIONS: int
    MOST_OF_SESSION: int
    LEAST_TOKEN: int
    MOST_TOKEN: int
    NONCE_BYTES: int
    MOST_BYTES: int
    MOST_TEXT: int
    DIGEST_CHARACTERS: int
    MOST_TIMEOUT_MS: int
    MOST_INDEX: int
    MOST_ARGUMENT: int
    MOST_OBJECTS: int
    MOST_UPLOADS: int
    DEVICE_ERROR: str
    MEMORY_ERROR: str
    XCLBIN_ERROR: str
    INTERNAL_ERROR: str
    NORMAL: str
    DEVICE_ONLY: str
    OPERATIONS: tuple[str, ...]

EXPORTED_MODEL_API: int
"""The version of the C API of exported models that this library has (fd_api_version)."""

class exported_model:
    """An exported model that is open (`fpga_dynamo.load`). A tensor is (dtype, shape, strides, address)."""

    def __init__(
        self,
        directory: str,
        *,
        device: int,
        timeout_ms: int,
        check_weights: bool,
        through: Callable[[str], object] | None = None,
    ) -> None:
        """through: makes a `DriverDevice` of an xclbin's path, for a card that the library has no driver of."""
    @property
    def inputs(self) -> list[tuple[str, str, list[int], list[int]]]:
        """Name, dtype, shape and strides of each; -1 changes from call to call."""
    @property
    def outputs(self) -> list[tuple[str, str, list[int], list[int]]]: ...
    def output_layouts(self, inputs: Sequence[_Tensor], /) -> list[tuple[list[int], list[int]]]:
        """Shape and strides of each output for inputs of these shapes."""
    def run(self, inputs: Sequence[_Tensor], outputs: Sequence[_Tensor], /) -> None: ...
    def load_weights(self, path: str, /) -> None: ...
