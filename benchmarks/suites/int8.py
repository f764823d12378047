"""Layers of networks in int8: what the product takes in our card, in int8 and in float32, and onnxruntime's int8.

Each contestant has a convolution or linear layer with a ReLU between integers. Ours are timed in the card, the
product's command alone; onnxruntime from bytes to bytes, with what a call of it costs.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fpga_dynamo
from benchmarks import pictures
from benchmarks.card import OnCard
from benchmarks.layers import Layer, layers_of
from benchmarks.results import OURS, Result, Row, Target
from benchmarks.rounds import Contestant, SelfTimed, describe, interleave
from benchmarks.suites import Settings, guarded
from benchmarks.verify import WrongOutputError, cases, check
from benchmarks.workloads import ONNXRUNTIME
from fpga_dynamo.torch_internals.quantized import decomposed

SECONDS = 0.8
NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "bert-tiny")
FLOAT = "float32"
_PRODUCTS = {"conv2d", "winograd", "depthwise", "gemm", "conv2d_int8", "depthwise_int8", "gemm_int8"}
_KINDS = ("conv", "depthwise", "linear")
_SMALLEST = "linear 1 x 512 to 1000"
_LIMITS = {FLOAT: 1.0, ONNXRUNTIME: 1.0}


def rows(settings: Settings, details: dict[str, Any]) -> Iterator[Row]:
    known = {layer.name: layer for layer in layers_of(NETWORKS) if layer.kind in _KINDS}
    names = [_SMALLEST] if settings.quick and not settings.only else settings.chosen(list(known))
    for name in names:
        yield from guarded(name, partial(measure, known[name], settings))


def measure(layer: Layer, settings: Settings, row: Row) -> None:
    """Fills the row of one layer."""
    torch.compiler.reset()
    module, x = layer.make()
    row.details |= {"kind": layer.kind, "models": layer.models}
    with torch.no_grad():
        plain = nn.Sequential(module, nn.ReLU()).eval()
        quantised = Quantised(module, x)
        contestants: dict[str, Contestant] = {OURS: _products_of(quantised, x, quantised.out_scale)}
        contestants[FLOAT] = _products_of(plain, x, None)
        if ONNXRUNTIME in settings.peers:
            try:
                contestants[ONNXRUNTIME] = _onnxruntime(quantised, x, settings.threads)
            except Exception as error:
                row.failures[ONNXRUNTIME] = describe(error)
        row.add(interleave(contestants, settings.seconds, least_rounds=settings.least_rounds))
    if OURS in row.timings:
        row.figures |= {"macs": layer.macs, "card_gmacs": 1e-9 * layer.macs / row.timings[OURS].median}
        ratios = row.ratios()
        row.targets += [Target(f"over {name}", ratios[name], _LIMITS[name]) for name in _LIMITS if name in ratios]


class Quantised(nn.Module):
    """A layer and a ReLU as a quantizer leaves them: unsigned activations, signed weights with a scale a channel."""

    integers: Tensor
    scales: Tensor
    zeros: Tensor

    def __init__(self, layer: nn.Module, x: Tensor) -> None:
        super().__init__()
        weight: Any = layer.weight
        self.layer = layer
        scales = weight.abs().amax(tuple(range(1, weight.dim()))) / 127
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros(len(scales), dtype=torch.int64))
        shaped = scales.reshape(-1, *[1] * (weight.dim() - 1))
        self.register_buffer("integers", (weight / shaped).round().clamp(-127, 127).to(torch.int8))
        self.in_scale = float(x.abs().amax()) / 127
        self.in_zero = 128
        self.out_scale = float(layer(x).relu().amax()) / 255

    def forward(self, x: Tensor) -> Tensor:
        x = self._rounded(x, self.in_scale, self.in_zero)
        return self._rounded(self._product(x, self.layer.bias).relu(), self.out_scale, 0)

    def _product(self, x: Tensor, bias: Any) -> Tensor:
        weight = decomposed.dequantize_per_channel.default(
            self.integers, self.scales, self.zeros, 0, -127, 127, torch.int8
        )
        if isinstance(self.layer, nn.Linear):
            return F.linear(x, weight, bias)
        window: Any = self.layer
        return F.conv2d(x, weight, bias, window.stride, window.padding, window.dilation, window.groups)

    @staticmethod
    def _rounded(x: Tensor, scale: float, zero: int) -> Tensor:
        integers = decomposed.quantize_per_tensor.default(x, scale, zero, 0, 255, torch.uint8)
        result: Tensor = decomposed.dequantize_per_tensor.default(integers, scale, zero, 0, 255, torch.uint8)
        return result


def _products_of(model: nn.Module, x: Tensor, step: float | None) -> SelfTimed:
    """Seconds of a call's products on the card; checks first that integers are at most `step` off eager mode's."""
    on_card, wanted = OnCard(model, x), cases(model, x)
    if step is None:
        check(on_card, wanted)
    else:
        for case in wanted:
            worst = float((on_card(case.given) - case.expected).abs().max())
            if not worst <= 1.01 * step:
                raise WrongOutputError(f"a result is {worst / step:.1f} steps from eager mode's")

    def seconds() -> float:
        with fpga_dynamo.trace() as trace:
            on_card(x)
        return sum(event.stop - event.start for event in trace.commands if event.name in _PRODUCTS)

    return SelfTimed(seconds)


def _onnxruntime(model: Quantised, x: Tensor, threads: int) -> Callable[[], object]:
    """From bytes to bytes: a product between DequantizeLinear and QuantizeLinear, which it makes one operator of."""
    absent = [name for name in ("onnxruntime", "onnx") if importlib.util.find_spec(name) is None]
    if absent:
        raise RuntimeError(f"not installed: {', '.join(absent)}")
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    layer: Any = model.layer
    bias = layer.bias if layer.bias is not None else torch.zeros(len(model.scales))
    constants = {
        "x_scale": np.float32(model.in_scale), "x_zero": np.uint8(model.in_zero),
        "y_scale": np.float32(model.out_scale), "y_zero": np.uint8(0),
        "w": model.integers.numpy(), "w_scale": model.scales.numpy(), "w_zero": np.zeros(len(model.scales), np.int8),
        "b_scale": (model.scales * model.in_scale).numpy(),
        "b": (bias / (model.scales * model.in_scale)).round().to(torch.int32).numpy(),
        "b_zero": np.zeros(len(model.scales), np.int32),
    }  # fmt: skip
    if isinstance(layer, nn.Linear):
        product = helper.make_node("Gemm", ["xf", "wf", "bf"], ["yf"], transB=1)
    else:
        window = {"strides": layer.stride, "dilations": layer.dilation, "pads": (*layer.padding, *layer.padding)}
        product = helper.make_node("Conv", ["xf", "wf", "bf"], ["yf"], group=layer.groups, **window)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["wf"], axis=0),
        helper.make_node("DequantizeLinear", ["b", "b_scale", "b_zero"], ["bf"], axis=0),
        product,
        helper.make_node("Relu", ["yf"], ["yr"]),
        helper.make_node("QuantizeLinear", ["yr", "y_scale", "y_zero"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, list(x.shape))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.UINT8, None)]
    initial = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "layer", inputs, outputs, initial)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.force_spinning_stop", "1")
    onnx.checker.check_model(made)
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = (x / model.in_scale).round().add(model.in_zero).clamp(0, 255).to(torch.uint8).contiguous().numpy()
    found = torch.from_numpy(session.run(None, {"x": given})[0]).float() * model.out_scale
    worst = float((found - model(x)).abs().max()) / model.out_scale
    if not worst <= 2.01:
        raise WrongOutputError(f"a result is {worst:.1f} steps from eager mode's")
    return lambda: session.run(None, {"x": given})


def draw(result: Result, path: Path) -> None:
    pictures.ratios(result, path, "Layers in int8: others' time / ours in the card (above 1: ours is faster)")
