"""The door to Dynamo's conversion of frames: what is traced for this backend, and what Dynamo leaves to eager and why.

A backend is called with graphs. That a frame was skipped, or that a graph ends where Python goes on in eager, it is not
told; neither can it say how its frames are to be traced: `torch.compile` does not pass on a backend's
`backend_ctx_ctor`, and Dynamo's settings are those of the thread. So :func:`install` puts two functions in the place of
two of Dynamo's by which it makes what converts frames. For other backends they return what Dynamo's return; for
this one a converter that

- traces recurrent layers where no gradients are recorded (`allow_rnn`, for the time of one conversion in one thread);
- notes each :class:`Gap`, a frame or a place in one that is left to eager, with Dynamo's reason;
- under `strict` has what runs in the gaps watched (:mod:`fpga_dynamo.frontend.outside`).

All this is private to PyTorch. Where a version has not what is needed, nothing is installed: recurrent layers stay in
eager and gaps have no reasons.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch._dynamo import convert_frame, eval_frame, external_utils
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.utils import counters, graph_break_reasons

from fpga_dynamo.lowering.names import Subject, compiling

log = logging.getLogger(__name__)

GRADIENTS = (
    "a recurrent layer where gradients are recorded: eager's own is faster there; under torch.no_grad() it is traced"
)


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
    """Has what `code` computes be in `gap`: for a graph that the backend leaves to eager."""
    _skipped[code] = gap


def gap_at(frame: Any) -> Gap | None:
    """The known gap in which a frame runs: its code is skipped, or a graph ends at the line where it is."""
    code = frame.f_code
    if (module := _module_alone(frame)) is not None:
        return _skipped_modules.get(module)
    gap = _skipped.get(code) or _broken.get((code.co_filename, frame.f_lineno))
    if gap is None and (resumed := _RESUMED.fullmatch(code.co_name)):  # after a break that Dynamo does not resume from
        gap = _broken.get((code.co_filename, int(resumed[1])))
    return gap


_RESUMED = re.compile(r"torch_dynamo_resume_in_.*_at_(\d+)")


def recurrence() -> Recurrence | None:
    """Of the frame in conversion; None where it is not by :func:`install` that its recurrent layers are traced.

    A backend that wants the frame without them sets `left` and raises whatever it likes.
    """
    return _recurrence.get()


def is_pytorch(file: str) -> bool:
    """Whether a source file is PyTorch's."""
    return file.startswith(_PYTORCH)


_PYTORCH = os.path.dirname(torch.__file__) + os.sep


class Watch:
    """What a strict region has around each call; see :class:`fpga_dynamo.frontend.outside.StrictWatch`.

    whole: calls need not be watched; :meth:`found_gap` may end that within one.
    """

    whole: bool

    def enter(self) -> Callable[[], None]:
        """Called before a call that is to be watched; returns what is called after it."""
        raise NotImplementedError

    def leave(self) -> None:
        """Called after a call within which it has come about that it is to be watched."""
        raise NotImplementedError

    def found_gap(self) -> None:
        """Called within a call, as a gap is found."""
        raise NotImplementedError


def install(backend: Callable[..., Any], check: Callable[..., object], watch: Callable[[], Watch]) -> None:
    """Has frames that are compiled for `backend` converted as told above.

    check: raises for options or a mode that `backend` would refuse, were it called; watch: makes what strict regions
    have.
    """
    try:
        make, optimize = convert_frame.catch_errors_wrapper, eval_frame._optimize_catch_errors
        torch._dynamo.config.allow_rnn, convert_frame.compile_lock  # noqa: B018
    except AttributeError as missing:
        log.info("recurrent layers and skipped frames are as this PyTorch has them: %s", missing)
        return
    if getattr(make, "is_fpga_dynamo", False):
        return

    @functools.wraps(make)
    def catch_errors_wrapper(callback: Any, hooks: Any) -> Any:
        arguments = _arguments_for(backend, callback)
        if arguments is None:
            return make(callback, hooks)
        options = arguments.get("options")
        strict = isinstance(options, Mapping) and options.get("strict") is True
        checked = functools.partial(_refuse_as_dynamo, backend, check, arguments)
        return Converter(callback, hooks, checked, watch() if strict else None)

    @functools.wraps(optimize)
    def optimize_catch_errors(*args: Any, **kwargs: Any) -> Any:
        context = optimize(*args, **kwargs)
        converter = context.callback
        if isinstance(converter, Converter) and converter.watch is not None:
            context.__class__ = _StrictContext
        return context

    catch_errors_wrapper.is_fpga_dynamo = True  # type: ignore[attr-defined]
    convert_frame.catch_errors_wrapper = catch_errors_wrapper
    eval_frame._optimize_catch_errors = optimize_catch_errors


def _arguments_for(backend: Callable[..., Any], callback: Any) -> Mapping[str, Any] | None:
    """What `backend` is going to be called with besides graphs; None if it is another backend that is."""
    found: Any = eval_frame.innermost_backend(callback)
    arguments: dict[str, Any] = {}
    while found is not backend:
        if isinstance(found, functools.partial):
            arguments = {**found.keywords, **arguments}
            found = found.func
        elif hasattr(found, "compiler_fn"):  # what torch.compile makes of a backend
            arguments = {**found.kwargs, **arguments}
            found = found.compiler_fn
        elif hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        else:
            return None
    return arguments


def _refuse_as_dynamo(backend: Callable[..., Any], check: Callable[..., object], arguments: Mapping[str, Any]) -> None:
    """Raises what `check` does as if it were `backend`, called by Dynamo."""
    try:
        check(**arguments)
    except Exception as error:
        raise BackendCompilerFailed(backend, error, None) from None


class _StrictContext(eval_frame.OptimizeContext):
    """What torch.compile applies to a function, with a :class:`Watch` around each call.

    Around all that PyTorch does for a call: a mode that came and went within it would leave its dispatch key behind.
    """

    def __call__(self, fn: Any) -> Any:
        compiled = super().__call__(fn)
        if isinstance(compiled, (torch.nn.Module, type)):
            return compiled  # whose methods come here by themselves
        watch: Watch = self.callback.watch  # type: ignore[union-attr]

        @functools.wraps(compiled)
        def call(*args: Any, **kwargs: Any) -> Any:
            if watch.whole:  # the usual case takes as little time as can be
                try:
                    return compiled(*args, **kwargs)
                finally:
                    if not watch.whole:
                        watch.leave()
            leave = watch.enter()
            try:
                return compiled(*args, **kwargs)
            finally:
                leave()

        call._torchdynamo_wrapper_id = id(call)  # type: ignore[attr-defined]  # or Dynamo would not look beneath it
        return call


class Converter(convert_frame.CatchErrorsWrapper):
    """Dynamo's outermost converter of frames, with an eye on what becomes of each.

    check: raises if the backend would refuse what it is to be called with; for frames in which it never is.
    """

    def __init__(self, callback: Any, hooks: Any, check: Callable[[], None], watch: Watch | None = None) -> None:
        super().__init__(callback, hooks)
        self.check = check
        self.watch = watch
        inner = getattr(callback, "_inner_convert", None)
        self._caught = inner if isinstance(inner, _Caught) else _Caught(inner)
        if inner is not None:
            callback._inner_convert = self._caught
        self._graphs: weakref.WeakKeyDictionary[CodeType, int] = weakref.WeakKeyDictionary()
        self._left: weakref.WeakKeyDictionary[torch.nn.Module, dict[Any, Gap]] = weakref.WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a compiled module has one that has seen nothing yet."""
        return Converter, (self._torchdynamo_orig_backend, self.hooks, self.check, self.watch)

    def __call__(self, frame: Any, cache_entry: Any, frame_state: Any) -> Any:
        module = _module_alone(frame)
        call = None if module is None else _signature(frame)
        if module is not None and (left := self._left.get(module, {}).get(call)) is not None:
            _skipped_modules[module] = left
            return convert_frame.ConvertFrameReturn(apply_to_code=False, skip_reason=left.reason)
        with convert_frame.compile_lock, compiling(_subject_of(frame, module)):  # Dynamo's lists are the process's
            breaks, unimplemented = len(graph_break_reasons), Counter(counters["unimplemented"])
            result, recurrence = self._converted(frame, cache_entry, frame_state)
            unimplemented = counters["unimplemented"] - unimplemented
            breaks_here = graph_break_reasons[breaks:]

        def gap(kind: str, message: str, stack: Any) -> Gap:
            if message == "step_unsupported" and unimplemented:  # the rest of the function; why is told elsewhere
                message = list(unimplemented)[-1]
            if recurrence and "wrap RNN" in message:
                message = recurrence
            return Gap(kind, _in_a_line(message), *_place(stack, frame, module))

        gaps = [gap("graph break", r.reason, r.user_stack) for r in breaks_here]
        for found in gaps:
            _broken[found.file, found.line] = found
            if module is not None:
                _skipped_modules[module] = found
        if result.guarded_code is None and (why := self._caught.take() or _why_skipped(result, module)):
            self.check()
            gaps.append(gap("skipped frame", str(getattr(why, "msg", why)), getattr(why, "real_stack", None)))
            if module is None:
                _skipped[frame.f_code] = gaps[-1]
            else:  # called from code that all such calls share, which is not to be skipped for all of them
                _skipped_modules[module] = self._left.setdefault(module, {})[call] = gaps[-1]
                result.apply_to_code = False
        if gaps and (observer := _observer.get()) is not None:
            observer.extend(gaps)
        if gaps and self.watch is not None:
            self.watch.found_gap()
        return result

    def _converted(self, frame: Any, cache_entry: Any, frame_state: Any) -> tuple[Any, str]:
        """What Dynamo makes of a frame, and why its recurrent layers stay in eager, if that is for a reason of ours."""
        self._caught.take()
        if torch._dynamo.config.allow_rnn:  # the user's own wish
            return super().__call__(frame, cache_entry, frame_state), ""
        if torch.is_grad_enabled():
            return super().__call__(frame, cache_entry, frame_state), GRADIENTS
        recurrence = Recurrence(self._graphs.get(frame.f_code, 0))
        token = _recurrence.set(recurrence)
        try:
            with torch._dynamo.config.patch(allow_rnn=True):
                result = super().__call__(frame, cache_entry, frame_state)
        except BackendCompilerFailed:
            if not recurrence.left:
                raise
        finally:
            _recurrence.reset(token)
        self._graphs[frame.f_code] = recurrence.graphs
        if not recurrence.left:
            return result, ""
        self._caught.take()
        return super().__call__(frame, cache_entry, frame_state), recurrence.left


class _Caught:
    """The part of Dynamo's converter whose errors the rest catches and keeps to itself; has each thread's last."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._thread = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Caught, (self.inner,)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.inner(*args, **kwargs)
        except Exception as error:
            self._thread.error = error
            raise

    def take(self) -> Exception | None:
        """What this thread has caught since it was last asked."""
        error = getattr(self._thread, "error", None)
        self._thread.error = None
        return error


def _why_skipped(result: Any, module: Any) -> str:
    """Why a frame is skipped without an error; "" if it is one of PyTorch's own, or one that has nothing to trace."""
    reason = result.skip_reason or ""
    return reason if module is not None or ("while tracing" in reason and "No ops traced" not in reason) else ""


def _module_alone(frame: Any) -> Any:
    """The module of PyTorch's own that is compiled by itself, if `frame` is the one that Dynamo puts around it."""
    if frame.f_code.co_filename != external_utils.__file__:
        return None
    called = frame.f_locals.get("fn")
    owner = getattr(called, "__self__", called)
    return owner if isinstance(owner, torch.nn.Module) else None


def _subject_of(frame: Any, module: Any) -> Subject:
    """Whose graphs come of a frame."""
    first = frame.f_code.co_varnames[:1] if frame.f_code.co_argcount else ()
    owner = module or next((frame.f_locals.get(name) for name in first), None)
    if isinstance(owner, torch.nn.Module):
        return Subject(weakref.ref(owner), type(owner).__name__)
    return Subject(weakref.ref(frame.f_code), frame.f_code.co_name)


def _signature(frame: Any) -> tuple[Any, ...]:
    """What it may hang on whether Dynamo takes a call of a module."""
    given = (*frame.f_locals.get("args", ()), *frame.f_locals.get("kwargs", {}).values())
    return torch.is_grad_enabled(), *(x.shape if isinstance(x, torch.Tensor) else type(x) for x in given)


def _in_a_line(message: str) -> str:
    """Dynamo's reason and its explanation, without hints and links."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    told = [line.removeprefix("Explanation: ") for line in lines[1:] if line.startswith("Explanation: ")]
    return ": ".join([*lines[:1], *told[:1]]).rstrip(".")


def _place(stack: Any, frame: Any, module: Any) -> tuple[str, int, str]:
    """File, line and function of the innermost frame of the user's; else what it was that was compiled."""
    mine = [at for at in stack or () if not is_pytorch(at.filename)]
    if mine:
        return mine[-1].filename, mine[-1].lineno or 0, mine[-1].name
    if module is not None:
        return "", 0, type(module).__name__
    return frame.f_code.co_filename, frame.f_code.co_firstlineno, frame.f_code.co_name
