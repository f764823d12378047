"""Elements by their numbers: gathered, scattered, sorted, masked; and arithmetic of the numbers."""

from __future__ import annotations

import torch

from fpga_dynamo.testing.builder import Builder
from fpga_dynamo.testing.operators.table import (
    VOCABULARY,
    anything,
    as_index,
    integers,
    matrix,
    operator,
    tokens,
    truth,
    vector,
)


def _some_numbers(b: Builder, size: int) -> str:
    """A vector of numbers of `size` elements, some of them several times: constants, or integers of the graph."""
    if b.flag() and b.candidates(integers):
        name, _ = b.pick(integers)
        return f"{name}.flatten()[:20] % {size}"
    return f"torch.tensor({[b.integer(0, size - 1) for _ in range(b.integer(1, 4))]})"


def _number_each(b: Builder, name: str, x: torch.Tensor, size: int) -> str:
    """The number of one of `size` elements for each of `x`."""

    def fits(t: torch.Tensor) -> bool:
        return t.dtype == torch.int64 and t.shape == x.shape

    if b.flag() and b.candidates(fits):
        return f"{b.pick(fits)[0]} % {size}"
    return f"({name} > 0).long() % {size}"


@operator(vector, weight=2)
def gathering(b: Builder, name: str, x: torch.Tensor) -> None:
    dim = b.dimension(x)
    numbers = _some_numbers(b, x.shape[dim])
    colons = ":, " * (dim % x.dim())
    b.emit(b.choose(f"{name}.index_select({dim}, {numbers})", f"{name}[{colons}{numbers}]"))


@operator(vector)
def gathering_along(b: Builder, name: str, x: torch.Tensor) -> None:
    dim = b.dimension(x)
    b.emit(f"torch.gather({name}, {dim}, {_number_each(b, name, x, x.shape[dim])})")


@operator(vector)
def scattering(b: Builder, name: str, x: torch.Tensor) -> None:
    dim = b.dimension(x)
    numbers = _number_each(b, name, x, x.shape[dim])
    # Which of several elements stays is not said for `scatter`: it gets a number.
    b.emit(f"({name} * 0.5)." + b.choose(f"scatter_add({dim}, {numbers}, {name})", f"scatter({dim}, {numbers}, 1.5)"))


@operator(vector)
def adding_at(b: Builder, name: str, x: torch.Tensor) -> None:
    numbers = f"torch.tensor({[b.integer(0, 4) for _ in range(x.shape[0])]})"
    b.emit(
        f"{name}.new_zeros(5, *{name}.shape[1:])."
        + b.choose(f"index_add(0, {numbers}, {name})", f"index_put(({numbers},), {name}, accumulate=True)")
    )


@operator(vector)
def ordering(b: Builder, name: str, x: torch.Tensor) -> None:
    dim = b.dimension(x)
    count = b.integer(1, min(3, x.shape[dim]))
    b.emit(
        b.choose(f"torch.topk({name}, {count}, {dim})", f"torch.sort({name}, {dim}, descending=True, stable=True)"),
        results=2,
    )


@operator(vector)
def masking(b: Builder, name: str, x: torch.Tensor) -> None:
    masks = [b.names[i] for i in b.candidates(lambda t: truth(t) and t.shape == x.shape)]
    condition = b.choose(f"({name} > 0)", *masks)
    b.emit(b.choose(f"{name}.masked_fill({condition}, 0.5)", f"{name} * {condition}"))


@operator(truth)
def filled_truth(b: Builder, name: str, x: torch.Tensor) -> None:
    """A truth value that comes from a number, which need not be 0 or 1."""
    number = b.choose("1", "2", "-1", "0.5", "float('nan')", "0")
    fills = [f"{name}.masked_fill(~{name}, {number})", f"torch.full_like({name}, {number})"]
    b.emit(b.choose(*fills, *([f"F.pad({name}, (1, 0), value={number})"] if x.dim() else [])))


@operator(matrix)
def triangle(b: Builder, name: str, _: torch.Tensor) -> None:
    b.emit(f"torch.{b.choose('tril', 'triu')}({name}, {b.integer(-1, 1)})")


@operator(anything)
def windows(b: Builder, name: str, x: torch.Tensor) -> None:
    dim = b.dimension(x)
    b.emit(f"{name}.unfold({dim}, {b.integer(1, min(3, x.shape[dim]))}, {b.integer(1, 2)})")


@operator(tokens)
def one_hot(b: Builder, name: str, _: torch.Tensor) -> None:
    b.emit(f"F.one_hot({as_index(name)}, {VOCABULARY}).float()")


@operator(integers, weight=2)
def integer_arithmetic(b: Builder, name: str, _: torch.Tensor) -> None:
    call = b.choose(
        "{} + 1",
        "{} * 3 - 4",
        "{} // 2",
        "{} % 3",
        "-{}",
        "{}.abs().clamp(max=7)",
        "{} & 5",
        "{} > 2",
        "{} == 1",
        "{}.sum()",
        "{}.amax()",
        "{}.to(torch.int32)",
        "{}.float()",
        "{} * 0.5",
        "{} / 3",
    )
    b.emit(call.format(name))
