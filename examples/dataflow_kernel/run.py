"""Counts the cycles of scale.cpp on the card that counts: `python -m examples.dataflow_kernel.run`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import xclbin_build
from fpga_dynamo.runtime.drivers import emulated as pyxrt

BEATS = 4096
BYTES = 64 * BEATS
FACTOR = np.float32(3)
TO_CARD = pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
FROM_CARD = pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE


def main() -> int:
    """Runs the kernel and prints what it has counted; exit code 1 if the result is wrong."""
    device = pyxrt.device(0)
    xclbin = xclbin_build.cached(Path(__file__).with_name("scale.toml"), "cycles")
    kernel = pyxrt.kernel(device, device.load_xclbin(str(xclbin)), "scale")

    data = np.random.default_rng(0).standard_normal(BYTES // 4, np.float32)
    source, sink = (pyxrt.bo(device, BYTES, pyxrt.bo.flags.normal, kernel.group_id(i)) for i in (0, 1))
    source.write(data.tobytes(), 0)
    source.sync(TO_CARD, BYTES, 0)
    run = kernel(source, sink, int(FACTOR.view(np.int32)), BEATS)  # a float is passed as its bits
    state = run.wait(10_000)
    assert state == pyxrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED, state
    sink.sync(FROM_CARD, BYTES, 0)
    wrong = int((np.frombuffer(sink.read(BYTES, 0), np.float32) != FACTOR * data).sum())

    counted = json.loads(run.counters)
    seconds = counted["cycles"] / counted["clock_khz"] / 1000
    print(
        f"{BEATS} beats, {wrong} numbers wrong, {counted['cycles']} cycles, {BYTES / seconds / 1e9:.1f} GB/s each way"
    )
    for process in counted["processes"]:
        stalls = ", ".join(f"{cause} {cycles}" for cause, cycles in process["stalls"].items())
        print(f"{process['process']:9} busy {process['busy']}, waited: {stalls}")
    for port in counted["ports"]:
        print(f"{port['port']:3} {port['direction']:5} {port['bytes']} bytes, bursts {port['burst_lengths']}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
