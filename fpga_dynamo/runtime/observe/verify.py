"""``verify=True``: every launch is shadowed by eager, as it is and in float64, and the first divergence is named.

Where a value depends on rounding (equal numbers whose position is asked for, a comparison with a sum that cancels), the
card may decide otherwise than eager. What diverges is therefore held against runs in float64 with a rounding error
after every operator, too, see :mod:`fpga_dynamo.runtime.observe.rounding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from fpga_dynamo.codegen.core import CORES
from fpga_dynamo.errors import VerificationError
from fpga_dynamo.ir.dtypes import FLOATS
from fpga_dynamo.ir.program import CardTask
from fpga_dynamo.runtime.observe.rounding import OperatorRecorder
from fpga_dynamo.runtime.observe.widening import InFloat64, widened

FACTOR = 8.0
"""How many times eager mode's own error against float64 a value may err."""

FLOOR_ULPS = 32.0
"""And how many units in the last place of the largest value besides, for values that eager gets exactly."""

NOISY_RUNS = 16
"""How many runs show what depends on rounding: one element that does is taken for one that does not once in 2^16."""


def compare(task: CardTask, results: Sequence[torch.Tensor], arguments: Sequence[Any]) -> None:
    """Compares all values that `task` gave (with ``verify`` that is one for every match) with eager mode's, in graph
    order.

    Raises :class:`VerificationError` naming the first node that diverges.
    """
    eager = task.eager(*arguments)
    exact = _in_float64(task, arguments)
    propagates_nan = _propagates_nan(task, [*arguments, *eager])
    noisy: list[Sequence[torch.Tensor]] = []
    order = {node: i for i, node in enumerate(task.writes[0].graph.nodes)}
    watched = sorted(range(len(results)), key=lambda i: order[task.writes[i]])
    for i in watched:
        reference = eager[i] if exact is None else exact[i]
        why = _divergence(results[i], eager[i], reference, propagates_nan)
        if why is not None and exact is not None:
            noisy = noisy or _with_noise(task, arguments)
            why = _divergence(results[i], eager[i], reference, propagates_nan, [run[i] for run in noisy])
        if why is not None:
            raise VerificationError(f"{_describe(task, i)} differs from eager mode: {why}")


def _describe(task: CardTask, i: int) -> str:
    from fpga_dynamo.ir.graph import describe

    node = task.writes[i]
    numbers = [j for j, command in enumerate(task.commands) if node.name in command.nodes]
    commands = f", command {', '.join(map(str, numbers))} of {task.name}" if numbers else ""
    return describe(node) + commands


def _in_float64(task: CardTask, arguments: Sequence[Any]) -> Sequence[torch.Tensor] | None:
    """The same in float64, or None for a graph that does not take it."""
    try:
        return _run(task, map(widened, arguments))
    except (RuntimeError, TypeError):
        return None


def _run(task: CardTask, arguments: Iterable[Any]) -> Sequence[torch.Tensor]:
    """Eager mode's values for arguments in float64, also of a graph that says float32 somewhere (of zeros for a mask,
    say).

    Such a graph has types of its own replaced; others run as they are, with the roundings that they ask for.
    """
    given = list(arguments)
    try:
        return task.eager(*given)
    except (RuntimeError, TypeError):
        with InFloat64():
            return task.eager(*given)


def _with_noise(task: CardTask, arguments: Sequence[Any]) -> list[Sequence[torch.Tensor]]:
    """The same with errors as large as those of the coarsest type that it computes in."""
    fakes = [node.meta["val"] for node in (*task.reads, *task.writes)]
    error = max((torch.finfo(fake.dtype).eps for fake in fakes if fake.dtype in FLOATS), default=0.0)
    runs = []
    for seed in range(NOISY_RUNS):
        recorder = OperatorRecorder(error, seed)
        wide = [widened(argument) for argument in arguments]
        for argument in wide:
            if isinstance(argument, torch.Tensor):
                recorder.disturb(argument)
        with recorder:
            runs.append(_run(task, wide))
    return runs


def _propagates_nan(task: CardTask, values: Sequence[Any]) -> bool:
    """Whether NaN and infinities may be at more places than in eager."""
    if not any(CORES[command.opcode].propagates_nan for command in task.commands):
        return False
    floats = (v for v in values if isinstance(v, torch.Tensor) and v.is_floating_point())
    return not all(bool(torch.isfinite(v).all()) for v in floats)


def _divergence(
    result: torch.Tensor,
    eager: torch.Tensor,
    exact: torch.Tensor,
    propagates_nan: bool,
    noisy: Sequence[torch.Tensor] = (),
) -> str | None:
    """How `result` diverges, if it does. noisy: the values of other runs, any of which would be right."""
    if result.dtype is not eager.dtype or result.shape != eager.shape:
        return f"{result.dtype} {tuple(result.shape)} where eager mode gives {eager.dtype} {tuple(eager.shape)}"
    if result.is_complex():  # real and imaginary parts as numbers of their own
        result, eager, exact, *noisy = (torch.view_as_real(x.resolve_conj()) for x in (result, eager, exact, *noisy))
        return _divergence(result, eager, exact, propagates_nan, noisy)
    if not result.is_floating_point():
        differs = result != eager
        for other in noisy:
            differs &= other == exact
        wrong = int(differs.sum())
        return f"{wrong} of {result.numel()} elements differ" if wrong else None
    if not propagates_nan:
        nan = torch.isnan(result) != torch.isnan(eager)
        infinite = torch.isinf(eager) & (exact == eager) & (result != eager)  # elsewhere float64 has more range
        for other in noisy:
            nan &= torch.isnan(other) == torch.isnan(exact)
            infinite &= other == exact
        if bool(nan.any()):
            return f"{int(nan.sum())} of {result.numel()} elements are NaN in only one of the two results"
        if bool(infinite.any()):
            return f"{int(infinite.sum())} of {result.numel()} elements are infinite in eager mode only"
    finite = torch.isfinite(eager) & torch.isfinite(exact) & ~torch.isnan(result)
    if propagates_nan:
        finite &= torch.isfinite(result)
    for other in noisy:  # rounding decides whether such an element is a number
        finite &= torch.isnan(other) == torch.isnan(exact)
    mine, theirs, truth = (t[finite].double() for t in (result, eager, exact))
    if truth.numel() == 0:
        return None
    own, allowed = (theirs - truth).abs().max(), torch.finfo(eager.dtype).eps * truth.abs().max()
    for other in noisy:
        own = torch.maximum(own, (other[finite].double() - truth).nan_to_num().abs().max())
    bound = FACTOR * own + FLOOR_ULPS * allowed
    error = (mine - truth).abs().max()
    if error <= bound:
        return None
    return f"error {error:.3g} against float64 where eager mode has {own:.3g} (largest value {truth.abs().max():.3g})"
