"""Launches with more bytes than a frame may have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xclbin_build
from fpga_dynamo import _native
from fpga_dynamo.runtime.drivers.remote import frames
from fpga_dynamo.runtime.drivers.remote.driver import RemoteDriver
from tests.card_server.card_server_kit import KINDS, serving, status
from tests.driver.xrt_kit import HERE


@pytest.mark.parametrize("kind", KINDS)
def test_content_is_dropped_when_there_is_too_much(kind: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--keep", "1", kind=kind) as server:
        driver = RemoteDriver(server.driver)
        device = driver.device(0)
        uuid = device.load_xclbin(str(xclbin_build.cached(HERE / "data/conformance.toml", "sw_emu")))
        group = driver.kernel(device, uuid, "misbehave").group_id(0)
        buffer = driver.bo(device, 4 << 20, driver.bo.flags.device_only, group)
        for seed, nbytes in enumerate((600 << 10, 600 << 10, 2 << 20)):
            values = np.random.default_rng(seed).integers(0, 255, nbytes, dtype=np.uint8)
            buffer.upload_ptr(values.ctypes.data, nbytes)
        assert 600 << 10 <= status(server)["kept_bytes"] < 1 << 20
        driver.link().close()


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_and_results_larger_than_a_frame(kind: str, tmp_path: Path) -> None:
    values = np.arange(frames.MOST_PAYLOAD // 4 + 1024, dtype=np.int32)
    results = np.zeros_like(values)
    with serving(tmp_path, kind=kind) as server:
        driver = RemoteDriver(server.driver)
        device = driver.device(0)
        uuid = device.load_xclbin(str(xclbin_build.cached(HERE / "data/conformance.toml", "sw_emu")))
        kept = status(server)["kept_bytes"]
        kernel = driver.kernel(device, uuid, "misbehave")
        arena = driver.bo(device, values.nbytes, driver.bo.flags.device_only, kernel.group_id(0))
        run = driver.run(kernel)
        for index, value in enumerate((arena, 0, 0)):
            run.set_arg(index, value)
        given, back = [(values.ctypes.data, values.nbytes, 0)], [(results.ctypes.data, results.nbytes, 0)]
        for _ in range(2):
            results[:] = 0
            assert run.execute_io(given, back, arena, 20000) == _native.ert_cmd_state.ERT_CMD_STATE_COMPLETED
            assert results[0] == 1, "the kernel has written the first"
            np.testing.assert_array_equal(results[1:], values[1:])
        assert status(server)["kept_bytes"] == kept, "inputs are not kept"
        driver.link().close()
