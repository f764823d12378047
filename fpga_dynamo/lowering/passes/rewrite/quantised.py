"""Pass (part of normalise): quantising and dequantising nodes move to the operators that can compute with integers.

Whoever quantises a model puts them around operators as its recipe says: behind a pooling, in front of a view, one for
several readers. Every rewrite here leaves each number of the graph as it was, because rounding to eight bits is
monotonous and done element by element:

- each reader of a dequantised value gets a dequantising node of its own;
- it moves down through views, padding by zeros and maxima, which then are those of integers;
- a quantising node moves up through views, maxima, concatenations, nearest resize, and embeddings to their tables;
- what adds 0 or multiplies by 1 in front of a quantising node vanishes;
- quantising what was dequantised by the same scale gives the same integers again, and both vanish;
- of two that quantise one value by the same scale, one is left.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import IDENTITY_TARGETS, RESHAPE_TARGETS, arguments, aten, is_view, value
from fpga_dynamo.ir.quantised import (
    DEQUANTIZE,
    DEQUANTIZE_CHANNELS,
    DEQUANTIZE_DYNAMIC,
    QUANTIZE,
    DynamicScale,
    Scale,
    dequantized,
    dequantized_by_tensor,
    quantizes,
    scale_of,
)
from fpga_dynamo.ir.sizes.tensor import dense_like, of_dtype
from fpga_dynamo.lowering.patterns import keeps_rows

_MAXIMA = (aten.max_pool2d_with_indices.default,)

_ROLLS = (aten.roll.default, aten.flip.default)
"""Copies of every element in another order."""

_WHOLE_VIEWS = frozenset(
    {
        *RESHAPE_TARGETS,
        *_ROLLS,
        *IDENTITY_TARGETS,
        aten.permute.default,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.t.default,
        aten.transpose.int,
        aten.unsqueeze.default,
    }
)
"""Views and copies that show every element once, so that as many are quantised in front of them as behind them."""


_ELEMENT_WISE = frozenset(
    {
        aten.clamp.default,
        aten.gelu.default,
        aten.hardswish.default,
        aten.hardtanh.default,
        aten.relu.default,
        aten.sigmoid.default,
        aten.silu.default,
        aten.tanh.default,
    }
)
"""Element-wise functions that operators compute in their epilogue."""


_NEUTRAL: dict[Any, int] = {
    aten.add.Tensor: 0, aten.sub.Tensor: 0, aten.mul.Tensor: 1, aten.div.Tensor: 1,
}  # fmt: skip
"""Operators that leave their first operand as it is, with this number as the second."""

_EMBEDDING = aten.embedding.default
_NEAREST = (aten.upsample_nearest2d.default, aten.upsample_nearest2d.vec)


def hoist_scales(module: GraphModule, static_inputs: Collection[int] = ()) -> None:
    """Rewrites the graph in place; one without quantised values stays as it is.

    static_inputs: positions of parameters and buffers among the placeholders.
    """
    casts = (QUANTIZE, DEQUANTIZE, *DEQUANTIZE_DYNAMIC)
    if not any(node.target in casts for node in module.graph.nodes):
        return
    rewriter = _Rewriter(module, static_inputs)
    for node in list(module.graph.nodes):
        rewriter.one_for_each_reader(node)
    for node in list(module.graph.nodes):
        rewriter.drop_neutral(node)
    for node in list(module.graph.nodes):
        rewriter.move_down(node)
    for node in reversed(list(module.graph.nodes)):
        rewriter.move_up(node)
    for node in list(module.graph.nodes):
        rewriter.cancel(node)
    rewriter.merge()
    moved = (*casts, aten.constant_pad_nd.default, *_ROLLS, *_MAXIMA)
    for node in reversed(list(module.graph.nodes)):
        if not node.users and (node.target in moved or is_view(node)):
            module.graph.erase_node(node)
    for node in list(module.graph.nodes):
        rewriter.one_for_each_reader(node)


class _Rewriter:
    def __init__(self, module: GraphModule, static_inputs: Collection[int]) -> None:
        self._graph = module.graph
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._parameters = {placeholders[i] for i in static_inputs if i < len(placeholders)}

    # --- rewrites -----------------------------------------------------------------------------------------------------

    def one_for_each_reader(self, node: Node) -> None:
        """All but the first reader of a dequantised value get a node of their own."""
        if dequantized(node) is None and dequantized_by_tensor(node) is None:
            return
        for user in list(node.users)[1:]:
            own = self._after(node, node.target, node.args, value(node), node, node.kwargs)
            user.replace_input_with(node, own)

    def move_down(self, node: Node) -> None:
        """The node, made of integers, if all that it is made of was dequantised by one scale."""
        if node.op != "call_function" or not node.users:
            return
        if node.target in _MAXIMA or _is_split(node):
            self._items_of_integers(node)
        elif node.target in (*_ROLLS, aten.constant_pad_nd.default) or (
            is_view(node) and node.target is not operator.getitem
        ):
            self._of_integers(node)

    def _of_integers(self, node: Node) -> None:
        source = node.args[0]
        if len(node.all_input_nodes) > 1:
            return
        if (own := dequantized_by_tensor(source)) is not None:
            self._of_dynamic_scale(node, source, *own)
        found = dequantized(source)
        if found is None:
            return
        integers, scale = found
        rest = list(node.args[1:])
        if node.target is aten.constant_pad_nd.default:
            filling = node.args[2] if len(node.args) > 2 else node.kwargs.get("value", 0)
            if filling != 0 or node.kwargs:
                return
            rest = [rest[0], scale.zero]
        moved = self._after(node, node.target, (integers, *rest), of_dtype(value(node), scale.dtype), node, node.kwargs)
        self._dequantize_instead(node, moved, source)

    def _of_dynamic_scale(self, node: Node, source: Any, integers: Node, scale: DynamicScale) -> None:
        """The scale of each row moves through views that keep rows alone."""
        if scale.by_row and not keeps_rows(node):
            return
        if node.target in (*_ROLLS, aten.constant_pad_nd.default):
            return
        moved = self._after(node, node.target, (integers, *node.args[1:]), of_dtype(value(node), scale.dtype), node)
        rows, at = list(source.args[1:3]), moved
        if scale.by_row:
            size = [*value(node).shape[:-1], 1]
            for i, own in enumerate(rows):
                fake = dense_like(value(node), size, value(own).dtype)
                rows[i] = at = self._after(at, aten.reshape.default, (own, size), fake, node)
        for user in list(node.users):
            arguments = (moved, *rows, *source.args[3:])
            made = self._after(at, source.target, arguments, value(node), node, source.kwargs)
            user.replace_input_with(node, made)

    def _items_of_integers(self, node: Node) -> None:
        """Of what gives a tuple: views of parts; or maxima, if nobody asks for their places."""
        source = node.args[0]
        found = dequantized(source)
        items = list(node.users)
        if found is None or len(node.all_input_nodes) > 1 or any(i.target is not operator.getitem for i in items):
            return
        if node.target in _MAXIMA and any(item.args[1] != 0 and item.users for item in items):
            return
        integers, scale = found
        fakes = tuple(of_dtype(v, scale.dtype) if v.dtype is torch.float32 else v for v in value(node))
        moved = self._after(node, node.target, (integers, *node.args[1:]), fakes, node, node.kwargs)
        for item in items:
            if item.users:
                index = arguments(item)[1]
                own = self._after(moved, operator.getitem, (moved, index), fakes[index], item)
                self._dequantize_instead(item, own, source)

    def _dequantize_instead(self, node: Node, integers: Node, like: Any) -> None:
        """Readers of `node` read `integers`, dequantised as `like` is."""
        for user in list(node.users):
            made = self._after(integers, DEQUANTIZE, (integers, *like.args[1:]), value(node), node)
            user.replace_input_with(node, made)

    def drop_neutral(self, node: Node) -> None:
        """Rounding sees no difference between -0 and 0."""
        source = node.args[0] if node.args else None
        if not isinstance(source, Node) or len(node.args) != 2 or node.kwargs or not node.users:
            return
        number = _NEUTRAL.get(node.target)
        if number is None or isinstance(node.args[1], Node) or node.args[1] != number:
            return
        same = value(source).dtype is value(node).dtype and value(source).shape == value(node).shape
        if same and all(quantizes(user) is not None for user in node.users):
            node.replace_all_uses_with(source)
            self._graph.erase_node(node)

    def move_up(self, node: Node) -> None:
        """What is quantised here is made of quantised values, as far up as that leaves its numbers as they are."""
        waiting = [node]
        while waiting:
            waiting += self._move_up_once(waiting.pop())

    def _move_up_once(self, node: Node) -> list[Node]:
        """The quantising nodes that there are in the place of `node`, or nothing."""
        scale = quantizes(node)
        if scale is None:
            return []
        source = node.args[0]
        assert isinstance(source, Node)
        if len(source.users) != 1 or source.op != "call_function":
            return []
        if source.target in _ELEMENT_WISE and (swapped := self._in_front_of_view(source)) is not None:
            source = swapped
        new_arguments: tuple[Any, ...] | None = None
        if source.target in _WHOLE_VIEWS and len(source.all_input_nodes) == 1:
            new_arguments = (self._quantize(source.all_input_nodes[0], node, scale), *source.args[1:])
        elif source.target is aten.cat.default:
            parts = [self._quantize(part, node, scale) for part in arguments(source)[0]]
            new_arguments = (parts, *source.args[1:])
        elif source.target is _EMBEDDING and self._is_parameter(source.args[0]):
            new_arguments = (self._quantize(source.args[0], node, scale), *source.args[1:])
        if new_arguments is not None:
            fake = of_dtype(value(source), scale.dtype)
            moved = self._after(node, source.target, new_arguments, fake, node, source.kwargs)
        elif source.target is operator.getitem and source.args[1] == 0 and _is_maxima(source.args[0]):
            pool = source.args[0]
            assert isinstance(pool, Node)
            if any(item is not source and item.users for item in pool.users):
                return []
            inner = self._quantize(pool.args[0], node, scale)
            fakes = (of_dtype(value(source), scale.dtype), *value(pool)[1:])
            whole = self._after(node, pool.target, (inner, *pool.args[1:]), fakes, pool, pool.kwargs)
            moved = self._after(whole, operator.getitem, (whole, 0), fakes[0], node)
        elif source.target in _NEAREST and dequantized(source.args[0]) is None:
            return self._round_in_front(source, node, scale)
        else:
            return []
        node.replace_all_uses_with(moved)
        self._graph.erase_node(node)
        for dead in (source, *(source.all_input_nodes if source.target is operator.getitem else ())):
            if not dead.users:
                self._graph.erase_node(dead)
        return _quantizing_sources(moved)

    def _round_in_front(self, source: Node, node: Node, scale: Scale) -> list[Node]:
        """Neighbours are taken of rounded values, and rounding these again leaves them; eager resizes floats alone."""
        before = source.args[0]
        assert isinstance(before, Node)
        inner = self._quantize(before, source, scale, node)
        again = self._after(inner, DEQUANTIZE, (inner, *node.args[1:]), value(before), before)
        source.replace_input_with(before, again)
        return [inner]

    def _is_parameter(self, node: Any) -> bool:
        """Whether a table is a parameter, or one of integers made real."""
        while isinstance(node, Node) and node.target in (DEQUANTIZE, DEQUANTIZE_CHANNELS):
            node = node.args[0]
        return isinstance(node, Node) and (node in self._parameters or node.op == "get_attr")

    def _in_front_of_view(self, node: Node) -> Node | None:
        """A view of what a function of single elements gives, in the place of the function of a view."""
        view = node.args[0]
        if not isinstance(view, Node) or view.target not in _WHOLE_VIEWS or len(node.all_input_nodes) != 1:
            return None
        if len(view.users) != 1 or len(view.all_input_nodes) != 1:
            return None
        source = view.all_input_nodes[0]
        first = self._after(view, node.target, (source, *node.args[1:]), value(source), node, node.kwargs)
        second = self._after(first, view.target, (first, *view.args[1:]), value(view), view, view.kwargs)
        node.replace_all_uses_with(second)
        self._graph.erase_node(node)
        self._graph.erase_node(view)
        return second

    def _quantize(self, source: Any, place: Node, scale: Scale, like: Node | None = None) -> Node:
        """`source`, quantised as `like` (that at `place`, if not given) does, in front of `place`."""
        like = like or place
        with self._graph.inserting_before(place):
            made = self._graph.call_function(QUANTIZE, (source, *like.args[1:]))
        made.meta = {**like.meta, "val": of_dtype(value(source), scale.dtype)}
        return made

    def cancel(self, node: Node) -> None:
        """Quantising what was dequantised by the same scale gives the same integers."""
        if quantizes(node) is None:
            return
        found = dequantized(node.args[0])
        if found is None or found[1] != scale_of(node):
            return
        node.replace_all_uses_with(found[0])
        self._graph.erase_node(node)
        source = node.args[0]
        if isinstance(source, Node) and not source.users:
            self._graph.erase_node(source)

    def merge(self) -> None:
        """One node for all that quantise a value by one scale."""
        known: dict[tuple[Node, Scale], Node] = {}
        for node in list(self._graph.nodes):
            scale = quantizes(node)
            if scale is None:
                continue
            first = known.setdefault((arguments(node)[0], scale), node)
            if first is not node:
                node.replace_all_uses_with(first)
                self._graph.erase_node(node)

    def _after(self, place: Node, target: Any, args: Sequence[Any], fake: Any, like: Node, kwargs: Any = None) -> Node:
        """A new node behind `place`, which tells of itself what `like` does."""
        with self._graph.inserting_after(place):
            made = self._graph.call_function(target, tuple(args), dict(kwargs or {}))
        made.meta = {**like.meta, "val": fake}
        return made


def _quantizing_sources(node: Node) -> list[Node]:
    """The quantising nodes that `node` is made of."""
    sources = node.all_input_nodes
    if node.target is operator.getitem:
        sources = sources[0].all_input_nodes
    return [source for source in sources if source.target is QUANTIZE]


def _is_maxima(node: Any) -> bool:
    return isinstance(node, Node) and node.target in _MAXIMA


def _is_split(node: Node) -> bool:
    return is_view(node) and isinstance(value(node), (tuple, list))
