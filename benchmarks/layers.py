"""The layers of networks, by shape: what their dispatched operators say while they run on PyTorch's meta device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.peers import plain_attention
from benchmarks.workloads import WORKLOADS, Workload
from fpga_dynamo.torch_internals.dispatch import TorchDispatchMode

NETWORKS = ("resnet18", "resnet50", "vgg19", "mobilenet_v2", "inception_v3", "densenet121", "bert-base-x4", "mlp-8192")
"""Whose layers are measured one by one."""

Shape = tuple[int, ...]


@dataclass
class Layer:
    """One operator with its sizes. `models`: the networks that have it.

    build: a module without anything around it, and `shape` of its input; `macs` multiply-accumulates.
    """

    name: str
    kind: str
    shape: Shape
    build: Callable[[], nn.Module]
    macs: int = 0
    models: list[str] = field(default_factory=list)

    @property
    def of_images(self) -> bool:
        """Whether the input is an image, which networks have channels-last; scores of attention are not."""
        return self.kind in ("conv", "depthwise", "pool")

    def make(self, seed: int = 0) -> tuple[nn.Module, Tensor]:
        """The module in eval mode with random parameters, and an input."""
        torch.manual_seed(seed)
        module, x = self.build().eval(), torch.randn(self.shape)
        return module, x.contiguous(memory_format=torch.channels_last) if self.of_images else x


def layers_of(names: Iterable[str] = NETWORKS) -> list[Layer]:
    """The distinct layers of these networks, in the order in which they first occur."""
    found: dict[str, Layer] = {}
    for name in names:
        for layer in record(WORKLOADS[name]):
            known = found.setdefault(layer.name, layer)
            if name not in known.models:
                known.models.append(name)
    return list(found.values())


def record(workload: Workload) -> list[Layer]:
    """The layers of one network, repetitions included. Nothing is computed and no memory taken."""
    recorder = _Recorder()
    with torch.device("meta"), torch.no_grad(), plain_attention():
        model, example = workload.make()
        with recorder:
            model(example)
    return recorder.layers


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.layers: list[Layer] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        describe = _DESCRIBE.get(op.overloadpacket)
        layer = None if describe is None else describe(*args)
        if layer is not None:
            self.layers.append(layer)
        return op(*args, **(kwargs or {}))


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Layer | None:
    if transposed or x.dim() != 4:
        return None
    batch, channels, height, width = x.shape
    out = weight.shape[0]
    kernel: Any = tuple(weight.shape[2:])
    sizes = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, p, d, k, s in zip((height, width), padding, dilation, kernel, stride, strict=True)
    ]
    depthwise = groups == channels == out and groups > 1
    name = f"{'depthwise' if depthwise else 'conv'} {_image(x)} to {out} kernel {_pair(kernel)}"
    name += f" stride {_pair(stride)}" if set(stride) != {1} else ""
    name += f" pad {_pair(padding)}" if any(padding) else ""
    name += f" dilation {_pair(dilation)}" if set(dilation) != {1} else ""
    name += f" groups {groups}" if groups > 1 and not depthwise else ""

    def build() -> nn.Module:
        window: Any = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation)}
        return nn.Conv2d(channels, out, kernel, groups=groups, **window)

    macs = batch * out * math.prod(sizes) * math.prod(kernel) * channels // groups
    return Layer(name, "depthwise" if depthwise else "conv", tuple(x.shape), build, macs)


def _linear(x: Tensor, transposed: Tensor) -> Layer:
    rows, depth = x.shape
    columns = transposed.shape[1]
    name = f"linear {rows} x {depth} to {columns}"
    return Layer(name, "linear", (rows, depth), lambda: nn.Linear(depth, columns), rows * depth * columns)


def _pool(kind: type[nn.Module]) -> Callable[..., Layer]:
    def describe(
        x: Tensor, kernel: list[int], stride: list[int] | None = None, padding: Any = 0, *others: Any
    ) -> Layer:
        steps = list(stride or kernel)
        pad = padding if isinstance(padding, int) else tuple(padding)
        word = "max pool" if kind is nn.MaxPool2d else "average pool"
        name = f"{word} {_image(x)} kernel {_pair(kernel)} stride {_pair(steps)} pad {_pair(pad)}"
        make: Any = kind
        return Layer(name, "pool", tuple(x.shape), lambda: make(tuple(kernel), tuple(steps), pad))

    return describe


def _mean(x: Tensor, dims: list[int], *others: Any) -> Layer | None:
    if x.dim() != 4 or {d % 4 for d in dims} != {2, 3}:
        return None
    return Layer(f"global average pool {_image(x)}", "pool", tuple(x.shape), lambda: nn.AdaptiveAvgPool2d(1))


def _softmax(x: Tensor, dim: int, *others: Any) -> Layer:
    return Layer(f"softmax {_sizes(x.shape)}", "rows", tuple(x.shape), lambda: nn.Softmax(dim))


def _layer_norm(x: Tensor, shape: list[int], *others: Any) -> Layer:
    normalised = list(shape)
    return Layer(f"layer norm {_sizes(x.shape)}", "rows", tuple(x.shape), lambda: nn.LayerNorm(normalised))


aten = torch.ops.aten
_DESCRIBE: Mapping[Any, Callable[..., Layer | None]] = {
    aten.convolution: _convolution,
    aten.addmm: lambda bias, x, transposed: _linear(x, transposed),
    aten.mm: _linear,
    aten.max_pool2d_with_indices: _pool(nn.MaxPool2d),
    aten.avg_pool2d: _pool(nn.AvgPool2d),
    aten.mean: _mean,
    aten._softmax: _softmax,
    aten._safe_softmax: _softmax,
    aten.native_layer_norm: _layer_norm,
}


class _Chain(nn.Module):
    """Element-wise operators one behind the other, as an activation with a gate, a scale and a residual has them."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def forward(self, x: Tensor) -> Tensor:
        steps = (torch.sigmoid, lambda y: y * x, lambda y: y * 0.5, lambda y: y + x)
        y = x
        for i in range(self.length):
            y = steps[i % len(steps)](y)
        return y


def pointwise_chains() -> list[Layer]:
    """Chains of 4 and 8 element-wise operators on 128 Ki and 2 Mi elements, of the size of L2 and beyond."""
    return [
        Layer(f"pointwise {length} operators {side} x 1024", "pointwise", (side, 1024), lambda n=length: _Chain(n))  # type: ignore[misc]
        for length in (4, 8)
        for side in (128, 2048)
    ]


def _image(x: Tensor) -> str:
    return f"{x.shape[1]} x {x.shape[2]} x {x.shape[3]}" + (f" batch {x.shape[0]}" if x.shape[0] != 1 else "")


def _sizes(shape: Iterable[int]) -> str:
    return " x ".join(map(str, shape))


def _pair(value: Any) -> str:
    both = (value, value) if isinstance(value, int) else tuple(value) * (2 // len(value))
    return str(both[0]) if both[0] == both[1] else f"{both[0]}x{both[1]}"
