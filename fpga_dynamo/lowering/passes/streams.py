"""Groups of streams: commands that lanes may run side by side, each stream in its own order (`streams_command`)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fpga_dynamo.ir.command import Command, FieldValue

MOST_STREAMS = 32
"""Lengths that the record of a group's head has room for."""
SLICES_OF_STREAM = -1
"""What the `slices` of a stream's commands say: the lane that has the stream runs them whole."""


def group(streams: Sequence[Sequence[Command]]) -> list[Command]:
    """The streams as commands of a list: a head that says how long each is, and one after the other."""
    lengths = [len(stream) for stream in streams]
    members = list(itertools.chain.from_iterable(streams))
    for member in members:
        member.fields["slices"] = SLICES_OF_STREAM
    nodes = dict.fromkeys(name for member in members for name in member.nodes)
    padded = (*lengths, *[0] * (MOST_STREAMS - len(lengths)))
    fields: dict[str, FieldValue] = {"slices": len(lengths), "count": len(lengths), "length": padded}
    return [Command("streams", fields, (), (), tuple(nodes), "bands", group=len(members)), *members]
