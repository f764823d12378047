"""Views and copies."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from fpga_dynamo.testing.builder import Builder
from fpga_dynamo.testing.operators.table import anything, divisors, image, operator, vector


@operator(anything, weight=2)
def cat(b: Builder, name: str, x: torch.Tensor) -> None:
    dim = b.dimension(x)

    def stacks(t: torch.Tensor) -> bool:
        return (
            t.dim() == x.dim()
            and t.dtype == x.dtype
            and all(m == n for i, (m, n) in enumerate(zip(t.shape, x.shape, strict=True)) if i != dim % x.dim())
        )

    others = [b.pick(stacks)[0] for _ in range(b.integer(1, 3))]
    b.emit(f"torch.cat([{name}, {', '.join(others)}], dim={dim})")


@operator(anything)
def stack(b: Builder, name: str, x: torch.Tensor) -> None:
    other, _ = b.pick(lambda t: t.shape == x.shape and t.dtype == x.dtype)
    b.emit(f"torch.stack([{name}, {other}], dim={b.integer(0, x.dim())})")


@operator(anything, weight=2)
def split(b: Builder, name: str, x: torch.Tensor) -> None:
    dim = b.dimension(x)
    size = x.shape[dim]
    if size < 2:
        return
    if b.flag():
        b.emit(f"torch.chunk({name}, 2, dim={dim})", results=2)
    else:
        first = b.integer(1, size - 1)
        b.emit(f"torch.split({name}, [{first}, {size - first}], dim={dim})", results=2)


@operator(anything, weight=2)
def slicing(b: Builder, name: str, x: torch.Tensor) -> None:
    dim = b.integer(0, x.dim() - 1)
    start, step = b.integer(0, x.shape[dim] - 1), b.choose(1, 1, 2, 3)
    colons = ":, " * dim
    b.emit(
        b.choose(f"{name}[{colons}{start}::{step}]", f"{name}[{colons}{start}]", f"{name}.narrow({dim}, {start}, 1)")
    )


@operator(anything, weight=2)
def permute(b: Builder, name: str, x: torch.Tensor) -> None:
    if b.flag():
        b.emit(f"{name}.transpose({b.dimension(x)}, {b.dimension(x)})")
    else:
        b.emit(f"{name}.permute({b.draw(st.permutations(range(x.dim())))})")


@operator(anything, weight=2)
def reshape(b: Builder, name: str, x: torch.Tensor) -> None:
    size = b.choose(*divisors(x.numel()))
    kinds = [
        f"{name}.flatten({b.integer(0, x.dim() - 1)})",
        f"{name}.unsqueeze({b.integer(0, x.dim())})",
        f"{name}.squeeze()",
        f"{name}.reshape(-1)",
        f"{name}.reshape({x.numel() // size}, {size})",
        f"{name}.view({x.shape[0]}, -1)",
        f"{name}.contiguous()",
    ]
    b.emit(b.choose(*kinds))


@operator(anything, first=lambda t: anything(t) and (1 in t.shape or t.dim() <= 2))
def expand(b: Builder, name: str, x: torch.Tensor) -> None:
    shape = [3 if n == 1 else n for n in x.shape] if 1 in x.shape else [2, *x.shape]
    b.emit(b.choose(f"{name}.expand({shape})", f"{name}.repeat({[2] + [1] * (x.dim() - 1)})"))


@operator(image)
def channel_shuffle(b: Builder, name: str, x: torch.Tensor) -> None:
    n, c, h, w = x.shape
    groups = b.choose(*divisors(c))
    b.emit(f"{name}.view({n}, {groups}, {c // groups}, {h}, {w}).transpose(1, 2).reshape({n}, {c}, {h}, {w})")


@operator(vector)
def pad(b: Builder, name: str, x: torch.Tensor) -> None:
    amounts = [b.choose(1, 0, 2, -1) for _ in range(2 * b.integer(1, min(2, x.dim())))]
    value = b.choose("", ", value=1.5", ", value=float('-inf')")
    b.emit(f"F.pad({name}, {amounts}{value})")


@operator(anything)
def flip(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(b.choose(f"torch.flip({name}, [{b.dimension(x)}])", f"torch.roll({name}, 1, {b.dimension(x)})"))
