"""conformance.py and conformance_faults.py over every driver that is there: the emulator, pyxrt, and XRT with it
inside and outside of the process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.driver.apart import WITHOUT_TORCH, run_apart
from tests.driver.xrt_kit import HERE, needs

RUN = 'import pytest; sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))'


@pytest.mark.parametrize("driver", ["emulated", "inproc", "process", "pyxrt"])
def test_conformance(driver: str, tmp_path: Path) -> None:
    needs(driver)
    files = [str(HERE / name) for name in ("conformance.py", "conformance_faults.py")]
    code, output = run_apart(["-c", WITHOUT_TORCH + RUN, *files], driver, tmp_path)
    assert code == 0, output[-6000:]
