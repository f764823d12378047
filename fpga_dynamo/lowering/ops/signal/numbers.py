"""Complex values in a graph: which the cores support, and how commands see their rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.walks import collapse
from fpga_dynamo.ir.graph import value
from fpga_dynamo.ir.records import Fft, Zip
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import View

COMPLEX = torch.complex64


def computes_with_complex(target: Target) -> bool:
    """Whether a core of some kernel does, so that complex numbers are worth bringing to the card."""
    return target.has_any(Fft.opcode, Zip.opcode)


def is_complex(node: object) -> bool:
    """Whether `node` is a node of complex values, of any width."""
    return isinstance(node, Node) and isinstance(value(node), torch.Tensor) and value(node).dtype.is_complex


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
