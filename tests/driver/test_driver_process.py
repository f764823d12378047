"""The process around the card: foreign crashes, forks, the end, other people's signal handlers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.driver.apart import WITHOUT_TORCH

PRELUDE = (
    WITHOUT_TORCH
    + """
import faulthandler, os, signal, threading, time, ctypes
import numpy as np
from tests.driver.card_kit import *
from fpga_dynamo.runtime.drivers import emulated as xrt
card = Card(0, sys.argv[1])
"""
)


def run_script(script: str, xclbin: Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs the script in a process of its own, with `card` ready."""
    code = PRELUDE + textwrap.dedent(script)
    return subprocess.run(
        [sys.executable, "-c", code, str(xclbin)], capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.mark.parametrize(
    ("crash", "code"),
    [
        ("ctypes.string_at(8)", -11),
        ("os.abort()", -6),
        ("ctypes.CDLL(None)._exit(7)", 7),
        ("ctypes.CDLL('libstdc++.so.6')['_ZSt9terminatev']()", -6),
    ],
)
def test_a_crash_elsewhere_is_fatal_as_ever(test_xclbin: Path, crash: str, code: int) -> None:
    result = run_script(f"card.misbehaving(THROW)[0].execute(10000); card.check_works(); {crash}", test_xclbin)
    assert result.returncode == code, result


@pytest.mark.parametrize(
    ("crash", "code", "sentence"),
    [
        ("ctypes.string_at(8)", -11, "Fatal Python error: Segmentation fault"),
        ("os.abort()", -6, "Fatal Python error: Aborted"),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_faulthandler_still_reports(test_xclbin: Path, when: str, crash: str, code: int, sentence: str) -> None:
    script = """
        if WHEN == 'before':
            faulthandler.enable()
            card.device.load_xclbin(sys.argv[1])
        card.check_works()
        if WHEN == 'after':
            faulthandler.enable()
        CRASH
    """.replace("WHEN", repr(when)).replace("CRASH", crash)
    result = run_script(script, test_xclbin)
    assert result.returncode == code and sentence in result.stderr, result


def test_crashes_are_caught_with_faulthandler_enabled_before(test_xclbin: Path) -> None:
    result = run_script(
        """
        run, _ = card.misbehaving(SEGFAULT)
        print(run.execute(10000), run.error)
        """,
        test_xclbin,
    )
    assert "ERT_CMD_STATE_ERROR" in result.stdout and result.returncode == 0, result


@pytest.mark.parametrize("signal", [11, 6])
def test_a_signal_sent_from_outside_kills(test_xclbin: Path, signal: int) -> None:
    result = run_script(
        f"""
        run, _ = card.misbehaving(HANG)
        run.start()
        time.sleep(0.05)
        os.kill(os.getpid(), {signal})
        time.sleep(10)
        """,
        test_xclbin,
    )
    assert result.returncode == -signal, result


@pytest.mark.parametrize("how", ["start", "thread", "callback"])
def test_exit_with_a_hung_run(test_xclbin: Path, how: str) -> None:
    result = run_script(
        f"""
        run, _ = card.misbehaving(HANG)
        if {how!r} == "callback":
            run.add_callback(xrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED, lambda *args: time.sleep(0.2))
        if {how!r} == "thread":
            threading.Thread(target=run.execute, daemon=True).start()
        else:
            run.start()
        time.sleep(0.1)
        print("end")
        """,
        test_xclbin,
        timeout=30,
    )
    assert result.returncode == 0 and result.stdout == "end\n" and not result.stderr, result


def test_a_forked_child_gets_an_error(test_xclbin: Path) -> None:
    result = run_script(
        """
        buffer, kernel = card.bo(4096), card.kernel("misbehave")
        run, out = card.misbehaving(0)
        run.execute()
        hung, _ = card.misbehaving(HANG)
        hung.start()
        child = os.fork()
        if child == 0:
            uses = [run.start, run.execute, run.wait, lambda: card.bo(64), lambda: card.kernel("vadd"), hung.abort,
                    lambda: buffer.sync(xrt.XCL_BO_SYNC_BO_TO_DEVICE), lambda: buffer.write(b"x", 0), buffer.map,
                    lambda: xrt.device(0), lambda: card.device.load_xclbin(sys.argv[1])]
            for use in uses:
                try:
                    use()
                except RuntimeError as error:
                    assert "this process was forked after a card had been opened" in str(error), error
                else:
                    os._exit(1)
            del buffer, kernel, run, hung, out, card
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        hung.abort()
        card.check_works()
        print("parent works")
        """,
        test_xclbin,
    )
    assert result.stdout == "parent works\n" and result.returncode == 0, result


def test_a_child_forked_before_the_first_use_has_cards_of_its_own(test_xclbin: Path) -> None:
    script = """
import os
from tests.driver.card_kit import Card
child = os.fork()
Card(0, sys.argv[1]).check_works()
if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    code = WITHOUT_TORCH + script
    subprocess.run([sys.executable, "-c", code, str(test_xclbin)], check=True, timeout=60)


def test_nothing_spins_at_rest(test_xclbin: Path) -> None:
    result = run_script(
        """
        card.check_works()
        data = card.bo(8000)
        card.kernel("steps")(data, 1000, 100, 8).wait()
        time.sleep(0.1)
        before = time.process_time()
        time.sleep(1)
        print(time.process_time() - before)
        """,
        test_xclbin,
    )
    assert float(result.stdout) < 0.05, result
