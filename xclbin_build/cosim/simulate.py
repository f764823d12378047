"""Builds and runs a design with its test bench on simulated time."""

from __future__ import annotations

import functools
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .. import csim, dataflow
from ..check.run import CheckedPart, check_source
from ..errors import RecipeError, ToolchainError
from ..hls.clang import SourceError
from ..hls_project import HlsProject
from ..platform import Platform
from ..toolchain.compiler import find_compiler
from . import runtime, schedule
from .instrument import instrumented
from .memory import Memory

_OF_DESIGN = ("-D__SYNTHESIS__=1", "-D__VITIS_HLS__=1")  # hardware is what synthesis sees


@dataclass(frozen=True)
class Settings:
    """top: the function whose calls are timed. clock_ns: the period. flow, vitis: as for the checker. depths: search
    the smallest depths of FIFOs even if that takes long."""

    top: str
    clock_ns: float
    part: str = ""
    platform: Platform | None = None
    flow: str | None = None
    vitis: str = ""
    depths: bool = False
    timeout: float | None = None


@dataclass
class Simulated:
    """status: of the test bench. found: what hls_kernels/sim/cosim/result.hpp writes; empty if the bench has not called
    the top function. notes: what is assumed."""

    status: int
    found: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def simulate(project: HlsProject, settings: Settings, work: Path, output: IO[str] | None = None) -> Simulated:
    """Runs the test bench of a component. output: where what the bench prints goes, if not to standard output.

    Raises RecipeError or ToolchainError, also for sources that a compiler refuses.
    """
    if not any(settings.top in each.path.read_text(errors="replace") for each in [*project.sources, *project.bench]):
        raise RecipeError(f"no source defines '{settings.top}': name the top function by -k.")
    memory = Memory.of(settings.platform, settings.clock_ns)
    with ThreadPoolExecutor(max_workers=1) as pool:
        checked = pool.submit(_checked, project, settings)
        program = _build(project, settings.top, work)
        parts = checked.result()
    plan = schedule.written(parts, memory.bytes_a_cycle)
    table, result = work / "schedule.txt", work / "result.json"
    table.write_text(plan.text)
    variables = {
        "FPGA_COSIM_SCHEDULE": str(table),
        "FPGA_COSIM_RESULT": str(result),
        "FPGA_COSIM_MEMORY": memory.words(),
    }
    if settings.depths:
        variables["FPGA_COSIM_DEPTHS"] = "1"
    status = csim.run_bench(program, project, work, settings.timeout, variables=variables, output=output)
    found = json.loads(result.read_text()) if result.is_file() else {}
    return Simulated(status, found, plan.notes)


def _checked(project: HlsProject, settings: Settings) -> list[CheckedPart]:
    """The schedule of the design's processes."""
    sources = [each.path for each in project.sources] or [each.path for each in project.bench]
    try:
        return check_source(
            sources[0], settings.top, others=sources[1:], includes=project.values("-I"),
            defines=project.values("-D"), directives=project.directives,
            clock_ns=settings.clock_ns, part=settings.part, flow=settings.flow, vitis=settings.vitis,
        )  # fmt: skip
    except SourceError as error:
        raise ToolchainError(f"the schedule cannot be made: {error}") from error


def _rewritten(text: str, top: str) -> str:
    return instrumented(dataflow.rewritten(text), top)


def _build(project: HlsProject, top: str, work: Path) -> Path:
    """The test bench, linked with the design that knows its time."""
    folders = [each.path.parent for each in [*project.sources, *project.bench]]
    flags = [*project.source_flags, *project.bench_flags, *(f for each in project.sources for f in each.flags)]
    named = [Path(flag[2:]) for flag in flags if flag.startswith("-I")]
    mirror = csim.Mirror(work / "sources", [*folders, *named], functools.partial(_rewritten, top=top))
    own = [each.path for each in project.sources] or [each.path for each in project.bench]
    mirror.stage(own)
    common = runtime.ready()
    jobs = []
    for number, (each, bench) in enumerate(csim.units(project)):
        of_project = project.bench_flags if bench else project.source_flags
        flags = [*of_project, *each.flags, *runtime.FLAGS, *(() if bench else _OF_DESIGN)]
        jobs.append((each, flags, work / f"{number}_{each.path.stem}.o", mirror.of(each.path).is_file()))
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = [
            pool.submit(csim.compile_file, mirror, each, words, target, header=common.header, copied=copied)
            for each, words, target, copied in jobs
        ]
        for one in running:
            one.result()
    program = work / "cosim.exe"
    libraries = [word for word in project.link if word.startswith(("-l", "-L"))]
    objects = [str(target) for _, _, target, _ in jobs] + [str(path) for path in common.objects]
    csim.call_compiler([*find_compiler().command, *objects, "-o", str(program), *libraries, "-pthread"])
    return program
