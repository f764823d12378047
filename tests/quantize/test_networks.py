"""Whole networks under three quantizers: one launch, every annotated product in integers, and how far from eager.

``make quantised`` runs these and writes the table of docs/evaluation/int8.md.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("torchao")

import fpga_dynamo
from examples.models import UNet
from fpga_dynamo.ir.quantised import DEQUANTIZE, DEQUANTIZE_CHANNELS, QUANTIZE
from fpga_dynamo.quantize import quantize
from fpga_dynamo.tools.zoo import import_torchvision, randomise_batch_norm

aten = torch.ops.aten

CALIBRATION = 3
SHARE = 0.99
"""Of the multiply-accumulates that a quantizer annotated."""
FACTOR = 1.5
"""Times the distance of eager with other sums from eager, at scales that are no powers of two."""
MORE = 32
"""Inputs that decide where the first one does not: for a single one, two orders of summation may round alike."""
MISSED = {("mobilenet_v2", "XNNPACK")}
"""Where our error is larger than that: eager sums add the same rounded floats, ours add integers."""


@dataclass(frozen=True)
class Network:
    """build: with random weights. size: of an image. exact: with powers of two all of its sums stay below 2^24."""

    build: Callable[[], nn.Module]
    size: tuple[int, ...]
    exact: bool = True


def _torchvision(name: str, **settings: Any) -> nn.Module:
    import_torchvision()
    import torchvision.models

    model: nn.Module = torchvision.models.get_model(name, weights=None, **settings)
    return model


NETWORKS = {
    "resnet18": Network(lambda: _torchvision("resnet18"), (2, 3, 64, 64)),
    "resnet50": Network(lambda: _torchvision("resnet50"), (2, 3, 64, 64)),
    "mobilenet_v2": Network(lambda: _torchvision("mobilenet_v2"), (2, 3, 64, 64)),
    "inception_v3": Network(lambda: _torchvision("inception_v3", init_weights=False), (2, 3, 107, 107)),
    "unet": Network(UNet, (2, 3, 64, 64)),
}


def _annotated_by(quantizer: str, model: nn.Module, images: list[Tensor]) -> nn.Module:
    """`model` under one of the quantizers that torchao ships."""
    with contextlib.redirect_stderr(io.StringIO()):
        from torchao.quantization.pt2e import allow_exported_model_train_eval
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86
        from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack
    chosen: Any
    if quantizer == "x86":
        chosen = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    else:
        chosen = xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True))
    # strict: a ReLU that a block uses twice is two nodes of its own.
    prepared = prepare_pt2e(torch.export.export(model, (images[0],), strict=True).module(), chosen)
    for image in images:
        prepared(image)
    converted: nn.Module = convert_pt2e(prepared)
    allow_exported_model_train_eval(converted)
    converted.eval()  # which returns nothing
    return converted


QUANTIZERS: dict[str, Callable[[nn.Module, list[Tensor]], nn.Module]] = {
    "ours": lambda model, images: quantize(model, images, progress=False),
    "ours, pow2": lambda model, images: quantize(model, images, "pow2", bias="int32", progress=False),
    "X86Inductor": lambda model, images: _annotated_by("x86", model, images),
    "XNNPACK": lambda model, images: _annotated_by("xnnpack", model, images),
}

_VIEWS = (aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.dropout.default)
_PRODUCTS = (
    aten.conv2d.default, aten.linear.default, aten.matmul.default, aten.bmm.default, aten.conv_transpose2d.input,
)  # fmt: skip


class _Macs(torch.fx.Interpreter):
    """Counts, as an exported graph runs, the multiply-accumulates of all products and of those between integers."""

    total = annotated = 0

    def run_node(self, node: torch.fx.Node) -> Any:
        result = super().run_node(node)
        if node.target in _PRODUCTS:
            data, weight = self.fetch_args_kwargs_from_env(node)[0][:2]
            if node.target is aten.conv_transpose2d.input:
                macs = data.numel() * weight[0].numel()
            elif node.target is aten.conv2d.default:
                macs = result.numel() * weight[0].numel()
            else:
                macs = result.numel() * data.shape[-1]
            self.total += macs
            if all(_is_dequantised(argument) for argument in node.args[:2]):
                self.annotated += macs
        return result


class _ExactSums(torch.fx.Interpreter):
    """Runs an exported graph with the sums of its products in float64, rounded once."""

    def run_node(self, node: torch.fx.Node) -> Any:
        if node.target not in _PRODUCTS:
            return super().run_node(node)
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        given = [x.double() if isinstance(x, Tensor) else x for x in args]
        return node.target(*given, **kwargs).float()


def _other_sums(graph: Any, image: Tensor) -> Iterator[Tensor]:
    """What eager gives when it adds in another order, or exactly."""
    with torch.backends.mkldnn.flags(enabled=False):
        yield graph(image)
    yield _ExactSums(graph).run(image, enable_io_processing=False)[0]


def _distances(graph: nn.Module, images: list[Tensor]) -> tuple[float, float]:
    """How far we are from eager over several inputs, and eager with other sums at most, as shares of its norm."""
    squares = torch.zeros(4, dtype=torch.float64)
    compiled = torch.compile(graph, backend="fpga")
    with torch.no_grad():
        for image in images:
            expected = graph(image)
            apart = [other - expected for other in (compiled(image), *_other_sums(graph, image))]
            squares += torch.stack([x.double().square().sum() for x in (expected, *apart)])
    ours, *eager = ((squares[1:] / squares[0]).sqrt()).tolist()
    return ours, max(eager)


def _is_dequantised(node: Any) -> bool:
    while isinstance(node, torch.fx.Node) and node.target in _VIEWS:
        node = node.args[0]
    return isinstance(node, torch.fx.Node) and node.target in (DEQUANTIZE, DEQUANTIZE_CHANNELS)


@pytest.fixture(scope="session")
def table() -> Iterator[list[str]]:
    """Rows of the table of docs/evaluation/int8.md."""
    rows: list[str] = []
    yield rows
    if rows:
        head = (
            "| network | quantizer | MACs annotated | of these int8 | nodes on the device | launches "
            "| from eager mode | eager mode from itself |"
        )
        path = Path("out/quantised.md")
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([head, "|---|---|" + 6 * "--:|", *rows]) + "\n")


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    gc.collect()


@pytest.mark.slow
@pytest.mark.parametrize("quantizer", QUANTIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, quantizer: str, table: list[str]) -> None:
    network = NETWORKS[name]
    torch.manual_seed(0)
    model = network.build().eval()
    randomise_batch_norm(model)
    images = [torch.randn(network.size) for _ in range(CALIBRATION)]
    with torch.no_grad():
        graph = QUANTIZERS[quantizer](copy.deepcopy(model), images)
        counted = _Macs(graph)
        counted.run(images[0], enable_io_processing=False)
        found = torch.compile(graph, backend="fpga")(images[0])
        explained = fpga_dynamo.explain(graph, images[0])
        expected = graph(images[0])
        others = list(_other_sums(graph, images[0]))
    (program,) = explained.graphs
    products = [node for node in program.nodes if node.macs]
    integers = sum(node.macs for node in products if node.how.startswith("int8; "))
    ours, *eager = (float((other - expected).norm() / expected.norm()) for other in (found, *others))
    eagers = max(eager)
    table.append(
        f"| {name} | {quantizer} | {counted.annotated / counted.total:.1%} | {integers / counted.annotated:.1%} "
        f"| {explained.node_offload:.0%} | {explained.pl_launches} "
        f"| {'bit-identical' if ours == 0 else f'{ours:.2%}'} | {'bit-identical' if eagers == 0 else f'{eagers:.2%}'} |"
    )
    print(table[-1])
    why = "\n".join(f"{node.op}: {node.how}" for node in program.nodes if node.place != "PL" and node.computes)
    assert explained.node_offload == 1, why
    assert explained.pl_launches == 1
    casts = {str(QUANTIZE), str(DEQUANTIZE), str(DEQUANTIZE_CHANNELS)}
    assert not [node for node in program.nodes if node.op in casts and node.place == "PS"]
    assert integers >= SHARE * counted.annotated, "\n".join(f"{node.op}: {node.how}" for node in products)
    if quantizer == "ours, pow2" and network.exact:
        assert torch.equal(found, expected)
    else:
        if ours > FACTOR * eagers:
            ours, eagers = _distances(graph, [torch.randn(network.size) for _ in range(MORE)])
            print(f"of {MORE} inputs: {ours:.2%} from eager, eager mode's other sums {eagers:.2%}")
        if ours > FACTOR * eagers and (name, quantizer) in MISSED:
            pytest.xfail(f"{ours:.2%} from eager, eager mode's other sums {eagers:.2%}")
        assert ours <= FACTOR * eagers
