"""What a convolution or a matrix product does in its epilogue: an addition and an activation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import torch
from torch.fx import Node

from fpga_dynamo.ir.graph import argument, aten, refuse_float, shape, value
from fpga_dynamo.lowering.patterns import Step


@dataclass(frozen=True)
class Activation:
    """Value of enum activation in command.hpp, with its two parameters."""

    kind: str = "ACT_NONE"
    a: float = 0.0
    b: float = 0.0


def activation(node: Node | None) -> Activation | None:
    """The epilogue activation that `node` computes, or None."""
    if node is None:
        return Activation()
    rule = _ACTIVATIONS.get(node.target)
    if rule is None or len(node.all_input_nodes) > 1:  # a parameter that is not known before the call
        return None
    found = rule(node)
    return found if found is not None and _is_ordinary(found) else None


def _is_ordinary(act: Activation) -> bool:
    """Whether the cores compute as eager mode does with its parameters: finite numbers, or bounds at infinity."""
    clamps = act.kind == "ACT_CLAMP"
    return all(math.isfinite(number) or (clamps and math.isinf(number)) for number in (act.a, act.b))


def _bound(node: Node, name: str, position: int, default: float) -> float | None:
    bound = argument(node, name, position, None)
    if bound is None:
        return default
    return float(bound) if isinstance(bound, (int, float)) else None


def _clamp(node: Node, low_name: str, high_name: str, defaults: tuple[float, float]) -> Activation | None:
    low, high = _bound(node, low_name, 1, defaults[0]), _bound(node, high_name, 2, defaults[1])
    return None if low is None or high is None else Activation("ACT_CLAMP", low, high)


def _elu(node: Node) -> Activation | None:
    alpha, scale, inner = (
        float(argument(node, n, i, 1.0)) for i, n in ((1, "alpha"), (2, "scale"), (3, "input_scale"))
    )
    return Activation("ACT_ELU", alpha) if scale == 1.0 and inner == 1.0 else None


_ACTIVATIONS: dict[Any, Callable[[Node], Activation | None]] = {
    aten.relu.default: lambda n: Activation("ACT_RELU"),
    aten.hardtanh.default: lambda n: _clamp(n, "min_val", "max_val", (-1.0, 1.0)),
    aten.clamp.default: lambda n: _clamp(n, "min", "max", (-math.inf, math.inf)),
    aten.leaky_relu.default: lambda n: Activation("ACT_LEAKY_RELU", float(argument(n, "negative_slope", 1, 0.01))),
    aten.sigmoid.default: lambda n: Activation("ACT_SIGMOID"),
    aten.tanh.default: lambda n: Activation("ACT_TANH"),
    aten.silu.default: lambda n: Activation("ACT_SILU"),
    aten.gelu.default: lambda n: Activation(
        "ACT_GELU_TANH" if argument(n, "approximate", 1, "none") == "tanh" else "ACT_GELU"
    ),
    aten.hardswish.default: lambda n: Activation("ACT_HARDSWISH"),
    aten.hardsigmoid.default: lambda n: Activation("ACT_HARDSIGMOID"),
    aten.elu.default: _elu,
}

ACTIVATION_TARGETS = tuple(_ACTIVATIONS)


def residual_of(value_node: Node, add: Node) -> Node | None:
    """The other operand of an addition, if both are float tensors of one shape and it is a plain sum."""
    other = _other_operand(value_node, add)
    return other if other is not None and shape(other) == shape(value_node) else None


def bias_of(value_node: Node, add: Node) -> Node | None:
    """The other operand of an addition, if it is a float vector, added to each row in a plain sum."""
    other = _other_operand(value_node, add)
    return other if other is not None and shape(other) == shape(value_node)[-1:] else None


def _other_operand(value_node: Node, add: Node) -> Node | None:
    if len(add.args) != 2 or argument(add, "alpha", 2, 1) != 1:
        return None
    other = add.args[1] if add.args[0] is value_node else add.args[0]
    if not isinstance(other, Node) or not isinstance(value(other), torch.Tensor) or refuse_float(other, ""):
        return None
    return other


def _plain_activation(value_node: Node, node: Node) -> bool:
    return activation(node) is not None


ADD = Step("add", (aten.add.Tensor,), lambda value_node, add: residual_of(value_node, add) is not None)
ACTIVATION = Step("activation", ACTIVATION_TARGETS, _plain_activation)


class ActivationFields(TypedDict):
    """The fields of an activation in a record."""

    activation: int
    act_a: float
    act_b: float


def fields(act: Activation, enums: Mapping[str, int]) -> ActivationFields:
    """The record's activation fields."""
    return {"activation": enums[act.kind], "act_a": act.a, "act_b": act.b}
