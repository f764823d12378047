"""Element by element, and in place: on what the graph made and on what it was given."""

from __future__ import annotations

import torch

from fpga_dynamo.testing.builder import Builder
from fpga_dynamo.testing.operators.table import broadcasts_with, floating, matrix, operator, truth, vector

_UNARY = (
    "F.relu({})",
    "F.relu6({})",
    "F.hardtanh({}, -0.5, 0.75)",
    "F.leaky_relu({}, 0.1)",
    "F.leaky_relu({}, -0.2)",
    "torch.sigmoid({})",
    "torch.tanh({})",
    "F.silu({})",
    "F.gelu({})",
    "F.gelu({}, approximate='tanh')",
    "F.hardswish({})",
    "F.hardsigmoid({})",
    "F.elu({}, 0.7)",
    "F.selu({})",
    "F.mish({})",
    "F.softplus({})",
    "F.logsigmoid({})",
    "F.threshold({}, 0.1, -1.0)",
    "torch.exp({}.clamp(max=4.0))",
    "torch.exp({})",
    "torch.expm1({}.clamp(max=4.0))",
    "torch.log({}.abs() + 0.1)",
    "torch.log({})",
    "torch.log1p({}.abs())",
    "torch.sqrt({}.abs())",
    "torch.sqrt({})",
    "torch.rsqrt({}.abs() + 0.1)",
    "torch.reciprocal({}.abs() + 0.5)",
    "torch.erf({})",
    "torch.sin({})",
    "torch.cos({})",
    "torch.abs({})",
    "torch.neg({})",
    "torch.sign({})",
    "torch.floor({})",
    "torch.ceil({})",
    "torch.round({})",
    "torch.trunc({})",
    "torch.square({})",
    "F.dropout({}, 0.5, training=False)",
)
_WITH_CONSTANT = (
    "F.elu({}, {c})",
    "F.celu({}, {c})",
    "F.leaky_relu({}, {c})",
    "F.hardtanh({}, -1.0, {c})",
    "{}.clamp(min={c})",
    "{}.clamp(max={c})",
    "F.threshold({}, {c}, 0.5)",
    "F.softplus({}, 1.0, {c})",
    "torch.nan_to_num({}, posinf={c})",
    "torch.where({} > 0, 1.0, {c})",
)
_CLAMPS = ("min=0", "max=0.5", "-0.5, 0.5", "min=-1, max=2", "0, 6", "0.5, -0.5")


@operator(floating)
def extreme_constant(b: Builder, name: str, _: torch.Tensor) -> None:
    number = b.choose("float('inf')", "float('-inf')", "-0.0", "1e-45", "-0.3", "float('nan')")
    b.emit(b.choose(*_WITH_CONSTANT).format(name, c=number))


@operator(floating, weight=6)
def unary(b: Builder, name: str, _: torch.Tensor) -> None:
    b.emit(b.choose(*_UNARY).format(name))


@operator(floating)
def dropout(b: Builder, name: str, _: torch.Tensor) -> None:
    b.emit(f"OP({name})", f"torch.nn.Dropout({b.choose(0.5, 0.1, 0.0, 1.0)})")


@operator(floating)
def clamp(b: Builder, name: str, _: torch.Tensor) -> None:
    b.emit(f"torch.clamp({name}, {b.choose(*_CLAMPS)})")


@operator(floating)
def power(b: Builder, name: str, _: torch.Tensor) -> None:
    call = b.choose(
        "{} ** 2", "{} ** 3", "{}.abs() ** 0.5", "({}.abs() + 0.1) ** -1.5", "{} ** -1", "2.0 ** {}.clamp(-3, 3)"
    )
    b.emit(call.format(name))


@operator(vector, first=matrix)
def prelu(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(f"OP({name})", f"torch.nn.PReLU({b.choose(1, x.shape[1])})")


_BINARY = (
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "{} / ({}.abs() + 0.5)",
    "{} / {}",
    "torch.maximum({}, {})",
    "torch.minimum({}, {})",
    "torch.add({}, {}, alpha=0.5)",
    "torch.sub({}, {}, alpha=2)",
    "torch.pow({}.abs() + 0.1, {}.clamp(-2, 2))",
    "torch.atan2({}, {})",
)


@operator(floating, weight=5)
def binary(b: Builder, left: str, x: torch.Tensor) -> None:
    right, _ = b.pick(broadcasts_with(x.shape))
    b.emit(b.choose(*_BINARY).format(left, right))


@operator(floating, weight=2)
def with_scalar(b: Builder, name: str, _: torch.Tensor) -> None:
    value = b.choose(2, 0.5, -1, 0.1, 3)
    b.emit(b.choose("{x} + {s}", "{x} * {s}", "{x} - {s}", "{s} - {x}", "{x} / {s}").format(x=name, s=value))


@operator(vector)
def constant(b: Builder, name: str, x: torch.Tensor) -> None:
    """A scale along the last dimension that the graph makes itself."""
    size = x.shape[-1]
    b.emit(f"{name} * torch.linspace(0.5, 1.5, {size}, dtype={name}.dtype)")


@operator(floating, weight=2)
def compare(b: Builder, left: str, x: torch.Tensor) -> None:
    relation = b.choose("<", ">", "<=", ">=", "==", "!=")
    right = b.choose("0", "0.5", b.pick(broadcasts_with(x.shape))[0])
    b.emit(f"{left} {relation} {right}")


@operator(truth, weight=2)
def where(b: Builder, condition: str, c: torch.Tensor) -> None:
    left, x = b.pick(broadcasts_with(c.shape))
    right = b.choose("0.0", "-1.0", b.pick(broadcasts_with(torch.broadcast_shapes(c.shape, x.shape)))[0])
    b.emit(f"torch.where({condition}, {left}, {right})")


@operator(truth)
def logic(b: Builder, name: str, _: torch.Tensor) -> None:
    like, _ = b.pick(floating)
    call = b.choose("~{0}", "{0}.to({1}.dtype)", "{0}.sum()", "{0}.any()", "{0}.to(torch.int64)", "{0} & {0}")
    b.emit(call.format(name, like))


@operator(floating)
def cast(b: Builder, name: str, _: torch.Tensor) -> None:
    # What NaN becomes as an integer is undefined in C++, and so in PyTorch.
    b.emit(f"{name}.nan_to_num().clamp(-50, 50).to({b.choose('torch.int64', 'torch.int32')})")


# In place: on what the graph made and on what it was given.


@operator(vector, weight=2)
def in_place(b: Builder, name: str, _: torch.Tensor) -> None:
    call = b.choose(
        "{}.relu_()",
        "{}.add_(1)",
        "{}.mul_(0.5)",
        "{}.clamp_(-1, 1)",
        "{}[..., 0].fill_(0.25)",
        "{}.neg_()",
        "{}.zero_()",
    )
    b.emit(call.format(name), in_place=True)


@operator(vector)
def in_place_binary(b: Builder, name: str, x: torch.Tensor) -> None:
    other, _ = b.pick(lambda t: broadcasts_with(x.shape)(t) and torch.broadcast_shapes(t.shape, x.shape) == x.shape)
    b.emit(b.choose("{}.add_({})", "{}.mul_({}.clamp(-1, 1))", "{}.copy_({})").format(name, other), in_place=True)
