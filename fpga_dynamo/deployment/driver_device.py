"""A card that one of Python's drivers drives, for an exported model: a card at the other end of a network.

The run-time library calls a `DriverDevice` where it has no driver of its own (native/python/driver_device.cpp).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fpga_dynamo.device_address import parse
from fpga_dynamo.runtime.drivers import select
from fpga_dynamo.runtime.drivers.remote.driver import RemoteDriver

Piece = tuple[int, int, int]
"""Host address, bytes, offset in a buffer."""


class DriverDevice:
    """The card at an address, with an xclbin loaded. Raises DeviceError if the server refuses or cannot be reached.

    address: as of option 'device'. is_hardware: whether the xclbin is for a card, whose launches write a status record.
    """

    def __init__(self, address: str, xclbin: Path, *, is_hardware: bool) -> None:
        parsed = parse(address)
        driver: Any = select(parsed.driver)
        self._driver: RemoteDriver = driver
        self._is_hardware = is_hardware
        device: Any = self._driver.device(parsed.index)
        self._link = device.link
        self._device = device.context() if hasattr(device, "context") else device
        self._uuid = self._device.load_xclbin(str(xclbin))
        self._kernels: dict[str, Any] = {}
        self._lock = threading.Lock()

    @property
    def is_usable(self) -> bool:
        """Whether the connection lasts, and with it all that lies on the card."""
        return bool(self._link.is_usable)

    def allocate(self, kernel: str, unit: str, argument: int, nbytes: int) -> Any:
        """A buffer for an argument of a kernel."""
        group = self._kernel(kernel, unit).group_id(argument)
        return self._driver.bo(self._device, nbytes, self._driver.bo.flags.device_only, group)

    def write(self, buffer: Any, address: int, nbytes: int, offset: int) -> None:
        """Host memory at `address` to the card."""
        buffer.upload_ptr(address, nbytes, offset)

    def prepare(self, kernel: str, unit: str, values: Sequence[Any]) -> Any:
        """A run of a compute unit with its arguments set."""
        run = self._driver.run(self._kernel(kernel, unit))
        for index, value in enumerate(values):
            run.set_arg(index, value)
        run.reads_status = self._is_hardware
        return run

    def execute(
        self, run: Any, memory: Any, inputs: Sequence[Piece], outputs: Sequence[Piece], timeout_ms: int
    ) -> tuple[int, str]:
        """A launch with its inputs and outputs; the number of its state, and why it did not complete."""
        state = run.execute_io(inputs, outputs, memory, timeout_ms)
        return int(state.value), str(run.error)

    def _kernel(self, kernel: str, unit: str) -> Any:
        name = f"{kernel}:{{{unit}}}"
        with self._lock:
            if name not in self._kernels:
                self._kernels[name] = self._driver.kernel(self._device, self._uuid, name)
            return self._kernels[name]
