"""Compiles functions of complex numbers for the recipe "signal" and holds them against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.ir.program import Program

SIGNAL: dict[str, Any] = {"recipe": "signal", "partition": "greedy"}
EPSILON = torch.finfo(torch.float32).eps


def numbers(*size: int, seed: int = 1, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.randn(size, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(widened(tensor)))


def assert_as_exact(result: torch.Tensor, function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    """Within some times the error that eager has against float64, or a few units in the last place of the whole."""
    eager, exact = function(*inputs), function(*map(widened, inputs))
    assert result.dtype is eager.dtype
    assert result.shape == eager.shape
    assert result.stride() == eager.stride()
    error, own = norm(result - exact), norm(eager - exact)
    assert error <= 3 * own + 2 * EPSILON * norm(exact), (
        f"error {error:.3g} where eager has {own:.3g} of {norm(exact):.3g}"
    )


def run(function: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> tuple[Any, list[Program]]:
    """The result of a compiled call, and its programs."""
    torch._dynamo.reset()
    with torch.no_grad(), collect_programs() as programs:
        result = torch.compile(function, backend="fpga", dynamic=False, options={**SIGNAL, **options})(*inputs)
    return result, programs


def check(function: Callable[..., torch.Tensor], *inputs: torch.Tensor, on: set[str], **options: Any) -> None:
    """The compiled function is as exact as eager mode's and runs on the kernels named, nothing of it on the PS."""
    result, programs = run(function, *inputs, **options)
    assert_as_exact(result, function, *inputs)
    reasons = {str(node.target): why for program in programs for node, why in program.reasons.items()}
    assert not reasons
    assert {task.kernel for program in programs for task in program.card_tasks} == on


def opcodes(programs: list[Program]) -> list[str]:
    return [command.opcode for program in programs for task in program.card_tasks for command in task.commands]
