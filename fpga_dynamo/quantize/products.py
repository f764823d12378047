"""Products with weights in whatever way a model spells them, as ``aten.linear``, which has a scale for each channel.

`addmm` (GPT-2's Conv1D), `mm`, `x @ w` and `w @ x`, `einsum`, products of a batch of one, recurrent layers: what
multiplies activations by a matrix of constants is a linear layer. A batch of several matrices stays a product of two
values with a scale each. Tests: tests/quantize/test_products.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Set
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fpga_dynamo.ir.graph import argument
from fpga_dynamo.lowering.tracing.decompose import DECOMPOSITIONS
from fpga_dynamo.lowering.tracing.recurrent import MOST_STEPS
from fpga_dynamo.quantize.builder import Builder, origin
from fpga_dynamo.quantize.operators import ADDITIONS, NON_NEGATIVE, aten, is_float, is_parameter, moved
from fpga_dynamo.torch_internals.tracing import make_fx

_RECURRENT = (aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input)
_COMPOSED = (aten.einsum.default, aten.tensordot.default, aten.inner.default, *_RECURRENT)
"""Operators that PyTorch itself computes by products of matrices."""

_WITHOUT_ONEDNN = {aten.mkldnn_rnn_layer.default: DECOMPOSITIONS[aten.mkldnn_rnn_layer.default]}
"""Of oneDNN's operator for a whole layer nothing can be annotated."""

_CELL = "fpga_dynamo_cell"

_PARTS = (aten.chunk.default, aten.split.Tensor, aten.split_with_sizes.default)
"""Operators that cut a tensor along one dimension."""

_LINEAR = aten.linear.default


def linear_layers(model: GraphModule, kept: Set[Node] = frozenset()) -> None:
    """Rewrites products of activations and constant matrices as linear layers, in place; values stay the same.

    kept: nodes that stay in float32, and as they are.
    """
    for node in list(model.graph.nodes):
        if node.target not in _COMPOSED or node in kept:
            continue
        if node.target not in _RECURRENT or _steps(node) <= MOST_STEPS:
            _compose(model, node)
    for node in list(model.graph.nodes):
        if node.target is operator.getitem and is_float(node):
            _cut(model, node)
    for node in list(model.graph.nodes):
        rewrite = _REWRITES.get(node.target)
        if rewrite is not None and is_float(node) and node not in kept:
            _replace(model, node, rewrite)
    for node in list(model.graph.nodes):
        if node.target in ADDITIONS and kept.isdisjoint((node, *node.all_input_nodes)):
            _take_in_bias(node)
    model.graph.eliminate_dead_code()
    model.recompile()


Rewrite = Callable[[Node, Builder], Node | None]


def rewrite_like(model: GraphModule, names: Collection[str]) -> None:
    """Rewrites a float graph as :func:`linear_layers` has rewritten a copy of it, whose nodes have these names."""
    linear_layers(model, {node for node in model.graph.nodes if node.op == "call_function" and node.name in names})


def is_spelled_otherwise(node: Node) -> bool:
    """Whether it is a product that may have become a linear layer, or several nodes."""
    return node.target in _COMPOSED or node.target in _REWRITES


def _steps(node: Node) -> int:
    """Those of a recurrent layer; the graph grows with them."""
    size = node.all_input_nodes[0].meta["val"].shape
    return int(size[1 if len(size) == 3 and node.args[-1] else 0])


def is_in_cell(node: Node) -> bool:
    """Whether a value belongs to a recurrent layer's state, which would add up the errors of its roundings."""
    return _CELL in node.meta


def _replace(model: GraphModule, node: Node, rewrite: Rewrite) -> None:
    new = rewrite(node, Builder(model, node))
    if new is not None:
        node.replace_all_uses_with(new)
        model.graph.erase_node(node)


def _matmul(node: Node, add: Builder) -> Node | None:
    first, second = node.args[:2]
    return _as_linear(first, second, add) or _transposed(first, second, add)


def _transposed(first: Any, second: Any, add: Builder) -> Node | None:
    """A product whose second operand is non-negative and the first is not, as that of the transposed operands.

    Integers of the second operand then have the zero point 0, as an engine without sums of rows requires.
    """
    if not (is_float(first) and is_float(second)) or is_parameter(first) or is_parameter(second):
        return None
    if min(operand.meta["val"].dim() for operand in (first, second)) < 2:
        return None
    if moved(second).target not in NON_NEGATIVE or moved(first).target in NON_NEGATIVE:
        return None
    product = add.transposed(add(aten.matmul.default, add.transposed(second), add.transposed(first)))
    return add(aten.contiguous.default, product)  # views that the model takes of it need the product's strides


def _addmm(node: Node, add: Builder) -> Node | None:
    """``addmm`` and ``baddbmm``, whose addend need not be a bias."""
    addend, first, second = node.args[:3]
    if any(node.kwargs.get(factor, 1) != 1 for factor in ("alpha", "beta")) or len(node.args) > 3:
        return None
    product = _as_linear(first, second, add)
    if product is None:
        if node.target is not aten.baddbmm.default:
            return None
        product = add(aten.bmm.default, first, second)
    return add(aten.add.Tensor, product, addend)


def _as_linear(first: Any, second: Any, add: Builder) -> Node | None:
    """The product of two operands as a linear layer, if one of them is a constant matrix and the other is not."""
    if not (is_float(first) and is_float(second)):
        return None
    dims = first.meta["val"].dim(), second.meta["val"].dim()
    if is_parameter(first) is is_parameter(second):
        return None
    if dims[0] > 1 and dims[1] == 1 and is_parameter(second):
        return add(aten.squeeze.dim, add(_LINEAR, first, add(aten.unsqueeze.default, second, 0)), -1)
    if min(dims) < 2:
        return None
    if is_parameter(second) and (weight := _one_matrix(second, dims[0], add)) is not None:
        return add(_LINEAR, first, add.transposed(weight))
    if is_parameter(first) and (weight := _one_matrix(first, dims[1], add)) is not None:
        return add.transposed(add(_LINEAR, add.transposed(second), weight))
    return None


def _one_matrix(operand: Node, rank: int, add: Builder) -> Node | None:
    """A constant operand as a matrix, if each matrix of the batch is the same one; the batch may not add dimensions."""
    while operand.target is aten.expand.default:
        source = operand.args[0]
        assert isinstance(source, Node)
        if source.meta["val"].shape[-2:] != operand.meta["val"].shape[-2:]:
            break
        operand = source
    size = operand.meta["val"].shape
    if len(size) > rank or any(count != 1 for count in size[:-2]):
        return None
    for _ in size[:-2]:
        operand = add(aten.select.int, operand, 0, 0)
    return operand


_REWRITES: dict[object, Rewrite] = {
    aten.mm.default: _matmul,
    aten.matmul.default: _matmul,
    aten.mv.default: _matmul,
    aten.bmm.default: _matmul,
    aten.addmm.default: _addmm,
    aten.baddbmm.default: _addmm,
}


def _take_in_bias(node: Node) -> None:
    """Makes a parameter that is added to a linear layer's result its bias: a number for each feature."""
    if node.kwargs.get("alpha", 1) != 1 or not is_float(node):
        return
    for product, bias in (node.args[:2], node.args[1::-1]):
        if not (isinstance(product, Node) and isinstance(bias, Node)) or product.target is not _LINEAR:
            continue
        features = product.meta["val"].shape[-1:]
        alone = len(product.args) == 2 and len(product.users) == 1
        if alone and is_parameter(bias) and is_float(bias) and bias.meta["val"].shape == features:
            product.args = (*product.args, bias)
            node.prepend(product)  # the bias may stand behind it
            node.replace_all_uses_with(product)
            node.graph.erase_node(node)
            return


def _compose(model: GraphModule, node: Node) -> None:
    """Puts the products in place of a node that PyTorch computes by them."""
    operands = node.all_input_nodes
    position = {operand: i for i, operand in enumerate(operands)}

    def call(*tensors: torch.Tensor) -> Any:
        given: Any = map_arg((node.args, node.kwargs), lambda arg: tensors[position[arg]])
        target: Any = node.target
        return target(*given[0], **given[1])

    fakes = [operand.meta["val"] for operand in operands]
    with fakes[0].fake_mode, torch.no_grad():
        traced = make_fx(call, _WITHOUT_ONEDNN)(*fakes)
    copies: dict[Node, Node] = dict(zip(traced.graph.find_nodes(op="placeholder"), operands, strict=True))
    with model.graph.inserting_before(node):
        result: Any = model.graph.graph_copy(traced.graph, copies)
    kept = origin(node)
    if node.target in _RECURRENT:
        kept[_CELL] = True
    for new in set(copies.values()) - set(operands):
        new.meta |= kept
    if isinstance(result, Node):
        node.replace_all_uses_with(result)
    for item in list(node.users):
        item.replace_all_uses_with(result[item.args[1]])
        model.graph.erase_node(item)
    model.graph.erase_node(node)


def _cut(model: GraphModule, node: Node) -> None:
    """An item of a parameter's parts as a slice of the parameter, which can be a weight."""
    whole, index = node.args
    assert isinstance(whole, Node)
    source = whole.args[0]
    if not is_parameter(source) or not isinstance(index, int):
        return
    if whole.target is aten.unbind.int:
        dim = argument(whole, "dim", 1, 0)
        _replace(model, node, lambda _, add: add(aten.select.int, source, dim, index))
    elif whole.target in _PARTS:
        dim = argument(whole, "dim", 2, 0)
        lengths = [part.shape[dim] for part in whole.meta["val"]]
        begin = sum(lengths[:index])
        _replace(model, node, lambda _, add: add(aten.slice.Tensor, source, dim, begin, begin + lengths[index]))
