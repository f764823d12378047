"""Groups of streams: commands that lanes may run side by side, each stream in its own order (`streams_command`)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fpga_dynamo.ir.command import Command
from fpga_dynamo.ir.records import MOST_STREAMS, SLICES_OF_STREAM, Streams


def group(streams: Sequence[Sequence[Command]]) -> list[Command]:
    """The streams as commands of a list: a head that says how long each is, and one after the other."""
    lengths = [len(stream) for stream in streams]
    members = list(itertools.chain.from_iterable(streams))
    for member in members:
        member.fields["slices"] = SLICES_OF_STREAM
    nodes = dict.fromkeys(name for member in members for name in member.nodes)
    padded = (*lengths, *[0] * (MOST_STREAMS - len(lengths)))
    head = Streams(slices=len(lengths), count=len(lengths), length=padded)
    return [Command(head, (), (), tuple(nodes), "bands", group=len(members)), *members]
