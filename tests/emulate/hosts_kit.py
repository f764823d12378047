"""Host programs of the tests, compiled against the XRT of this machine, and the command that runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.driver.xrt_kit import needs

HERE = Path(__file__).parent
COMMAND = (sys.executable, "-m", "fpga_dynamo.tools.cli", "emulate")
HEADERS = Path("/usr/include/xrt/xrt/xrt_kernel.h")
OPENCL = Path("/usr/include/CL/cl.h")
RECIPE = """
name = "emulate"

[kernel.add]
source = "{kernels}/add.cpp"
cu = 1

[kernel.fail]
source = "{kernels}/fail.cpp"
cu = 1
"""


def compile_host(name: str, folder: Path) -> Path:
    """The program of hosts/NAME.cpp. Skips the test where what it needs is not installed."""
    needs("inproc")
    if not HEADERS.is_file():
        pytest.skip(f"no {HEADERS}: apt-get install libxrt-dev")
    needs_opencl = name not in ("native", "registers")
    if needs_opencl and not OPENCL.is_file():
        pytest.skip(f"no {OPENCL}: apt-get install opencl-headers ocl-icd-opencl-dev")
    libraries = ["-lxrt_coreutil", "-luuid", *(["-lOpenCL"] if needs_opencl else [])]
    program, source = folder / name, HERE / f"hosts/{name}.cpp"
    options = ["-std=c++17", "-O1", f"-I{HEADERS.parents[1]}", "-pthread"]
    subprocess.run(["g++", *options, str(source), "-o", str(program), *libraries], check=True)
    return program


def environment(**changes: str) -> dict[str, str]:
    """Of the command, with two cards and without settings of XRT."""
    others = ("XCL_", "XILINX_", "XRT_", "OCL_", "FPGA_DYNAMO_XRT")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return kept | {"FPGA_DYNAMO_EMULATED_CARDS": "2"} | changes


def emulate(route: str, *words: str | Path, folder: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Runs `fpga-dynamo emulate --route ROUTE -- WORDS`."""
    needs(route)
    return subprocess.run(
        [*COMMAND, "--route", route, "--", *map(str, words)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, cwd=folder, env=environment(**changes),
    )  # fmt: skip
