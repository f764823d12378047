"""Runs at the server. A run whose client has gone is ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fpga_dynamo.errors import DeviceError

_LOOK_MS = 250
"""After this time a wait looks whether the session has ended."""
_UNDER_WAY = ("QUEUED", "RUNNING", "SUBMITTED")


@dataclass(frozen=True)
class Launch:
    """A start with what is copied before and after: pieces of bytes at offsets; inputs lie in `payload`."""

    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[tuple[int, int]]
    payload: Any
    timeout_ms: int
    reads_status: bool
    traced: bool


class ServedRun:
    """A run of a driver. has_ended: whether the client has gone."""

    def __init__(self, handle: Any, driver: Any, has_ended: Callable[[], bool]) -> None:
        self._handle = handle
        self._driver = driver
        self._has_ended = has_ended
        self._states = driver.ert_cmd_state
        self._arguments: dict[int, Any] = {}
        self._is_traced = False

    def set_arg(self, index: int, value: Any) -> None:
        self._handle.set_arg(index, value)
        self._arguments[index] = value

    def start(self) -> dict[str, Any]:
        self._handle.start()
        return self.answer()

    def answer(self, state: Any = None) -> dict[str, Any]:
        """The state, by default that of now, and why the run did not complete."""
        state = self._handle.state() if state is None else state
        return {"state": getattr(state, "name", str(state)), "error_of_run": getattr(self._handle, "error", "")}

    def wait(self, timeout_ms: int) -> dict[str, Any]:
        """The state at the end, or that of a time-out after `timeout_ms`."""
        return self.answer(self._wait(timeout_ms))

    def abort(self) -> dict[str, Any]:
        self._handle.abort()
        return self.answer()

    def end(self) -> None:
        """Ends the run if it is under way: nobody waits for it any more."""
        with contextlib.suppress(DeviceError, AttributeError):  # units that work together end by themselves
            names = [f"ERT_CMD_STATE_{name}" for name in _UNDER_WAY]
            if self._handle.state() in [getattr(self._states, name, None) for name in names]:
                self._handle.abort()

    def execute(self, launch: Launch, buffer: Any) -> tuple[dict[str, Any], Sequence[Any]]:
        """Inputs into the buffer, start, wait, outputs; a run that passes its time-out is ended."""
        if launch.traced != self._is_traced and hasattr(self._handle, "trace_steps"):
            self._handle.trace_steps(launch.traced)
            self._is_traced = launch.traced
        if hasattr(self._handle, "reads_status"):  # a driver's for cards
            self._handle.reads_status = launch.reads_status
        outputs = [np.empty(nbytes, np.uint8) for nbytes, _ in launch.outputs]
        if buffer is None:
            state = self._bare(launch.timeout_ms)
        else:
            back = [
                (made.ctypes.data, nbytes, offset)
                for made, (nbytes, offset) in zip(outputs, launch.outputs, strict=True)
            ]
            state = self._handle.execute_io(_placed(launch), back, buffer, launch.timeout_ms)
        completed = state == self._states.ERT_CMD_STATE_COMPLETED
        answer = self.answer(state) | {"times": self._times()}
        if completed and self._is_traced:
            answer["steps"] = [list(step) for step in self._handle.step_times]
        if completed and (counters := getattr(self._handle, "counters", "")):
            answer["counters"] = counters
        return answer, outputs if completed else ()

    def _times(self) -> list[int]:
        return [getattr(self._handle, "start_ns", 0), getattr(self._handle, "stop_ns", 0)]

    def _bare(self, timeout_ms: int) -> Any:
        self._handle.start()
        state = self._wait(timeout_ms)
        if state == self._states.ERT_CMD_STATE_TIMEOUT:
            self._handle.abort()
        return state

    def _wait(self, timeout_ms: int) -> Any:
        end = time.monotonic() + timeout_ms / 1000
        while True:
            left = round((end - time.monotonic()) * 1000) if timeout_ms else _LOOK_MS
            state = self._handle.wait(max(1, min(left, _LOOK_MS)))
            if state != self._states.ERT_CMD_STATE_TIMEOUT or (timeout_ms and time.monotonic() >= end):
                return state
            if self._has_ended():
                return state


def _placed(launch: Launch) -> list[tuple[int, int, int]]:
    """Address, bytes and offset of the inputs, which lie in the payload one after the other."""
    address, pieces = launch.payload.ctypes.data, []
    for nbytes, offset in launch.inputs:
        pieces.append((address, nbytes, offset))
        address += nbytes
    return pieces
