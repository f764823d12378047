"""AMD's XRT through its C++ API, under pyxrt's names. See ``fpga_dynamo/_xrt.pyi`` for what it adds to pyxrt.

Waits, starts, syncs and loads release the GIL; scalars may have 64 bits or be floats; time-outs end. It drives real
cards, and the emulator under XRT: see :mod:`fpga_dynamo.runtime.drivers.xrt_environment`.
"""

from __future__ import annotations

from fpga_dynamo import _xrt
from fpga_dynamo._native import enumerate_devices as software_cards
from fpga_dynamo._xrt import (
    DeviceMemoryError,
    XclbinError,
    bo,
    ert_cmd_state,
    ini,
    kernel,
    run,
    uuid,
    xclbin,
    xclBOSyncDirection,
    xrt_info_device,
)
from fpga_dynamo.errors import DeviceError
from fpga_dynamo.runtime.drivers.xrt_environment import prepare

COPIES_ON_CARD = False
"""Many shells have no engine for it, and XRT's way around needs a host side of both buffers."""

__all__ = [
    "COPIES_ON_CARD",
    "DeviceMemoryError",
    "XclbinError",
    "bo",
    "device",
    "enumerate_devices",
    "ert_cmd_state",
    "ini",
    "kernel",
    "run",
    "uuid",
    "xclBOSyncDirection",
    "xclbin",
    "xrt_info_device",
]


def enumerate_devices() -> int:
    """How many cards XRT sees; 0 also where its driver cannot be loaded."""
    known = _software_cards(prepare(_xrt))
    if known is not None:
        return known
    try:
        return _xrt.enumerate_devices()
    except DeviceError:
        return 0


def device(index: int = 0) -> _xrt.device:
    """Card `index`. Raises DeviceError if XRT sees none of that number."""
    mode = prepare(_xrt)
    known = _software_cards(mode)
    if known is not None and not 0 <= index < known:
        raise DeviceError(f"there is no card {index}: XRT has {known} emulated device(s) with FPGA_DYNAMO_XRT='{mode}'")
    try:
        return _xrt.device(index)
    except DeviceError as error:
        hint = "; for the emulator under XRT set FPGA_DYNAMO_XRT=inproc" if mode == "card" else ""
        raise DeviceError(f"{error}{hint}") from error


def _software_cards(mode: str) -> int | None:
    """How many there are; XRT's emulation tells of none, and makes up any that is asked for."""
    return {"inproc": software_cards(), "process": 1}.get(mode)
