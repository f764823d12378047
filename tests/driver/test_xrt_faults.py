"""What goes wrong around a card under XRT: one clear error in time, the process lives, the next call says why not."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from tests.driver.apart import WITHOUT_TORCH, run_apart
from tests.driver.xrt_kit import needs

PRELUDE = (
    WITHOUT_TORCH
    + """
import contextlib, os, signal, threading, time
from fpga_dynamo.errors import DeviceError
from tests.driver.conformance_kit import *
card = Card()
card.add()
"""
)
KILL = """
def model():
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # others come and go meanwhile
            process, name, _, parent = stat.read_text().split()[:4]
            if "genericpcie" in name and int(parent) == os.getpid():
                return int(process)
    raise LookupError("no process plays the card")

def kill_soon():
    threading.Timer(0.3, os.kill, (model(), signal.SIGKILL)).start()

def refused(use):
    begin = time.monotonic()
    try:
        use()
    except DeviceError as error:
        assert "the process that emulates the card under XRT's sw_emu has ended" in str(error), error
    else:
        raise AssertionError("no error")
    assert time.monotonic() - begin < 5

def everything_refuses():
    for use in (card.add, lambda: card.bo(4096), lambda: card.device.load_xclbin(str(card.path)),
                lambda: card.misbehaving(0).start()):
        refused(use)
"""


def run_script(script: str, driver: str, folder: Path) -> None:
    needs(driver)
    code, output = run_apart(["-c", PRELUDE + KILL + textwrap.dedent(script) + "\nprint('lives')"], driver, folder)
    assert code == 0 and output.rstrip().endswith("lives"), output[-4000:]


def test_killed_model_while_a_run_is_waited_for(tmp_path: Path) -> None:
    script = """
    run = card.misbehaving(HANG)
    run.start()
    kill_soon()
    refused(lambda: run.wait(LONG))
    everything_refuses()
    refused(run.wait)
    """
    run_script(script, "process", tmp_path)


def test_killed_model_at_rest(tmp_path: Path) -> None:
    script = """
    os.kill(model(), signal.SIGKILL)
    time.sleep(0.2)
    everything_refuses()
    """
    run_script(script, "process", tmp_path)


def test_killed_model_in_the_middle_of_a_transfer(tmp_path: Path) -> None:
    script = """
    buffer = card.bo(64 << 20)
    kill_soon()
    def copy():
        while True:
            buffer.sync(TO, 64 << 20, 0)
    begin = time.monotonic()
    try:
        copy()
    except DeviceError as error:
        assert "has ended or was killed" in str(error)
    assert time.monotonic() - begin < 10
    everything_refuses()
    before = time.process_time()
    time.sleep(1)
    assert time.process_time() - before < 0.5, "something spins"
    """
    run_script(script, "process", tmp_path)


def test_the_model_goes_with_its_host(tmp_path: Path) -> None:
    """Even when the host is killed in the middle of a run that never ends."""
    script = """
    run = card.misbehaving(HANG)
    run.start()
    Path("model.txt").write_text(str(model()))
    print("lives", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    needs("process")
    code, _ = run_apart(["-c", PRELUDE + KILL + textwrap.dedent(script)], "process", tmp_path)
    model = int((tmp_path / "model.txt").read_text())
    assert code == -9 and ended(model)


def ended(process: int) -> bool:
    import time

    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("driver", ["inproc", "process"])
def test_exit_with_a_hung_run(driver: str, tmp_path: Path) -> None:
    run_script("run = card.misbehaving(HANG)\nrun.start()", driver, tmp_path)


def test_crashed_kernels_beside_the_emulated_driver(tmp_path: Path) -> None:
    """Two device models in one process: the signal handlers of each leave the other's crashes and time-outs alone."""
    script = """
    from tests.driver import conformance_kit
    from fpga_dynamo.runtime.drivers import emulated, xrt as under_xrt
    cards = {}
    for module in (under_xrt, emulated) * 3:
        directions = module.xclBOSyncDirection
        conformance_kit.xrt, conformance_kit.TO = module, directions.XCL_BO_SYNC_BO_TO_DEVICE
        each = cards.setdefault(module, Card())
        run = each.misbehaving(CRASH)
        run.start()
        assert run.wait(LONG) == module.ert_cmd_state.ERT_CMD_STATE_ERROR
        run = each.misbehaving(HANG)
        run.start()
        assert run.wait(50) == module.ert_cmd_state.ERT_CMD_STATE_TIMEOUT
        assert run.abort() == module.ert_cmd_state.ERT_CMD_STATE_ABORT
    """
    run_script(script, "inproc", tmp_path)


def test_another_xclbin_leaves_alone_what_lies_where_buffers_were(tmp_path: Path) -> None:
    """XRT's sw_emu driver remembers every mapping that it has made, and would unmap them all."""
    script = """
    import mmap, uuid
    gone = [card.bo(1 << 20) for _ in range(8)]
    del gone
    others = [mmap.mmap(-1, 1 << 20) for _ in range(32)]
    content = bytearray(card.path.read_bytes())
    name = bytes.fromhex(card.uuid.to_string().replace("-", ""))
    assert content.count(name) == 1
    other = Path("other.xclbin")
    other.write_bytes(content.replace(name, uuid.uuid4().bytes))
    assert card.device.load_xclbin(str(other)).to_string() != card.uuid.to_string()
    for each in others:
        each[:] = bytes(1 << 20)
    """
    run_script(script, "process", tmp_path)


def test_one_mode_a_process(tmp_path: Path) -> None:
    script = """
    os.environ["FPGA_DYNAMO_XRT"] = "card"
    try:
        xrt.device(0)
    except DeviceError as error:
        assert "cannot change to 'card'" in str(error)
    """
    run_script(script, "inproc", tmp_path)
    assert os.environ.get("XCL_EMULATION_MODE") is None
