"""Runs compilers and other tools: with a time limit, and what they print kept within bounds."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ToolchainError

OUTPUT_BYTES = 1 << 18
"""Of what a tool prints its beginning and its end are kept, half of this each."""
LIMIT_VARIABLE = "FPGA_DYNAMO_COMPILER_TIMEOUT"
_STANDARD_LIMIT_S = 900.0
_GRACE_S = 2.0
"""How long a process that is told to end may take, and how long the output of one that has ended is waited for."""


class TimedOutError(ToolchainError):
    """A tool that has not ended in its time."""


@dataclass(frozen=True)
class Finished:
    """How a tool ended: its exit status, below 0 the signal that ended it, and what it printed."""

    status: int
    output: str


def time_limit() -> float:
    """Seconds that one run of a compiler may take: $FPGA_DYNAMO_COMPILER_TIMEOUT or 900.

    Raises ToolchainError if the variable holds no positive number.
    """
    given = os.environ.get(LIMIT_VARIABLE, "")
    try:
        limit = float(given) if given else _STANDARD_LIMIT_S
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise ToolchainError(f"{LIMIT_VARIABLE} must be a number of seconds above 0, not {given!r}.")
    return limit


def run(
    command: Sequence[str],
    *,
    timeout: float | None = None,
    cwd: Path | None = None,
    errors: bool = True,
    keep_open: Sequence[int] = (),
) -> Finished:
    """Runs a tool to its end. errors: keep what it prints to standard error, too.

    Raises OSError if it does not start, TimedOutError if it takes longer than `timeout` seconds.
    """
    begin, rest = bytearray(), bytearray()

    def take(data: bytes) -> None:
        room = OUTPUT_BYTES // 2 - len(begin)
        begin.extend(data[: max(room, 0)])
        rest.extend(data[max(room, 0) :])
        del rest[: max(len(rest) - OUTPUT_BYTES // 2, 0)]

    status = follow(command, take, timeout=timeout, cwd=cwd, errors=errors, keep_open=keep_open)
    return Finished(status, (begin + rest).decode(errors="replace"))


def follow(
    command: Sequence[str],
    take: Callable[[bytes], None],
    *,
    timeout: float | None = None,
    silence: bool = False,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    errors: bool = True,
    keep_open: Sequence[int] = (),
    umask: int = -1,
) -> int:
    """Runs a tool, hands what it prints to `take` as it comes, and returns its exit status.

    silence: `timeout` counts from what it has printed last. keep_open: descriptors that it is given. Whatever it has
    started ends with it. Raises OSError if it does not start, TimedOutError.
    """
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors else subprocess.DEVNULL, cwd=cwd, env=environment, bufsize=0,
        start_new_session=True, pass_fds=keep_open, umask=umask,
    ) as process:  # fmt: skip
        try:
            _read(process, take, command[0], timeout, silence)
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise _timed_out(command[0], timeout) from None
        finally:
            _end(process)


def _read(
    process: subprocess.Popen[bytes], take: Callable[[bytes], None], name: str, timeout: float | None, silence: bool
) -> None:
    assert process.stdout is not None
    start = last = time.monotonic()
    ended: float | None = None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if selector.select(0.25):
                data = process.stdout.read(1 << 16)
                if not data:
                    return
                last = time.monotonic()
                take(data)
            if ended is None and process.poll() is not None:
                ended = time.monotonic()
            if ended is not None:
                if time.monotonic() - ended > _GRACE_S:
                    return  # something that it has started keeps the pipe open
            elif timeout is not None and time.monotonic() - (last if silence else start) > timeout:
                raise _timed_out(name, timeout)


def _timed_out(name: str, timeout: float | None) -> TimedOutError:
    return TimedOutError(
        f"{name} has not ended within {timeout:g} s and was stopped; set {LIMIT_VARIABLE} to more seconds, or CXX to "
        "another compiler."
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that is still running and all that it has started."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    for other in _session(process.pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(other, signal.SIGKILL)


def _session(number: int) -> list[int]:
    """Processes of the session that a process has begun."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    status = Path("/proc", name, "stat").read_bytes()
                    if int(status.rpartition(b")")[2].split()[3]) == number:
                        found.append(int(name))
    return found
