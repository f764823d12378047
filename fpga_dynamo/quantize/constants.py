"""What a graph computes from parameters alone, as parameters: standardized weights, biases of attention from a layer.

A weight that is computed has no scale, and a table of positions that is computed is no parameter, so that neither is in
8 bits. In a model that does not train any more both are constants. Tests: tests/quantize/test_constants.py.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import mutates
from fpga_dynamo.quantize.operators import (
    ADDITIONS,
    MULTIPLICATIONS,
    SUBTRACTIONS,
    aten,
    is_float,
    is_parameter,
    is_score,
)
from fpga_dynamo.quantize.parameters import (
    MASKED,
    constant,
    drop_unused,
    evaluated,
    is_mask,
    may_show_operand,
    parameters,
)

_ARITHMETIC = (*ADDITIONS, *SUBTRACTIONS, *MULTIPLICATIONS, aten.div.Tensor, aten.div_.Tensor)


def fold_constants(model: GraphModule) -> None:
    """Gives the model a parameter for each float value that its inputs do not change and an operator reads, in place.

    Masks, and values that only move elements of a parameter, stay as they are.
    """
    memo: dict[Node, Tensor | None] = {}
    moved = parameters(model)
    changed = False
    with torch.no_grad():
        for node in list(model.graph.nodes):
            if node.op != "call_function" or not is_float(node) or node in moved or is_parameter(node):
                continue
            value = evaluated(model, node, memo)
            if value is None or _masks_some(node, value) or _is_changed(node):
                continue
            if all(evaluated(model, user, memo) is not None for user in node.users):
                continue
            name = f"_constant_{node.name}"
            model.register_parameter(name, nn.Parameter(value.detach().clone(), requires_grad=False))
            with model.graph.inserting_before(node):
                kept = model.graph.get_attr(name)
            kept.meta = dict(node.meta)
            node.replace_all_uses_with(kept)
            changed = True
    if changed:
        model.graph.eliminate_dead_code()
        drop_unused(model)
        model.recompile()


def _masks_some(node: Node, value: Tensor) -> bool:
    """Whether a value is a mask, or masks some of the scores that it is added to: it has no scale of its own then."""
    return is_mask(value) or (any(map(is_score, node.users)) and bool((value.abs() >= -MASKED).any()))


def _is_changed(node: Node) -> bool:
    """Whether a reader of a value, or of a view of it, changes it in place: then each call begins with a new one."""
    return any(mutates(user) or (may_show_operand(user) and _is_changed(user)) for user in node.users)


def numbers_of_parameters(model: GraphModule) -> None:
    """Has sums and products read numbers instead of parameters of one element, in place: tables can hold these."""
    changed = False
    for node in model.graph.nodes:
        if node.target not in _ARITHMETIC or not is_float(node) or len(node.args) < 2:
            continue
        other, number = node.args[:2]
        if node.target in (*ADDITIONS, *MULTIPLICATIONS) and constant(model, number) is None:
            other, number = number, other
        value = constant(model, number)
        if value is None or value.numel() != 1 or not is_float(number) or constant(model, other) is not None:
            continue
        if isinstance(other, Node) and is_float(other) and other.meta["val"].shape == node.meta["val"].shape:
            node.args = (other, float(value.detach()), *node.args[2:])
            changed = True
    if changed:
        drop_unused(model)
        model.recompile()
