"""Calls that eager mode refuses and tracing lets pass: they stay in eager mode, whose error the user then sees.

The meta function of an operator, by which graphs are traced, checks less than the kernel: dimensions, dtypes of
operands that differ, numbers beyond the range of a dtype. A core would compute something. So the kernel is asked: the
operator runs on tensors of the same dtypes and ranks with at most two elements along a dimension. A process asks once
for each kind of call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from fpga_dynamo.ir.graph import argument, arguments, aten, hints, is_effectful, operand, value, values
from fpga_dynamo.ir.operators import facts
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
        return _of_convolution(node)
    if not isinstance(node.target, OpOverload) or node.target.namespace != "aten" or is_effectful(node):
        return None
    if node.target is aten.masked_fill.Tensor and number_may_not_fit(node):
        number, result = value(operand(node, 2)).dtype, value(node).dtype
        return f"a number of {number} that {result} does not represent, which is known only at run time"
    if torch.Tag.pointwise not in node.target.tags and node.target not in _OF_ANY_SIZE:
        return _stored_number(node, node.target) or _of_dtype(node, node.target)
    call = map_arg((node.args, node.kwargs), value)
    kind: list[Hashable] = [node.target]
    tree_map(lambda given: kind.append(_kind(given)), call)
    if (key := tuple(kind)) not in _errors:
        if len(_errors) >= _MOST_KINDS:
            _errors.clear()
        _errors[key] = _error_of_kernel(node.target, call)
    return _errors[key]


def number_may_not_fit(node: Node) -> bool:
    """Whether `masked_fill` reads a number from a tensor whose dtype has numbers that the result's does not have."""
    number, result = value(operand(node, 2)).dtype, value(node).dtype
    return not (torch.bool in (number, result) or number.is_complex or result.is_complex or _within(number, result))


def _within(inner: torch.dtype, outer: torch.dtype) -> bool:
    """Whether all numbers of the dtype `inner` lie in the range of `outer`."""
    if inner.is_floating_point and not outer.is_floating_point:
        return False
    low, high = _range(inner)
    lowest, highest = _range(outer)
    return lowest <= low and high <= highest


def _range(dtype: torch.dtype) -> tuple[float, float]:
    facts = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return facts.min, facts.max


def _of_convolution(node: Node) -> str | None:
    """The two checks of a convolution that its meta function does not make."""
    operands = [value(given) for given in arguments(node)[:3] if given is not None]
    if len({given.dtype for given in operands}) > 1:  # for some sizes eager mode has a kernel that accepts them
        return "Input type and bias type should be the same"
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
            size = _cut(fakes[0]) or (2,)  # the kernel checks less for one element
            return _error_of_kernel(aten.full.default, ((size, number), {"dtype": fakes[0].dtype}))
    return None


def _of_dtype(node: Node, target: OpOverload) -> str | None:
    """The error of an operator that has no kernel for the dtype of its first operand, by a typical call."""
    typical = facts(target).call
    source = next((given for given in map(value, node.all_input_nodes) if isinstance(given, torch.Tensor)), None)
    if typical is None or source is None or source.dtype is torch.float32:
        return None
    key = target, source.dtype
    if key not in _errors:
        with without_modes(), torch.no_grad():
            error = _raised(target, *typical(partial(_zeros, source.dtype)))
        _errors[key] = error if error is not None and "not implemented for" in error else None
    return _errors[key]


def _zeros(common: torch.dtype, *size: int, dtype: torch.dtype | None = None, parameter: bool = False) -> torch.Tensor:
    return torch.zeros(size, dtype=dtype or common)


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
        return _raised(target, args, kwargs)


def _raised(target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
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
