"""From an exported network to engine layers: batch norms vanish, activations and sums join what is before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from benchmarks.engine.layers import Convolution, Layer, Network, Part, Pool, Product, Rows, Shape

aten = torch.ops.aten

# What a table of 256 entries, or a clamp, of an epilogue computes.
_ACTIVATIONS: dict[Any, str] = {
    aten.relu.default: "relu",
    aten.relu_.default: "relu",
    aten.hardtanh.default: "relu6",
    aten.hardtanh_.default: "relu6",
    aten.leaky_relu.default: "leaky_relu",
    aten.gelu.default: "gelu",
    aten.silu.default: "silu",
    aten.silu_.default: "silu",
}
# Their result is their first operand, as the engine's maps have it: features of a matrix lie as channels of a map do.
_SAME_MAP = (
    aten.batch_norm.default,
    aten.dropout.default,
    aten.flatten.using_ints,
    aten.view.default,
    aten.reshape.default,
    aten.transpose.int,
    aten.permute.default,
    aten.contiguous.default,
    aten.clone.default,
)


class UnknownOperatorError(Exception):
    """The network has an operator that this walk has no layer for."""


def network(name: str, graph: torch.fx.Graph) -> Network:
    """The layers of an exported graph. Raises UnknownOperatorError, which names the node."""
    walk = _Walk(Network(name))
    for node in graph.nodes:
        walk.visit(node)
    walk.place_concatenations()
    return walk.network


def _shape(node: Node) -> Shape:
    """Of a value of rank 4 (an image), or of one whose last dimension are the features of rows."""
    sizes = [int(s) for s in node.meta["val"].shape]
    if len(sizes) == 4:
        return Shape(sizes[2], sizes[3], sizes[1])
    rows = 1
    for size in sizes[:-1]:
        rows *= size
    return Shape(1, rows, sizes[-1])


def _pair(value: Any, default: int) -> tuple[int, int]:
    numbers = list(value) if value is not None else []
    if not numbers:
        numbers = [default]
    return (int(numbers[0]), int(numbers[-1]))


class _Walk:
    def __init__(self, network: Network) -> None:
        self.network = network
        self._of: dict[Node, Part] = {}
        self._producer: dict[int, int] = {}  # index of the layer that writes a map
        self._joined: dict[int, list[Part]] = {}  # maps that are concatenations, and their parts

    def visit(self, node: Node) -> None:
        if node.op == "placeholder":
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                self._define(node, _shape(node))
        elif node.op == "call_function":
            self._call(node)

    def _call(self, node: Node) -> None:
        target = node.target
        if target in _SAME_MAP:
            self._of[node] = self._read(node, 0)
        elif target in _ACTIVATIONS:
            self._activation(node, _ACTIVATIONS[target])
        elif target in _LAYERS:
            _LAYERS[target](self, node)
        elif "val" in node.meta and isinstance(node.meta["val"], torch.Tensor):
            raise UnknownOperatorError(f"{self.network.name}: no engine layer for {node.format_node()}")

    def _define(self, node: Node, shape: Shape) -> Part:
        self.network.maps.append(shape)
        self._of[node] = Part(len(self.network.maps) - 1, 0, shape.channels)
        return self._of[node]

    def _read(self, node: Node, argument: int) -> Part:
        source = node.args[argument]
        assert isinstance(source, Node)
        return self._of[source]

    def _append(self, layer: Layer) -> None:
        self._producer[layer.output.map] = len(self.network.layers)
        self.network.layers.append(layer)

    def _activation(self, node: Node, name: str) -> None:
        """Joins the layer that computed its operand, if nobody else wants that."""
        source = node.args[0]
        assert isinstance(source, Node)
        part = self._of[source]
        at = self._producer.get(part.map)
        layer = self.network.layers[at] if at is not None else None
        free = isinstance(layer, Convolution) and not (layer.activation or layer.sum_last)
        if at is not None and isinstance(layer, Convolution) and free and _uses(source) == 1:
            self.network.layers[at] = replace(layer, activation=name)
            self._of[node] = part
        else:
            self._append(Rows(node.name, (part,), self._define(node, _shape(node)), _shape(node), name))

    def _convolution(self, node: Node) -> None:
        weight = node.args[1]
        assert isinstance(weight, Node)
        arguments: list[Any] = [*node.args, *[None] * (7 - len(node.args))]
        source, result = _shape_of(node.args[0]), _shape(node)
        self._append(
            Convolution(
                node.name,
                (self._read(node, 0),),
                self._define(node, result),
                source,
                result,
                (int(weight.meta["val"].shape[2]), int(weight.meta["val"].shape[3])),
                _pair(arguments[3], 1),
                _pair(arguments[4], 0),
                _pair(arguments[5], 1),
                int(arguments[6] or 1),
            )
        )

    def _linear(self, node: Node) -> None:
        source, result = _shape_of(node.args[0]), _shape(node)
        part = self._read(node, 0)
        if source.pixels == 1:  # the features of an averaged image
            source = Shape(1, 1, source.channels)
        self._append(Convolution(node.name, (part,), self._define(node, result), source, result, (1, 1)))

    def _add(self, node: Node) -> None:
        """A residual: joins the later of the two layers that it sums, if that is a convolution without one."""
        operands = [n for n in node.args[:2] if isinstance(n, Node)]
        parts = [self._of[n] for n in operands]
        order = sorted(range(2), key=lambda i: -self._producer.get(parts[i].map, -1))
        for i in order:
            at = self._producer.get(parts[i].map)
            layer = self.network.layers[at] if at is not None else None
            if at is None or not isinstance(layer, Convolution) or _uses(operands[i]) != 1:
                continue
            if layer.residual or self._producer.get(parts[1 - i].map, -1) > at:
                continue
            self.network.layers[at] = replace(layer, residual=parts[1 - i], sum_last=bool(layer.activation))
            self._of[node] = parts[i]
            return
        self._append(Rows(node.name, tuple(parts), self._define(node, _shape(node)), _shape(node), "add"))

    def _max_pool(self, node: Node) -> None:
        arguments = list(node.args) + [None] * (6 - len(node.args))
        kernel = _pair(arguments[1], 1)
        stride = _pair(arguments[2], 0) if arguments[2] else kernel
        self._pool(node, kernel, stride, _pair(arguments[3], 0), "max")

    def _average_pool(self, node: Node) -> None:
        arguments = list(node.args) + [None] * (7 - len(node.args))
        kernel = _pair(arguments[1], 1)
        stride = _pair(arguments[2], 0) if arguments[2] else kernel
        self._pool(node, kernel, stride, _pair(arguments[3], 0), "average")

    def _global_average(self, node: Node) -> None:
        source = _shape_of(node.args[0])
        self._pool(node, (source.height, source.width), (1, 1), (0, 0), "average")

    def _pool(
        self, node: Node, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], kind: str
    ) -> None:
        source, result = _shape_of(node.args[0]), _shape(node)
        if len(node.meta["val"].shape) != 4:  # a mean that leaves the averaged dimensions out
            result = Shape(1, 1, source.channels)
        self._append(
            Pool(
                node.name,
                (self._read(node, 0),),
                self._define(node, result),
                source,
                result,
                kernel,
                stride,
                padding,
                kind,
            )
        )

    def _layer_norm(self, node: Node) -> None:
        shape = _shape(node)
        self._append(Rows(node.name, (self._read(node, 0),), self._define(node, shape), shape, "layer_norm"))

    def _attention(self, node: Node) -> None:
        query, key = node.args[0], node.args[1]
        assert isinstance(query, Node) and isinstance(key, Node)
        _, heads, rows, size = (int(s) for s in query.meta["val"].shape)
        keys = int(key.meta["val"].shape[2])
        q, k, v = (self._read(node, i) for i in range(3))
        scores = Shape(1, heads * rows, keys)
        self.network.maps += [scores, scores]
        first, second = (Part(len(self.network.maps) - i, 0, keys) for i in (2, 1))
        self._append(Product(f"{node.name}.scores", (q, k), first, heads, rows, size, keys, True))
        self._append(Rows(f"{node.name}.softmax", (first,), second, scores, "softmax"))
        output = self._define(node, Shape(1, rows, heads * size))
        self._append(Product(f"{node.name}.values", (second, v), output, heads, rows, keys, size, False))

    def _concatenate(self, node: Node) -> None:
        """A map whose parts are written by the layers that compute them."""
        operands = node.args[0]
        assert isinstance(operands, (list, tuple))
        parts = [self._of[n] for n in operands if isinstance(n, Node)]
        result = self._define(node, _shape(node))
        self._joined[result.map] = parts

    def place_concatenations(self) -> None:
        """Has the parts of a concatenation written where they belong, instead of into maps of their own."""
        moved: dict[int, Part] = {}
        for whole, parts in self._joined.items():
            first = 0
            for part in parts:
                moved[part.map] = Part(whole, first, part.count)
                first += part.count

        def place(part: Part) -> Part:
            first, count = part.first, part.count
            while part.map in moved:
                part = moved[part.map]
                first += part.first
            return Part(part.map, first, count)

        layers = self.network.layers
        for at, layer in enumerate(layers):
            layers[at] = replace(layer, inputs=tuple(map(place, layer.inputs)), output=place(layer.output))
            placed = layers[at]
            if isinstance(placed, Convolution) and placed.residual is not None:
                layers[at] = replace(placed, residual=place(placed.residual))


def _shape_of(value: Any) -> Shape:
    assert isinstance(value, Node)
    return _shape(value)


def _uses(node: Node) -> int:
    """Readers of a value, through views and batch norms, of which it is the only one."""
    while len(node.users) == 1 and (user := next(iter(node.users))).target in _SAME_MAP:
        node = user
    return len(node.users)


_LAYERS: dict[Any, Callable[[_Walk, Node], None]] = {
    aten.conv2d.default: _Walk._convolution,
    aten.linear.default: _Walk._linear,
    aten.add.Tensor: _Walk._add,
    aten.add_.Tensor: _Walk._add,
    aten.max_pool2d.default: _Walk._max_pool,
    aten.avg_pool2d.default: _Walk._average_pool,
    aten.adaptive_avg_pool2d.default: _Walk._global_average,
    aten.mean.dim: _Walk._global_average,
    aten.layer_norm.default: _Walk._layer_norm,
    aten.scaled_dot_product_attention.default: _Walk._attention,
    aten.cat.default: _Walk._concatenate,
}
