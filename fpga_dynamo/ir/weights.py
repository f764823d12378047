"""What has to be packed for the card: expressions over graph inputs and constants, and how they are laid out.

A pack is made from the *current* tensors at run time (runtime/cards/weights.py), so that a parameter may
change between calls. Lowering only says what: a layout function and the expressions that it is applied to.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from fpga_dynamo.ir.dtypes import HALVES, INTEGERS, to_int32
from fpga_dynamo.ir.elements import F32, Element
from fpga_dynamo.ir.graph import GraphInfo, evaluated, value
from fpga_dynamo.ir.sizes.size import pinned
from fpga_dynamo.ir.view import Buffer, Role, align, dense, row_pitch


class NotFiniteError(ArithmeticError):
    """Infinities or NaN where the card and eager may make different things of them; the partition has to run there."""


class NotExactError(ArithmeticError):
    """Parameters of a quantised operator that integers of the card's widths cannot hold; it has to run in eager."""


class NotEvaluatedError(ArithmeticError):
    """An operator that makes a parameter raises; the partition has to run in eager mode, which raises the same."""


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether no element is infinite or NaN, told by their sum in one reading; one that overflows counts as such."""
    return math.isfinite(tensor.sum(dtype=torch.float32).item())


@dataclass(frozen=True)
class Expression:
    """A tensor as a function of graph inputs and constants, evaluated in eager when weights are packed.

    key: the expression's structure, equal for equal expressions of any graph once `sources` are compared.
    sources: the placeholders and get_attr nodes that it reads.
    """

    node: Node
    key: str
    sources: tuple[Node, ...]

    def evaluate(self, tensors: Mapping[Node, torch.Tensor]) -> torch.Tensor:
        """The expression's value, given that of every source.

        Raises :class:`NotEvaluatedError` for operands that eager mode refuses.
        """
        memo: dict[Node, Any] = dict(tensors)
        stack = [self.node]
        while stack:
            node = stack[-1]
            missing = [arg for arg in node.all_input_nodes if arg not in memo] if node not in memo else []
            if missing:
                stack += missing
                continue
            stack.pop()
            if node not in memo:
                try:
                    memo[node] = evaluated(node, memo)
                except Exception as error:  # of whatever kind the operator raises
                    raise NotEvaluatedError(f"{node.target} raises {type(error).__name__}: {error}") from error
        return memo[self.node]


def expression(node: Node, graph: GraphInfo) -> Expression:
    """`node` as an expression over graph inputs; the caller has made sure that it is one (graph.from_inputs)."""
    sources: dict[Node, int] = {}
    names: dict[Node, str] = {}
    text: list[str] = []

    def visit(root: Node) -> None:
        stack = [root]
        while stack:
            current = stack[-1]
            if current in names:
                stack.pop()
                continue
            if current.op in ("placeholder", "get_attr"):
                names[current] = f"s{sources.setdefault(current, len(sources))}"
                continue
            missing = [arg for arg in current.all_input_nodes if arg not in names]
            if missing:
                stack += missing
                continue
            args = map_arg((current.args, current.kwargs), lambda arg: _Name(names[arg]))
            target = "item" if current.target is operator.getitem else str(current.target)
            names[current] = f"e{len(text)}"
            text.append(f"{target}{args}")

    visit(node)
    return Expression(node, ";".join([*text, names[node]]), tuple(sources))


class _Name(str):
    """A name inside an expression's key; prints bare, so that keys read like code."""

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Pack:
    """A block of the weights region.

    layout: a module-level function (params, *tensors) -> 1-D tensor of `count` elements of the type `element`.
    params: its settings, a frozen dataclass or a tuple. `layout` gets tensors of 16 bits as they are if `element` is
        narrow, else as floats.
    """

    layout: Callable[..., torch.Tensor]
    params: Hashable
    operands: tuple[Expression | None, ...]
    count: int
    element: Element = F32

    @property
    def beats(self) -> int:
        """Beats of the weights region that it takes."""
        return self.element.beats(self.count)

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for packs of equal content, given equal sources; shared by all graphs."""
        operands = tuple(None if e is None else e.key for e in self.operands)
        return (f"{self.layout.__module__}.{self.layout.__qualname__}", self.params, self.element.name, operands)

    @property
    def sources(self) -> tuple[Node, ...]:
        return tuple(source for e in self.operands if e is not None for source in e.sources)

    def build(self, tensors: Mapping[Node, torch.Tensor]) -> torch.Tensor:
        """The block's content, contiguous."""
        values = [None if e is None else self._given(e.evaluate(tensors)) for e in self.operands]
        flat = self.layout(self.params, *values)
        assert flat.numel() == self.count, f"{self.key}: packed {flat.numel()} elements, planned {self.count}"
        assert flat.element_size() == self.element.bytes, (
            f"{self.key}: packed {flat.dtype}, planned {self.element.name}"
        )
        return flat.contiguous()

    def _given(self, tensor: torch.Tensor) -> torch.Tensor:
        """What the layout gets: it computes with floats, and only puts narrow elements in order."""
        if self.element.is_narrow:
            return tensor.to(self.element.dtype)  # an eager op may give another type than its fake tensor said
        return tensor.to(torch.float32) if tensor.dtype in HALVES else tensor


class WeightBuffer(Buffer):
    """A buffer of the weights region and the pack that fills it."""

    def __init__(self, pack: Pack, name: str) -> None:
        super().__init__(align(pack.count, pack.element.lanes), Role.WEIGHT, name, pack.element)
        self.pack = pack


class Packer(Protocol):
    """An emitter as far as parameters go. weights: a buffer for each pack."""

    graph: GraphInfo
    weights: dict[tuple[Any, ...], WeightBuffer]

    def expression(self, node: Node) -> Expression:
        """`node`, which depends on graph inputs only, as something to be evaluated when weights are packed."""
        return expression(node, self.graph)

    def pack(
        self,
        layout: Callable[..., torch.Tensor],
        params: Hashable,
        operands: Sequence[Expression | None],
        count: int,
        name: str = "",
        element: Element = F32,
    ) -> WeightBuffer:
        """A block of `count` elements in the weights region; equal requests share one.

        Sizes that it depends on are pinned.
        """
        for operand in operands:
            pinned(() if operand is None else tuple(value(operand.node).shape))
        pack = Pack(layout, pinned(params), tuple(operands), pinned(count), element)
        key = (pack.key, tuple(source.name for source in pack.sources))
        if key not in self.weights:
            self.weights[key] = WeightBuffer(pack, name)
        return self.weights[key]


def pack_rows(params: tuple[Any, ...], tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as it is: dimensions from outermost to innermost as in `params[0]`, rows `params[1]` elements apart."""
    order, pitch = params
    if tensor.is_complex():
        pairs = torch.view_as_real(tensor.permute(order).to(torch.complex64).resolve_conj().contiguous())
        missing = 0 if pairs.dim() == 1 else pitch - pairs.shape[-2]
        return torch.nn.functional.pad(pairs, (0, 0, 0, missing) if missing else (0, 0)).flatten()
    rows = encode_elements(tensor).permute(order) if tensor.dim() else encode_elements(tensor).reshape(1)
    return torch.nn.functional.pad(rows.contiguous(), (0, pitch - rows.shape[-1])).flatten()


def pack_bytes(params: tuple[Any, ...], tensor: torch.Tensor) -> torch.Tensor:
    """Like :func:`pack_rows`, of 8-bit integers, a byte each."""
    order, pitch = params
    rows = tensor.permute(order).contiguous()
    return torch.nn.functional.pad(rows, (0, pitch - rows.shape[-1])).flatten()


def encode_elements(tensor: torch.Tensor) -> torch.Tensor:
    """The float32 tensor whose bits are the arena's representation of `tensor`.

    Raises :class:`OutOfRangeError` for an integer beyond int32.
    """
    if tensor.dtype in INTEGERS:
        return to_int32(tensor).view(torch.float32)
    return tensor.to(torch.float32)


def row_layout(shape: Sequence[int], order: Sequence[int]) -> tuple[tuple[int, ...], int, int]:
    """Strides, row pitch and size in elements of a tensor that :func:`pack_rows` lays out."""
    if not shape:
        return (), 1, 1
    pitch = row_pitch(shape[order[-1]])
    strides = dense(shape, order, pitch)
    return strides, pitch, max(strides[order[0]] * shape[order[0]], pitch)
