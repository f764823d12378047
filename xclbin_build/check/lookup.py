"""Operators that Vitis HLS puts together: gates into one look-up table, two additions into one of three operands.

Schedules say "grouped into LUT with out node" and "grouped into TernaryAdder", and give no delay but that of the last.
"""

from __future__ import annotations

from collections import Counter

from ..hls import ir
from .timing import Cost, Timing

_INPUTS = 6  # of a look-up table
_BEFORE_SUM = 4  # inputs of a table that is an adder's, too, for one of its operands
_GATES = ("and", "or", "xor", "select", "phi")
_SUMS = ("add", "sub")
_THROUGH = ("zext", "sext", "trunc", "freeze")


def group(code: list[ir.Instruction], place: dict[str, int], costs: list[Cost], timing: Timing) -> None:
    """Takes the delay from operators that are put together with their only user."""
    users = Counter(place[value] for i in code for value in set(i.values) if value in place)
    _tables(code, place, costs, users)
    _additions(code, place, costs, users, timing)


def _additions(
    code: list[ir.Instruction], place: dict[str, int], costs: list[Cost], users: Counter[int], timing: Timing
) -> None:
    """Pairs of additions of which the second is the only user of the first."""
    paired: set[int] = set()
    for index, i in enumerate(code):
        if i.opcode not in _SUMS or i.type[:1] != "i":
            continue
        for value in i.operands:
            made = _behind(code, place, users, value, _SUMS) if value[:1] == "%" else None
            if made is not None and made < index and made not in paired:
                paired |= {made, index}
                costs[made], costs[index] = Cost(), timing.of_pair(i)
                break


def _tables(code: list[ir.Instruction], place: dict[str, int], costs: list[Cost], users: Counter[int]) -> None:
    """Gates and choices whose only user is another one or an addition, as long as the inputs of all fit one table; and
    those that put bits side by side, which are wires."""
    inputs: dict[int, int] = {}
    for index, i in enumerate(code):
        if i.opcode in _SUMS:
            for value in i.operands:
                made = _behind(code, place, users, value, _GATES) if value[:1] == "%" else None
                if made is not None and inputs.get(made, _INPUTS) <= _BEFORE_SUM:
                    costs[made] = Cost()
        if i.opcode not in _GATES or costs[index] == Cost():
            continue
        if i.opcode == "or" and " disjoint " in i.text:
            costs[index] = Cost()
            continue
        own = [_behind(code, place, users, value, _GATES) for value in i.values]
        parts = [(inputs.get(made, 1), made) if made is not None else (1, None) for made in own]
        total, rest = 0, len(parts)
        for count, made in sorted(parts, key=lambda part: part[0]):
            rest -= 1
            if made is not None and made in inputs and total + count + rest <= _INPUTS:
                costs[made] = Cost()
                total += count
            else:
                total += 1
        inputs[index] = total + (i.opcode == "phi")  # what chooses


def _behind(
    code: list[ir.Instruction], place: dict[str, int], users: Counter[int], value: str, wanted: tuple[str, ...]
) -> int | None:
    """The operator of a wanted kind that a value comes from, through other widths and shifts by a constant, if nothing
    else uses it."""
    while (index := place.get(value)) is not None and users[index] == 1:
        i = code[index]
        if i.opcode in wanted:
            return index
        if i.opcode not in _THROUGH and not (i.opcode in ("shl", "lshr", "ashr") and i.operands[1].isdigit()):
            return None
        value = i.operands[0]
    return None
