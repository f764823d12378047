"""A kernel's regions: a pipelined loop is one, a pipelined function is one where no pipelined loop calls it, and so is
what else lies directly in a loop, or in none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..hls import cfg, ir
from ..hls.frontend import KEEP, Kernel
from ..hls.schedule import Schedule
from ..hls.source import plain_name

_IGNORED_CALLS = re.compile(r"llvm\.(lifetime|dbg|assume|experimental|donothing|prefetch)|" + KEEP)


@dataclass
class ScheduledRegion:
    """Code that is scheduled together. process: of a dataflow region, "" without one. ii: of a pipelined loop or
    function, None of a sequence of states."""

    name: str
    process: str
    code: list[ir.Instruction]
    ii: int | None
    segments: list[list[ir.Instruction]] = field(default_factory=list)
    plans: list[Schedule] = field(default_factory=list)


def regions(kernel: Kernel, intervals: Mapping[str, int], process_of: Mapping[str, str]) -> list[ScheduledRegion]:
    """The regions of a kernel. intervals: initiation intervals of its pipelined loops, by their headers; process_of:
    the process of a dataflow region that each block belongs to."""
    flow = kernel.flow
    found: dict[tuple[str, str, str], ScheduledRegion] = {}
    for block in flow.order:
        loop = flow.around(block)
        header = loop.header if loop else ""
        for function, code in _by_function(kernel, block, pipelined=header in intervals).items():
            key = (header, process_of.get(block, ""), function)
            if key not in found:
                instance = kernel.instance_of(loop) if loop else None
                name = function or (instance.name if instance else kernel.top)
                ii = intervals.get(header, kernel.functions.get(function))
                found[key] = ScheduledRegion(name, key[1], [], ii)
            region = found[key]
            region.code += code
            # Blocks between which there is no inner loop may be joined.
            if region.segments and any(_directly_in(flow, p, header) for p in flow.predecessors[block]):
                region.segments[-1] += code
            else:
                region.segments.append(list(code))
    return list(found.values())


def _by_function(kernel: Kernel, block: str, *, pipelined: bool) -> dict[str, list[ir.Instruction]]:
    """A block's code by the pipelined function that it is of, the outermost of several; "" for none. pipelined: whether
    a pipelined loop is around it, whose interval counts."""
    code = [i for i in kernel.function.blocks[block] if not (i.callee and _IGNORED_CALLS.match(i.callee))]
    if pipelined or not kernel.functions:
        return {"": code}
    found: dict[str, list[ir.Instruction]] = {}
    function = ""
    for i in code:
        if i.debug is not None:  # else it is of the function of what stands before it
            names = [plain_name(name) for name, _ in kernel.module.calls_to(i.debug)]
            function = next((name for name in reversed(names) if name in kernel.functions), "")
        found.setdefault(function, []).append(i)
    return found


def _directly_in(flow: cfg.Flow, block: str, header: str) -> bool:
    loop = flow.around(block) if block in flow.number else None
    return (loop.header if loop else "") == header


def processes(kernel: Kernel) -> dict[str, str]:
    """The process that each block belongs to, of a kernel with a dataflow region; empty without one.

    A process is a function that is called directly in the region, or in a function that is inlined in it.
    """
    source = kernel.source
    said = {f.name: {source.pragmas[number].kind for number in f.pragmas} for f in source.functions}
    if not any("dataflow" in kinds for kinds in said.values()):
        return {}
    found, last = {}, ""
    for block in kernel.flow.order:
        votes: Counter[str] = Counter()
        for i in kernel.function.blocks[block]:
            chain = [name for name, _ in kernel.module.calls_to(i.debug)][::-1]
            outer = next((n for n, name in enumerate(chain) if "dataflow" in said.get(name, ())), None)
            if outer is None:
                continue
            inner = [name for name in chain[outer + 1 :] if "inline" not in said.get(name, ())]
            if inner:
                votes[inner[0]] += 1
        # Blocks without a line of the source lie between those of one process.
        last = votes.most_common(1)[0][0] if votes else last
        found[block] = last
    return found
