"""The checker's schedule of a design, in the format that hls_kernels/sim/cosim/schedule.hpp reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..check.loops import Check, Loop
from ..check.run import CheckedPart
from ..check.stages import Stage

_NESTED = "flattened with"
_BEAT_BYTES = 64  # widest data path of a port


@dataclass
class Schedule:
    """text: what the simulation reads. notes: what of the design is assumed, and why."""

    text: str
    notes: list[str] = field(default_factory=list)


def written(parts: Sequence[CheckedPart], bytes_a_cycle: float | None = None) -> Schedule:
    """The schedule of all processes. bytes_a_cycle: what a bank of memory moves in a cycle, if a platform says it."""
    lines: list[str] = []
    notes: list[str] = []
    for part in parts:
        if part.check is None:
            notes.append(f"'{part.name}' has no schedule, so its loops take no time: {part.note}")
            continue
        lines.append(f"P {part.name.replace(' ', '')} {part.check.states}")
        lines += _accesses(part.check.stages)
        if (runs := part.check.itself) is not None:
            lines += [f"F {runs.line} P {runs.ii} {runs.depth} 0 1 0 0 -", *_accesses(runs.stages)]
        for loop in part.check.loops:
            lines += _of_loop(loop, part.check, bytes_a_cycle)
            if loop.note and loop.ii is None and not loop.depth and not loop.note.startswith(_NESTED):
                notes.append(f"loop '{loop.name}' of '{part.name}': {loop.note}")
        notes += [note for note in part.check.notes if note not in notes]
    return Schedule("\n".join(lines) + "\n", notes)


def _of_loop(loop: Loop, check: Check, bytes_a_cycle: float | None) -> Iterable[str]:
    nested = loop.note.startswith(_NESTED)
    innermost = not nested and loop.states == 0
    within = [loop, *(_inner(loop, check) if nested else ())]
    request, response = (max(getattr(one, name) for one in within) for name in ("request", "response"))
    mode = "N" if nested else "P" if innermost else "S"
    ii = loop.ii or max(1, loop.depth)  # an iteration behind the other
    nest = ",".join(str(line) for _, line in loop.nest) or "-"
    yield f"L {loop.line} {mode} {ii} {max(1, loop.depth)} {loop.states} {loop.factor} {request} {response} {nest}"
    yield from _accesses(loop.stages)
    for one in within:
        for burst in one.bursts:
            if burst.inferred and not burst.within and mode != "S":
                interval = burst.bytes / (bytes_a_cycle or _BEAT_BYTES)
                yield f"B {'W' if burst.write else 'R'} {interval:.6g} {burst.bundle}/{burst.port}"


def _inner(loop: Loop, check: Check) -> list[Loop]:
    """The loops in a nest that is one pipeline."""
    path = (*loop.nest, (loop.name, loop.line))
    return [other for other in check.loops if other.nest[: len(path)] == path]


def _accesses(stages: Iterable[Stage]) -> Iterable[str]:
    return [f"A {stage.line} {stage.way} {stage.offset}" for stage in stages]
