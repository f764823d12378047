"""When the operators of a piece of code start: as soon as their operands are there, several in a cycle where they fit.

A list schedule without limits on resources. It tells which operators work at the same time, and which values have to
wait in registers; it is no claim about the initiation interval, which `xclbin_build.check` works out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..check import ir


@dataclass(frozen=True)
class Timing:
    """cycles: registers between input and output, 0 for logic that others can be chained to. delay_ns: of its last stage."""

    cycles: int = 0
    delay_ns: float = 0.0


@dataclass
class Schedule:
    """start, end: cycle in which an instruction begins, and in which its value is there, by its place in `code`."""

    code: list[ir.Instruction]
    start: list[int]
    end: list[int]

    @property
    def depth(self) -> int:
        return max(self.end, default=0) + 1


def schedule(
    code: Sequence[ir.Instruction],
    timing: Callable[[ir.Instruction], Timing],
    period_ns: float,
    follows: Callable[[ir.Instruction], Sequence[int]],
) -> Schedule:
    """Schedules instructions that lie in an order in which operands come first.

    follows: places of earlier instructions that one must wait for although it takes no value of them (memory).
    """
    place = {i.name: n for n, i in enumerate(code) if i.name}
    start, end, at_ns = [], [], []
    for number, i in enumerate(code):
        cycle, ns = 0, 0.0
        if i.opcode != "phi":
            before = [place[v] for v in i.values if v in place and place[v] < number]
            for other in before:
                if (end[other], at_ns[other]) > (cycle, ns):
                    cycle, ns = end[other], at_ns[other]
            for other in follows(i):
                if end[other] + 1 > cycle:
                    cycle, ns = end[other] + 1, 0.0
        time = timing(i)
        if ns and ns + time.delay_ns > period_ns:
            cycle, ns = cycle + 1, 0.0
        start.append(cycle)
        end.append(cycle + time.cycles)
        at_ns.append(time.delay_ns if time.cycles else ns + time.delay_ns)
    return Schedule(list(code), start, end)


def live_bits(plan: Schedule, bits: Callable[[ir.Instruction], int]) -> int:
    """Bits of registers between cycles: each value from where it is there to where it is last read."""
    place = {i.name: n for n, i in enumerate(plan.code) if i.name}
    last: dict[int, int] = {}
    for number, i in enumerate(plan.code):
        for value in i.values:
            if value in place and place[value] < number:
                last[place[value]] = max(last.get(place[value], 0), plan.start[number])
    return sum(bits(plan.code[n]) * max(0, read - plan.end[n]) for n, read in last.items())
