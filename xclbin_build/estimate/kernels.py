"""Kernels and cores of the user's: counted from the IR of their sources, which needs clang 19."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from hls_kernels import ENGINE

from ..design import Core, Design, Kernel
from ..errors import BuildError
from ..generate import hls_sources, stage
from ..hls import frontend, interfaces
from ..hls.operators import Operators
from ..hls.processes import Process, name_of, processes
from ..hls.resources import Component, Resources, total
from ..hls.translation import Compiled, compile_sources
from . import cache, memories, source
from . import engine as engines


def plain(kernel: Kernel, operators: Operators, has_uram: bool) -> Component:
    """A plain kernel of the user's."""
    assert kernel.source is not None
    includes = [str(ENGINE.parent), *map(str, kernel.include)]  # what a source may include of ours, too
    part = counted("kernel", kernel.name, kernel.source, kernel.name, includes, operators, has_uram, kernel.define)
    part.parts.append(Component("ports", "m_axi and control", _ports(kernel, operators), "formula"))
    return part


def user_core(core: Core, kernel: Kernel, design: Design, operators: Operators, has_uram: bool) -> Component:
    """A core of the user's in a sequencer: a kernel with this core alone is counted, ports and all."""
    alone = replace(kernel, cores=(core,))
    with tempfile.TemporaryDirectory(prefix="estimate-") as folder:
        stage(hls_sources(replace(design, kernels=(alone,)), built_here=False), Path(folder))
        includes = [folder, f"{folder}/lib", str(core.header.parent)]
        file = Path(folder) / f"{kernel.name}.cpp"
        return counted("core", core.name, file, kernel.name, includes, operators, has_uram)


def sequencer_logic(kernel: Kernel, design: Design, operators: Operators, has_uram: bool) -> Component:
    """A sequencer, core by core: each is counted as a kernel of its own, ports and all."""
    part = Component("kernel", kernel.name, Resources(), "source")
    part.parts = [user_core(core, kernel, design, operators, has_uram) for core in kernel.cores]
    return part


def engine_logic(
    part: Component, kernel: Kernel, design: Design, operators: Operators, only: Sequence[str] = ()
) -> Component:
    """An engine with the logic of its processes; the array, which is counted already, is taken off again. only: count
    these, all if empty.

    Each process is read by itself (`check.processes`): all of them inlined into one function are more code than scalar
    evolution gets through. What was found is kept in the per-user cache.
    """
    sources = hls_sources(design, built_here=False)
    if only or (logic := cache.load(sources, design, operators)) is None:
        logic = _processes(sources, kernel, operators, only)
        if not only and all(process.basis != "unknown" for process in logic):
            cache.save(logic, sources, design, operators)
    for process in logic:
        if process.name == "mac_array" and kernel.engine is not None:
            array = engines.array_units(kernel.engine, operators)
            rest = (max(0.0, a - b) for a, b in zip(process.own.values(), array.values(), strict=True))
            process.own = Resources(*rest)
    part.parts = [*logic, *part.parts]
    return part


def _processes(sources: dict[str, str], kernel: Kernel, operators: Operators, only: Sequence[str]) -> list[Component]:
    """The processes of an engine, or one part that says why they were not counted."""
    with tempfile.TemporaryDirectory(prefix="estimate-") as folder:
        stage(sources, Path(folder))
        file = Path(folder) / f"{kernel.name}.cpp"
        try:
            unit = compile_sources(file, includes=[folder, f"{folder}/lib"])
            called = [(process, name_of(unit.module, process.symbol)) for process in processes(unit, kernel.name)]
            wanted = [pair for pair in called if not only or pair[1] in only]
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                return list(pool.map(lambda pair: _process(unit, pair[0], pair[1], operators), wanted))
        except BuildError as error:
            words = f"the logic of '{kernel.name}' was not counted: {error}"
            return [Component("logic", "processes", Resources(), "unknown", words)]


def _process(unit: Compiled, process: Process, name: str, operators: Operators) -> Component:
    """A process of an engine, with its own memories; ports, streams and blocks are counted by their sizes."""
    try:
        kernel = frontend.analyse_kernel(unit, process.symbol, pragmas=process.pragmas, passed=process.passed)
    except BuildError as error:
        return Component("process", name, Resources(), "unknown", f"process '{name}' was not counted: {error}")
    interfaces.classify(kernel)
    parameters = {value for value, kind in kernel.function.parameters if kind == "ptr"}
    part = Component("process", name, Resources(), "source")
    for use in source.ResourceCount(kernel, operators).count(intervals(kernel)).values():
        own = {value: memory for value, memory in use.arrays.items() if value not in parameters}
        arrays = total(memories.cost(m) * banks for banks, m in own.values())
        if arrays != Resources():
            part.parts.append(Component("memory", "local arrays", arrays, "source"))
        part.own += replace(use, arrays={}).resources(operators)
    return part


def counted(
    kind: str,
    name: str,
    file: Path,
    top: str,
    includes: Sequence[str],
    operators: Operators,
    has_uram: bool,
    defines: Sequence[str] = (),
) -> Component:
    """A part from the source of a function; without clang, or if clang refuses it, one whose figures are unknown."""
    try:
        kernel = frontend.load(file, top, includes=list(includes), defines=defines)
    except BuildError as error:
        return Component(kind, name, Resources(), "unknown", f"{kind} '{name}' was not counted: {error}")
    uses = source.ResourceCount(kernel, operators).count(intervals(kernel))
    part = Component(kind, name, Resources(), "source")
    for process, use in uses.items():
        arrays = total(memories.cost(m, has_uram=has_uram) * banks for banks, m in use.arrays.values())
        if arrays != Resources():
            part.parts.append(Component("memory", "local arrays", arrays, "source"))
        logic = replace(use, arrays={}).resources(operators, has_uram=has_uram)
        if process:
            part.parts.append(Component("process", process, logic, "source"))
        else:
            part.own = logic
    return part


def intervals(kernel: frontend.Kernel) -> dict[str, int]:
    """Initiation intervals of pipelined loops, by their headers: what the source asks for."""
    found = {}
    for loop in kernel.flow.innermost():
        instance = kernel.instance_of(loop)
        if instance is None or instance.pipeline is not False:
            found[loop.header] = (instance.target_ii if instance else None) or 1
    return found


def _ports(kernel: Kernel, operators: Operators) -> Resources:
    """An adapter for each pointer, as wide as what it points to."""
    found = operators.control(len(kernel.arguments))
    for bound in kernel.arguments:
        if bound.argument.kind == "global":
            found += operators.port(_bits_of(bound.argument.type), reads=True, writes=not bound.argument.const)
    return found


_BITS = {"float": 32, "int": 32, "double": 64, "int8_t": 8, "int16_t": 16, "int64_t": 64, "uint8_t": 8, "half": 16}


def _bits_of(type: str) -> int:
    """Bits of an element by the C++ name of its type; 512 for vectors and structures, which fill a bus."""
    return _BITS.get(type.replace("const ", "").strip(), 512 if "<" in type else 32)
