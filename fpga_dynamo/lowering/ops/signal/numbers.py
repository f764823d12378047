"""Complex values in a graph: which the cores take, and how commands see their rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter, collapse
from fpga_dynamo.ir.graph import refuse_float, shape, value
from fpga_dynamo.ir.sizes.size import Size
from fpga_dynamo.ir.view import View

COMPLEX = torch.complex64


def is_complex(node: object) -> bool:
    """Whether `node` is a node of complex values, of any width."""
    return isinstance(node, Node) and isinstance(value(node), torch.Tensor) and value(node).dtype.is_complex


def refuse_number(node: Node, what: str) -> str | None:
    """Why `node` is neither a tensor of float32 nor one of complex64 that the card can hold, or None."""
    fake = value(node)
    if not isinstance(fake, torch.Tensor):
        return f"{what} is no tensor but {type(fake).__name__}"
    if fake.dtype not in (torch.float32, COMPLEX):
        name = str(fake.dtype).removeprefix("torch.")
        return f"{what} is {name}; the cores for complex numbers take complex64 and float32"
    if fake.dtype is torch.float32:
        return refuse_float(node, what) or _refuse_symbolic(node, what)
    if fake.layout is not torch.strided or fake.device.type != "cpu":
        return f"{what} is on {fake.device} ({fake.layout}), not a strided tensor of the host"
    if (why := _refuse_symbolic(node, what)) is not None:
        return why
    if fake.numel() == 0:
        return f"{what} has no elements"
    if fake.numel() >= 1 << 29:
        return f"{what} has 2^29 elements or more"
    return None


def _refuse_symbolic(node: Node, what: str) -> str | None:
    if any(isinstance(size, (torch.SymInt, Size)) for size in (*value(node).shape, *shape(node))):
        return f"{what} has a size that changes from call to call; the cores for complex numbers take known ones"
    return None


def collapsed(
    sizes: Sequence[int], strides: Sequence[Sequence[int]], most: int
) -> tuple[tuple[int, ...], list[tuple[int, ...]]] | None:
    """Sizes and strides with neighbours merged, filled up with ones to `most` dimensions; None if there are more."""
    dims, walks = collapse(sizes, strides)
    if len(dims) > most:
        return None
    missing = most - len(dims)
    return (1,) * missing + dims, [(0,) * missing + walk for walk in walks]


def contiguous_rows(view: View, emitter: Emitter) -> View:
    """`view` in the arena with its last dimension contiguous, copied if it is not."""
    view = emitter.in_arena(view)
    if view.strides[-1] == view.unit or view.shape[-1] == 1:
        return view
    return emitter.relaid(view, tuple(range(len(view.shape))), view.shape[-1])
