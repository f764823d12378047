"""The card model without Python under ThreadSanitizer: stress.cpp, and kernels that are instrumented too."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.driver.card_kit import BANKS, KERNELS, sections
from tests.marks import EXTENDED
from xclbin_build import axlf

ROOT = Path(__file__).parents[2]
THREAD_SANITIZER = ["-fsanitize=thread", "-O1", "-g"]

pytestmark = [*EXTENDED]


def test_no_data_race(compiled: Callable[..., bytes], tmp_path: Path) -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not installed")
    (tmp_path / "empty.cpp").write_text("int main() {}\n")
    trial = ["g++", "-fsanitize=thread", str(tmp_path / "empty.cpp"), "-o", str(tmp_path / "empty")]
    if subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("the compiler has no ThreadSanitizer")
    build = tmp_path / "build"
    options = ["-DFPGA_DYNAMO_PYTHON=OFF", "-DFPGA_DYNAMO_STRESS=ON", "-DFPGA_DYNAMO_SANITIZE=thread"]
    subprocess.run([cmake, "-S", str(ROOT), "-B", str(build), *options], check=True, capture_output=True)
    subprocess.run(
        [cmake, "--build", str(build), "--target", "card_stress", "--parallel", "2"], check=True, capture_output=True
    )
    # Written as it is loaded: with instrumented kernels a missing barrier between steps is a race, too.
    content = axlf.Axlf(sections(compiled(*THREAD_SANITIZER), KERNELS, BANKS))
    axlf.write(tmp_path / "test.xclbin", content)
    result = subprocess.run(
        [str(build / "card_stress"), str(tmp_path / "test.xclbin")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0 and result.stdout == "ok\n" and "WARNING" not in result.stderr, result.stderr[:4000]
