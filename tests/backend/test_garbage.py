"""The collector while several threads compile."""

from __future__ import annotations

import gc
import threading

from fpga_dynamo.lowering.garbage import collector_paused


def test_the_collector_stays_paused_until_the_last_thread_is_through() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collector_paused():
            inside.set()
            assert leave.wait(20)

    assert gc.isenabled()
    thread = threading.Thread(target=other)
    with collector_paused():
        thread.start()
        assert inside.wait(20)
    still = gc.isenabled()
    leave.set()
    thread.join()
    assert not still and gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused(), collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
