"""The software card: the native card model under pyxrt's names. See ``fpga_dynamo/_native.pyi`` for what it adds."""

from __future__ import annotations

from fpga_dynamo._native import (
    XCL_BO_SYNC_BO_FROM_DEVICE,
    XCL_BO_SYNC_BO_TO_DEVICE,
    CommandError,
    DeviceMemoryError,
    XclbinError,
    bo,
    device,
    enumerate_devices,
    ert_cmd_state,
    kernel,
    run,
    uuid,
    xclbin,
    xclBOSyncDirection,
    xrt_info_device,
)

COPIES_ON_CARD = True

__all__ = [
    "COPIES_ON_CARD",
    "XCL_BO_SYNC_BO_FROM_DEVICE",
    "XCL_BO_SYNC_BO_TO_DEVICE",
    "CommandError",
    "DeviceMemoryError",
    "XclbinError",
    "bo",
    "device",
    "enumerate_devices",
    "ert_cmd_state",
    "kernel",
    "run",
    "uuid",
    "xclBOSyncDirection",
    "xclbin",
    "xrt_info_device",
]
