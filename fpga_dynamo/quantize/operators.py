"""Which operators of an exported graph the quantizer annotates, and how.

An operator is of one of these kinds:

- *products*: convolutions and matrix products, whose operands become 8 bits, and whose result does after what follows
  it in the same command: batch norm, an addition, a limit such as ReLU;
- *moves*: the result has the operand's scale, since it consists of the operand's elements;
- *values*: operand and result have scales of their own; on a card these are tables, sums, or computed in float32
  between bytes;
- *embeddings*: the table has a scale for each row, the rows that are read one of their own.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import torch
from torch.fx import Node

aten = torch.ops.aten


@dataclass(frozen=True)
class QuantizedProduct:
    """name: what capabilities call it. weight: where its weight is, and its output channels' axis there; None for two
    activations. bias: where the bias is."""

    name: str
    weight_axis: int | None = 0
    bias: int | None = 2


PRODUCTS: dict[object, QuantizedProduct] = {
    aten.conv1d.default: QuantizedProduct("convolution"),
    aten.conv2d.default: QuantizedProduct("convolution"),
    aten.conv3d.default: QuantizedProduct("convolution"),
    aten.conv1d.padding: QuantizedProduct("convolution"),
    aten.conv2d.padding: QuantizedProduct("convolution"),
    aten.conv3d.padding: QuantizedProduct("convolution"),
    aten.conv_transpose1d.default: QuantizedProduct("transposed convolution", 1),
    aten.conv_transpose2d.input: QuantizedProduct("transposed convolution", 1),
    aten.conv_transpose3d.input: QuantizedProduct("transposed convolution", 1),
    aten.linear.default: QuantizedProduct("linear"),
    aten.matmul.default: QuantizedProduct("matmul", None, None),
    aten.bmm.default: QuantizedProduct("matmul", None, None),
}

BATCH_NORM = (aten.batch_norm.default,)
ADDITIONS = (aten.add.Tensor, aten.add_.Tensor)
SUBTRACTIONS = (aten.sub.Tensor, aten.sub_.Tensor)
MULTIPLICATIONS = (aten.mul.Tensor, aten.mul_.Tensor)
LIMITS = (
    aten.relu.default, aten.relu_.default, aten.hardtanh.default, aten.hardtanh_.default, aten.clamp.default,
    aten.clamp_.default, aten.relu6.default,
)  # fmt: skip

NON_NEGATIVE = (
    aten.softmax.int, aten.sigmoid.default, aten.hardsigmoid.default, aten.hardsigmoid_.default, aten.relu.default,
    aten.relu_.default, aten.relu6.default,
)  # fmt: skip

SUMS = (aten.sum.dim_IntList,)
"""Sums of 8-bit values; the squares of norms are not in 8 bits."""

SCALINGS = (aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar)
"""Multiplications by a number, where the second operand is not a node."""

MOVES = (
    aten.max_pool1d.default, aten.max_pool2d.default, aten.adaptive_max_pool2d.default, aten.flatten.using_ints,
    aten.view.default, aten.reshape.default, aten.unflatten.int, aten.permute.default, aten.transpose.int,
    aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default, aten.slice.Tensor,
    aten.select.int, aten.expand.default, aten.contiguous.default, aten.clone.default, aten.dropout.default,
    aten.dropout_.default, aten.pad.default, aten.constant_pad_nd.default, aten.upsample_nearest2d.vec,
    aten.upsample_nearest2d.default, aten.pixel_shuffle.default, aten.channel_shuffle.default, aten.chunk.default,
    aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int, aten.t.default, aten.mT.default,
    aten.swapaxes.default, aten.movedim.int, aten.roll.default, aten.flip.default, aten.unfold.default,
)  # fmt: skip

CONCATENATIONS = (aten.cat.default, aten.stack.default, aten.concat.default)

VALUES: dict[object, str] = {
    aten.avg_pool2d.default: "average pooling",
    aten.adaptive_avg_pool2d.default: "average pooling",
    aten.adaptive_avg_pool1d.default: "average pooling",
    aten.mean.dim: "mean",
    **{total: "mean" for total in SUMS},
    aten.upsample_bilinear2d.vec: "resize",
    aten.softmax.int: "softmax",
    aten.layer_norm.default: "layer norm",
    aten.rms_norm.default: "layer norm",
    aten.batch_norm.default: "batch norm",
    **{
        activation: "activation"
        for activation in (
            *LIMITS, aten.hardswish.default, aten.hardswish_.default, aten.hardsigmoid.default,
            aten.hardsigmoid_.default, aten.silu.default, aten.silu_.default, aten.gelu.default, aten.sigmoid.default,
            aten.tanh.default, aten.leaky_relu.default, aten.leaky_relu_.default, aten.elu.default, aten.elu_.default,
            aten.mish.default, aten.softplus.default,
        )
    },
    **{addition: "addition" for addition in (*ADDITIONS, *SUBTRACTIONS)},
    **{multiplication: "multiplication" for multiplication in MULTIPLICATIONS},
}  # fmt: skip

DROPOUTS = (aten.dropout.default, aten.dropout_.default)
UNCENTERED_NORMS = (aten.linalg_vector_norm.default, aten.rms_norm.default)

EMBEDDING = aten.embedding.default
SOFTMAX = aten.softmax.int

CAPABILITIES = frozenset({product.name for product in PRODUCTS.values()} | set(VALUES.values()) | {"cat", "embedding"})
"""What a recipe may be able to do in 8 bits, by name."""


def is_image_sum(node: Node, constants: Collection[Node] = ()) -> bool:
    """Whether a sum or difference is unscaled and of two tensors of one shape, as a residual is, but no mask.

    constants: what is made of parameters alone. Such an operand may be broadcast, and added to attention's scores.
    """
    shapes = _shapes_of_two(node)
    if shapes is None or node.kwargs.get("alpha", 1) != 1:
        return False
    if len([arg for arg in node.args[:2] if arg in constants]) == 1:
        return node.meta["val"].shape in shapes
    return shapes[0] == shapes[1] and not is_score(node)


def is_score(node: Node) -> bool:
    """Whether a softmax reads a value: then what is added is a mask, or bias, whose range says nothing of the sum."""
    users = list(node.users)
    while len(users) == 1 and users[0].target in MOVES:
        users = list(users[0].users)
    return any(user.target is SOFTMAX for user in users)


def is_image_product(node: Node, is_quantized: Callable[[Node], bool]) -> bool:
    """Whether a multiplication is of two tensors of one shape, or of images by a number for each channel of each.

    Other operands may be broadcast if both are in 8 bits for other reasons, as the factor of a norm is not. A
    parameter's scale would be that of one step of training, and squares are parts of norms, whose sums need more than
    eight bits.
    """
    shapes = _shapes_of_two(node)
    if shapes is None or node.args[0] is node.args[1] or any(is_parameter(arg) for arg in node.args[:2]):
        return False
    large, small = sorted((tuple(size) for size in shapes), key=math.prod, reverse=True)
    if large == small or (len(large) == 4 and small == (*large[:2], 1, 1)):
        return True
    return all(isinstance(arg, Node) and is_quantized(moved(arg)) for arg in node.args[:2])


def scaled_by_channel(node: Node) -> Node | None:
    """What is multiplied by a parameter with a number for each channel of images, or feature; None if nothing is."""
    shapes = _shapes_of_two(node)
    if shapes is None or node.target not in MULTIPLICATIONS:
        return None
    for values, numbers in (node.args[:2], node.args[1::-1]):
        assert isinstance(values, Node) and isinstance(numbers, Node)
        size, own = tuple(values.meta["val"].shape), tuple(numbers.meta["val"].shape)
        own = (*(1,) * (len(size) - len(own)), *own)
        axes = (1, 3) if len(size) == 4 else (len(size) - 1,)
        one_each = [tuple(count if d == axis else 1 for d, count in enumerate(size)) for axis in axes]
        if is_parameter(numbers) and not is_parameter(values) and 2 <= len(size) <= 4 and own in one_each:
            return values
    return None


def _shapes_of_two(node: Node) -> tuple[torch.Size, torch.Size] | None:
    """Those of two float operands; None if one of them is a number."""
    shapes = [arg.meta["val"].shape for arg in node.args[:2] if isinstance(arg, Node) and is_float(arg)]
    return (shapes[0], shapes[1]) if len(shapes) == 2 else None


def is_parameter(node: object) -> bool:
    """Whether a node is a parameter or constant, or a view of one."""
    while isinstance(node, Node) and node.op == "call_function" and node.target in MOVES:
        node = node.args[0]
    return isinstance(node, Node) and node.op == "get_attr"


def is_idle_dropout(node: Node) -> bool:
    """Whether a node is a dropout that drops nothing."""
    return node.target in DROPOUTS and not node.args[2]


def keeps_range(node: Node) -> bool:
    """Whether a move's result has no values beyond its operand's: dropout that drops and padding by a number have."""
    if node.target in DROPOUTS:
        return is_idle_dropout(node)
    if node.target in (aten.pad.default, aten.constant_pad_nd.default):
        mode = "constant" if node.target is not aten.pad.default or len(node.args) < 3 else node.args[2]
        value = node.args[-1] if len(node.args) == (4 if node.target is aten.pad.default else 3) else 0
        return mode != "constant" or not value
    return True


def moved(node: Node) -> Node:
    """What a value's elements come from, in front of moves and items of tuples."""
    while node.op == "call_function" and (node.target in MOVES or node.target is operator.getitem):
        source = node.args[0]
        assert isinstance(source, Node)
        node = source
    return node


def symmetric_values(nodes: Iterable[Node]) -> set[Node]:
    """What has the zero point 0, but for what is non-negative anyway.

    Values that move to the second operands of products of two activations, and those whose vector norm is computed.
    """
    found: set[Node] = set()
    for node in nodes:
        kind = PRODUCTS.get(node.target)
        operand = 1 if kind and kind.weight_axis is None else 0 if node.target in UNCENTERED_NORMS else None
        if operand is not None and isinstance(source := node.args[operand], Node):
            found.add(moved(source))
    return {node for node in found if node.target not in NON_NEGATIVE}


def is_float(node: object) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32
