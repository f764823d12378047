"""Drivers: ways to a card, all with pyxrt's API.

A driver is a module that provides the names below. The protocols say what fpga_dynamo uses of them, with pyxrt's
signatures; what a driver offers beyond (the emulator's ``run.trace_steps``, say) is found with ``hasattr``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from fpga_dynamo.device_address import is_address
from fpga_dynamo.errors import OptionError

#: Driver name -> the module that implements it, imported on selection only.
DRIVERS: dict[str, str] = {
    "emulated": "fpga_dynamo.runtime.drivers.emulated",
    "xrt": "fpga_dynamo.runtime.drivers.xrt",
    "pyxrt": "fpga_dynamo.runtime.drivers.pyxrt",
}


class Uuid(Protocol):
    def to_string(self) -> str: ...


class Device(Protocol):
    def load_xclbin(self, path: Any, /) -> Uuid:
        """Configures the card from a path or an xclbin object; the same UUID again changes nothing."""

    def get_xclbin_uuid(self) -> Uuid: ...
    def get_info(self, what: Any, /) -> str: ...


class Buffer(Protocol):
    def write(self, data: Any, seek: int, /) -> None:
        """Copies bytes into the host's side of the buffer, at byte `seek`."""

    def read(self, size: int, skip: int, /) -> Any:
        """An int8 array of `size` bytes of the host's side, from byte `skip` on."""

    def sync(self, direction: Any, size: int, offset: int, /) -> None:
        """Copies bytes between the host's side and the card's."""

    def write_ptr(self, address: int, nbytes: int, offset: int, /) -> None:
        """As write, from host memory at `address` (ours; pyxrt's driver adds it)."""

    def map(self) -> Any:
        """The host's side as a writable buffer."""

    def size(self) -> int: ...
    def address(self) -> int: ...


class Kernel(Protocol):
    def group_id(self, argument: int, /) -> int:
        """The memory group in which buffers for the argument must lie."""

    def __call__(self, *args: Any) -> Run:
        """A started run."""


class Run(Protocol):
    def set_arg(self, index: int, value: Any, /) -> None: ...
    def start(self) -> None: ...

    def wait(self, timeout_ms: int, /) -> Any:
        """The state at the end; ERT_CMD_STATE_TIMEOUT after `timeout_ms` milliseconds, unless that is 0."""

    def execute_io(
        self,
        inputs: Sequence[tuple[int, int, int]],
        outputs: Sequence[tuple[int, int, int]],
        bo: Any,
        timeout_ms: int,
        /,
    ) -> Any:
        """Brings inputs into `bo`, starts and waits, and if the run completed fetches outputs; its state.

        A piece is (host address, bytes, offset in `bo`). One sync each way, from the first piece to the last one's end,
        where the host's side and the card's are not one. A run that passes its time-out is ended, if the card can.
        Ours; pyxrt's driver adds it.
        """

    reads_status: bool
    """Whether execute_io looks at the status record in its buffer's first words, and answers ERT_CMD_STATE_ERROR if
    that says that the list has not come to its end: on a card nothing else does (ours, of drivers for cards)."""

    def state(self) -> Any: ...
    def abort(self) -> Any:
        """Ends the run if the card can; returns the state that it has then (ours; pyxrt's driver adds it)."""


class Driver(Protocol):
    """A module with pyxrt's names."""

    COPIES_ON_CARD: bool
    """Whether ``bo.copy`` and ``run.execute_io`` do without a host side of their buffers (ours)."""

    @property
    def enumerate_devices(self) -> Callable[[], int]: ...
    @property
    def device(self) -> Callable[[int], Device]: ...
    @property
    def xclbin(self) -> Callable[[str], Any]: ...
    @property
    def bo(self) -> Any: ...
    @property
    def kernel(self) -> Any: ...
    @property
    def run(self) -> Callable[[Any], Run]: ...
    @property
    def ert_cmd_state(self) -> Any: ...
    @property
    def xclBOSyncDirection(self) -> Any: ...


def choose(wanted: str | None, target: str) -> str:
    """The name of the driver for an xclbin that was built for `target`, if the option says `wanted`.

    Left open, it is $FPGA_DYNAMO_DRIVER, else that which can run the file: a card's needs XRT.
    """
    chosen = wanted or os.environ.get("FPGA_DYNAMO_DRIVER")
    if chosen:
        return chosen
    return "emulated" if target in ("emu", "sw_emu", "cycles") else "xrt"


def select(name: str) -> Driver:
    """The driver of that name, or of the card server at that address (without an index).

    Raises OptionError for an unknown name, and if the driver's module cannot be imported: `xrt` is there only where
    XRT's headers were when fpga_dynamo was installed, and pyxrt comes with AMD's XRT packages only.
    """
    if is_address(name):
        module = importlib.import_module("fpga_dynamo.runtime.drivers.remote.driver")
        return cast(Driver, module.driver_at(name))
    if name not in DRIVERS:
        raise OptionError(f"unknown driver '{name}'; known are {', '.join(DRIVERS)}")
    try:
        return cast(Driver, importlib.import_module(DRIVERS[name]))
    except ImportError as error:
        raise OptionError(
            f"driver '{name}' cannot be used here ({error}); choose 'emulated', or see `fpga-dynamo doctor`"
        ) from error
