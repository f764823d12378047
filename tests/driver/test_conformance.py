"""conformance.py and conformance_faults.py over every driver that is there: the emulator, pyxrt, XRT with it inside and
outside of the process, and a card server that has the emulator or XRT's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.card_server.card_server_kit import serving
from tests.driver.apart import WITHOUT_TORCH, run_apart
from tests.driver.xrt_kit import HERE, needs

FILES = ("conformance.py", "conformance_faults.py")
RUN = 'import pytest; sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))'


@pytest.mark.parametrize("driver", ["emulated", "inproc", "process", "pyxrt"])
def test_conformance(driver: str, tmp_path: Path) -> None:
    needs(driver)
    conform(driver, tmp_path)


@pytest.mark.parametrize(("driver", "kind"), [("emulated", "python"), ("emulated", "native"), ("inproc", "python")])
def test_conformance_over_a_network(driver: str, kind: str, tmp_path: Path) -> None:
    needs(driver)
    with serving(tmp_path, driver=driver, kind=kind) as server:
        conform(server.driver, tmp_path)


def conform(driver: str, tmp_path: Path, names: Sequence[str] = FILES, *options: str) -> None:
    """Runs files of the suite in a process of their own, with pytest's options."""
    files = [*(str(HERE / name) for name in names), *options]
    code, output = run_apart(["-c", WITHOUT_TORCH + RUN, *files], driver, tmp_path)
    assert code == 0, output[-6000:]
