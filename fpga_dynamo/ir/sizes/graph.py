"""Pass: a graph with SymInts as one whose shapes and arguments hold sizes.

Nodes that compute with sizes alone vanish. The symbols' values come with the call's arguments; one more placeholder
stands for them, from which what runs in eager learns its sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch.fx import Graph, GraphModule, Node

from fpga_dynamo.ir.sizes.convert import from_sympy
from fpga_dynamo.ir.sizes.size import Number, Size, SizeError
from fpga_dynamo.ir.sizes.symbols import Symbols
from fpga_dynamo.ir.sizes.tensor import SizedTensor

Source = tuple[int, int | None]
"""Where a symbol's value is found: the argument's position, and the dimension if that is a tensor."""


def sources_of(module: GraphModule) -> dict[str, Source]:
    """The symbols that an argument's value or one of its sizes is, by name.

    Raises :class:`SizeError` for arguments that vary and are no sizes.
    """
    found: dict[str, Source] = {}
    for i, node in enumerate(n for n in module.graph.nodes if n.op == "placeholder"):
        fake = node.meta.get("val")
        if isinstance(fake, (torch.SymFloat, torch.SymBool)):
            raise SizeError(f"{node} is a number that is not a size")
        sized = isinstance(fake, torch.Tensor)
        for d, number in enumerate(fake.shape if isinstance(fake, torch.Tensor) else (fake,)):
            expression = _expression(number)
            if isinstance(expression, sympy.Symbol):
                found.setdefault(expression.name, (i, d if sized else None))
    return found


def symbol_values(sources: Sequence[Source], args: Sequence[Any]) -> tuple[int, ...]:
    """What the symbols are at a call."""
    return tuple([args[i] if d is None else args[i].shape[d] for i, d in sources])


def _expression(number: Any) -> Any:
    return number.node.expr if isinstance(number, torch.SymInt) else number


SOURCE = "fpga_dynamo_source"
"""Key in the meta of a graph module with sizes: the one with SymInts that it was made of."""

SYMBOLS = "fpga_dynamo_symbols"
"""Key in the meta of the placeholder for the symbols' values: the :class:`Symbols`."""


def sized_graph(module: GraphModule, names: Sequence[str], hints: Sequence[int]) -> GraphModule:
    """A copy of `module` in which sizes take the place of SymInts; `names`: of the symbols, `hints`: their values.

    Its last placeholder, which has :data:`SYMBOLS` in its meta, is given the tuple of the symbols' values at a call.
    Raises :class:`SizeError` for a graph with other symbols, or nodes that compute what sizes cannot say.
    """
    symbols = Symbols()
    known: dict[str, Number] = {
        name: symbols.symbol(name, hint, _least(hint)) for name, hint in zip(names, hints, strict=True)
    }
    graph = Graph()
    copies: dict[Node, Any] = {}
    last_placeholder: Node | None = None
    for node in module.graph.nodes:
        val = _sized(node.meta.get("val"), known)
        if node.op == "call_function" and isinstance(val, (int, Size)) and not isinstance(val, bool):
            copies[node] = val
            continue
        if node.op == "call_function" and isinstance(val, (torch.SymFloat, torch.SymBool)):
            raise SizeError(f"{node} is a number that is not a size")
        copy = graph.node_copy(node, copies.__getitem__)
        copy.meta = dict(node.meta)
        copy.meta["val"] = val
        copies[node] = val if isinstance(node.meta.get("val"), torch.SymInt) else copy
        if node.op == "placeholder":
            last_placeholder = copy
    assert last_placeholder is not None, "a symbol is an argument's"
    with graph.inserting_after(last_placeholder):
        graph.placeholder("sizes_of_the_call").meta = {SYMBOLS: symbols}
    sized = GraphModule(module, graph)
    sized.meta[SOURCE] = module
    return sized


def _least(hint: int) -> int:
    """What a symbol is never below: Dynamo compiles sizes of 0 and 1 apart, unless it is told not to."""
    return 2 if hint >= 2 else 1


def _sized(fake: Any, known: dict[str, Number]) -> Any:
    if isinstance(fake, torch.SymInt):
        return from_sympy(fake.node.expr, known)
    if isinstance(fake, (list, tuple)):
        return type(fake)([_sized(item, known) for item in fake])
    if not isinstance(fake, torch.Tensor) or fake.layout is not torch.strided:
        return fake
    numbers = (*fake.shape, *fake.stride(), fake.storage_offset())
    if not any(isinstance(number, torch.SymInt) for number in numbers):
        return fake
    # Of SymInts all of which a guard has made constants, too: they would pass for sizes of one call.
    convert: Callable[[Any], Number] = lambda number: from_sympy(_expression(number), known)  # noqa: E731
    sizes, strides = tuple(map(convert, fake.shape)), tuple(map(convert, fake.stride()))
    return SizedTensor(fake, sizes, strides, convert(fake.storage_offset()))
