"""When the operators of a piece of code start: as soon as their operands are there, several in a cycle where they fit.

A list schedule without limits on resources. It tells which operators work at the same time, and which values have to
wait in registers; it is no claim about the initiation interval, which `xclbin_build.check` works out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import ir


@dataclass(frozen=True)
class OperatorTiming:
    """cycles: registers between input and output, 0 for logic that others can be chained to. delay_ns: of its last
    stage."""

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
    timing: Callable[[ir.Instruction], OperatorTiming],
    period_ns: float,
    follows: Callable[[ir.Instruction], Sequence[int]],
) -> Schedule:
    """Schedules instructions that lie in an order in which operands come first.

    follows: places of earlier instructions that one must wait for although it uses no value of them (memory).
    """
    place = {i.name: n for n, i in enumerate(code) if i.name}
    start: list[int] = []
    end: list[int] = []
    at_ns: list[float] = []
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


def lives(plan: Schedule, kept: Callable[[ir.Instruction], bool]) -> list[tuple[ir.Instruction, int]]:
    """Values that wait in registers, and for how many cycles.

    Operators with slack move to their first use, so that few values wait in registers. kept: whether a value needs
    registers. An address needs none, but its operands wait for the access.
    """
    place = {i.name: n for n, i in enumerate(plan.code) if i.name}
    readers: list[list[int]] = [[] for _ in plan.code]
    for number, i in enumerate(plan.code):
        for value in i.values:
            made = place.get(value)
            if made is not None and made < number:
                readers[made].append(number)
    shift = [0] * len(plan.code)
    for number in range(len(plan.code) - 1, -1, -1):
        if readers[number]:  # what a loop carries, too: a sum stays in its register until the product is there
            shift[number] = max(0, min(plan.start[r] + shift[r] for r in readers[number]) - plan.end[number])
    until = [plan.start[n] + shift[n] for n in range(len(plan.code))]
    for number in range(len(plan.code) - 1, -1, -1):
        if not kept(plan.code[number]):
            until[number] = max([until[number], *(until[r] for r in readers[number])])
    found = []
    for number, i in enumerate(plan.code):
        if not readers[number] or not kept(i):
            continue
        cycles = max(until[r] for r in readers[number]) - plan.end[number] - shift[number]
        if cycles > 0:
            found.append((i, cycles))
    return found
