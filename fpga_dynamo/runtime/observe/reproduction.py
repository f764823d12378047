"""What happens after an internal error: the graph runs in eager, and a file that reproduces the error is saved.

:func:`or_else` is the one place at which that is decided; whatever compiles a graph, packs its weights or binds it to
sizes goes through it. The file is a Python script with the graph as readable FX code, its inputs without their values,
options, versions and the traceback; run by itself it compiles the graph with nothing to fall back on.

Tests want no fallback: :func:`count` raises the error there. Each error is counted, raised or not.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import tempfile
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.fx import GraphModule

from fpga_dynamo.errors import FpgaError, InternalError
from fpga_dynamo.ir.dtypes import OutOfRangeError
from fpga_dynamo.ir.graph import hints
from fpga_dynamo.ir.sizes.graph import SOURCE
from fpga_dynamo.ir.weights import NotExactError, NotFiniteError
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.observe import counters
from fpga_dynamo.runtime.observe.graph_source import class_source, header
from fpga_dynamo.torch_internals.dynamo import DYNAMO_ERRORS
from xclbin_build import atomic_file
from xclbin_build.cache import folder

log = logging.getLogger(__name__)

T = TypeVar("T")

_EXPECTED = (
    *DYNAMO_ERRORS,
    IndexError,  # what eager raises for a dimension that a tensor has not; Dynamo hands it on
    OutOfRangeError,  # data that the card does not take
    NotFiniteError,
    NotExactError,
)

_raising: set[object] = set()
"""One for each block of :func:`raising` that has not ended. Threads of the scheduler see it too."""


@dataclass(frozen=True)
class Case:
    """What is being compiled: one of Dynamo's graphs, or one that AOTAutograd has made of it.

    inputs: tensors (fake ones will do) and numbers; None are those that the graph was traced with.
    static: positions of parameters and buffers; saved: of a training step's graph, which outputs its backward is given.
    """

    module: GraphModule
    options: Options
    inputs: Sequence[Any] | None = None
    static: Collection[int] = ()
    saved: slice | None = None
    from_dynamo: bool = False

    def called_with(self, args: Sequence[Any]) -> Case:
        return replace(self, inputs=args)


def or_else(make: Callable[[], T], instead: Callable[[str], T], case: Case) -> T:
    """What `make` returns; after an internal error what `instead` makes of the reason, with a warning.

    Errors that name a user's mistake pass, those by which Dynamo breaks a graph do, and all do under ``strict=True``
    and where :func:`count` raises it.
    """
    try:
        return make()
    except Exception as error:
        if not is_internal(error):
            raise
        count(error)
        if case.options.strict:
            raise
        return instead(report(error, case))


def count(error: Exception) -> None:
    """Counts an internal error that the caller has a fallback for; raises it within :func:`raising`, and where the
    environment says so."""
    counters.add(internal_errors=1)
    if _raising or os.environ.get("FPGA_DYNAMO_INTERNAL_ERRORS") == "raise":
        raise error


def is_internal(error: Exception) -> bool:
    """Whether it is the compiler that is to blame for `error`, not who uses it."""
    if isinstance(error, FpgaError):
        return isinstance(error, InternalError)
    return not isinstance(error, _EXPECTED)


def report(error: Exception, case: Case) -> str:
    """Saves the reproduction of an internal error and warns of it; returns the reason why the graph is eager mode's."""
    lines = str(error).strip().splitlines()
    why = f"compiling it failed with {type(error).__name__}: {lines[0] if lines else ''}"
    try:
        where = f"{save(error, case)} reproduces this; please attach it to a report"
    except Exception as other:  # of whatever kind: the program goes on
        where = f"no reproduction could be saved ({type(other).__name__}: {other})"
    warnings.warn(f"a graph falls back to eager mode, because {why}. {where}", RuntimeWarning, stacklevel=3)
    log.info("internal error", exc_info=error)
    return why


def save(error: Exception, case: Case) -> Path:
    """Writes the script and returns its path: in ``dump_dir`` if that is given, else in the cache's directory."""
    text = script(error, case)
    name = f"reproduction-{hashlib.sha256(text.encode()).hexdigest()[:12]}.py"
    try:
        directory = Path(case.options.dump_dir) if case.options.dump_dir else folder("reproductions")
        directory.mkdir(parents=True, exist_ok=True)
        atomic_file.write(directory / name, text)
    except OSError:
        directory = Path(tempfile.mkdtemp(prefix="fpga_dynamo-"))
        atomic_file.write(directory / name, text)
    return directory / name


def script(error: Exception, case: Case) -> str:
    """The text of the file."""
    module = case.module.meta.get(SOURCE, case.module)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    given = [_traced(node) for node in placeholders] if case.inputs is None else case.inputs
    inputs = [f"    {_input(value)},  # {node}" for node, value in zip(placeholders, given, strict=False)]
    chosen = {f.name: getattr(case.options, f.name) for f in fields(Options)}
    options = {name: value for name, value in chosen.items() if value != getattr(Options(), name)}
    options.pop("dump_dir", None)
    saved = None if case.saved is None else (case.saved.start, case.saved.stop)
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    imports, source = header(module), class_source("Graph", module)
    return "\n".join(
        [
            '"""A graph that fpga_dynamo failed to compile. Run it: python FILE',
            "",
            f"torch {torch.__version__}, Python {platform.python_version()} on {platform.machine()}; the error was",
            "",
            *trace.replace("\\", "\\\\").replace('"""', "'''").splitlines(),
            '"""',
            "",
            *imports,
            "",
            "from fpga_dynamo.frontend.reproduce import random_tensor, reproduce",
            "",
            "",
            source,
            "",
            "INPUTS = [",
            *inputs,
            "]",
            "",
            'if __name__ == "__main__":',
            f"    reproduce(Graph(), INPUTS, options={options!r}, static={sorted(case.static)!r}, saved={saved!r}, "
            f"from_dynamo={case.from_dynamo!r})",
            "",
        ]
    )


def _traced(node: Any) -> Any:
    return node.meta.get("val", node.meta.get("example_value"))


def _input(value: Any) -> str:
    """An expression for something like `value`."""
    if isinstance(value, torch.Tensor):
        shape, strides = (hints(numbers) or tuple(1 for _ in numbers) for numbers in (value.shape, value.stride()))
        grad = ", requires_grad=True" if value.requires_grad else ""
        return f"random_tensor({shape}, {strides}, {value.dtype}{grad})"
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        return repr(hints([value])[0] if isinstance(value, torch.SymInt) and hints([value]) else 2)  # type: ignore[index]
    return repr(value)


@contextmanager
def raising() -> Iterator[None]:
    """While it lasts, internal errors are raised, in whichever thread they happen."""
    token = object()
    _raising.add(token)
    try:
        yield
    finally:
        _raising.discard(token)
