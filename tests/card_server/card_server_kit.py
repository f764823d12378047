"""Card servers of tests, each a process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from fpga_dynamo.runtime.drivers.remote.driver import RemoteDriver
from tests import native_build
from tests.driver.xrt_kit import ROOT, environment

TOKEN = "0123456789abcdef0123456789abcdef"
KINDS = ("python", "native")
SANITIZER_OPTIONS = {
    # The emulator turns faults of kernels into errors of runs itself.
    "ASAN_OPTIONS": "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigfpe=0:handle_sigill=0:"
    "allocator_may_return_null=1",
    "TSAN_OPTIONS": "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigfpe=0:handle_sigill=0",
}
WITHOUT_TORCH = (
    "import sys; sys.modules['torch'] = None\n"
    "from fpga_dynamo.tools.cli import main; sys.exit(main(['card-server', *sys.argv[1:]]))"
)
"""The command on a machine without torch."""


@dataclass
class Served:
    """A server that runs. address: without the index of a card."""

    process: subprocess.Popen[str]
    address: str
    token_file: Path
    log: Path

    @property
    def port(self) -> int:
        return int(self.address.rsplit(":", 1)[1])

    def device(self, index: int = 0) -> str:
        """The value of option 'device'."""
        return f"{self.address}/{index}?token-file={self.token_file}"

    @property
    def driver(self) -> str:
        return f"{self.address}?token-file={self.token_file}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)


def native_server(sanitizers: str = "") -> Path:
    """The server in C++, with these sanitizers of the compiler; skips the test where it cannot be built."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = native_build.ROOT / "build" / f"card-server{sanitizers and '-'}{sanitizers}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:  # of processes that run tests at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        options: tuple[str, ...] = ("-DFPGA_DYNAMO_PYTHON=OFF", "-DFPGA_DYNAMO_XRT=OFF", "-DFPGA_DYNAMO_CARD_SERVER=ON")
        options += (f"-DFPGA_DYNAMO_SANITIZE={sanitizers}", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
        native_build.configure(folder, *options)
        native_build.build(folder, "card-server")
    return folder / "card-server"


def write_token(folder: Path, content: str = TOKEN, name: str = "token") -> Path:
    """A token file that nobody else can read."""
    path = folder / name
    path.touch(mode=0o600)
    path.write_text(content + "\n")
    return path


@contextlib.contextmanager
def serving(
    folder: Path,
    *options: str,
    port: int = 0,
    driver: str = "emulated",
    prefix: Sequence[str] = (),
    host: str = "",
    kind: str = "python",
    program: Sequence[str] = (),
) -> Iterator[Served]:
    """A server in a process of its own, until the end of the block, when it must end by itself.

    kind: "python"; "native" for that in C++; "native:" and sanitizers for that with them. program: another
    server's command.
    """
    token_file = folder / "token"
    if not token_file.exists():
        write_token(folder)
    log = folder / "server.log"
    name, _, sanitizers = kind.partition(":")
    if not program:
        program = [str(native_server(sanitizers))] if name == "native" else [sys.executable, "-c", WITHOUT_TORCH]
    command = [*prefix, *program, "--listen", f"{host or '127.0.0.1'}:{port}", "--token-file", str(token_file)]
    command += ["--driver", {"emulated": "emulated", "pyxrt": "pyxrt"}.get(driver, "xrt"), *options]
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT,
            env=environment(driver) | SANITIZER_OPTIONS, start_new_session=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready on "), log.read_text()
        yield Served(process, line.split()[2].removesuffix(":"), token_file, log)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()
        text = log.read_text()
        assert not any(word in text for word in ("Traceback", "Sanitizer", "runtime error")), text
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def status(server: Served) -> dict[str, int]:
    """What the server holds, the client that asks included."""
    return RemoteDriver(server.driver).status()


def wait_until_empty(server: Served) -> None:
    """Waits until no client but this one has anything."""
    end = time.monotonic() + 20
    while (found := status(server))["buffers"] or found["bytes"]:
        assert time.monotonic() < end, found
        time.sleep(0.05)
