"""What the file calls that is saved after an internal error (runtime/observe/reproduction.py)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from fpga_dynamo.frontend.backend import compile_graph, fpga
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.internal_errors import raising


def random_tensor(
    shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype, *, requires_grad: bool = False
) -> torch.Tensor:
    """Random numbers; whole ones are 0 or 1, so that they may be indices."""
    numbers = torch.randn(shape) if dtype.is_floating_point or dtype.is_complex else torch.randint(0, 2, tuple(shape))
    made = torch.empty_strided(tuple(shape), tuple(strides), dtype=dtype)
    made.copy_(numbers)
    return made.requires_grad_(requires_grad)


def reproduce(
    graph: torch.nn.Module,
    inputs: Sequence[Any],
    *,
    options: dict[str, Any],
    static: Collection[int] = (),
    saved: tuple[int | None, int | None] | None = None,
    from_dynamo: bool = False,
) -> None:
    """Compiles and runs `graph`; raises what that raises, or says that nothing went wrong."""
    chosen = {**options, "cache": False}
    with raising():
        if from_dynamo:
            torch.compile(graph, backend=lambda gm, given: fpga(gm, given, options=chosen))(*inputs)
        else:
            run = compile_graph(graph, inputs, Options.parse(chosen), static, None if saved is None else slice(*saved))
            with torch.no_grad():
                run(*inputs)
    print("no error: this version compiles and runs the graph")
