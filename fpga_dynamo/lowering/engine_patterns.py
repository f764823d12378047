"""Patterns of the hardware engine: a pattern, and what the engine does with its matches.

The files of the engine's operators export them; :mod:`fpga_dynamo.lowering.order` has them in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.ir.graph import GraphInfo
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.patterns import Match, Pattern

Emit = Callable[[Match, EngineEmitter], Sequence[View]]
"""Writes the commands of a match and returns the views of its outputs, in order, or none where each reader has its own.
Raises RefusedError for what an engine of the emitter's sizes cannot do."""


@dataclass(frozen=True)
class EnginePattern:
    """A pattern, of the cores or of the engine alone, and how the engine computes its matches.

    last: it matches a cast between host and engine, if no other pattern matches that.
    """

    pattern: Pattern
    emit: Emit
    last: bool = False


def engine_only(
    name: str, anchors: tuple[Any, ...], match: Callable[[Pattern, Node, GraphInfo], Match | None], emit: Emit
) -> EnginePattern:
    """A pattern that no core computes."""
    return EnginePattern(Pattern(name, anchors, match, lambda m, g: "it has no core", _no_core, frozenset()), emit)


def _no_core(match: Match, emitter: Emitter) -> Sequence[View]:
    raise AssertionError(f"{match.pattern.name} has no core")
