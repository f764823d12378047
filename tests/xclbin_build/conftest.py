"""Fixtures: a cache of the test run's own, and the xclbin of data/user.toml, built once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xclbin_build

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All builds of a test run share objects with each other, and none with the user's cache."""
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(session_cache))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


@pytest.fixture(scope="session")
def user_xclbin(session_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """data/user.toml: a sequencer with a core of a user's own, and a plain kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FPGA_DYNAMO_CACHE", str(session_cache))
        patch.delenv("SOURCE_DATE_EPOCH", raising=False)
        yield xclbin_build.build("emu", DATA / "user.toml", output=tmp_path_factory.mktemp("user") / "user.xclbin")
