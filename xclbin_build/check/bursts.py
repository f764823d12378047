"""Which accesses to m_axi ports become bursts (UG1399, "AXI Burst Transfers"): those that go on from iteration to
iteration without gaps, in every iteration, at addresses that are a constant step apart."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..hls import cfg, ir
from ..hls.arrays import Kind
from ..hls.frontend import Kernel
from .accesses import Access, Accesses


@dataclass(frozen=True)
class Burst:
    """Accesses of one kind to one port in a loop. inferred: whether they become bursts; why: the reason if not.
    indices: of the instructions. bytes: that an iteration reads or writes. places: FILE:LINE of the accesses and of
    the calls that they were inlined through."""

    port: str
    bundle: str
    write: bool
    inferred: bool
    why: str
    bytes: int
    indices: tuple[int, ...]
    places: tuple[str, ...] = ()


def find(kernel: Kernel, loop: cfg.Loop, accesses: Accesses, code: list[ir.Instruction]) -> list[Burst]:
    """The bursts of a loop without loops in it, and what is none."""
    groups: dict[tuple[str, bool], list[Access]] = {}
    for access in accesses.all:
        if access.array is not None and access.array.kind is Kind.PORT:
            groups.setdefault((access.array.value, access.write), []).append(access)
    found = []
    for (_, write), group in groups.items():
        array = group[0].array
        assert array is not None  # only accesses to ports were taken
        why = _obstacle(kernel, loop, accesses, group)
        if not why and not write and (array.value, True) in groups:
            why = "the loop writes the same port"
        covered = len({a.constant for a in group}) * group[0].size
        lines = {place for a in group for place in kernel.module.places_of(code[a.index].debug)}
        places = tuple(sorted(f"{Path(file).name}:{line}" for file, line in lines))
        indices = tuple(a.index for a in group)
        found.append(Burst(array.name, array.bundle or "gmem", write, not why, why, covered, indices, places))
    return found


def of_copies(kernel: Kernel, accesses: Accesses, code: list[ir.Instruction]) -> list[Burst]:
    """Bursts of copies of whole arrays (memcpy), which are loops of their own in Vitis HLS."""
    found = []
    for access in accesses.all:
        array = access.array
        if array is not None and array.kind is Kind.PORT and (code[access.index].callee or "").startswith("llvm.mem"):
            lines = kernel.module.places_of(code[access.index].debug)
            places = tuple(sorted(f"{Path(file).name}:{line}" for file, line in lines))
            bundle = array.bundle or "gmem"
            found.append(Burst(array.name, bundle, access.write, True, "", access.size, (access.index,), places))
    return found


def _obstacle(kernel: Kernel, loop: cfg.Loop, accesses: Accesses, group: list[Access]) -> str:
    first = group[0]
    if any(accesses.varies(a) for a in group):
        return "the address is no constant step from iteration to iteration"
    if any(a.variable != first.variable for a in group):
        return "the accesses of an iteration do not lie side by side"
    covered = len({a.constant for a in group}) * first.size
    span = max(a.constant + a.size for a in group) - min(a.constant for a in group)
    if span != covered:
        return f"an iteration touches {covered} of {span} bytes"
    step = accesses.step(first)
    if step <= 0:
        return "the address does not advance" if step == 0 else "the address goes backwards"
    if step != covered:
        return f"an iteration takes {covered} bytes and advances by {step}"
    always = {b for b in loop.blocks if all(kernel.flow.dominates(b, latch) for latch in loop.latches)}
    if any(a.block not in always for a in group):
        return "the access depends on a condition"
    return ""
