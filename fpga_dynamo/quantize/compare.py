"""What 8 bits cost: layer by layer, and in the result."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from fpga_dynamo.errors import OptionError
from fpga_dynamo.quantize import attention
from fpga_dynamo.quantize.capture import LayerWatch, refuse_no_graph, rounded
from fpga_dynamo.quantize.export import Inputs, Model, arguments, exported
from fpga_dynamo.quantize.levels import FEWEST, FewLevels, Levels
from fpga_dynamo.quantize.products import is_spelled_otherwise, rewrite_like
from fpga_dynamo.quantize.ranges import flat_inputs
from fpga_dynamo.quantize.reference import ReferenceValue, sources
from fpga_dynamo.torch_internals.pytree import tree_leaves
from xclbin_build import atomic_file

Score = Callable[[nn.Module], float]
"""How good a model is, the higher the better, such as its accuracy in percent on data that the caller has."""


@dataclass
class LayerNoise:
    """A layer of the quantised graph beside the same of the float one.

    own_db: signal-to-noise ratio of the layer alone, given the float model's values as its inputs.
    total_db: that of the network up to here.
    worst_channel, worst_db: the channel (dimension 1, of features the last) with the least own ratio.
    macs: whether it is a product.

    Ratios are 10 log10(mean square of the signal / mean square of the error), infinite where nothing differs.
    """

    name: str
    operator: str
    own_db: float
    total_db: float
    worst_channel: int | None
    worst_db: float
    macs: bool


@dataclass
class Comparison:
    """What :func:`compare` found.

    output_db: signal-to-noise ratio of the worst result.
    outputs_db: that of each.
    agreement: share of rows of the first result whose largest element is the same one (top-1).
    few_levels: values that use fewer than 16 of their 256 levels, although their float values differ more.
    """

    layers: list[LayerNoise]
    output_db: float
    agreement: float
    before: float | None = None
    after: float | None = None
    outputs_db: list[float] = field(default_factory=list)
    few_levels: list[FewLevels] = field(default_factory=list)

    def most_sensitive(self) -> list[LayerNoise]:
        """Products, those first that lose the most by themselves: the ones to leave in float."""
        return sorted((layer for layer in self.layers if layer.macs), key=lambda layer: layer.own_db)

    def table(self) -> Table:
        caption = "; ".join(map(str, self.few_levels)) or None
        table = Table(title=self._title(), caption=caption)
        for name in ("layer", "operator", "own dB", "network dB", "worst channel", "its dB"):
            table.add_column(name, justify="left" if name in ("layer", "operator") else "right", no_wrap=True)
        for layer in self.layers:
            worst = "" if layer.worst_channel is None else str(layer.worst_channel)
            table.add_row(
                layer.name, layer.operator, _text(layer.own_db), _text(layer.total_db), worst, _text(layer.worst_db)
            )
        return table

    def __str__(self) -> str:
        console = Console(width=120, force_terminal=False, force_jupyter=False, color_system=None)
        with console.capture() as text:
            console.print(self.table())
        return text.get()

    def save(self, path: str | Path) -> None:
        """Draws both ratios over the layers, as .png, .svg or .pdf."""
        from fpga_dynamo.plotting import Figure

        figure = Figure(figsize=(max(6.0, 0.22 * len(self.layers) + 2), 4.5), layout="constrained")
        axes = figure.add_subplot()
        places = range(len(self.layers))
        axes.bar(places, [_finite(layer.own_db) for layer in self.layers], color="#b9c7d6", label="layer alone")
        axes.plot(places, [_finite(layer.total_db) for layer in self.layers], "o-", color="#c0392b", label="network")
        axes.set_xticks(list(places), [layer.name for layer in self.layers], rotation=90, fontsize=6)
        axes.set_ylabel("signal to noise, dB")
        axes.set_title(self._title(), fontsize=9)
        axes.legend()
        with atomic_file.opened(path, durable=True) as file:
            figure.savefig(file, format=Path(path).suffix.removeprefix(".").lower() or "png")

    def _title(self) -> str:
        parts = [f"result {_text(self.output_db)} dB", f"same top-1 {self.agreement:.1%}"]
        if len(self.outputs_db) > 1:
            parts.insert(1, f"the worst of {', '.join(map(_text, self.outputs_db))}")
        if self.before is not None and self.after is not None:
            parts.append(f"score {self.before:.2f} -> {self.after:.2f}")
        return ", ".join(parts)


def compare(model: Model, quantised: GraphModule, data: Iterable[Inputs], score: Score | None = None) -> Comparison:
    """`quantised` beside the float `model` it was made of, on `data` (inputs, as of :func:`quantize`).

    Layers are matched by their names in the exported graph, so `quantised` comes from ``torch.export`` of `model`
    (:func:`quantize`, or torchao with any quantizer). Results are compared with those of `model` itself, where
    nothing is folded. score: of a model, evaluated for both. Warns of values that use fewer than 16 levels.

    Raises OptionError where `data` is empty, `quantised` is no graph or the graphs have no layer in common.
    """
    refuse_no_graph(quantised)
    items = list(data)
    if not items:
        raise OptionError("data is empty: give inputs to compare the models on")
    reference = exported(model, items[0])
    names = {node.name for node in quantised.graph.nodes}
    layers = _as_rewritten(model, items[0], reference, quantised, names)
    places = sources(layers, names)
    sums: dict[str, _Sums] = {}
    outputs: list[_Power] = []
    levels = Levels(quantised)
    same, rows = 0, 0
    with torch.no_grad():
        for inputs in items:
            _noise(quantised, inputs, places, _values(layers, inputs), sums)
            if not sums:
                raise OptionError(
                    "the two graphs have no layer in common: quantize the torch.export graph of this model"
                )
            exact = _results(_run(reference, inputs, lambda node, value: value))
            ours = _results(levels.run(*flat_inputs(quantised, *arguments(inputs)), enable_io_processing=False))
            outputs = outputs or [_Power() for _ in exact]
            for power, *pair in zip(outputs, exact, ours, strict=True):
                power.add(*pair)
            if exact and exact[0].dim() > 1 and exact[0].numel():
                same += int((exact[0].flatten(1).argmax(1) == ours[0].flatten(1).argmax(1)).sum())
                rows += exact[0].shape[0]
    few = levels.few()
    if few:
        warnings.warn(f"{'; '.join(map(str, few))}: fewer than {FEWEST}", RuntimeWarning, stacklevel=2)
    ratios = [power.db() for power in outputs]
    float_model = model.module() if isinstance(model, ExportedProgram) else model
    return Comparison(
        [noise.layer() for noise in sums.values()],
        min(ratios, default=math.inf),
        same / rows if rows else math.nan,
        None if score is None else score(float_model),
        None if score is None else score(quantised),
        ratios,
        few,
    )


class _Power:
    """Mean squares of a signal and of its error."""

    def __init__(self) -> None:
        self.signal, self.error = 0.0, 0.0

    def add(self, exact: Tensor, ours: Tensor) -> None:
        signal, error = _squares(exact, ours)
        self.signal += float(signal.sum())
        self.error += float(error.sum())

    def db(self) -> float:
        return _db(self.signal, self.error)


def _squares(exact: Tensor, ours: Tensor) -> tuple[Tensor, Tensor]:
    """Of the signal and of its error, element by element; nothing where a mask is infinite."""
    finite = exact.isfinite()
    signal = torch.where(finite, exact.double(), 0.0)
    return signal.square(), torch.where(finite, signal - ours.double(), 0.0).square()


class _Sums:
    """What is known of a layer so far."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.own, self.total = _Power(), _Power()
        self.channels: tuple[Tensor, Tensor] | None = None
        called = getattr(node.target, "__name__", "") if node.target is operator.getitem else str(node.target)
        self.operator = called.removeprefix("aten.").split(".")[0]

    def add_own(self, exact: Tensor, ours: Tensor) -> None:
        self.own.add(exact, ours)
        if exact.dim() < 2:
            return
        axis = exact.dim() - 1 if self.operator in _OF_FEATURES else 1
        others = [d for d in range(exact.dim()) if d != axis]
        signal, error = (squares.sum(others) for squares in _squares(exact, ours))
        if self.channels is None:
            self.channels = (signal, error)
        elif self.channels[0].shape == signal.shape:
            self.channels = (self.channels[0] + signal, self.channels[1] + error)

    def layer(self) -> LayerNoise:
        channel, worst = None, self.own.db()
        if self.channels is not None:
            ratios = [_db(s, e) for s, e in zip(*(part.tolist() for part in self.channels), strict=True)]
            channel = min(range(len(ratios)), key=ratios.__getitem__)
            worst = ratios[channel]
        return LayerNoise(
            self.node.name, self.operator, self.own.db(), self.total.db(), channel, worst, self.operator in _PRODUCTS
        )


_PRODUCTS = {
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "linear",
    "matmul",
    "bmm",
    "addmm",
    "convolution",
}

_OF_FEATURES = {"linear", "matmul", "bmm", "addmm", "layer_norm", "softmax"}
"""Whose channels are the last dimension; else they are the second one."""


def _values(reference: GraphModule, inputs: Inputs) -> dict[str, Any]:
    values: dict[str, Any] = {}

    def keep(node: Node, value: Any) -> Any:
        # A later operator may change the value in place.
        values[node.name] = value.clone() if isinstance(value, Tensor) else value
        return value

    _run(reference, inputs, keep)
    return values


def _as_rewritten(
    model: Model, inputs: Inputs, reference: GraphModule, quantised: GraphModule, names: Collection[str]
) -> GraphModule:
    """The float graph with products and attention as the quantized one has them; `reference` if it needs no change."""
    apart = attention.is_fused(reference) and not attention.is_fused(quantised)
    spelled = any(is_spelled_otherwise(node) and node.name not in names for node in reference.graph.nodes)
    if not (apart or spelled):
        return reference
    layers = exported(model, inputs)
    if spelled:
        rewrite_like(layers, names)
    if apart:
        attention.take_apart(layers)
    return layers


def _noise(
    quantised: GraphModule,
    inputs: Inputs,
    places: dict[str, ReferenceValue],
    values: dict[str, Any],
    sums: dict[str, _Sums],
) -> None:
    def matched(node: Node, value: Any) -> Tensor | None:
        place = places.get(node.name)
        exact = None if place is None else place.value(values)
        if isinstance(exact, Tensor) and exact.is_floating_point() and exact.shape == getattr(value, "shape", None):
            return exact
        return None

    def alone(node: Node, value: Any) -> Any:
        exact = matched(node, value)
        if exact is None:
            return value
        sums.setdefault(node.name, _Sums(node)).add_own(exact, rounded(quantised, node, value))
        return exact.clone()

    def together(node: Node, value: Any) -> Any:
        exact = matched(node, value)
        if exact is not None:
            sums[node.name].total.add(exact, rounded(quantised, node, value))
        return value

    _run(quantised, inputs, alone)
    _run(quantised, inputs, together)


def _run(graph: GraphModule, inputs: Inputs, see: Callable[[Node, Any], Any]) -> Any:
    return LayerWatch(graph, see).run(*flat_inputs(graph, *arguments(inputs)), enable_io_processing=False)


def _results(result: Any) -> list[Tensor]:
    """The results that are numbers: those that are real, or all if none is."""
    leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
    real = [leaf for leaf in leaves if leaf.is_floating_point()]
    return [leaf.float() for leaf in real or leaves]


def _db(signal: float, error: float) -> float:
    if error == 0:
        return math.inf
    return 10 * math.log10(signal / error) if signal > 0 else -math.inf


def _finite(ratio: float) -> float:
    return max(0.0, min(ratio, 80.0))


def _text(ratio: float) -> str:
    return "exact" if ratio == math.inf else f"{ratio:.1f}"
