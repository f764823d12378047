"""One loop of the inlined IR, and what pragmas ask of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .source import SourceLoop

FULL = 0  # an unroll factor: completely


@dataclass(frozen=True)
class Dependence:
    """A pragma `dependence`: array is None for all. distance: in iterations, of a true one."""

    array: str | None
    inter: bool
    true: bool
    distance: int


@dataclass
class Instance:
    """One loop after inlining.

    path: functions that it was inlined through, its own first.
    pipeline: whether the source requests a pipeline, None where it does not say.
    target_ii: the II of its pragma, None without one.
    unroll: FULL, a factor, or None.
    automatic: whether Vitis HLS unrolls it without a pragma.
    trips: from the pragma loop_tripcount, (least, most).
    inside_pipeline: a loop or function around it is pipelined, so it unrolls.
    too_large: instructions that it, or the loop around it, would have after unrolling, if it is too large to unroll.
    """

    number: int
    source: SourceLoop | None
    path: tuple[str, ...] = ()
    pipeline: bool | None = None
    target_ii: int | None = None
    unroll: int | None = None
    automatic: bool = False
    trips: tuple[int, int] | None = None
    flatten: bool = True
    dependences: list[Dependence] = field(default_factory=list)
    inside_pipeline: bool = False
    count: int | None = None
    too_large: int = 0

    @property
    def name(self) -> str:
        return self.source.name if self.source else f"loop_{self.number}"
