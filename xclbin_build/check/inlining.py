"""A function that is checked, and all that it calls: inlined, or, where that would be too much, as operators."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ..errors import BuildError
from ..hls import frontend, function_pipelines, pure
from ..hls.processes import Process
from ..hls.translation import Compiled
from .loops import Check, Loop, check, depth

# Loops: of a function with more of them, or with loops of too much code, those that it calls become operators if they
# have no effects.
MOST_INLINED = 3_000


def check_function(
    unit: Compiled, process: Process, *, clock_ns: float, part: str, memories: bool, inferred: bool, vitis: str = ""
) -> Check:
    """Checks a process of a source. memories, inferred: as for `loops.check`; vitis: the version whose rules count.

    Raises BuildError if it cannot be checked.
    """
    operators: dict[pure.Pure, tuple[int, float]] = {}
    sources: dict[str, str] = {}
    doubts: set[str] = set()

    def analyse(unit: Compiled, process: Process, *, whole: bool) -> frontend.Kernel:
        kernel = frontend.analyse_kernel(
            unit, process.symbol, clock_ns=clock_ns, pragmas=process.pragmas, passed=process.passed,
            most_loops=MOST_INLINED if whole else frontend.MOST_LOOPS, whole=whole, memories=memories,
            vitis=vitis, operators=operators,
        )  # fmt: skip
        kernel.part = part
        return kernel

    try:
        kernel = analyse(unit, process, whole=True)
    except frontend.TooLarge:
        calls = pure.Calls(unit.raw)
        for one in pure.find(unit.raw, unit.symbol_of(process.symbol), calls):
            alone = replace(unit, raw=pure.with_constants(unit.reached_from(one.symbol), one))
            with suppress(BuildError):  # then it is inlined
                found = depth(analyse(alone, Process(one.symbol), whole=False))
                if found is None:
                    continue
                cost, timing = found
                operators[one] = cost.cycles, cost.ns
                sources |= timing.sources
                doubts |= timing.doubts
        kernel = analyse(unit, process, whole=False)
    result = check(kernel, memories=memories, inferred=inferred).of(process)
    for function in () if process.only else function_pipelines.find(unit, process.symbol):
        again = analyse(function_pipelines.repeated(unit, function), process, whole=False)
        repeated = check(again, memories=memories, inferred=inferred)
        rows = _pipelined(function, repeated)
        result.functions += rows
        result.sources |= repeated.sources
        doubts.update(repeated.notes)
        if function.symbol == unit.symbol_of(process.symbol) and rows and rows[0].ii:
            result.itself, result.latency = rows[0], rows[0].latency
    result.sources = sources | result.sources
    result.notes += sorted(doubts - set(result.notes))
    return result


def _pipelined(function: function_pipelines.PipelinedFunction, found: Check) -> list[Loop]:
    """The loop over a function's calls; of a function that is called in several places, the slowest."""
    calls = [loop for loop in found.loops if loop.function and loop.name == function.loop.name]
    slowest = sorted(calls, key=lambda loop: (loop.ii is None, loop.ii or 0))[-1:]
    return [replace(loop, name=function.name, latency=loop.depth - 1 if loop.depth else None) for loop in slowest]
