"""Kernels and runs at a card server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from fpga_dynamo._native import ert_cmd_state
from fpga_dynamo.errors import DeviceError
from fpga_dynamo.runtime.drivers.remote import frames
from fpga_dynamo.runtime.drivers.remote.memory import view_of

Piece = tuple[int, int, int]
"""Host address, bytes, offset in a buffer."""
_SLICE_MS = 5000
"""Longest wait of one request."""
_LONGEST_S = 1e6
"""What an execution without a time-out may take: sockets have no longer one."""


class RemoteKernel:
    """A kernel of the xclbin that is loaded on a card of a server."""

    def __init__(self, device: Any, uuid: Any, name: str) -> None:
        self.link = device.link
        self.number = 0
        self.name = name
        self._groups: dict[int, int] = {}
        number = self.link.new_number()
        self.link.request("kernel", id=number, device=device.number, uuid=uuid.to_string(), name=name)
        self.number = number

    def __del__(self) -> None:
        if self.number:
            self.link.drop(self.number)

    def group_id(self, argument: int) -> int:
        if argument not in self._groups:
            self._groups[argument] = int(self.link.request("group", kernel=self.number, argument=argument)["group"])
        return self._groups[argument]

    def __call__(self, *arguments: Any) -> RemoteRun:
        started = RemoteRun(self)
        for index, value in enumerate(arguments):
            started.set_arg(index, value)
        started.start()
        return started


class RemoteRun:
    """A run of a kernel at a server, made there with its first start."""

    def __init__(self, kernel: RemoteKernel) -> None:
        self.link = kernel.link
        self._kernel = kernel
        self._number = self.link.new_number()
        self._is_made = self._is_known = False
        self._arguments: dict[int, Any] = {}  # kept, as a run keeps its buffers
        self._unsent: set[int] = set()
        self._traced = False
        self.reads_status = False
        """Whether execute_io looks at the status record in its buffer's first words, see `Run`."""
        self.error = ""
        self.counters = ""
        self.step_times: list[tuple[int, int]] = []
        self.start_ns = self.stop_ns = 0

    def __del__(self) -> None:
        if self._is_known:
            self.link.drop(self._number)

    def set_arg(self, index: int, value: Any) -> None:
        """A buffer or a number, sent with the next start."""
        self._arguments[index] = value
        self._unsent.add(index)

    def trace_steps(self, wanted: bool) -> None:
        """Has later starts note when each of their steps began and ended."""
        self._traced = wanted

    def start(self) -> None:
        self._request("start", 1)

    def state(self) -> Any:
        if not self._is_made:
            return ert_cmd_state.ERT_CMD_STATE_NEW
        return self._ended(self.link.request("state", run=self._number))

    def wait(self, timeout_ms: int = 0) -> Any:
        """The state at the end, or ERT_CMD_STATE_TIMEOUT after `timeout_ms` (0: never)."""
        if not self._is_made:
            return self.state()
        end = time.monotonic() + timeout_ms / 1000
        while True:
            left = round((end - time.monotonic()) * 1000) if timeout_ms else _SLICE_MS
            ms = max(1, min(left, _SLICE_MS))
            state = self._ended(self.link.request("wait", run=self._number, timeout_ms=ms, seconds=ms / 1000))
            if state != ert_cmd_state.ERT_CMD_STATE_TIMEOUT or (timeout_ms and time.monotonic() >= end):
                return state

    def abort(self) -> Any:
        """Ends the run if the card can; returns the state that it has then."""
        return self._ended(self.link.request("abort", run=self._number)) if self._is_made else self.state()

    def execute(self, timeout_ms: int = 0) -> Any:
        """start and wait in one request; a run that passes its time-out is ended."""
        return self._request("execute", timeout_ms)

    def execute_io(self, inputs: Sequence[Piece], outputs: Sequence[Piece], bo: Any, timeout_ms: int = 0) -> Any:
        """Inputs into `bo`, start, wait, and if the run completed outputs out of `bo`, in one request; its state."""
        if sum(nbytes for _, nbytes, _ in inputs) > frames.MOST_PAYLOAD:
            for address, nbytes, offset in inputs:
                bo.send_ptr(address, nbytes, offset, named=False)
            inputs = ()
        return self._request("execute", timeout_ms, inputs, outputs, bo)

    def _request(
        self,
        operation: str,
        timeout_ms: int,
        inputs: Sequence[Piece] = (),
        outputs: Sequence[Piece] = (),
        bo: Any = None,
    ) -> Any:
        for given in (*self._arguments.values(), bo):  # an object of a lost session has another's number by now
            if getattr(given, "link", self.link) is not self.link:
                raise DeviceError("a buffer of a connection that was lost cannot be an argument; allocate it again")
        self.error = ""
        sent = tuple(self._unsent)
        self._is_known = True  # perhaps, from here on
        begin = time.monotonic_ns()
        answer = self.link.request(
            operation,
            run=self._number,
            kernel=self._kernel.number,
            arguments={str(index): _encoded(self._arguments[index]) for index in sent},
            bo=0 if bo is None else bo.number,
            inputs=[piece[1:] for piece in inputs],
            outputs=[piece[1:] for piece in outputs],
            timeout_ms=timeout_ms,
            reads_status=self.reads_status,
            traced=self._traced,
            payload=[view_of(address, nbytes) for address, nbytes, _ in inputs],
            into=[view_of(address, nbytes) for address, nbytes, _ in outputs],
            seconds=min(timeout_ms / 1000, _LONGEST_S) if timeout_ms else _LONGEST_S,
        )
        self._is_made = True
        self._unsent.difference_update(sent)
        self.counters = str(answer.get("counters", ""))
        self._take_times(answer, begin, time.monotonic_ns())
        return self._ended(answer)

    def _take_times(self, answer: dict[str, Any], begin: int, end: int) -> None:
        """The server's times on this process's clock: the run lies in the middle of its request."""
        start, stop = answer.get("times", (0, 0))
        shift = (begin + end - start - stop) // 2
        self.start_ns, self.stop_ns = start + shift, stop + shift
        steps = answer.get("steps", [])
        self.step_times = [(first + shift, last + shift) if last else (0, 0) for first, last in steps]

    def _ended(self, answer: dict[str, Any]) -> Any:
        self.error = str(answer.get("error_of_run", ""))
        return getattr(ert_cmd_state, str(answer.get("state")), ert_cmd_state.ERT_CMD_STATE_NEW)


def _encoded(value: Any) -> Any:
    """An argument as JSON has it: a buffer by its number, a float by its bits."""
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", bytes(value).hex()]
    if value is None or isinstance(value, int):
        return value
    if hasattr(value, "__index__"):
        return int(value)
    if hasattr(value, "number"):
        return ["bo", value.number]
    raise DeviceError(f"an argument of a kernel is a buffer, a number or bytes, not {type(value).__name__}")
