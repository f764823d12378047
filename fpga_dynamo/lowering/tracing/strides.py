"""Strides of images that have dimensions of size 1, as eager mode's kernels give them.

An image of one channel or of one pixel is row-major and channels-last at once; of one alone in its batch, turned or cut
out of another, the strides of the other dimensions do not say all. On the strides of the dimensions of size 1 hangs in
which format a convolution of such an image answers. Tracing predicts them by other rules than eager mode's kernels
follow, and with symbolic sizes by others again. So eager is asked: the op is run on tensors that lie like its operands
and have at most two elements along a dimension. What follows is traced again. So it is where operands lie in different
orders.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fpga_dynamo.ir.graph import aten, hints, mutates, value, values
from fpga_dynamo.ir.operators import facts
from fpga_dynamo.lowering.tracing.layouts import CHANNELS_LAST, LAID_OUT
from fpga_dynamo.torch_internals.dispatch import OpOverload, without_modes
from fpga_dynamo.torch_internals.layouts import (
    make_channels_last_strides_for,
    make_contiguous_strides_for,
    suggest_memory_format,
)
from fpga_dynamo.torch_internals.pytree import tree_map
from fpga_dynamo.torch_internals.tracing import FakeTensor

Numbers = tuple[int, ...]


def settle_strides(module: GraphModule) -> set[Node]:
    """Gives the values of `module` eager mode's strides; returns the nodes that had others."""
    changed: set[Node] = set()
    unsettled: set[Node] = set()
    for node in module.graph.nodes:
        if node.op == "call_function" and not mutates(node) and _settle(node, changed, unsettled):
            changed.add(node)
        if _is_unsettled(node):
            unsettled.add(node)
    return changed


def _settle(node: Node, changed: set[Node], unsettled: set[Node]) -> bool:
    """Whether `node` has got other strides, by its operands in `changed` or because eager says so."""
    image = _formatted_like(node)
    follows = image in changed or not changed.isdisjoint(node.all_input_nodes)
    ask = _question(node)
    if ask is not None and not follows:
        in_question = not unsettled.isdisjoint(node.all_input_nodes) or _is_unsettled(node) or _mixes(node)
        ask = ask if in_question else None
    if not follows and ask is None:
        return False
    traced = _strides(node)
    if follows:
        _trace_again(node, image)
    strides = None if ask is None else _strides_of_eager(node, ask)
    if strides is not None and hints(strides) != _strides(node)[0]:
        _relay(node, strides)
    return _strides(node) != traced


def _strides(node: Node) -> list[Numbers | None]:
    return [hints(fake.stride()) for fake in values(node)]


def _has_ones(node: Node) -> bool:
    """Whether the value of `node`, the first if it has several, is an image with a dimension that is always 1."""
    fakes = values(node)
    if not fakes or fakes[0].dim() not in CHANNELS_LAST or fakes[0].layout is not torch.strided:
        return False
    # Asking a symbol whether it is 1 would bind it.
    return any(isinstance(size, int) and size == 1 for size in fakes[0].shape)


def _is_unsettled(node: Node) -> bool:
    """Whether it depends on strides of dimensions of size 1 in which format the value of `node` is."""
    if not _has_ones(node):
        return False
    shape, strides = (hints(numbers) for numbers in (values(node)[0].shape, values(node)[0].stride()))
    if shape is None or strides is None:
        return False
    _, channels, *pixels = shape
    both = channels == 1 or all(size == 1 for size in pixels)
    return both or strides not in (make_contiguous_strides_for(shape), make_channels_last_strides_for(shape))


def _mixes(node: Node) -> bool:
    """Whether `node` computes with tensors that have its shape and lie in different orders."""
    fakes = values(node)
    if not fakes or len(node.all_input_nodes) < 2:
        return False
    orders = {
        hints(fake.stride())
        for operand in node.all_input_nodes
        for fake in values(operand)
        if fake.dim() == fakes[0].dim() and hints(fake.shape) == hints(fakes[0].shape)
    }
    return len(orders) > 1


def _question(node: Node) -> Callable[..., torch.Tensor] | None:
    """What gives a result that lies like the first one of `node`; None where tracing is as good a guess."""
    if isinstance(node.target, OpOverload) and torch.Tag.pointwise in node.target.tags:
        return node.target
    return facts(node.target).laid_out


def _strides_of_eager(node: Node, ask: Callable[..., torch.Tensor]) -> Sequence[Any] | None:
    """The strides of the first result of `node` in eager, None if they cannot be told."""
    try:
        with without_modes(), torch.no_grad():
            args, kwargs = tree_map(_probe, _arguments(node))
            result = ask(*args, **kwargs)
    except Exception:  # an operand without a value, or that cannot be made so small
        return None
    if result is None:  # a gradient that nobody asked for, though tracing made one up
        return None
    small, steps, shape = tuple(result.shape), result.stride(), values(node)[0].shape
    if smallest(hints(shape) or ()) != smallest(small):
        return None  # a dimension has vanished, such as half of two
    within = [
        [n for n, (size, step) in enumerate(zip(small, steps, strict=True)) if size > 1 and step < at] for at in steps
    ]
    if any(at != math.prod(small[n] for n in inner) for at, inner in zip(steps, within, strict=True)):
        return None
    return [math.prod(shape[n] for n in inner) for inner in within]


def _probe(operand: Any) -> Any:
    """An operand that differs from this one in its sizes and elements alone."""
    if isinstance(operand, torch.SymInt):
        return 2
    if isinstance(operand, torch.SymFloat):
        return 2.0
    if not isinstance(operand, torch.Tensor):
        return operand
    shape, strides = hints(operand.shape), hints(operand.stride())
    if shape is None or strides is None:
        raise NotImplementedError("sizes are known at run time only")
    apart = [stride for size, stride in zip(shape, strides, strict=True) if size > 1 and stride]
    if len(set(apart)) < len(apart):
        raise NotImplementedError("the order of overlapping windows depends on their number")
    small = smallest(shape)
    steps = [_step(at, shape, strides) for at in strides]
    reach = 1 + sum((size - 1) * step for size, step in zip(small, steps, strict=True) if size)
    return torch.zeros(reach, dtype=operand.dtype, device="cpu").as_strided(small, steps)


def smallest(shape: Iterable[int]) -> list[int]:
    """The sizes that a tensor of `shape` has where eager is asked how it lies."""
    return [min(size, 2) for size in shape]


def _step(at: int, shape: Numbers, strides: Numbers) -> int:
    """What the stride `at` becomes where each dimension has at most 2 elements: in the same order, dense where it was.

    It is as many elements as there are in what lies closer together; a step further for each stride beyond that.
    """
    within = [(stride, size) for stride, size in zip(strides, shape, strict=True) if size > 1 and 0 < stride < at]
    if at == 0:
        return 0
    end, step = 1, 1
    if within:
        stride, size = max(within)
        end, step = stride * size, _step(stride, shape, strides) * min(size, 2)
    return step * (1 + len({stride for stride in strides if end < stride <= at}))


def _relay(node: Node, strides: Sequence[Any]) -> None:
    first = values(node)[0]
    assert isinstance(first, FakeTensor)
    with first.fake_mode:
        moved = torch.empty_strided(first.shape, strides, dtype=first.dtype, device=first.device)
    node.meta["val"] = moved if isinstance(value(node), torch.Tensor) else (moved, *value(node)[1:])


def _formatted_like(node: Node) -> Node | None:
    """The image into whose format `node` brings a result, as layouts.py has it done."""
    made = node.args[0] if node.target is aten.clone.default and "memory_format" in node.kwargs else None
    if not isinstance(made, Node) or made.target not in LAID_OUT:
        return None
    given = made.all_input_nodes[0]
    return given.all_input_nodes[0] if given.target is aten.clone.default else given


def _trace_again(node: Node, image: Node | None) -> None:
    """Traces `node` with the values that its operands have now; `image`: into whose format it brings its operand."""
    fakes = values(node)
    if any(hints(fake.shape) is None for fake in fakes):
        return  # tracing would give it other symbols than those that its users know
    try:
        if image is not None:
            node.kwargs = {"memory_format": _suggested(image)}
        args, kwargs = _arguments(node)
        if node.target is operator.getitem:
            node.meta["val"] = args[0][args[1]]
        elif fakes and isinstance(fakes[0], FakeTensor) and isinstance(node.target, OpOverload):
            with fakes[0].fake_mode:
                node.meta["val"] = node.target(*args, **kwargs)
    except (NotImplementedError, RuntimeError, ValueError):
        # A view that these strides do not allow: it stays as traced, and lowering makes a copy for it.
        return


def _suggested(image: Node) -> torch.memory_format:
    with without_modes():
        return suggest_memory_format(_probe(value(image)))


def _arguments(node: Node) -> Any:
    """`args` and `kwargs` with the values of their nodes."""
    return map_arg((node.args, node.kwargs), value)
