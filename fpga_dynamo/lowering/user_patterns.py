"""Patterns of users make mistakes: each becomes a sentence that names the pattern and the node, and costs no more.

Exceptions in `match`, `check` and `lower`, results of the wrong kind, and commands that say something else than their
record are :class:`PatternError`; the node then goes without the pattern.
"""

from __future__ import annotations

import math
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch.fx import Node

from fpga_dynamo.codegen.core import CORES
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.encode import bits, field_values, fields_of
from fpga_dynamo.errors import PatternError
from fpga_dynamo.ir.command import Auxiliary, Operand
from fpga_dynamo.ir.dtypes import FLOATS
from fpga_dynamo.ir.graph import GraphInfo, describe, is_view, value
from fpga_dynamo.ir.sizes.size import Size, SizeError, identical
from fpga_dynamo.ir.sizes.size import value as hinted
from fpga_dynamo.ir.sizes.size import values as hinted_all
from fpga_dynamo.ir.view import Buffer, Role, View, extent
from fpga_dynamo.lowering.patterns import Match, Pattern

T = TypeVar("T")

_MOST_FAILURES = 3
"""After so many failures a pattern is disabled for the graph; each failure lowers the graph again."""


class Mistakes:
    """What users' patterns have done wrong in one graph. strict: the first mistake is an error."""

    def __init__(self, strict: bool = False) -> None:
        self._strict = strict
        self._reasons: dict[tuple[str, Node], str] = {}
        self._failures: Counter[str] = Counter()

    def note(self, error: PatternError) -> str:
        """Takes in a mistake; returns the node's reason to stay on the PS. Raises `error` under ``strict``."""
        if self._strict:
            raise error
        reason = str(error)
        for node in error.nodes:
            self._reasons[error.pattern, node] = reason
        self._failures[error.pattern] += 1
        if self._failures[error.pattern] == 1:
            warnings.warn(f"{reason}; the pattern is skipped for this node", RuntimeWarning, stacklevel=2)
        return reason

    def reason(self, pattern: Pattern, anchor: Node) -> str | None:
        """Why a pattern is not to be asked about a node."""
        if self._failures[pattern.name] > _MOST_FAILURES:
            return f"pattern '{pattern.name}' has failed for {_MOST_FAILURES} other nodes of this graph"
        return self._reasons.get((pattern.name, anchor))


def call_match(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """What `match` gives. Raises :class:`PatternError`."""
    match = _call("match", pattern.match, pattern, (node,), pattern, node, graph)
    if match is None:
        return None
    if complaint := _wrong_match(match, node) or _wrong_part_of_graph(match, graph):
        raise _error(pattern, (node,), f"match {complaint}")
    return match


def call_check(match: Match, graph: GraphInfo) -> str | None:
    """What `check` gives. Raises :class:`PatternError`, also for `macs`, `must_be_finite`, `concatenates`."""
    pattern, nodes = match.pattern, match.nodes
    why = _call("check", pattern.check, pattern, nodes, match, graph)
    if why is not None and not isinstance(why, str):
        raise _error(pattern, nodes, f"check returned {why!r}; it must return None or a sentence with the reason")
    if not why:
        macs = hinted(_call("macs", pattern.macs, pattern, nodes, match))
        if not isinstance(macs, int) or macs < 0:
            raise _error(pattern, nodes, f"macs returned {macs!r}; it must return a number of multiply-accumulates")
        _call("must_be_finite", pattern.must_be_finite, pattern, nodes, match)
        joined = _call("concatenates", pattern.concatenates, pattern, nodes, match)
        images = isinstance(joined, (tuple, list)) and all(isinstance(n, Node) and _is_image(n) for n in joined)
        if not images or (joined and not _is_image(match.root)):
            wanted = "it must return the images of an in-place concatenation"
            raise _error(pattern, nodes, f"concatenates returned {joined!r}; {wanted}")
    return why


def call_merge(one: Match, group: Match, graph: GraphInfo) -> Match | None:
    """What `merge` gives. Raises :class:`PatternError`."""
    pattern, nodes = one.pattern, one.nodes
    assert pattern.merge is not None
    merged = _call("merge", pattern.merge, pattern, nodes, one, group, graph)
    if merged is None:
        return None
    if not isinstance(merged, Match):
        raise _error(pattern, nodes, f"merge returned {merged!r}; it must return a Match or None")
    if set(merged.nodes) != {*one.nodes, *group.nodes} or merged.outputs != group.outputs:
        raise _error(pattern, nodes, "merge returned a Match with nodes or outputs that the two matches do not have")
    return merged


def call_lower(match: Match, emitter: Emitter) -> Sequence[View]:
    """The views that `lower` gives. Raises :class:`PatternError`."""
    pattern, nodes = match.pattern, match.nodes
    views = _call("lower", pattern.lower, pattern, nodes, match, emitter)
    if isinstance(views, View) or not isinstance(views, (tuple, list)):
        what = "nothing" if views is None else f"a {type(views).__name__}"
        raise _error(pattern, nodes, f"lower returned {what}; it must return a list with the view of each output")
    if len(views) != len(match.outputs):
        raise _error(
            pattern, nodes, f"lower returned {len(views)} views for {len(match.outputs)} output(s), "
            f"{', '.join(node.name for node in match.outputs)}; it must return one for each",
        )  # fmt: skip
    for node, view in zip(match.outputs, views, strict=True):
        if complaint := _wrong_view(view, node, emitter):
            raise _error(pattern, nodes, f"lower returned for {node.name} {complaint}")
    return views


def check_command(
    opcode: str,
    reads: Sequence[View | Buffer | None],
    writes: Sequence[View],
    fields: Mapping[str, Any],
    emitter: Emitter,
) -> None:
    """Raises ValueError, with a sentence, for a command that its record or the memory plan would not bear."""
    target, kernel = emitter.target, emitter.kernel
    if opcode not in kernel.opcodes or opcode not in target.records:
        raise ValueError(f"kernel {kernel.name} has no opcode '{opcode}' ({', '.join(sorted(kernel.opcodes))})")
    for name, views in (("reads", reads), ("writes", writes)):
        if not isinstance(views, (tuple, list)) or not all(isinstance(v, (View, Buffer, type(None))) for v in views):
            raise ValueError(f"{name} of command '{opcode}' must be a list of views, got {views!r}")
    if not all(isinstance(view, View) for view in writes):
        raise ValueError(f"writes of command '{opcode}' must be a list of views, got {writes!r}")
    record = fields_of(opcode, target)
    named = {view.buffer if isinstance(view, View) else view for view in (*reads, *writes)}
    for name, given in fields.items():
        entry, values = field_values(opcode, record, name, given)
        for item in values:
            where = f"field '{name}' of '{opcode}_command'"
            if isinstance(item, (View, Buffer, Node)):
                raise ValueError(f"{where} expects a number, got a {type(item).__name__}; pass Operand.of(view)")
            if isinstance(item, (Operand, Auxiliary)):
                if entry.type != "uint32_t":
                    raise ValueError(f"{where} expects {entry.type}, got a memory operand")
                if isinstance(item, Operand):
                    _check_operand(where, item, named)
                continue
            try:
                encoded = bits(hinted(item), entry)
            except ValueError as error:
                raise ValueError(f"{where} {error}") from error
            if entry.type == "float" and encoded & 0x7FFFFFFF == 0x7F800000 and item not in (math.inf, -math.inf):
                raise ValueError(f"{where} is float, and {item!r} is out of range")
    missing = [name for name in record if name not in ("opcode", "slices", *fields)]
    if missing and not CORES.built_in(opcode):  # of the built-in cores most fields may be left out
        raise ValueError(f"command '{opcode}' lacks {', '.join(missing)} of '{opcode}_command'; give each a value")
    _check_memory(opcode, reads, writes, emitter)


def _check_operand(where: str, item: Operand, named: set[Any]) -> None:
    if not isinstance(item.offset, (int, Size)) or hinted(item.offset) < 0:
        raise ValueError(f"{where} has the offset {item.offset!r}; it must be a whole number of floats, 0 or more")
    if item.buffer not in named:
        raise ValueError(
            f"{where} is a memory operand in neither reads= nor writes= of the command; list its view there"
        )


def _check_memory(opcode: str, reads: Sequence[View | Buffer | None], writes: Sequence[View], emitter: Emitter) -> None:
    written = {buffer for command in emitter.commands for buffer in command.writes}
    for view in reads:
        buffer = view.buffer if isinstance(view, View) else view
        if buffer is not None and buffer.role in (Role.TEMPORARY, Role.OUTPUT) and buffer not in written:
            raise ValueError(f"command '{opcode}' reads {view}, which no command has written")
    for view in writes:
        if view.buffer.role in (Role.INPUT, Role.WEIGHT):
            raise ValueError(
                f"command '{opcode}' writes {view}, which is an {view.buffer.role.value} of the launch; "
                "emitter.tensor(shape) allocates a result"
            )


def _is_image(node: Node) -> bool:
    return isinstance(value(node), torch.Tensor) and value(node).dim() == 4


def _call(what: str, function: Callable[..., T], pattern: Pattern, nodes: Sequence[Node], *args: Any) -> T:
    try:
        return function(*args)
    except SizeError:  # has the graph lowered for each set of sizes
        raise
    except Exception as error:
        kind = "" if isinstance(error, ValueError) and _ours(error) else f"raised {type(error).__name__}: "
        raise _error(pattern, nodes, f"{what}{_line(function, error)}: {kind}{error}") from error


def _error(pattern: Pattern, nodes: Sequence[Node], complaint: str) -> PatternError:
    return PatternError(f"pattern '{pattern.name}' on {describe(nodes[0])}: {complaint}", pattern.name, tuple(nodes))


def _ours(error: Exception) -> bool:
    """Whether a sentence of this module is what went wrong."""
    return traceback.extract_tb(error.__traceback__)[-1].filename == __file__


def _line(function: Callable[..., Any], error: Exception) -> str:
    """Where in the user's own file it happened."""
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" (line {lines[-1]} of {file})" if lines else ""


def _wrong_match(match: Any, anchor: Node) -> str | None:
    if not isinstance(match, Match):
        return f"returned {match!r}; it must return a Match or None"
    for name, nodes in (("nodes", match.nodes), ("outputs", match.outputs)):
        if not isinstance(nodes, tuple) or not nodes or not all(isinstance(node, Node) for node in nodes):
            return f"returned a Match with {name}={nodes!r}; it must be a non-empty tuple of nodes"
    if anchor not in match.nodes:
        return f"returned a Match that does not cover {anchor.name}, the anchor"
    strangers = [node.name for node in match.outputs if node not in match.nodes]
    return f"returned a Match with outputs that are not among its nodes: {', '.join(strangers)}" if strangers else None


def _wrong_part_of_graph(match: Match, graph: GraphInfo) -> str | None:
    """Why what a match covers cannot run as one: a value is missing behind it, or some of it needs others' results."""
    covered = set(match.nodes)
    hidden = [n for n in match.nodes if n not in match.outputs and not is_view(n) and not covered.issuperset(n.users)]
    if hidden:
        names = ", ".join(node.name for node in hidden)
        return f"returned a Match that covers {names}, which other nodes use: make it an output, or do not cover it"
    last = max(graph.position[node] for node in covered)
    behind = [user for node in covered for user in node.users if user not in covered]
    seen: set[Node] = set()
    while behind:
        node = behind.pop()
        if node in covered:
            return f"returned a Match that cannot run as one group: {node.name} depends on its outputs"
        if node not in seen and graph.position[node] < last:
            seen.add(node)
            behind += node.users
    return None


def _wrong_view(view: Any, node: Node, emitter: Emitter) -> str | None:
    if not isinstance(view, View):
        return f"{view!r}; it must return a View"
    fake = value(node)
    wanted = tuple(fake.shape)
    if len(view.shape) != len(wanted) or not all(map(identical, view.shape, wanted)):
        return f"a view of shape {tuple(view.shape)}; the node has shape {wanted}"
    if len(view.strides) != len(wanted):
        return f"a view with {len(view.strides)} strides for {len(wanted)} dimensions"
    unrounded = view.dtype is torch.float32 and fake.dtype in FLOATS
    if view.dtype is not fake.dtype and not unrounded:
        return f"a view of {view.dtype}; the node has {fake.dtype}: pass dtype= to emitter.tensor"
    sizes, strides, offset = hinted_all(view.shape), hinted_all(view.strides), hinted(view.offset)
    if 0 not in sizes and (offset < 0 or offset + extent(sizes, strides) > hinted(view.buffer.length)):
        return f"{view}, which reaches beyond its buffer of {view.buffer.length} elements"
    known = view.buffer.role in (Role.INPUT, Role.WEIGHT)
    if not known and not any(view.buffer in command.writes for command in emitter.commands):
        return "a view that no command has written; list it in writes= of the command that does"
    return None
