"""Functions to check, side by side in processes: half of the time is clang's, the other half is Python's."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from ..errors import BuildError
from ..hls.processes import Process
from ..hls.translation import Compiled
from .loops import Check
from .whole import checked

PROCESSORS = os.cpu_count() or 1


@dataclass(frozen=True)
class Question:
    """A function of a source that clang has read. memories, inferred: as for `loops.check`. vitis: the version whose
    rules count, "" for the newest."""

    unit: Compiled
    process: Process
    clock_ns: float
    part: str
    memories: bool
    inferred: bool
    vitis: str = ""

    def answer(self) -> Check | str:
        """What is found; why it could not be checked, if it could not be."""
        try:
            return checked(
                self.unit, self.process, clock_ns=self.clock_ns, part=self.part, memories=self.memories,
                inferred=self.inferred, vitis=self.vitis,
            )  # fmt: skip
        except BuildError as error:
            return str(error)


_asked: Sequence[Question] = ()
"""In a process that answers, all questions: it inherits them, as a source's IR may have tens of megabytes."""


def answers(questions: Sequence[Question]) -> list[Check | str]:
    """The answer to each question, in their order."""
    if len(questions) < 2 or PROCESSORS < 2:
        return [question.answer() for question in questions]
    # Large sources first: one of them alone at the end would leave the other processors idle.
    order = sorted(range(len(questions)), key=lambda n: -len(questions[n].unit.raw))
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(PROCESSORS, context, initializer=_inherit, initargs=(questions,)) as pool:
        found = dict(zip(order, pool.map(_answer, order), strict=True))
    return [found[number] for number in range(len(questions))]


def _inherit(questions: Sequence[Question]) -> None:
    global _asked
    _asked = questions


def _answer(number: int) -> Check | str:
    return _asked[number].answer()
