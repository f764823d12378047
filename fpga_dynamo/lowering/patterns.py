"""The pattern table: what part of an ATen graph becomes which commands.

A pattern is (name, match, check, lower). It starts at an *anchor* node; `match` gathers the nodes that it covers,
`check` says in a sentence why the card cannot run them (None: it can), `lower` emits the commands. The built-in
patterns lie in :mod:`fpga_dynamo.lowering.ops`, one file an op family; users add theirs with :func:`register_pattern`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic

import torch
from torch.fx import Node
from typing_extensions import TypeVar

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir import operators
from fpga_dynamo.ir.dtypes import NARROW
from fpga_dynamo.ir.graph import IDENTITY_TARGETS, RESHAPE_TARGETS, GraphInfo, refuse_sizes, shape, values
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.tracing import interpolation
from fpga_dynamo.torch_internals.dispatch import OpOverload, OpOverloadPacket, only_in_parts

Parts = TypeVar("Parts", covariant=True, default=Any)


def _no_parts() -> Any:
    return {}


@dataclass
class Match(Generic[Parts]):
    """Nodes that one pattern covers. `outputs` are those whose values exist afterwards.

    bound: what `match` hands on to `check` and `lower`: a dataclass of named parts, or whatever a pattern likes.
    anchor: the node that the pattern started from, once a match for the engine is claimed.
    """

    pattern: Pattern
    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    bound: Parts = field(default_factory=_no_parts)
    anchor: Node | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def root(self) -> Node:
        return self.outputs[0]

    @property
    def opcodes(self) -> frozenset[str]:
        """Opcodes that the match may take: those of the pattern, and what values of other types take besides."""
        needed = self.pattern.opcodes
        dtypes = {v.dtype for node in self.nodes for arg in (node, *node.all_input_nodes) for v in values(arg)}
        return needed if dtypes.isdisjoint(NARROW) else needed | {"convert", "pointwise"}

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True)
class Pattern:
    """One row of the table.

    name: unique; what ``options={"disable": [...]}`` and ``explain`` call it.
    anchors: FX targets that the pattern starts from.
    match: (pattern, anchor, graph) -> the covered nodes, or None if this is not the pattern.
    check: (match, graph) -> None, or the sentence that says why it stays on the PS.
    lower: emits commands and returns the views of ``match.outputs``, in order.
    opcodes: opcodes that `lower` may emit; all of them must be in one kernel.
    macs: multiply-accumulates of a match.
    must_be_finite: where eager may make finite numbers of what `lower` makes NaN or infinite, the slices of a match's
        result in which such an element would show, as (dimension, step), each from 0 on.
    in_place: `lower` asks ``Emitter.image`` where its (only) result goes, which then may be a part of another's buffer.
    merge: (match, group, graph) -> one match of both, or None if they do not fit; a group is what its users are merged
        into. Patterns that merge are asked after all others, and their `match` covers a node alone.
    concatenates: images that a match puts side by side along their channels, in order. Makers of theirs that work
        `in_place` may have written some where `lower` finds its own result begun: ``Emitter.defined``.
    operators: what else is known of the anchors and of their gradients, by operator.
    """

    name: str
    anchors: tuple[Any, ...]
    match: Callable[[Pattern, Node, GraphInfo], Match | None]
    check: Callable[[Match, GraphInfo], str | None]
    lower: Callable[[Match, Emitter], Sequence[View]]
    opcodes: frozenset[str]
    macs: Callable[[Match], int] = lambda match: 0
    must_be_finite: Callable[[Match], tuple[tuple[int, int], ...]] = lambda match: ()
    merge: Callable[[Match, Match, GraphInfo], Match | None] | None = None
    in_place: bool = False
    concatenates: Callable[[Match], Sequence[Node]] = lambda match: ()
    operators: Mapping[Any, Operator] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.name)


class PatternTable:
    """Patterns by anchor, in the order in which they are asked: those of users, the latest first, then the built-in."""

    def __init__(self) -> None:
        self._patterns: dict[str, Pattern] = {}
        self._users: set[str] = set()
        self._operators: Mapping[Any, Operator] = {}
        self.version = 0

    def fill(self, patterns: Sequence[Pattern], operators: Mapping[Any, Operator]) -> None:
        """Adds the built-in patterns in their order (order.py), and facts of operators that no pattern matches."""
        for pattern in patterns:
            self._refuse_taken(pattern)
            self._patterns[pattern.name] = pattern
        self._operators = operators
        self._changed()

    def add(self, pattern: Pattern) -> None:
        """Adds a user's pattern ahead of all others. Raises :class:`FpgaError` if the name is taken."""
        self._refuse_taken(pattern)
        self._patterns = {pattern.name: pattern, **self._patterns}
        self._users.add(pattern.name)
        self._changed()

    def _refuse_taken(self, pattern: Pattern) -> None:
        if pattern.name in self._patterns:
            raise FpgaError(f"a pattern named '{pattern.name}' is already registered; unregister_pattern() it first")

    def remove(self, name: str) -> None:
        if name not in self._patterns:
            raise FpgaError(f"there is no pattern named '{name}' (patterns: {', '.join(self._patterns)})")
        del self._patterns[name]
        self._users.discard(name)
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        # Of an operator that several patterns know something of, the first one asked has the last word.
        known = [self._operators, *(pattern.operators for pattern in reversed(self._patterns.values()))]
        operators.publish({target: facts for table in known for target, facts in table.items()})

    def names(self) -> tuple[str, ...]:
        return tuple(self._patterns)

    def is_users(self, pattern: Pattern) -> bool:
        """Whether a pattern was registered by the user."""
        return pattern.name in self._users

    def patterns(self) -> tuple[Pattern, ...]:
        """In the order that they are asked: those that merge take what the others leave."""
        return tuple(sorted(self._patterns.values(), key=lambda pattern: pattern.merge is not None))

    def by_anchor(self, disabled: Collection[str] = ()) -> dict[Any, list[Pattern]]:
        """Those that do not merge; see :meth:`merging`."""
        table: dict[Any, list[Pattern]] = {}
        for pattern in self._patterns.values():
            if pattern.name not in disabled and pattern.merge is None:
                for anchor in pattern.anchors:
                    table.setdefault(anchor, []).append(pattern)
        return table

    def merging(self, disabled: Collection[str] = ()) -> list[Pattern]:
        """Patterns whose matches grow into groups."""
        return [p for p in self._patterns.values() if p.merge is not None and p.name not in disabled]


TABLE = PatternTable()


def register_pattern(pattern: Pattern) -> None:
    """Adds a pattern of yours, ahead of the built-in ones. Graphs compiled before do not change.

    Raises :class:`FpgaError` if a part of it is of the wrong kind, an anchor can never occur, or the name is taken.
    """
    if not isinstance(pattern, Pattern):
        raise FpgaError(f"register_pattern() expects a Pattern, got {pattern!r}")
    if (complaint := _wrong_part(pattern)) is not None:
        raise FpgaError(f"pattern '{pattern.name}': {complaint}")
    TABLE.add(pattern)


def _wrong_part(pattern: Pattern) -> str | None:
    if not isinstance(pattern.name, str) or not pattern.name:
        return "name must be a string"
    if not isinstance(pattern.anchors, (tuple, list)):
        return f"anchors must be a tuple of operators, got {pattern.anchors!r}; write ({pattern.anchors},)"
    if isinstance(pattern.opcodes, str) or not all(isinstance(opcode, str) for opcode in pattern.opcodes):
        return f"opcodes must be a set of names, got {pattern.opcodes!r}"
    for part in ("match", "check", "lower", "macs", "must_be_finite", "concatenates"):
        if not callable(getattr(pattern, part)):
            return f"{part} must be a function, got {getattr(pattern, part)!r}"
    if pattern.merge is not None and not callable(pattern.merge):
        return f"merge must be a function or None, got {pattern.merge!r}"
    table = pattern.operators
    if not isinstance(table, Mapping) or not all(isinstance(facts, Operator) for facts in table.values()):
        return f"operators must map operators to Operator(...), got {table!r}"
    return next(filter(None, map(_wrong_anchor, pattern.anchors)), None)


def _wrong_anchor(anchor: Any) -> str | None:
    """Why an anchor is the target of no node."""
    if isinstance(anchor, OpOverloadPacket):
        overloads = ", ".join(str(getattr(anchor, name)) for name in anchor.overloads())
        return f"anchor {anchor} stands for several overloads; name the ones that you mean: {overloads}"
    if not callable(anchor):
        return f"anchor {anchor!r} is not an operator such as torch.ops.aten.relu.default"
    if not isinstance(anchor, OpOverload) or anchor in interpolation.WHOLE:
        return None
    if only_in_parts(anchor):
        return f"anchor {anchor} is decomposed into other operators before patterns are tried; explain() shows them"
    return None


def unregister_pattern(name: str) -> None:
    """Removes a pattern from the table. Raises :class:`FpgaError` for an unknown name."""
    TABLE.remove(name)


@contextmanager
def registered(pattern: Pattern) -> Iterator[None]:
    """:func:`register_pattern` for as long as the block lasts."""
    register_pattern(pattern)
    try:
        yield
    finally:
        unregister_pattern(pattern.name)


# --- matching chains of single-user nodes -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One link of a chain: any of `targets`, if `accept` (anchor-side value, candidate) agrees."""

    name: str
    targets: tuple[Any, ...]
    accept: Callable[[Node, Node], bool] = lambda value, node: True
    through: int | None = None  # the link's value is this item of a tuple


def follow(
    value: Node, steps: Sequence[Step], graph: GraphInfo, *, views: bool = False
) -> tuple[list[Node], Node, dict[str, Node]]:
    """Walks from `value` along single users, as far as the (optional) `steps` go and nobody has claimed them.

    With `views`, a view that keeps the last dimension may stand between two links (a linear layer over more than one
    batch dimension). Returns the covered nodes, the node of the last value, and the links by name.
    """
    nodes: list[Node] = []
    links: dict[str, Node] = {}
    value_dtype = dtype_of(value)
    for step in steps:
        between: list[Node] = []
        user = sole_user(value)
        while views and user is not None and keeps_rows(user):
            between.append(user)
            user = sole_user(user)
        before = between[-1] if between else value
        if user is None or user in graph.claimed or user.target not in step.targets or not step.accept(before, user):
            continue
        if dtype_of(user) is not value_dtype:
            continue  # what promotes to another type sees the value rounded
        if step.through is None:
            nodes += [*between, user]
            links[step.name], value = user, user
            continue
        item = sole_user(user)
        if item is None or item.target is not operator.getitem or item.args[1] != step.through:
            continue
        nodes += [*between, user, item]
        links[step.name], value = user, item
    return nodes, value, links


def dtype_of(node: Node) -> torch.dtype | None:
    """The dtype of the (first) tensor that `node` gives."""
    return next((fake.dtype for fake in values(node)), None)


def keeps_rows(node: Node) -> bool:
    """Whether `node` is a copy, or a view that keeps the rows of its input."""
    if node.target not in RESHAPE_TARGETS and node.target not in IDENTITY_TARGETS:
        return False
    before, after = shape(node.all_input_nodes[0]), shape(node)
    return bool(before) and bool(after) and before[-1] == after[-1]


def sole_user(node: Node) -> Node | None:
    """The only node that uses `node`, once; None if there are more, it is an output, or sizes are unknown."""
    if len(node.users) != 1:
        return None
    user = next(iter(node.users))
    once = user.op != "output" and sum(arg is node for arg in user.args) == 1
    return user if once and refuse_sizes(user) is None else None


def anchor_alone(pattern: Pattern, node: Node, graph: GraphInfo) -> Match:
    """A matcher that covers the anchor and nothing else."""
    return Match(pattern, (node,), (node,))


def anchor_and_first_item(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """A matcher of an anchor that gives a tuple: it covers the anchor and all items, if only the first one is used."""
    items = [user for user in node.users if user.target is operator.getitem]
    first = [item for item in items if item.args[1] == 0]
    if len(first) != 1 or len(items) != len(node.users) or any(item.users for item in items if item.args[1] != 0):
        return None
    return Match(pattern, (node, *items), (first[0],))


def anchor_and_items(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """A matcher of an anchor that gives a tuple: it covers the anchor and the items that are used, its outputs."""
    items = tuple(node.users)
    if not items or any(item.target is not operator.getitem for item in items):
        return None
    return Match(pattern, (node, *items), items)
