"""The device model without Python under sanitizers: stress.cpp, with kernels that are instrumented too."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.driver.card_kit import BANKS, KERNELS, sections
from tests.marks import EXTENDED
from tests.native_build import build, configure
from xclbin_build import axlf

pytestmark = [*EXTENDED]


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_stress_without_a_report(sanitizer: str, compiled: Callable[..., bytes], tmp_path: Path) -> None:
    flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-O1", "-g"]
    (tmp_path / "empty.cpp").write_text("int main() {}\n")
    trial = ["g++", *flags, str(tmp_path / "empty.cpp"), "-o", str(tmp_path / "empty")]
    if subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip(f"the compiler has no sanitizer for {sanitizer}")
    build_folder = tmp_path / "build"
    configure(
        build_folder, "-DFPGA_DYNAMO_PYTHON=OFF", "-DFPGA_DYNAMO_STRESS=ON", f"-DFPGA_DYNAMO_SANITIZE={sanitizer}"
    )
    build(build_folder, "card_stress")
    # Kernels are instrumented too: under ThreadSanitizer a missing barrier between steps is a race.
    content = axlf.Axlf(sections(compiled(*flags), KERNELS, BANKS))
    axlf.write(tmp_path / "test.xclbin", content)
    result = subprocess.run(
        [str(build_folder / "card_stress"), str(tmp_path / "test.xclbin")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    reports = [line for line in result.stderr.splitlines() if "WARNING" in line or "runtime error" in line]
    assert result.returncode == 0 and result.stdout == "ok\n" and not reports, result.stderr[:4000]
