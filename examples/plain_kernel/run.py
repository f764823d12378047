"""Runs vadd.cpp on the emulator with pyxrt's calls: `python -m examples.plain_kernel.run`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import xclbin_build
from fpga_dynamo.runtime.drivers import emulated as pyxrt

COUNT = 4096


def main() -> int:
    """Adds two vectors on the card; exit code 1 if the sum is wrong."""
    device = pyxrt.device(0)
    uuid = device.load_xclbin(str(xclbin_build.cached(Path(__file__).with_name("vadd.toml"))))
    kernel = pyxrt.kernel(device, uuid, "vadd")

    a, b = np.random.default_rng(0).standard_normal((2, COUNT), np.float32)
    buffers = [pyxrt.bo(device, 4 * COUNT, pyxrt.bo.flags.normal, kernel.group_id(i)) for i in range(3)]
    for buffer, content in zip(buffers, (a, b), strict=False):
        buffer.write(content.tobytes(), 0)
        buffer.sync(pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, 4 * COUNT, 0)

    run = kernel(*buffers, COUNT)
    state = run.wait(1000)
    assert state == pyxrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED, state
    buffers[2].sync(pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE, 4 * COUNT, 0)
    out = np.frombuffer(buffers[2].read(4 * COUNT, 0), np.float32)
    wrong = int((out != a + b).sum())
    print(f"{COUNT} sums on {device.get_info(pyxrt.xrt_info_device.name)}, {wrong} of them wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
