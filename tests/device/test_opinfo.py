"""A few operators and modules of PyTorch's databases on the device, with gradients; all of them are `make opinfo`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.device.device_kit import fpga
from tests.opinfo.__main__ import PLACEMENTS
from tests.opinfo.cases import Subject, module_subjects, op_subjects
from tests.opinfo.on_device import run_on_device

_OPS = """
    add addmm all amax as_strided.partial_views cat clamp cumsum diagonal_scatter exp fft.rfft gather index_put
    linalg.inv masked_fill matmul max.reduction_with_dim mean native_layer_norm nn.functional.avg_pool2d
    nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.cross_entropy nn.functional.dropout
    nn.functional.gelu nn.functional.group_norm nn.functional.interpolate.bilinear
    nn.functional.scaled_dot_product_attention pow softmax sort sum tensor_split where
"""
OPS = _OPS.split()
MODULES = ("Linear", "LayerNorm", "Conv1d", "ConvTranspose2d", "BatchNorm2d", "LSTM", "MultiheadAttention")


@pytest.fixture(autouse=True)
def placement_of_others() -> Iterator[None]:
    yield
    fpga.set_operator_placement("cost")


def check(subject: Subject, where: str, backward: bool) -> None:
    result = run_on_device(subject, backward=backward, limit=3, options={"partition": where})
    counted = {verdict: number for verdict, number in result.counts.items() if number}
    assert counted.keys() == {"right"}, result.notes


def named(names: list[str], backward: bool) -> list[Subject]:
    return [s for s in op_subjects(torch.float32, backward=backward, in_place=False) if s.name in names]


@pytest.mark.parametrize("where", PLACEMENTS)
@pytest.mark.parametrize("subject", named(OPS, backward=False), ids=lambda subject: subject.name)
def test_op(subject: Subject, where: str) -> None:
    check(subject, where, backward=False)


@pytest.mark.parametrize("where", PLACEMENTS)
@pytest.mark.parametrize("subject", named(OPS, backward=True), ids=lambda subject: subject.name)
def test_gradients_of_an_op(subject: Subject, where: str) -> None:
    check(subject, where, backward=True)


@pytest.mark.parametrize("where", PLACEMENTS)
@pytest.mark.parametrize("name", MODULES)
def test_module_with_gradients(name: str, where: str) -> None:
    subjects = [s for s in module_subjects(torch.float32, backward=True) if s.name.split()[0].endswith(f"nn.{name}")]
    assert subjects
    for subject in subjects:
        check(subject, where, backward=True)
