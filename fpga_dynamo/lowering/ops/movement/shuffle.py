"""Channel shuffle of a concatenation: parts are copied once, to where the shuffle wants their channels.

cat of images, seen as (batch, groups, channels, height, width), groups and channels transposed, and seen as an image
again. Pattern, legality and commands; core: hls_kernels/cores/move, tests: tests/lowering/test_movement.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.dtypes import FLOATS
from fpga_dynamo.ir.graph import IDENTITY_TARGETS, RESHAPE_TARGETS, GraphInfo, argument, aten, shape, value
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.movement.movement import cat_parts, check_movement
from fpga_dynamo.lowering.patterns import Match, Pattern, sole_user

_GROUPS_BEHIND_CHANNELS = [0, 2, 1, 3, 4]


@dataclass(frozen=True)
class ShuffleParts:
    """channels: of a group."""

    channels: int


def match_shuffle(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[ShuffleParts] | None:
    parts, dim = cat_parts(node)
    if dim != 1 or len(shape(node)) != 4 or value(node).dtype not in FLOATS:
        return None
    chain = [node]
    for step in (_groups, _transposes, _reunites):
        user = sole_user(chain[-1])
        while user is not None and user.target in IDENTITY_TARGETS:
            chain.append(user)
            user = sole_user(user)
        if user is None or not step(user) or user in graph.claimed:
            return None
        chain.append(user)
    channels = next(shape(n)[2] for n in chain if _groups(n))
    if any(shape(part)[1] % channels for part in parts):
        return None
    return Match(pattern, tuple(chain), (chain[-1],), ShuffleParts(channels))


def _groups(node: Node) -> bool:
    if node.target not in RESHAPE_TARGETS:
        return False
    before, after = shape(node.all_input_nodes[0]), shape(node)
    return len(after) == 5 and (before[0], *before[2:]) == (after[0], *after[3:])


def _transposes(node: Node) -> bool:
    if node.target is aten.permute.default:
        return [d % 5 for d in argument(node, "dims", 1)] == _GROUPS_BEHIND_CHANNELS
    dims = {argument(node, name, i) for i, name in ((1, "dim0"), (2, "dim1"))}
    return node.target is aten.transpose.int and {d % 5 for d in dims} == {1, 2}


def _reunites(node: Node) -> bool:
    if node.target not in RESHAPE_TARGETS:
        return False
    before, after = shape(node.all_input_nodes[0]), shape(node)
    return len(after) == 4 and (before[0], *before[3:]) == (after[0], *after[2:])


def check_shuffle(match: Match, graph: GraphInfo) -> str | None:
    cat = match.nodes[0]
    return check_movement(Match(match.pattern, (cat,), (cat,)), graph)


def lower_shuffle(match: Match[ShuffleParts], emitter: Emitter) -> Sequence[View]:
    parts, _ = cat_parts(match.nodes[0])
    channels = match.bound.channels
    out = emitter.image(match.root)
    batch, total, height, width = out.shape
    groups = total // channels
    grouped = replace(
        out,
        shape=(batch, groups, channels, height, width),
        strides=(out.strides[0], out.strides[1], out.strides[1] * groups, *out.strides[2:]),
    )
    first = 0
    for part in parts:
        source = emitter.view(part)
        count = source.shape[1] // channels
        step = source.strides[1]
        split = replace(
            source,
            shape=(batch, count, channels, height, width),
            strides=(source.strides[0], step * channels, step, *source.strides[2:]),
        )
        emitter.copy(split, grouped.narrow(1, first, count), layout_change=False)
        first += count
    return [out]


PATTERNS = (
    Pattern(
        name="channel_shuffle",
        anchors=(aten.cat.default,),
        match=match_shuffle,
        check=check_shuffle,
        lower=lower_shuffle,
        opcodes=frozenset({"move"}),
    ),
)
