"""Strides of images that are row-major and channels-last at once, as eager's kernels give them.

An image of one channel, or of one pixel, is both. Only the strides of its dimensions of size 1 tell which, and on them
hangs in which format a convolution of it answers. Tracing foretells them by other rules than eager's kernels follow,
and with symbolic sizes by others again. So eager is asked: a pointwise op is run on tensors that lie like its operands
and have at most two elements along a dimension; for some other ops there is a rule. What follows is traced anew.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._prims_common import make_channels_last_strides_for, make_contiguous_strides_for, suggest_memory_format
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from fpga_dynamo.lowering.graph import aten, mutates, value, values

_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def settle_strides(module: GraphModule) -> set[Node]:
    """Gives the values of `module` eager's strides; returns the nodes that had others."""
    changed: set[Node] = set()
    for node in module.graph.nodes:
        if node.op != "call_function" or mutates(node):
            continue
        follows = not changed.isdisjoint(node.all_input_nodes)
        layout = _layout(node) if any(map(_is_ambiguous, values(node)[:1])) else None
        if not follows and layout is None:
            continue
        traced = list(_strides(node))
        if follows:
            _trace_again(node)
            layout = layout and _layout(node)
        if layout is not None:
            _relay(node, layout)
        if list(_strides(node)) != traced:
            changed.add(node)
    return changed


def _strides(node: Node) -> Iterator[tuple[int, ...] | None]:
    return (_hints(fake.stride()) for fake in values(node))


def _is_ambiguous(fake: torch.Tensor) -> bool:
    """Whether `fake` has the shape of an image of one channel or one pixel, for all sizes it can have."""
    if fake.dim() not in _CHANNELS_LAST or fake.layout is not torch.strided:
        return False
    _, channels, *pixels = fake.shape
    # Asking a symbol whether it is 1 would bind it.
    ones = [isinstance(size, int) and size == 1 for size in (channels, *pixels)]
    return ones[0] or all(ones[1:])


def _layout(node: Node) -> torch.memory_format | None:
    """The format that eager makes the first result of `node` in; None where tracing is as good a guess."""
    if rule := _RULES.get(node.target):
        return rule(node)
    if not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.pointwise not in node.target.tags:
        return None
    args, kwargs = tree_map(_probe, _arguments(node))
    try:
        with _disable_current_modes(), torch.no_grad():
            result = node.target(*args, **kwargs)
    except Exception:  # an operand without a value, or that cannot be made so small
        return None
    return _format(result.shape, result.stride()) if isinstance(result, torch.Tensor) else None


def _probe(operand: Any) -> Any:
    """An operand that differs from this one in its sizes and elements alone."""
    if isinstance(operand, torch.SymInt):
        return 2
    if isinstance(operand, torch.SymFloat):
        return 2.0
    if not isinstance(operand, torch.Tensor):
        return operand
    shape, strides = _hints(operand.shape), _hints(operand.stride())
    if shape is None or strides is None:
        return None
    small = [min(size, 2) for size in shape]
    steps = [
        0 if at == 0 else math.prod(n for n, step in zip(small, strides, strict=True) if step < at) for at in strides
    ]
    with _disable_current_modes():
        return torch.zeros(4 ** len(small), dtype=operand.dtype).as_strided(small, steps)


def _format(shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.memory_format | None:
    if strides == make_contiguous_strides_for(shape):
        return torch.contiguous_format
    return _CHANNELS_LAST[len(shape)] if strides == make_channels_last_strides_for(shape) else None


def _row_major(node: Node) -> torch.memory_format:
    return torch.contiguous_format


def _of_input(node: Node) -> torch.memory_format | None:
    image = _probe(value(node.all_input_nodes[0]))
    return None if image is None else suggest_memory_format(image)


_RULES: dict[Any, Callable[[Node], torch.memory_format | None]] = {
    aten._native_batch_norm_legit_functional.default: _row_major,
    aten._native_batch_norm_legit_no_training.default: _row_major,
    aten.native_dropout.default: _row_major,
    aten.native_group_norm.default: _of_input,
    aten.native_layer_norm.default: _row_major,
    aten.tril.default: _row_major,
    aten.triu.default: _row_major,
    aten.upsample_bilinear2d.default: _of_input,
    aten.upsample_nearest2d.default: _of_input,
}
"""Op that is not pointwise -> the format of its result if that is ambiguous."""


def _relay(node: Node, layout: torch.memory_format) -> None:
    first = values(node)[0]
    with first.fake_mode:  # type: ignore[attr-defined]
        moved = torch.empty(first.shape, dtype=first.dtype, device=first.device, memory_format=layout)
    node.meta["val"] = moved if isinstance(value(node), torch.Tensor) else (moved, *value(node)[1:])


def _trace_again(node: Node) -> None:
    args, kwargs = _arguments(node)
    if node.target is operator.getitem:
        node.meta["val"] = args[0][args[1]]
        return
    fakes = values(node)
    if not fakes or not isinstance(node.target, torch._ops.OpOverload):
        return
    try:
        with fakes[0].fake_mode:  # type: ignore[attr-defined]
            node.meta["val"] = node.target(*args, **kwargs)
    except (RuntimeError, ValueError):
        # A view that these strides do not allow: it stays as traced, and lowering makes a copy for it.
        return


def _arguments(node: Node) -> Any:
    """`args` and `kwargs` with the values of their nodes."""
    return map_arg((node.args, node.kwargs), value)


def _hints(numbers: Sequence[Any]) -> tuple[int, ...] | None:
    """Sizes or strides at the call that is traced; None if one of them is known by running alone."""
    found = [n.node.hint if isinstance(n, torch.SymInt) else n for n in numbers]
    return None if None in found else tuple(found)
