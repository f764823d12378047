"""conformance.py over every driver that is there: the software card, XRT with it inside and outside of the process."""

from __future__ import annotations

from pathlib import Path

import pytest
from apart import run_apart
from xrt_kit import HERE, needs


@pytest.mark.parametrize("driver", ["emulated", "inproc", "process", "pyxrt"])
def test_conformance(driver: str, tmp_path: Path) -> None:
    needs(driver)
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "conformance.py")]
    code, output = run_apart(arguments, driver, tmp_path)
    assert code == 0, output[-6000:]
