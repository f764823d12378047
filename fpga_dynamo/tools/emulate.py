"""`fpga-dynamo emulate`: a host program that was written for a card, on the emulator, without a change.

The program calls XRT's C++ or C API, or OpenCL. Environment variables tell XRT where its drivers are, and OpenCL's
loader where XRT is. They name a private folder, which is removed when the program has ended.

The native API and OpenCL look for the driver of software emulation at `lib/libxrt_swemu.so.2` of $XILINX_XRT. In the
private folder that name is a link to a driver of fpga_dynamo. `sw_em_driver` in xrt.ini would not do for a program that
uses both: it is a name for the native API, and a path for OpenCL. An xrt.ini of the user's stays in force.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from fpga_dynamo.errors import DeviceError, FpgaError
from fpga_dynamo.runtime.drivers import sw_emu
from fpga_dynamo.runtime.drivers.xrt_environment import DRIVER, MAJOR, libraries

ROUTES = ("inproc", "process")
DRIVERS = {"inproc": f"lib{DRIVER}.so.{MAJOR}", "process": f"lib{DRIVER}_sw_emu.so.{MAJOR}"}
_MODES = {"inproc": ("hw_emu", "sw_emu"), "process": ("sw_emu",)}
"""Values of XCL_EMULATION_MODE for which a route has the driver, the default first. In sw_emu XRT's OpenCL puts all
buffers into the first bank, whatever a host asks for."""
_PLACES = {"sw_emu": f"libxrt_swemu.so.{MAJOR}", "hw_emu": f"libxrt_hwemu.so.{MAJOR}"}
_OPENCL = f"libxilinxopencl.so.{MAJOR}"
_PACKAGES = "apt-get install libxrt1 libxrt-dev uuid-dev"

_TO_PROGRAM = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_TO_GROUP = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCONT, signal.SIGWINCH)
"""What a terminal sends to all processes of a group."""
_ENDED_BY_SIGNAL = 128
"""Added to the signal's number, as a shell does."""


def add_command(commands: Any) -> None:
    """Adds `emulate` to the commands of `fpga-dynamo`."""
    emulate = commands.add_parser(
        "emulate",
        help="run a host program of XRT or OpenCL on the emulator",
        usage="fpga-dynamo emulate [--route {inproc,process}] -- PROGRAM [ARGUMENT ...]",
        description="Runs a program that was compiled for XRT's native API or OpenCL. The command has the exit status "
        "of the program, or 128 + N if signal N ended the program.",
    )
    emulate.add_argument(
        "--route",
        choices=ROUTES,
        default="inproc",
        help="where the emulator runs: in the program's process (inproc, the default), or in a process of its own "
        "behind XRT's sw_emu driver (process)",
    )
    emulate.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="the program and its arguments")
    emulate.set_defaults(action=_emulate)


def split_program(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of `fpga-dynamo emulate` itself, and those behind `--`, which may be anything."""
    if words[:1] == ["emulate"] and "--" in words:
        at = list(words).index("--")
        return list(words[:at]), list(words[at + 1 :])
    return list(words), []


def _emulate(arguments: argparse.Namespace) -> int:
    if not arguments.program:
        raise FpgaError("emulate needs a program to run: fpga-dynamo emulate -- ./host ARGUMENTS")
    program = _executable(arguments.program[0])
    with tempfile.TemporaryDirectory(prefix="fpga_dynamo_emulate_", ignore_cleanup_errors=True) as folder:
        environment = make_environment(Path(folder), arguments.route)
        with _socket_folder(arguments.route) as sockets:
            sw_emu.allow_open_files()
            status = _run([program, *arguments.program[1:]], environment | sockets)
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        raise ProgramEndedBySignal(f"'{arguments.program[0]}' was ended by {name}", _ENDED_BY_SIGNAL - status)
    return status


class ProgramEndedBySignal(FpgaError):
    """The program did not end by itself. `status`: the command's exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def _executable(name: str) -> str:
    """The program's path, found as a shell finds it."""
    found = shutil.which(name)
    if found is None:
        there = Path(name).exists()
        remedy = "it is not executable (chmod +x)" if there else "there is no such file, nor a command of that name"
        raise FpgaError(f"cannot run '{name}': {remedy}")
    return found


def make_environment(folder: Path, route: str) -> dict[str, str]:
    """The variables of a program on the emulator. folder: for the files that they name."""
    library, installed = _xrt_of(route)
    mode = os.environ.get("XCL_EMULATION_MODE") or _MODES[route][0]
    if mode not in _MODES[route]:
        supported = " and ".join(_MODES[route])
        raise FpgaError(f"XCL_EMULATION_MODE='{mode}' is not supported with --route {route}; supported: {supported}")
    root = folder / "xrt" / "lib"
    root.mkdir(parents=True)
    for target in libraries(library, installed):
        (root / target.name).symlink_to(target)
    for name in _MODES[route]:
        (root / _PLACES[name]).unlink(missing_ok=True)
        (root / _PLACES[name]).symlink_to(installed / DRIVERS[route])
    own = {
        "XILINX_XRT": str(root.parent),
        "XCL_EMULATION_MODE": mode,
        "FPGA_DYNAMO_ERRORS_ON_STDERR": "1",
        **_opencl(folder, library),
        **_python(folder),
        **sw_emu.installation(folder, installed, sw_emu.card_description(_cards(), copies=True)),
    }
    return {name: value for name, value in os.environ.items() if name != "XILINX_OPENCL"} | own


def _xrt_of(route: str) -> tuple[Path, Path]:
    """XRT's folder of libraries, and that of fpga_dynamo's drivers for it. Raises DeviceError if one is missing."""
    try:
        binding = importlib.import_module("fpga_dynamo._xrt")
    except ModuleNotFoundError as error:
        raise DeviceError(
            f"emulate needs XRT, without which fpga_dynamo was installed: {_PACKAGES} (Debian 12), then install "
            "fpga_dynamo again"
        ) from error
    except ImportError as error:
        raise DeviceError(f"emulate needs XRT, which cannot be loaded ({error}): {_PACKAGES} (Debian 12)") from error
    installed = Path(binding.__file__ or "").parent / "xrt_lib"
    if not (installed / DRIVERS[route]).is_file():
        raise DeviceError(
            f"--route {route} needs {DRIVERS[route]}, which is built with XRT 2.13 and its static libraries only: "
            f"{_PACKAGES} (Debian 12), then install fpga_dynamo again"
        )
    return Path(binding.library_directory), installed


@contextlib.contextmanager
def _socket_folder(route: str) -> Iterator[dict[str, str]]:
    """Where XRT's sw_emu driver puts its sockets: a value of USER, the user's own unless others can write there."""
    if route != "process":
        yield {}
        return
    before = os.environ.get("USER", "")
    user = sw_emu.socket_folder(before)
    try:
        yield {"USER": user}
    finally:
        if user != before:
            shutil.rmtree(sw_emu.SOCKETS / user, ignore_errors=True)


def _cards() -> int:
    from fpga_dynamo._native import enumerate_devices

    return enumerate_devices()


def _opencl(folder: Path, library: Path) -> dict[str, str]:
    """Where OpenCL's loaders, ocl-icd's and Khronos', find XRT's OpenCL: nothing if it is not installed."""
    if not (library / _OPENCL).exists():
        return {}
    vendors = folder / "opencl"
    vendors.mkdir()
    (vendors / "xilinx.icd").write_text(f"{library / _OPENCL}\n", encoding="utf-8")
    return {"OCL_ICD_VENDORS": str(vendors)}


def _python(folder: Path) -> dict[str, str]:
    """Where a Python program finds `pyxrt`, which only AMD's packages have: the same names in fpga_dynamo's binding."""
    if importlib.util.find_spec("pyxrt") is not None:
        return {}
    modules = folder / "python"
    modules.mkdir()
    (modules / "pyxrt.py").write_text("from fpga_dynamo._xrt import *\n", encoding="utf-8")
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([*([before] if before else []), str(modules)])}


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Runs the program to its end, and passes signals on; the exit status, or minus the signal that ended it.

    In a session of its own, or a terminal's signals would reach it twice.
    """
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if process is None:
            early.append(number)
        elif process.returncode is None:
            send = os.killpg if number in _TO_GROUP else os.kill
            send(process.pid, number)

    def stop(number: int, frame: FrameType | None) -> None:
        if process is not None and process.returncode is None:
            os.killpg(process.pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)

    handlers = {number: pass_on for number in (*_TO_PROGRAM, *_TO_GROUP)} | {signal.SIGTSTP: stop}
    ignored = [number for number in handlers if signal.getsignal(number) == signal.SIG_IGN]
    before = {number: signal.signal(number, handlers[number]) for number in handlers if number not in ignored}
    try:
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        for number in early:
            pass_on(number, None)
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
