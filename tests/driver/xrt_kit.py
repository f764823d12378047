"""Which drivers this machine has, and the environments of processes that use them."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIBRARIES = {"inproc": "libxrt_fpga_dynamo.so.2", "process": "genericpciemodel"}


def needs(driver: str) -> None:
    """Skips the test where the driver is not installed."""
    if driver == "emulated":
        return
    if driver == "pyxrt":
        driver = "inproc"
    try:
        binding = importlib.import_module("fpga_dynamo._xrt")
    except ImportError as error:  # installed without XRT, or XRT has gone since
        pytest.skip(f"no XRT: {error} (apt-get install libxrt-dev uuid-dev, then install fpga_dynamo again)")
    if not (Path(binding.__file__ or "").parent / "xrt_lib" / LIBRARIES[driver]).exists():
        pytest.skip(f"{LIBRARIES[driver]} was not built: it requires XRT 2.13 with its static libraries")


def environment(driver: str) -> dict[str, str]:
    """Of a process that uses this driver; one with an address is the card server's there."""
    result = {k: v for k, v in os.environ.items() if not k.startswith(("XCL_", "XILINX_", "FPGA_DYNAMO_XRT"))}
    result["DRIVER_UNDER_TEST"] = driver if driver in ("emulated", "pyxrt") or "://" in driver else "xrt"
    if driver == "pyxrt":  # AMD's module, played by ours
        result["PYTHONPATH"] = str(HERE / "data/fake_pyxrt")
    if driver != "emulated" and "://" not in driver:
        result["FPGA_DYNAMO_XRT"] = "inproc" if driver == "pyxrt" else driver
    return result
