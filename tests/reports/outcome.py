"""What a program does under one backend, compared with eager mode: values, dtypes, strides, exceptions, launches."""

from __future__ import annotations

import contextlib
import gc
import random
import re
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map

import fpga_dynamo
from fpga_dynamo.testing.reference import Mismatch, assert_close_to_eager
from tests.reports.case import Report, Trial, kind_of_error

RIGHT = "as eager mode"
BACKENDS = ("eager", "aot_eager", "fpga")
_INTERNAL = ("a graph falls back to eager mode, because compiling it failed", "ran in eager mode instead")


@dataclass(frozen=True)
class Answer:
    """`value` is what the program returned, or the text `raises TYPE`, whose traceback is `trace`."""

    value: Any
    internal_errors: tuple[str, ...] = ()
    launches: int = 0
    trace: str = ""

    @property
    def refused(self) -> bool:
        return isinstance(self.value, str) and self.value.startswith("raises ")


@dataclass(frozen=True)
class Outcome:
    """One cell of the table; `trace` is the traceback of an exception."""

    text: str
    launches: int = 0
    trace: str = ""

    @property
    def right(self) -> bool:
        return self.text == RIGHT


def run(report: Report, trial: Trial) -> Answer:
    """Runs the program from a fixed seed and a state of Dynamo that knows nothing of earlier programs."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    random.seed(0)
    before = fpga_dynamo.stats()["pl_launches"]
    trace = ""
    with warnings.catch_warnings(record=True) as caught, _modes_kept(report.kind):
        warnings.simplefilter("always")
        try:
            value = tree_map(_settled, report.program(trial))
        except Exception as error:
            value, trace = f"raises {kind_of_error(error)}", traceback.format_exc()
    messages = tuple(str(w.message) for w in caught if any(text in str(w.message) for text in _INTERNAL))
    return Answer(value, messages, int(fpga_dynamo.stats()["pl_launches"] - before), trace)


@contextlib.contextmanager
def _modes_kept(kind: str) -> Iterator[None]:
    """Gradients are on, also where Dynamo failed inside an earlier program and left its inference mode on.

    A trace of nested vmap and grad leaves cycles with a guard of dispatch keys, which sets those of its time when it
    is collected: under aot_eager the next such program fails. So it is collected here, and the keys are set back.
    """
    with torch._C._PreserveDispatchKeyGuard(), torch.inference_mode(False), torch.enable_grad():
        try:
            yield
        finally:
            if kind == "torch.func":
                gc.collect()


def _settled(leaf: Any) -> Any:
    """Tensors by their values at this moment, with their strides; nested ones by their parts."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.is_nested:
        return [part.detach().clone() for part in leaf.unbind()]
    plain = leaf.detach().as_subclass(torch.Tensor) if isinstance(leaf, torch.nn.Parameter) else leaf.detach()
    return plain.clone()


def reference(report: Report) -> tuple[Answer, Any]:
    """Eager mode's answer, and that in float64 if there is one."""
    eager = run(report, Trial("eager"))
    if not report.exact or eager.refused:
        return eager, eager.value
    exact = run(report, Trial("eager", wide=True))
    return eager, eager.value if exact.refused else exact.value


def compare(answer: Answer, eager: Answer, exact: Any) -> Outcome:
    """The outcome of a compiled run beside those of eager mode in float32 and in float64."""
    if answer.internal_errors:
        why = answer.internal_errors[0].split(" reproduces this")[0].rsplit(". ", 1)[0]  # without the file's path
        return Outcome(f"internal error, right from eager mode: {_short(why)}", answer.launches)
    if answer.refused or eager.refused:
        same = answer.value == eager.value or (eager.refused and _refused_alike(answer.value, eager.value))
        text = RIGHT if same else str(answer.value) if answer.refused else "no error"
        return Outcome(text, answer.launches, answer.trace)
    try:
        assert_close_to_eager(answer.value, eager.value, exact)
    except Mismatch as error:
        return Outcome(f"other: {_short(str(error))}", answer.launches)
    except ValueError:  # float64 takes another path, as a program with a bound on memory may
        try:
            assert_close_to_eager(answer.value, eager.value, eager.value)
        except Mismatch as error:
            return Outcome(f"other: {_short(str(error))}", answer.launches)
    return Outcome(RIGHT, answer.launches)


def _refused_alike(mine: Any, theirs: str) -> bool:
    """What tracing refuses Dynamo raises as a RuntimeError of its own, TorchRuntimeError."""
    return mine == "raises TorchRuntimeError" and theirs in ("raises RuntimeError", "raises IndexError")


def _short(message: str, limit: int = 110) -> str:
    line = " ".join(message.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def outcomes(report: Report) -> Iterator[tuple[str, Outcome]]:
    """The backends and what the program does under them, one after the other."""
    eager, exact = reference(report)
    yield "eager", Outcome(str(eager.value) if eager.refused else "values")
    for backend in BACKENDS[1:]:
        yield backend, compare(run(report, Trial(backend)), eager, exact)


def acceptable(control: Outcome, ours: Outcome) -> bool:
    """Whether fpga does what eager mode does, or at least what aot_eager, which has no compiler of its own, does."""
    return ours.right or (not control.right and _without_numbers(ours.text) == _without_numbers(control.text))


def _without_numbers(text: str) -> str:
    """The last digits of two wrong results of one kind may differ."""
    return re.sub(r"-?\d[\d.e+-]*", "#", text)
