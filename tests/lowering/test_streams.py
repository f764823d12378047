"""Groups of streams as the emulator runs them: the results of a plain list, and lists that it refuses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from fpga_dynamo.codegen.encode import encode
from fpga_dynamo.ir.command import Command, Operand
from fpga_dynamo.ir.records import Move
from fpga_dynamo.ir.view import Buffer
from fpga_dynamo.lowering.passes.cores.streams import group
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.cards.card import ARENA, COMMANDS, COUNT, WEIGHTS, open_card

ROW = 4096
STREAMS = 5
PLACES = {Buffer(ROW): 1 + ROW // 16 * i for i in range(2 * STREAMS)}


def move(source: Buffer | None, target: Buffer, fill: float = 0.0) -> Command:
    """A copy of a row, or a row of `fill`."""
    flat = (0, 0, 0, 0, 0, 1)
    record = Move(
        input=None if source is None else Operand(source),
        output=Operand(target),
        fill=fill,
        dims=(1, 1, 1, 1, 1, ROW),
        in_stride=flat,
        out_stride=flat,
    )
    return Command(record, () if source is None else (source,), (target,))


def words_of_group() -> npt.NDArray[np.uint32]:
    """Stream i fills row i and copies it, the even ones again and again; then row 0 is filled again."""
    rows = list(PLACES)
    streams = [
        [move(None, rows[i], i + 1.0), *[move(rows[i], rows[STREAMS + i])] * (1 if i % 2 else 40)]
        for i in range(STREAMS)
    ]
    return encode([*group(streams), move(None, rows[0], 9.0)], PLACES, open_card(Options()).target).words


def run(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
    """The rows after a run of the list on the card, in an arena of NaN."""
    card = open_card(Options())
    floats = np.full(16 + ROW * len(PLACES), np.nan, np.float32)
    commands, arena, weights = (
        card.buffer("sequencer", argument, nbytes, host=True)
        for argument, nbytes in ((COMMANDS, words.nbytes), (ARENA, floats.nbytes), (WEIGHTS, 64))
    )
    for buffer, content in ((commands, words), (arena, floats)):
        buffer.write(content, 0)
        buffer.sync(card.driver.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, content.nbytes, 0)
    start = card.driver.run(card.kernels["sequencer", 0])
    for argument, value in ((COMMANDS, commands), (COUNT, len(words) // 64), (ARENA, arena), (WEIGHTS, weights)):
        start.set_arg(argument, value)
    start.start()
    start.wait2()
    arena.sync(card.driver.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE, floats.nbytes, 0)
    return np.asarray(arena.read(floats.nbytes, 0)).view(np.float32)[16:].reshape(-1, ROW)


def test_streams_give_what_they_give_one_after_the_other() -> None:
    words = words_of_group()
    plain = words.reshape(-1, 64)[1:].copy()
    plain[:, 1] = 1
    expected = np.array([9.0, *range(2, STREAMS + 1), *range(1, STREAMS + 1)], np.float32)
    for each in (words, plain.reshape(-1)):
        np.testing.assert_array_equal(run(each), np.broadcast_to(expected[:, None], (2 * STREAMS, ROW)))


SLICES, COUNT_OF_STREAMS, FIRST_LENGTH = 1, 2, 3


@pytest.mark.parametrize(
    ("command", "word", "value", "message"),
    [
        (3, SLICES, 1, "command 3 .move. lies in a stream, but is not marked"),
        (-1, SLICES, -1, "is marked as part of a stream, but no group"),
        (0, FIRST_LENGTH, 1 << 20, "behind the end of the list"),
        (0, FIRST_LENGTH, 0, "an empty stream"),
        (0, COUNT_OF_STREAMS, 0, "has no stream"),
        (0, COUNT_OF_STREAMS, 33, "more than 32"),
    ],
)
def test_a_group_that_is_not_whole_is_refused(command: int, word: int, value: int, message: str) -> None:
    records = words_of_group().reshape(-1, 64)
    records[command, word] = np.uint32(value & 0xFFFFFFFF)
    with pytest.raises(Exception, match=message):
        run(records.reshape(-1))


def test_a_group_in_a_stream_is_refused() -> None:
    records = words_of_group().reshape(-1, 64)
    records[1] = records[0]
    records[1, SLICES] = 0xFFFFFFFF
    with pytest.raises(Exception, match="a group of streams within a stream"):
        run(records.reshape(-1))
