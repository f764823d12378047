"""Parameters of an exported graph: their values, and copies that one node alone reads."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fpga_dynamo.ir.graph import is_effectful, mutates, shows_operand
from fpga_dynamo.quantize.operators import MOVES, aten, is_idle_dropout
from fpga_dynamo.torch_internals.dispatch import OpOverload


def constant(model: GraphModule, node: object) -> Tensor | None:
    """The tensor that a node reads, if it is a parameter or buffer itself."""
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    found: Any = model
    for name in str(node.target).split("."):
        found = getattr(found, name)
    return found if isinstance(found, Tensor) else None  # the other kind is a graph within the graph


def attribute(model: GraphModule, node: Node) -> Tensor:
    """The parameter or buffer that a get_attr node reads."""
    found = constant(model, node)
    assert found is not None
    return found


def parameters(model: GraphModule) -> set[Node]:
    """The nodes that read parameters, and those that only move their elements, or choose some by constants."""
    found: set[Node] = set()
    constants: set[Node] = set()
    for node in model.graph.nodes:
        if node.op == "get_attr":
            constants.add(node)
            if isinstance(constant(model, node), nn.Parameter):
                found.add(node)
        elif node.target in (*MOVES, aten.index.Tensor) and constants.issuperset(node.all_input_nodes):
            constants.add(node)
            if node.args[0] in found:
                found.add(node)
    return found


MASKED = -32.0
"""What a mask adds at most where it is not 0."""


def keep_masks(model: GraphModule, sums: Iterable[Node]) -> None:
    """Gives the model a buffer for each mask among the operands of `sums`, which a softmax reads, in place."""
    memo: dict[Node, Tensor | None] = {}
    operands = dict.fromkeys(arg for node in sums for arg in node.args if isinstance(arg, Node))
    for node in operands:
        value = evaluated(model, node, memo)
        if value is not None and node.op != "get_attr" and is_mask(value):
            with model.graph.inserting_before(node):
                kept = buffer(model, f"_mask_{node.name}", value, node.meta["val"])
            node.replace_all_uses_with(kept)


def buffer(model: GraphModule, name: str, value: Tensor, fake: Tensor) -> Node:
    """A node that reads a buffer of this value, which the model gets if it has none. fake: its value in tracing."""
    while not torch.equal(getattr(model, name, value), value):  # another one's
        name += "_"
    if not hasattr(model, name):
        model.register_buffer(name, value, persistent=False)
    node = model.graph.get_attr(name)
    node.meta["val"] = fake
    return node


def evaluated(model: GraphModule, node: Node, memo: dict[Node, Tensor | None]) -> Tensor | None:
    """The tensor that a node gives whatever the inputs are; None if that depends on them, or on chance."""
    if node not in memo:
        memo[node] = constant(model, node)
        if node.op == "call_function":
            index = node.args[1] if node.target is operator.getitem else None
            value = _called(model, node if index is None else node.args[0], memo)
            if isinstance(index, int) and isinstance(value, (tuple, list)):  # which have no place in the memo
                value = value[index]
            memo[node] = value if isinstance(value, Tensor) else None
    return memo[node]


def _called(model: GraphModule, node: Any, memo: dict[Node, Tensor | None]) -> Any:
    """What a call gives for operands that do not depend on the inputs; None if one does."""
    if not isinstance(node, Node) or node.op != "call_function" or not _is_function(node):
        return None
    operands = {operand: evaluated(model, operand, memo) for operand in node.all_input_nodes}
    if any(value is None for value in operands.values()):
        return None
    given: Any = map_arg((node.args, node.kwargs), operands.__getitem__)
    args, kwargs = given
    if mutates(node):
        args = (args[0].clone(), *args[1:])
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _is_function(node: Node) -> bool:
    """Whether nothing but a node's result tells that it ran: neither chance, nor a value that others read."""
    if is_idle_dropout(node) or not is_effectful(node):
        return True
    changed = node.args[0] if node.args else None
    if not mutates(node) or not isinstance(changed, Node) or not isinstance(node.target, OpOverload):
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags:
        return False
    return changed.op == "call_function" and not may_show_operand(changed) and set(changed.users) == {node}


def may_show_operand(node: Node) -> bool:
    """Whether the memory of a node's value may be that of an operand: a change of one then changes both."""
    return node.target is operator.getitem or node.target in MOVES or shows_operand(node.target)


def is_mask(value: Tensor | None) -> bool:
    """Whether all that it adds to scores is 0, or leaves no weight."""
    if value is None or not value.is_floating_point() or not bool((value != 0).any()):
        return False
    return bool(((value == 0) | (value <= MASKED)).all())


def set_own(model: GraphModule, node: Node, position: int, value: Tensor, prefix: str) -> None:
    """Gives a node a parameter of its own as the operand at `position`, in place of the one that others may read."""
    old = node.args[position] if position < len(node.args) else None
    trains = isinstance(old, Node) and attribute(model, old).requires_grad
    name = f"_{prefix}_{node.name}_{position}"
    model.register_parameter(name, nn.Parameter(value.detach(), requires_grad=trains))
    with model.graph.inserting_before(node):
        new = model.graph.get_attr(name)
    if isinstance(old, Node):
        new.meta = dict(old.meta)
    elif (weight := node.args[1]) and isinstance(weight, Node) and "val" in weight.meta:
        new.meta["val"] = weight.meta["val"].new_empty(value.shape)
    args = [*node.args, *[None] * (position + 1 - len(node.args))]
    args[position] = new
    node.args = tuple(args)


def drop_unused(model: GraphModule) -> None:
    """Takes parameters and buffers that no node reads out of a graph's module."""
    used = {str(node.target) for node in model.graph.nodes if node.op == "get_attr"}
    buffers = model.named_buffers(remove_duplicate=False)
    for name, _ in [*model.named_parameters(remove_duplicate=False), *buffers]:
        if name not in used:
            owner, _, leaf = name.rpartition(".")
            delattr(model.get_submodule(owner), leaf)


def set_own_nodes(model: GraphModule, readers: Any) -> None:
    """Gives each reader of a parameter among `readers` a get_attr node of its own, so that each has its own scale."""
    for node in list(model.graph.nodes):
        if node.op != "get_attr" or len(node.users) < 2:
            continue
        for user in [user for user in node.users if readers(user)][1:]:
            with model.graph.inserting_before(user):
                own = model.graph.get_attr(str(node.target))
            own.meta = dict(node.meta)
            user.replace_input_with(node, own)
