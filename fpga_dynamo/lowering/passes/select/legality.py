"""Calls that eager mode refuses and tracing lets pass: they stay in eager mode, whose error the user then sees.

The meta function of an operator, by which graphs are traced, checks less than the kernel: dimensions, dtypes of
operands that differ, numbers beyond the range of a dtype. A core would compute something. So the kernel is asked: the
operator runs on tensors of the same dtypes and ranks with at most two elements along a dimension. A process asks once
for each kind of call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from fpga_dynamo.ir.graph import argument, aten, hints, is_effectful, value, values
from fpga_dynamo.ir.sizes.size import Size
from fpga_dynamo.torch_internals.dispatch import OpOverload, schema, without_modes
from fpga_dynamo.torch_internals.pytree import tree_map

_OF_ANY_SIZE = frozenset({
    aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default, aten.addmm.default, aten.addmv.default,
    aten.baddbmm.default, aten._softmax.default, aten._log_softmax.default,
    aten.rsub.Tensor, aten.rsub.Scalar, aten.elu_backward.default, aten.hardtanh_backward.default,
    aten.leaky_relu_backward.default, aten.softplus_backward.default,
})  # fmt: skip
"""Operators that PyTorch does not tag as element-wise, and that accept operands cut to two elements a dimension if they
accept the whole. The meta functions of the others check what their kernels check."""

_STORED = frozenset({"value", "fill_value"})
"""Names of arguments that are numbers to be written."""

_MOST_KINDS = 4096
_errors: dict[Hashable, str | None] = {}


def refuse_illegal(nodes: Iterable[Node], known: dict[Node, str | None]) -> str | None:
    """Why eager mode refuses one of `nodes`; None if it refuses none of them. `known` keeps what is found of each."""
    for node in nodes:
        if node not in known:
            known[node] = _error(node)
        if (error := known[node]) is not None:
            return f"eager mode raises: {error}"
    return None


def _error(node: Node) -> str | None:
    if node.target is aten.convolution.default:
        return _output_padding(node)
    if not isinstance(node.target, OpOverload) or node.target.namespace != "aten" or is_effectful(node):
        return None
    if torch.Tag.pointwise not in node.target.tags and node.target not in _OF_ANY_SIZE:
        return _stored_number(node, node.target)
    call = map_arg((node.args, node.kwargs), value)
    kind: list[Hashable] = [node.target]
    tree_map(lambda operand: kind.append(_kind(operand)), call)
    if (key := tuple(kind)) not in _errors:
        if len(_errors) >= _MOST_KINDS:
            _errors.clear()
        _errors[key] = _error_of_kernel(node.target, call)
    return _errors[key]


def _output_padding(node: Node) -> str | None:
    """The one check of a convolution that its meta function does not make."""
    if not argument(node, "transposed", 6):
        return None
    stride, dilation = argument(node, "stride", 3), argument(node, "dilation", 5)
    extra = argument(node, "output_padding", 7)
    wrong = any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=False))
    return "output padding must be smaller than either stride or dilation" if wrong else None


def _stored_number(node: Node, target: OpOverload) -> str | None:
    """The error for a number that an operator, such as a padding, writes among the elements of its result."""
    fakes = values(node)
    names = [given.name for given in schema(target).arguments]
    for name in _STORED.intersection(names):
        number = argument(node, name, names.index(name))
        if fakes and type(number) in (bool, int, float, complex):
            return _error_of_kernel(aten.full.default, (((), number), {"dtype": fakes[0].dtype}))
    return None


def _kind(operand: Any) -> Hashable:
    if isinstance(operand, torch.Tensor):
        return operand.dtype, _cut(operand)
    if isinstance(operand, (torch.SymInt, Size)):
        return int
    return type(operand), repr(operand)  # 1, 1.0 and True are equal, and NaN is not


def _cut(operand: torch.Tensor) -> tuple[int, ...] | None:
    shape = hints(operand.shape)
    return None if shape is None else tuple(min(size, 2) for size in shape)


def _error_of_kernel(target: OpOverload, call: Any) -> str | None:
    """The first line of the error that the kernel raises for operands of this kind."""
    with without_modes(), torch.no_grad():
        try:
            args, kwargs = tree_map(_small, call)
        except Exception:  # an operand that cannot be made, such as one whose sizes are known by running alone
            return None
        try:
            target(*args, **kwargs)
        except Exception as error:  # of whatever kind: eager mode raises it when the graph runs
            return (str(error) or type(error).__name__).splitlines()[0]
    return None


def _small(operand: Any) -> Any:
    if isinstance(operand, (torch.SymInt, Size)):
        return 2
    if isinstance(operand, torch.SymFloat):
        return 2.0
    if not isinstance(operand, torch.Tensor):
        return operand
    shape = _cut(operand)
    if shape is None or operand.layout is not torch.strided:
        raise NotImplementedError("a tensor that cannot be made small")
    return torch.ones(shape, dtype=operand.dtype, device="cpu")  # not zeros, by which integers cannot be divided
