"""The sentences with which a pattern's check refuses a call, read from its source: documentation that cannot be old."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from fpga_dynamo.ir import graph
from fpga_dynamo.lowering.patterns import Pattern

GENERAL = (graph._refuse_tensor, graph.refuse_float)
"""What any op is refused for; said once, not at every pattern."""


def of_pattern(pattern: Pattern) -> list[str]:
    """Why calls that the pattern looks for stay on the PS, besides what holds for all."""
    return list(dict.fromkeys(_sentences(pattern.check, set(GENERAL))))


def of_all() -> list[str]:
    """What any op may be refused for."""
    return list(dict.fromkeys(text for function in GENERAL for text in _own_sentences(function)))


def _sentences(function: Callable[..., Any], seen: set[Any]) -> Iterator[str]:
    if function in seen:
        return
    seen.add(function)
    yield from _own_sentences(function)
    for name in _calls(function):
        called = getattr(inspect.getmodule(function), name, None)
        if inspect.isfunction(called) and name.lstrip("_").startswith(("check", "refuse")):
            yield from _sentences(called, seen)


def _tree(function: Callable[..., Any]) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _calls(function: Callable[..., Any]) -> list[str]:
    calls = (node.func for node in ast.walk(_tree(function)) if isinstance(node, ast.Call))
    return [call.id for call in calls if isinstance(call, ast.Name)]


def _own_sentences(function: Callable[..., Any]) -> Iterator[str]:
    for node in ast.walk(_tree(function)):
        if isinstance(node, ast.Return) and node.value is not None:
            yield from (text for text in _texts(node.value) if " " in text.strip("… "))


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
