"""Names of graphs: `graph0`, `graph1`, ... One graph of one model has one number, however often it is compiled.

So what explain says of a graph is found in a trace of the model that had been compiled before, and the other way round.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule


@dataclass(frozen=True)
class Subject:
    """What is being compiled: the module, or the code of a function; model: the name of its type or function.

    It is referred to weakly: compiled graphs have their subject, and a model lives no longer for them.
    """

    owner: weakref.ref[Any]
    model: str


_subject: ContextVar[Subject | None] = ContextVar("fpga_dynamo_subject", default=None)
_numbers: weakref.WeakKeyDictionary[Any, dict[int, int]] = weakref.WeakKeyDictionary()
_next = 0
_lock = threading.Lock()


@contextmanager
def compiling(subject: Subject | None) -> Iterator[None]:
    """Graphs that are lowered in this context are those of `subject`."""
    token = _subject.set(subject)
    try:
        yield
    finally:
        _subject.reset(token)


def subject() -> Subject | None:
    """Whose graphs are lowered in this context."""
    return _subject.get()


def graph_name(module: GraphModule) -> tuple[str, str]:
    """The name of a graph, and that of its model ("" where it is not known)."""
    global _next
    of = _subject.get()
    with _lock:
        owner = None if of is None else of.owner()
        known: dict[int, int] = {} if owner is None else _numbers.setdefault(owner, {})
        number = known.setdefault(_fingerprint(module), _next)
        _next += number == _next
    return f"graph{number}", "" if of is None else of.model


def _fingerprint(module: GraphModule) -> int:
    """What graphs that differ have different ones of: all nodes, and the shapes of the inputs."""
    inputs = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
    shapes = tuple(str(x.shape) if isinstance(x, torch.Tensor) else "" for x in inputs)
    return hash((shapes, *((node.name, str(node.target), str(node.args)) for node in module.graph.nodes)))
