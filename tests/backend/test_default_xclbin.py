"""The xclbin that is built when no option names one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import xclbin_build
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.cards import card


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Path]]:
    """Builds yield copies of the real one, in place of what lies in this user's cache."""
    original = card.xclbin_path(Options())
    made: list[Path] = []

    def cached(recipe: str, target: str, **_: object) -> Path:
        made.append(Path(shutil.copy2(original, tmp_path / "torch.xclbin")))
        return made[-1]

    monkeypatch.setattr(xclbin_build, "cached", cached)
    card._built.cache_clear()
    yield made
    card._built.cache_clear()


def test_one_that_was_deleted_is_built_again(copies: list[Path]) -> None:
    x = torch.randn(40)
    torch.testing.assert_close(torch.compile(lambda x: x + 1, backend="fpga", options={"strict": True})(x), x + 1)
    copies[-1].unlink()
    torch.testing.assert_close(torch.compile(lambda x: x * 3, backend="fpga", options={"strict": True})(x), x * 3)
    assert len(copies) == 2
