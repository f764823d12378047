import pytest
import torch

from tests.device.device_kit import fpga


@pytest.fixture(scope="session", autouse=True)
def device_in_use() -> None:
    fpga.init()


@pytest.fixture(autouse=True)
def graphs_of_one_test() -> None:
    torch.compiler.reset()
