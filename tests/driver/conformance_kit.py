"""The card that conformance.py and conformance_faults.py run on; $DRIVER_UNDER_TEST names its driver."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

import xclbin_build
from fpga_dynamo.runtime.drivers import select

DRIVER = os.environ.get("DRIVER_UNDER_TEST", "emulated")
xrt: Any = select(DRIVER)
State = xrt.ert_cmd_state
COMPLETED, TIMEOUT = State.ERT_CMD_STATE_COMPLETED, State.ERT_CMD_STATE_TIMEOUT
TO, FROM = xrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, xrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE
HANG, CRASH, SLEEP = 1, 2, 3
LONG = 20000
"""Milliseconds in which everything that ends has ended."""

IS_EMULATOR = hasattr(xrt.device(0), "context")
"""Whether it is the emulator without XRT, here or at a card server."""

HERE = Path(__file__).parent
RECIPE = HERE / "data/conformance.toml"


class Card:
    def __init__(self) -> None:
        self.path = xclbin_build.cached(RECIPE, "sw_emu")
        self.device = xrt.device(0)
        self.uuid = self.device.load_xclbin(str(self.path))
        self.open_kernels()

    def open_kernels(self) -> None:
        names = ("vadd", "scalars", "misbehave", "counts")
        self.kernels = {name: xrt.kernel(self.device, self.uuid, name) for name in names}

    def bo(self, nbytes: int, kernel: str = "vadd", argument: int = 0, flags: Any = None) -> Any:
        group = self.kernels[kernel].group_id(argument)
        return xrt.bo(self.device, nbytes, xrt.bo.flags.normal if flags is None else flags, group)

    def array(self, values: np.ndarray, kernel: str = "vadd", argument: int = 0) -> Any:
        """A buffer with these values on the card; the host's side is poisoned."""
        buffer = self.bo(values.nbytes, kernel, argument)
        buffer.write(values.tobytes(), 0)
        buffer.sync(TO, values.nbytes, 0)
        np.frombuffer(buffer.map(), np.uint8)[:] = 0xFF
        return buffer

    def fetch(self, buffer: Any, dtype: Any) -> np.ndarray:
        buffer.sync(FROM, buffer.size(), 0)
        return np.frombuffer(bytes(buffer.map()), dtype)

    def misbehaving(self, what: int, ms: int = 0) -> Any:
        run = xrt.run(self.kernels["misbehave"])
        for index, value in enumerate((self.array(np.zeros(16, np.int32), "misbehave"), what, ms)):
            run.set_arg(index, value)
        return run

    def add(self, count: int = 64) -> None:
        """Adds two vectors and checks the sum."""
        a, b = np.random.default_rng(count).standard_normal((2, count)).astype(np.float32)
        out = self.array(np.full(count, np.nan, np.float32), "vadd", 2)
        run = self.kernels["vadd"](self.array(a), self.array(b, "vadd", 1), out, count)
        assert run.wait(LONG) == COMPLETED
        np.testing.assert_array_equal(self.fetch(out, np.float32), a + b)
