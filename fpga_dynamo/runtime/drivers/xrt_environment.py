"""Which driver XRT loads in this process, and the environment that it wants for that.

XRT decides once per process, when the first card is opened, from environment variables and its configuration:

- ``card``: the drivers of real cards.
- ``inproc``: the emulator inside of this process, as a driver that XRT loads.
- ``process``: XRT's own driver for software emulation, which starts the emulator as a process.
- ``user``: whatever XCL_EMULATION_MODE and xrt.ini of the user say.

$FPGA_DYNAMO_XRT chooses; unset, it is ``user`` if XCL_EMULATION_MODE is set and ``card`` otherwise.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from fpga_dynamo.errors import DeviceError, OptionError
from fpga_dynamo.runtime.drivers import sw_emu
from xclbin_build import atomic_file, cache

MODES = ("card", "inproc", "process", "user")
DRIVER = "xrt_fpga_dynamo"
MAJOR = "2"
"""Of XRT: part of the names of its libraries."""

_lock = threading.Lock()
_prepared: str | None = None


def mode() -> str:
    """The mode of this process. Raises OptionError if $FPGA_DYNAMO_XRT names none."""
    chosen = os.environ.get("FPGA_DYNAMO_XRT")
    if not chosen:
        return _prepared or ("user" if "XCL_EMULATION_MODE" in os.environ else "card")
    if chosen not in MODES:
        raise OptionError(f"FPGA_DYNAMO_XRT='{chosen}' is unknown; use one of {', '.join(MODES)}")
    return chosen


def prepare(binding: Any) -> str:
    """Sets the environment up for the mode, once; returns the mode. `binding` is the module ``_xrt``.

    Raises DeviceError if the mode needs what is not installed, or another has been used in this process.
    """
    global _prepared
    with _lock:
        wanted = mode()
        if _prepared is not None:
            if wanted != _prepared:
                raise DeviceError(
                    f"XRT has been used with FPGA_DYNAMO_XRT='{_prepared}' in this process and cannot change to "
                    f"'{wanted}'; start another process"
                )
            return _prepared
        library = Path(binding.library_directory)
        installed = Path(binding.__file__).parent / "xrt_lib"
        if wanted == "inproc":
            _need(installed / f"lib{DRIVER}.so.{MAJOR}", wanted)
            os.environ["XILINX_XRT"] = str(_root(library, installed))
            os.environ["XCL_EMULATION_MODE"] = "sw_emu"
            binding.ini.set("Runtime.sw_em_driver", DRIVER)
        elif wanted == "process":
            _need(installed / sw_emu.MODEL, wanted)
            os.environ.setdefault("XILINX_XRT", str(_root(library, installed)))
            os.environ["XCL_EMULATION_MODE"] = "sw_emu"
            sw_emu.prepare(installed)
        elif "XILINX_XRT" not in os.environ:
            os.environ["XILINX_XRT"] = str(_root(library, installed))
        _prepared = wanted
        return wanted


def _need(file: Path, wanted: str) -> None:
    if not file.is_file():
        raise DeviceError(
            f"FPGA_DYNAMO_XRT='{wanted}' needs {file.name}, which is built only where XRT 2.13 with its static "
            "libraries is installed (Debian 12: apt-get install libxrt-dev) before fpga_dynamo is; see "
            "`fpga-dynamo doctor`"
        )


def _root(library: Path, installed: Path) -> Path:
    """A folder in which XRT finds its drivers: those of the installation and ours, as links."""
    if (library.parent / "bin" / "xbutil").exists() and not (installed / f"lib{DRIVER}.so.{MAJOR}").exists():
        return library.parent  # AMD's own layout
    folder = cache.folder("xrt", cache.digest([str(library), str(installed)]), "lib")
    for target in libraries(library, installed):
        atomic_file.symlink(target, folder / target.name)
    return folder.parent


def libraries(library: Path, installed: Path) -> list[Path]:
    """What XRT looks for in `lib` of its root folder: drivers of the installation and ours, and plugins."""
    names = [*library.glob(f"libxrt*.so.{MAJOR}"), *installed.glob(f"lib*.so.{MAJOR}"), library / "xrt"]
    return [target for target in names if target.exists()]
