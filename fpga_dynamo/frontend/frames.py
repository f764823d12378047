"""Which code Dynamo keeps out of the graphs for this backend and why, and when recurrent layers are traced.

For each call of ``torch.compile`` with this backend a :class:`Frames` looks at the frames that Dynamo converts:

- it has recurrent layers traced where no gradients are recorded;
- it records each :class:`Gap`, a frame or a place in one that runs in eager mode, with Dynamo's reason;
- under `strict` it has what runs in the gaps watched (:mod:`fpga_dynamo.frontend.eager_ops`).

How Dynamo is made to show them: :mod:`fpga_dynamo.torch_internals.frames`.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch

from fpga_dynamo.lowering.names import Subject, compiling
from fpga_dynamo.torch_internals.dynamo import forward_ad_active
from fpga_dynamo.torch_internals.frames import (
    BackendCompilerFailed,
    Conversion,
    Observer,
    Reason,
    Watch,
    module_alone,
    recurrent_layers_wanted,
)

GRADIENTS = "a recurrent layer with gradients enabled: eager mode is faster; under torch.no_grad() it is compiled"


@dataclass(frozen=True)
class Gap:
    """A frame that Dynamo skips ("skipped frame") or a place where its graph ends early ("graph break").

    reason: Dynamo's, in a line; file, line, function: where.
    """

    kind: str
    reason: str
    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """``file.py:12 in forward``; of a module of PyTorch's that has been compiled by itself, its type."""
        return f"{os.path.basename(self.file)}:{self.line} in {self.function}" if self.file else self.function


@dataclass
class Recurrence:
    """What the converter of a frame and the backend tell each other of the frame's recurrent layers.

    graphs: in how many graphs of this code they have been unrolled; left: why they are to stay in eager.
    """

    graphs: int
    left: str = ""


_skipped: weakref.WeakKeyDictionary[CodeType, Gap] = weakref.WeakKeyDictionary()
_skipped_modules: weakref.WeakKeyDictionary[torch.nn.Module, Gap] = weakref.WeakKeyDictionary()
_broken: dict[tuple[str, int], Gap] = {}
_observer: ContextVar[list[Gap] | None] = ContextVar("fpga_dynamo_gaps", default=None)
_recurrence: ContextVar[Recurrence | None] = ContextVar("fpga_dynamo_recurrence", default=None)


@contextmanager
def observe_gaps() -> Iterator[list[Gap]]:
    """Yields a list that receives the gaps of all frames that this thread converts in this context."""
    gaps: list[Gap] = []
    token = _observer.set(gaps)
    try:
        yield gaps
    finally:
        _observer.reset(token)


def note_gap(code: CodeType, gap: Gap) -> None:
    """Records that the operators of `code` belong to `gap`: for a graph that falls back to eager mode."""
    _skipped[code] = gap


def gap_at(frame: Any) -> Gap | None:
    """The known gap in which a frame runs: its code is skipped, or a graph ends at the line where it is."""
    code = frame.f_code
    if (module := module_alone(frame)) is not None:
        return _skipped_modules.get(module)
    gap = _skipped.get(code) or _broken.get((code.co_filename, frame.f_lineno))
    if gap is None and (resumed := _RESUMED.fullmatch(code.co_name)):  # after a break that Dynamo does not resume from
        gap = _broken.get((code.co_filename, int(resumed[1])))
    return gap


_RESUMED = re.compile(r"torch_dynamo_resume_in_.*_at_(\d+)")


def recurrence() -> Recurrence | None:
    """Of the frame in conversion; None where it is not by :class:`Frames` that its recurrent layers are traced.

    A backend that wants the frame without them sets `left` and raises whatever it likes.
    """
    return _recurrence.get()


class GapWatch(Watch):
    """A :class:`Watch` that is told of gaps."""

    def found_gap(self) -> None:
        """Called within a call, as a gap is found."""
        raise NotImplementedError


class Frames(Observer):
    """Keeps account of the frames of one call of ``torch.compile``."""

    watch: GapWatch | None

    def __init__(self, watch: GapWatch | None = None) -> None:
        self.watch = watch
        self._graphs: weakref.WeakKeyDictionary[CodeType, int] = weakref.WeakKeyDictionary()
        self._left: weakref.WeakKeyDictionary[torch.nn.Module | CodeType, dict[Any, Gap]] = weakref.WeakKeyDictionary()
        self._recurrent_reason = ""

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has seen nothing yet."""
        return Frames, (self.watch,)

    def skip(self, frame: Any) -> str | None:
        code, signature = _call_of(frame)
        left = self._left.get(code, {}).get(signature)
        if left is None:
            return None
        _note_skipped(frame, left)
        return left.reason

    def convert(self, frame: Any, run: Callable[[bool], Any]) -> Any:
        with compiling(_subject_of(frame)):
            result, self._recurrent_reason = self._converted(frame.f_code, run)
        return result

    def _converted(self, code: CodeType, run: Callable[[bool], Any]) -> tuple[Any, str]:
        """What Dynamo makes of a frame, and why its recurrent layers stay in eager, if that is for a reason of ours."""
        if recurrent_layers_wanted():
            return run(False), ""
        if torch.is_grad_enabled():
            return run(False), GRADIENTS
        recurrence = Recurrence(self._graphs.get(code, 0))
        token = _recurrence.set(recurrence)
        try:
            result = run(True)
        except BackendCompilerFailed:
            if not recurrence.left:
                raise
        finally:
            _recurrence.reset(token)
        self._graphs[code] = recurrence.graphs
        return (run(False), recurrence.left) if recurrence.left else (result, "")

    def converted(self, frame: Any, conversion: Conversion) -> bool:
        module = module_alone(frame)
        # The code around a module that is compiled by itself is shared by all such modules. Dynamo refuses dual tensors
        # (PyTorch 2.14), and a later call of the code may have none.
        for_this_call = module is not None or forward_ad_active()
        gaps = [self._gap("graph break", reason) for reason in conversion.breaks]
        for found in gaps:
            _broken[found.file, found.line] = found
            if module is not None:
                _skipped_modules[module] = found
        if conversion.skipped is not None:
            gaps.append(self._gap("skipped frame", conversion.skipped))
            _note_skipped(frame, gaps[-1])
            if for_this_call:
                code, signature = _call_of(frame)
                self._left.setdefault(code, {})[signature] = gaps[-1]
        if gaps and (observer := _observer.get()) is not None:
            observer.extend(gaps)
        if gaps and self.watch is not None:
            self.watch.found_gap()
        return for_this_call

    def _gap(self, kind: str, reason: Reason) -> Gap:
        message = self._recurrent_reason if reason.recurrent and self._recurrent_reason else reason.message
        return Gap(kind, _in_a_line(message), reason.place.file, reason.place.line, reason.place.function)


def _note_skipped(frame: Any, gap: Gap) -> None:
    """Has what a frame computes be in `gap`."""
    if (module := module_alone(frame)) is not None:
        _skipped_modules[module] = gap
    else:
        _skipped[frame.f_code] = gap


def _subject_of(frame: Any) -> Subject:
    """Whose graphs come of a frame."""
    first = frame.f_code.co_varnames[:1] if frame.f_code.co_argcount else ()
    owner = module_alone(frame) or next((frame.f_locals.get(name) for name in first), None)
    if isinstance(owner, torch.nn.Module):
        return Subject(weakref.ref(owner), type(owner).__name__)
    return Subject(weakref.ref(frame.f_code), frame.f_code.co_name)


def _call_of(frame: Any) -> tuple[torch.nn.Module | CodeType, tuple[Any, ...]]:
    """What runs in a frame, and what it may depend on whether Dynamo accepts this call."""
    state = (torch.is_grad_enabled(), forward_ad_active())
    if (module := module_alone(frame)) is None:
        return frame.f_code, state
    given = (*frame.f_locals.get("args", ()), *frame.f_locals.get("kwargs", {}).values())
    return module, (*state, *(x.shape if isinstance(x, torch.Tensor) else type(x) for x in given))


def _in_a_line(message: str) -> str:
    """Dynamo's reason and its explanation, without hints and links."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    told = [line.removeprefix("Explanation: ") for line in lines[1:] if line.startswith("Explanation: ")]
    return ": ".join([*lines[:1], *told[:1]]).rstrip(".")
