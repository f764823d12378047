"""How compute units are connected, as v++ spells it in `[connectivity]`: streams between them, banks of arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import RecipeError

DEFAULT_DEPTH = 16
"""Elements of a stream whose FIFO has no depth. An assumption: registers at its two ends hold fewer on a card."""
MOST_DEPTH = 1 << 20

_END = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
_SWITCH = re.compile(r"(?<=\])\.\d+(\.RAMA)?$")
_RANGE = re.compile(r"(\w+)\[(\d+):(\d+)\]")
_MOST_BANKS = 64


@dataclass(frozen=True)
class Stream:
    """A stream from one compute unit's argument to another's (`UNIT.ARGUMENT`), with a FIFO of `depth` elements."""

    source: str
    destination: str
    depth: int = DEFAULT_DEPTH

    @property
    def text(self) -> str:
        """As `stream_connect` spells it."""
        return f"{self.source}:{self.destination}" + (f":{self.depth}" if self.depth != DEFAULT_DEPTH else "")


def parse_stream(text: str, where: str) -> Stream:
    """`"reader_1.out:adder_1.in:64"`; RecipeError, with `where` first, for another text."""
    words = [word.strip() for word in text.split(":")]
    depth = words[2] if len(words) == 3 else str(DEFAULT_DEPTH)
    whole = len(words) in (2, 3) and all(_END.fullmatch(word) for word in words[:2])
    if not whole or not depth.isdecimal() or not depth.isascii():
        raise RecipeError(
            f"{where}: '{text}' connects nothing; write UNIT.STREAM:UNIT.STREAM or UNIT.STREAM:UNIT.STREAM:DEPTH, such "
            "as reader_1.out:adder_1.in:64."
        )
    if not 1 <= int(depth) <= MOST_DEPTH:
        raise RecipeError(f"{where}: a stream's depth must be 1 to {MOST_DEPTH}, not {depth}.")
    return Stream(words[0], words[1], int(depth))


def banks_of(tag: str) -> tuple[str, ...]:
    """The banks that a text names: `HBM[0:3]` is HBM[0] to HBM[3]. Older files say bank0 for DDR[0].

    In `HBM[0:3].1.RAMA`, 1 is a port of the switch in front of the banks, and RAMA an IP that orders accesses: neither
    changes where data lies.
    """
    tag = _SWITCH.sub("", tag)
    span = _RANGE.fullmatch(tag)
    if span:
        first, last = int(span[2]), int(span[3])
        if first > last or last - first >= _MOST_BANKS:
            raise RecipeError(f"'{tag}' names no range of at most {_MOST_BANKS} banks.")
        return tuple(f"{span[1]}[{number}]" for number in range(first, last + 1))
    older = re.fullmatch(r"bank([0-3])", tag)
    return (f"DDR[{older[1]}]",) if older else (tag,)


def bank_names(tags: Sequence[str]) -> str:
    """Names of banks: of many that are counted through, the first and the last."""
    kinds = list(dict.fromkeys(tag.partition("[")[0] for tag in tags))
    groups = [[tag for tag in tags if tag.partition("[")[0] == kind] for kind in kinds]
    return ", ".join(tag for group in groups for tag in (group if len(group) < 9 else [f"{group[0]} … {group[-1]}"]))


def check_streams(streams: Sequence[Stream], ends: Sequence[str]) -> None:
    """Raises RecipeError unless each of `ends`, the stream arguments of all compute units, is in one stream."""
    named = [end for stream in streams for end in (stream.source, stream.destination)]
    for end in named:
        if end not in ends:
            known = (
                f"the streams of the compute units are {', '.join(ends)}" if ends else "no kernel has such an argument"
            )
            raise RecipeError(f"'{end}' is not a stream of a compute unit; {known}.")
        if named.count(end) > 1:
            raise RecipeError(f"'{end}' is an end of two streams; a stream connects one writer to one reader.")
    for end in ends:
        if end not in named:
            raise RecipeError(
                f"the stream '{end}' is connected to nothing; add it to 'streams', or to the configuration file as "
                f"stream_connect={end}:UNIT.STREAM."
            )
