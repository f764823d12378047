"""Dynamo's conversion of frames: which code stays in eager mode and why, and how frames for one backend are traced.

A backend is called with graphs. Dynamo does not tell it about skipped frames and graph breaks, and the backend cannot
choose how its frames are traced: `torch.compile` does not pass on a backend's `backend_ctx_ctor`, and Dynamo's
settings belong to the thread. PyTorch has no public hook for this. So this file is the one exception to the rule that
nothing is replaced at run time: :func:`install` replaces the two functions of Dynamo that make its frame converters.
For other backends they return what Dynamo's return; for this one a converter that reports each frame to an
:class:`Observer`.

`torch.compile` itself calls both functions before it first calls a backend. So the backend's module installs them when
it is imported, not in its first call.

In a version of PyTorch that lacks what is needed (:func:`differences`), nothing is replaced: recurrent layers run in
eager mode, and fallbacks outside of graphs have no reasons.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass
from types import CodeType
from typing import Any

import torch
from torch._dynamo import convert_frame, eval_frame, external_utils
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.utils import counters, graph_break_reasons
from torch._dynamo.variables.builder import VariableBuilder

from fpga_dynamo.torch_internals.signatures import wrong_parameters

__all__ = ["BackendCompilerFailed"]

REGION = getattr(eval_frame, "__file__", "")
"""The file with the function `compile_wrapper`, which runs whatever is compiled."""

AOT_FILES = os.path.join(os.path.dirname(torch.__file__), "_functorch", "_aot_autograd") + os.sep
"""The folder with what AOTAutograd does at run time."""

_RECURRENT = "RNN, GRU, or LSTM"
"""Part of Dynamo's message where it does not unroll a recurrent layer, in each supported version."""

_PYTORCH = os.path.dirname(torch.__file__) + os.sep

_CatchErrors: Any = getattr(convert_frame, "CatchErrorsWrapper", object)
_Context: Any = getattr(eval_frame, "OptimizeContext", object)


def is_pytorch(file: str) -> bool:
    """Whether a source file is PyTorch's."""
    return file.startswith(_PYTORCH)


def module_alone(frame: Any) -> torch.nn.Module | None:
    """The module of PyTorch's own that is compiled by itself, if `frame` is the one that Dynamo puts around it."""
    if frame.f_code.co_filename != external_utils.__file__:
        return None
    called = frame.f_locals.get("fn")
    owner = getattr(called, "__self__", called)
    return owner if isinstance(owner, torch.nn.Module) else None


@dataclass(frozen=True)
class Place:
    """File, line and function of the user's code; file is "" and line 0 for an unknown place."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Reason:
    """Why Dynamo leaves something to eager: a message of several lines, where, and if it is for recurrent layers."""

    message: str
    place: Place
    recurrent: bool


@dataclass(frozen=True)
class Conversion:
    """What became of a frame: why its graphs end early, and if it is skipped, why."""

    breaks: tuple[Reason, ...]
    skipped: Reason | None


class Watch:
    """What a region has around each of its calls.

    whole: calls need not be watched; an :class:`Observer` may end that within one.
    """

    whole: bool

    def enter(self) -> Callable[[], None]:
        """Called before a call that is to be watched; returns what is called after it."""
        raise NotImplementedError

    def leave(self) -> None:
        """Called after a call within which it has come about that it is to be watched."""
        raise NotImplementedError


class Observer:
    """What is told of each frame that Dynamo converts for a backend, of one call of ``torch.compile``.

    A frame is Python's own object. watch: what its region has around each call, None for nothing. A copy of a compiled
    module has a copy of it.
    """

    watch: Watch | None = None

    def skip(self, frame: Any) -> str | None:
        """Why this call of the frame's code is to run in eager without a conversion; None if it is not."""
        raise NotImplementedError

    def convert(self, frame: Any, run: Callable[[bool], Any]) -> Any:
        """Returns what `run` does, called at least once, in one thread at a time.

        `run` has Dynamo convert the frame, with recurrent layers unrolled or not; where the backend raises it raises
        :class:`BackendCompilerFailed`.
        """
        raise NotImplementedError

    def converted(self, frame: Any, conversion: Conversion) -> bool:
        """Called after that. Returns whether a skipped frame is to be skipped for this call only, not for its code."""
        raise NotImplementedError


def recurrent_layers_wanted() -> bool:
    """Whether the user has Dynamo unroll recurrent layers anyway."""
    return bool(torch._dynamo.config.allow_rnn)


def unrolling_recurrent_layers() -> AbstractContextManager[Any]:
    """While it lasts, Dynamo unrolls recurrent layers."""
    context: AbstractContextManager[Any] = torch._dynamo.config.patch(allow_rnn=True)
    return context


def differences() -> Iterator[str]:
    """What of this PyTorch is not as :func:`install` needs it."""
    needed = {
        "torch._dynamo.convert_frame.CatchErrorsWrapper": (_CatchErrors, ("callback", "hooks")),
        "torch._dynamo.convert_frame.catch_errors_wrapper": (
            getattr(convert_frame, "catch_errors_wrapper", None),
            ("callback", "hooks"),
        ),
        "torch._dynamo.convert_frame.CatchErrorsWrapper.__call__": (
            _CatchErrors.__call__,
            ("self", "frame", "cache_entry", "frame_state"),
        ),
        "torch._dynamo.exc.BackendCompilerFailed": (
            BackendCompilerFailed,
            ("backend_fn", "inner_exception", "first_useful_frame"),
        ),
        "torch._dynamo.eval_frame.innermost_backend": (getattr(eval_frame, "innermost_backend", None), ("fn",)),
        "torch._dynamo.eval_frame.OptimizeContext.__call__": (_Context.__call__, ("self", "fn")),
    }
    for name, (function, parameters) in needed.items():
        yield from wrong_parameters(name, function, parameters)
    found = getattr(convert_frame, "ConvertFrameReturn", None)
    known = {field.name for field in fields(found)} if is_dataclass(found) else set()
    for field in ("apply_to_code", "guarded_code", "skip_reason"):
        if field not in known:
            yield f"torch._dynamo.types.ConvertFrameReturn has no field {field}"
    for owner, name in (
        (convert_frame, "compile_lock"),
        (eval_frame, "_optimize_catch_errors"),
        (torch._dynamo.config, "allow_rnn"),
    ):
        if not hasattr(owner, name):
            yield f"{owner.__name__} has no {name}"


def wording_differences() -> Iterator[str]:
    """In which messages of Dynamo's the words are not found by which :class:`Reason` tells them apart."""
    code = getattr(getattr(VariableBuilder, "wrap_module", None), "__code__", None)
    texts = () if code is None else code.co_consts
    if not any(isinstance(text, str) and _RECURRENT in text for text in texts):
        yield f"Dynamo's VariableBuilder.wrap_module has no message with {_RECURRENT!r}"


def install(
    backend: Callable[..., Any], check: Callable[..., object], observer: Callable[[Mapping[str, Any]], Observer]
) -> None:
    """Has frames that are compiled for `backend` shown to what `observer` makes of its arguments. Does so only once.

    arguments: what `backend` is going to be called with besides graphs. check: raises for those that it would refuse;
    called with them where a frame is skipped, because the backend never is.
    """
    if list(differences()) or getattr(convert_frame.catch_errors_wrapper, "is_fpga_dynamo", False):
        return
    make, optimize = convert_frame.catch_errors_wrapper, eval_frame._optimize_catch_errors

    @functools.wraps(make)
    def catch_errors_wrapper(callback: Any, hooks: Any) -> Any:
        arguments = _arguments_for(backend, callback)
        if arguments is None:
            return make(callback, hooks)
        checked = functools.partial(_refuse_as_dynamo, backend, check, arguments)
        return _Converter(callback, hooks, checked, observer(arguments))

    @functools.wraps(optimize)
    def optimize_catch_errors(*args: Any, **kwargs: Any) -> Any:
        context = optimize(*args, **kwargs)
        converter = context.callback
        if isinstance(converter, _Converter) and converter.observer.watch is not None:
            context.__class__ = _WatchedContext
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


class _WatchedContext(_Context):
    """What torch.compile applies to a function, with a :class:`Watch` around each call.

    Around all that PyTorch does for a call: a mode that came and went within it would leave its dispatch key behind.
    """

    def __call__(self, fn: Any) -> Any:
        compiled = super().__call__(fn)
        if isinstance(compiled, (torch.nn.Module, type)):
            return compiled  # whose methods come here by themselves
        watch: Watch = self.callback.observer.watch

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


class _Converter(_CatchErrors):
    """Dynamo's outermost converter of frames, which tells an observer what becomes of each.

    check: raises if the backend would refuse what it is to be called with; for frames in which it never is.
    """

    def __init__(self, callback: Any, hooks: Any, check: Callable[[], None], observer: Observer) -> None:
        super().__init__(callback, hooks)
        self.check = check
        self.observer = observer
        inner = getattr(callback, "_inner_convert", None)
        self._caught = inner if isinstance(inner, _Caught) else _Caught(inner)
        if inner is not None:
            callback._inner_convert = self._caught

    def __reduce__(self) -> tuple[Any, ...]:
        return _Converter, (self._torchdynamo_orig_backend, self.hooks, self.check, self.observer)

    def __call__(self, frame: Any, cache_entry: Any, frame_state: Any) -> Any:
        if (why := self.observer.skip(frame)) is not None:
            return convert_frame.ConvertFrameReturn(apply_to_code=False, skip_reason=why)
        convert = super().__call__

        def run(recurrent: bool) -> Any:
            self._caught.take()
            if not recurrent:
                return convert(frame, cache_entry, frame_state)
            with unrolling_recurrent_layers():
                return convert(frame, cache_entry, frame_state)

        with convert_frame.compile_lock:  # Dynamo's lists are the process's
            breaks, unimplemented = len(graph_break_reasons), Counter(counters["unimplemented"])
            result = self.observer.convert(frame, run)
            unimplemented = counters["unimplemented"] - unimplemented
            return self._tell_observer(frame, result, graph_break_reasons[breaks:], unimplemented)

    def _tell_observer(self, frame: Any, result: Any, breaks: Sequence[Any], unimplemented: Counter[str]) -> Any:
        """Tells the observer what has become of a frame; returns Dynamo's result."""

        def reason(message: str, stack: Any) -> Reason:
            # Of a break Dynamo keeps the text only, without the type of break that the error has. Both texts are a
            # type's name, not a sentence: the first means that the rest of the function runs in eager; why is counted.
            if message == "step_unsupported" and unimplemented:
                message = list(unimplemented)[-1]
            return Reason(message, _place(stack, frame), _RECURRENT in message)

        skipped = None
        if result.guarded_code is None and (error := self._caught.take() or _why_skipped(result, frame)):
            self.check()
            skipped = reason(str(getattr(error, "msg", error)), getattr(error, "real_stack", None))
        conversion = Conversion(tuple(reason(found.reason, found.user_stack) for found in breaks), skipped)
        if self.observer.converted(frame, conversion) and skipped is not None:
            result.apply_to_code = False
        return result


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


def _why_skipped(result: Any, frame: Any) -> str:
    """Why a frame is skipped without an error; "" if it is one of PyTorch's own, or one that has nothing to trace.

    Dynamo tells those apart by the text of its reason only.
    """
    reason = result.skip_reason or ""
    traced = "while tracing" in reason and "No ops traced" not in reason
    return reason if traced or module_alone(frame) is not None else ""


def _place(stack: Any, frame: Any) -> Place:
    """The innermost frame of the user's; else what it was that was compiled."""
    mine = [at for at in stack or () if not is_pytorch(at.filename)]
    if mine:
        return Place(mine[-1].filename, mine[-1].lineno or 0, mine[-1].name)
    if (module := module_alone(frame)) is not None:
        return Place("", 0, type(module).__name__)
    code: CodeType = frame.f_code
    return Place(code.co_filename, code.co_firstlineno, code.co_name)
