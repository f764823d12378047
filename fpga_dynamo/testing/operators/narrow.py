"""Values of fewer than 32 bits: views of them that several cores read, each in its own way, and small integers."""

from __future__ import annotations

import torch

from fpga_dynamo.testing.builder import Builder
from fpga_dynamo.testing.operators.table import anything, operator

_SMALL = (torch.uint8, torch.int8, torch.int16, torch.int32)


@operator(anything, weight=3)
def view_read_twice(b: Builder, name: str, x: torch.Tensor) -> None:
    """A view that element-wise work reads widened; copies, products and results read it as it lies in memory."""
    last, numel = x.shape[-1], x.numel()
    before = len(b.names)
    b.emit(
        b.choose(
            f"{name}.reshape({numel // last}, {last})",
            f"{name}.reshape(-1)",
            f"{name}.transpose(0, -1)",
            f"{name}[..., {b.integer(0, last - 1)}:]",
            f"{name}[..., ::2]",
            f"{name}[0]",
            f"{name}.unsqueeze({b.integer(0, x.dim())})",
            f"{name}.expand({[2, *x.shape]})",
            f"{name}.select(-1, {last - 1})",
            f"{name}.unfold(-1, {b.integer(1, last)}, 1)",
        )
    )
    if len(b.names) == before:
        return
    view, v = b.names[-1], b.samples[-1]
    uses = [f"{view}.clone()", f"{view}.contiguous()", f"{view}.unsqueeze(0)", f"torch.stack([{view}, {view}])"]
    if v.dim():
        uses += [f"torch.cat([{view}, {view}], dim=-1)", f"{view}.flip([0])", f"{view}.reshape(-1)"]
    if v.dtype is not torch.bool:
        uses += [f"{view} + {view}", f"{view} * 2"]
    if v.is_floating_point():
        uses += [f"F.relu({view})", f"{view}.float()", f"{view}.sum()"]
        if v.dim() >= 2:
            uses += [f"{view}.mT @ {view}", f"{view} @ {view}.mT", f"torch.softmax({view}, -1)"]
    for _ in range(b.integer(2, 3)):
        b.emit(b.choose(*uses))


@operator(lambda t: t.dtype in _SMALL and t.numel() > 0, weight=2)
def small_integers(b: Builder, name: str, x: torch.Tensor) -> None:
    """Arithmetic that wraps around, comparisons and casts."""
    other, _ = b.pick(lambda t: t.dtype == x.dtype and t.shape == x.shape)
    call = b.choose(
        "{0} + {1}",
        "{0} * {1}",
        "{0} - {1}",
        "{0} + 3",
        "-{0}",
        "torch.maximum({0}, {1})",
        "{0}.clamp(1, 9)",
        "{0} & {1}",
        "{0} < {1}",
        "{0} == 0",
        "{0}.float()",
        "{0}.to(torch.int64)",
        "{0}.to(torch.uint8)",
        "{0}.to(torch.int8)",
        "{0}.bool()",
        "{0}.sum()",
        "{0}.amax()",
    )
    b.emit(call.format(name, other))
