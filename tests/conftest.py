"""What every test relies on: programs lowered today (the tests of the disk cache turn it on for themselves), and a
Ctrl-C that raises, which a shell takes from what it starts in the background."""

import os
import signal
from pathlib import Path

import pytest

os.environ["FPGA_DYNAMO_PROGRAM_CACHE"] = "0"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = (
    "hls_kernels/test_benches.py",
    "test_docs.py",
    "test_fuzz.py",
    "driver/test_conformance.py",
    "driver/test_xrt_faults.py",
    "driver/test_driver_sanitizer.py",
    "driver/test_xrt_models.py",
)
"""Files that take minutes. `make test` gives each process a file at a time: these first, small ones fill the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    rank = {here / name: position for position, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
