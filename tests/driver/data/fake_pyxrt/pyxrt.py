"""pyxrt as AMD ships it, on top of our binding: its names and its limits (int scalars, waits that hold the GIL)."""

from __future__ import annotations

import time
from typing import Any

from fpga_dynamo.runtime.drivers import xrt as ours

uuid = ours.uuid
ert_cmd_state = ours.ert_cmd_state
xclBOSyncDirection = ours.xclBOSyncDirection
xrt_info_device = ours.xrt_info_device
xclbin = ours.xclbin
device = ours.device
kernel = ours.kernel


class bo:
    flags = ours.bo.flags
    normal = ours.bo.flags.normal
    device_only = ours.bo.flags.device_only

    def __init__(self, *arguments: Any) -> None:
        self.inner = ours.bo(*arguments)
        for name in ("write", "read", "sync", "map", "size", "address"):
            setattr(self, name, getattr(self.inner, name))


class run:
    def __init__(self, opened: ours.kernel) -> None:
        self.inner = ours.run(opened)
        for name in ("start", "state", "abort"):
            setattr(self, name, getattr(self.inner, name))

    def set_arg(self, index: int, value: bo | int) -> None:
        if isinstance(value, bo):
            self.inner.set_arg(index, value.inner)
            return
        if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
            raise TypeError("set_arg(): incompatible function arguments")
        self.inner.set_arg(index, value)

    def wait(self, timeout_ms: int = 0) -> ert_cmd_state:
        deadline = time.monotonic() + (timeout_ms / 1000 if timeout_ms else 1e9)
        while self.inner.state() != ert_cmd_state.ERT_CMD_STATE_COMPLETED and time.monotonic() < deadline:
            if self.inner.state().value > ert_cmd_state.ERT_CMD_STATE_COMPLETED.value:
                break  # an end as well; the loop itself holds the GIL
        return self.inner.wait(1)
