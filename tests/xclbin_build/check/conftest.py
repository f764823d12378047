"""What tests of the checker of loops share; without clang 19 they are skipped."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from xclbin_build.hls import clang, frontend

Load = Callable[..., frontend.Kernel]


@pytest.fixture(autouse=True)
def _clang() -> None:
    if not clang.available():
        pytest.skip("clang 19 is not installed")


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Reads a kernel that is given as text; its function is `top` unless told."""

    def read(text: str, top: str = "top", suffix: str = ".cpp") -> frontend.Kernel:
        path = tmp_path / f"kernel{suffix}"
        path.write_text(textwrap.dedent(text))
        return frontend.load(path, top)

    return read
