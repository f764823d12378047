"""An xclbin with test kernels (kernels.cpp) and a card that has loaded it."""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.driver.card_kit import BANKS, KERNELS, Bank, Card, Kernel, sections
from xclbin_build import axlf
from xclbin_build.toolchain import gxx

HERE = Path(__file__).parent
CARDS = 12  # the tests use cards from 8 on and leave the first ones to other tests of the same process


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    """Compiles kernels.cpp with extra options, and links it as xclbin_build does; returns the shared object."""

    def compile_kernels(*options: str) -> bytes:
        target = tmp_path_factory.mktemp("kernels") / "kernels.so"
        include = HERE.parents[1] / "hls_kernels" / "lib"
        command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{include}", *options]
        sources = [str(HERE / "kernels.cpp"), str(include / "exit_guard.cpp")]
        subprocess.run([*command, *sources, *gxx.LINK_FLAGS, "-o", str(target)], check=True)
        return target.read_bytes()

    return compile_kernels


@pytest.fixture(scope="session")
def shared_object(compiled: Callable[..., bytes]) -> bytes:
    return compiled()


@pytest.fixture
def pack(shared_object: bytes, tmp_path: Path) -> Callable[..., Path]:
    """Writes an xclbin of the test kernels with changes: kernels, banks, platform, keys of the manifest."""

    def write(
        name: str = "test.xclbin",
        *,
        code: bytes = shared_object,
        kernels: list[Kernel] = KERNELS,
        banks: list[Bank] = BANKS,
        platform: str = "test_platform",
        **changes: object,
    ) -> Path:
        content = axlf.Axlf(sections(code, kernels, banks, **changes), platform=platform)
        axlf.write(tmp_path / name, content)
        return tmp_path / name

    return write


@pytest.fixture(scope="session")
def test_xclbin(shared_object: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("xclbin") / "test.xclbin"
    axlf.write(path, axlf.Axlf(sections(shared_object, KERNELS, BANKS), platform="test_platform"))
    return path


@pytest.fixture(autouse=True)
def several_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FPGA_DYNAMO_EMULATED_CARDS", str(CARDS))
    monkeypatch.setenv("FPGA_DYNAMO_LANES", "3")


@pytest.fixture
def card(test_xclbin: Path) -> Iterator[Card]:
    card = Card(8, test_xclbin)
    before = sum(bank["buffers"] for bank in card.device.memory())
    yield card
    card.abort_all()
    gc.collect()  # a callback and its run may refer to each other
    assert sum(bank["buffers"] for bank in card.device.memory()) <= before, "a buffer outlived its test"
