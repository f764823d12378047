"""Whole networks: the whole of each runs on the card, in one launch, and is as exact as eager float32 is."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import fpga_dynamo
from examples.models import DarkNet53, TinyBert, mlp
from fpga_dynamo.runtime.observe.rounding import in_float64
from fpga_dynamo.testing.reference import assert_close_to_eager
from fpga_dynamo.tools.zoo import import_torchvision, load, randomise_batch_norm
from tests.models.offload_table import OffloadTable, Row

# Of eager float32's own error against float64: with direct sums, and where Winograd's method may be taken.
FACTOR, WINOGRAD_FACTOR = 4.0, 8.0

# Models of torchvision and the side of their square images.
FAST = {"resnet18": 64, "mobilenet_v2": 64, "squeezenet1_1": 96}
FULL = {
    "resnet18": 224,
    "resnet50": 224,
    "vgg19": 224,
    "inception_v3": 299,
    "mobilenet_v2": 224,
    "densenet121": 224,
    "squeezenet1_1": 224,
    "shufflenet_v2_x1_0": 224,
    "mnasnet1_0": 224,
}


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    gc.collect()  # weights of half a gigabyte, and their packed copies, go before the next model comes


def torchvision_model(name: str) -> torch.nn.Module:
    import_torchvision()
    return randomise_batch_norm(load(name, seed=1).model, seed=2)


def check(name: str, model: torch.nn.Module, inputs: tuple[Any, ...]) -> Row:
    """Compiles `model` and asserts error, offload and launches."""
    model.eval()
    with torch.no_grad():
        eager = model(*inputs)
        compiled = torch.compile(model, backend="fpga")
        compiled(*inputs)
        before = fpga_dynamo.stats()
        card = compiled(*inputs)  # the second call finds its buffers used
        after = fpga_dynamo.stats()
        launches, commands, host_nodes = (
            int(after[name] - before[name]) for name in ("pl_launches", "pl_commands", "ps_nodes")
        )
        explained = fpga_dynamo.explain(model, *inputs)
        exact = copy.deepcopy(model).double()(*in_float64(inputs))

    factor = WINOGRAD_FACTOR if "winograd" in str(explained) else FACTOR
    (errors,) = assert_close_to_eager(card, eager, exact, factor)
    assert explained.node_offload == 1.0, str(explained)
    assert explained.mac_offload == 1.0, str(explained)
    assert explained.pl_launches == 1, str(explained)
    assert (launches, host_nodes) == (1, 0)
    parameters = sum(p.numel() for p in model.parameters())
    return Row(
        name,
        parameters,
        explained.node_offload,
        explained.mac_offload,
        launches,
        commands,
        errors.compiled,
        errors.eager,
    )


@pytest.mark.parametrize("name", FAST)
def test_small_images(name: str) -> None:
    torch.manual_seed(3)
    check(name, torchvision_model(name), (torch.randn(2, 3, FAST[name], FAST[name]),))


def test_small_mlp() -> None:
    torch.manual_seed(3)
    model, _ = mlp(features=200)
    check("mlp", model, (torch.randn(5, 200),))


def test_transformer_encoder_gives_eagers_answer() -> None:
    torch.manual_seed(3)
    model = TinyBert().eval()
    tokens = torch.randint(0, 1000, (2, 32))
    with torch.no_grad():
        card = torch.compile(model, backend="fpga")(tokens)
        assert_close_to_eager(card, model(tokens), copy.deepcopy(model).double()(tokens), FACTOR)
        assert fpga_dynamo.explain(model, tokens).mac_offload > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_torchvision_model(name: str, offload_table: OffloadTable) -> None:
    torch.manual_seed(3)
    image = torch.randn(1, 3, FULL[name], FULL[name])
    offload_table.rows.append(check(name, torchvision_model(name), (image,)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "resnet50", "vgg19", "inception_v3"])
def test_direct_sums_are_within_the_smaller_bound(name: str) -> None:
    torch.manual_seed(3)
    model = torchvision_model(name).eval()
    image = torch.randn(1, 3, FULL[name], FULL[name])
    with torch.no_grad():
        card = torch.compile(model, backend="fpga", options={"winograd": False})(image)
        assert_close_to_eager(card, model(image), copy.deepcopy(model).double()(*in_float64((image,))), FACTOR)


@pytest.mark.slow
def test_darknet53(offload_table: OffloadTable) -> None:
    torch.manual_seed(3)
    model = randomise_batch_norm(DarkNet53(), seed=2)
    offload_table.rows.append(check("darknet53", model, (torch.randn(1, 3, 256, 256),)))


@pytest.mark.slow
def test_mlp_of_8192_features(offload_table: OffloadTable) -> None:
    torch.manual_seed(3)
    model, inputs = mlp(features=8192, layers=3)
    offload_table.rows.append(check("mlp-8192", model, inputs))
