"""The task graph of a model: what its tasks are at a granularity, what each takes on each kind of unit, what crosses.

A task's seconds on the kinds of CPU are measured here (x86) or modelled by a platform's figures of its processor; those
on a kernel are cycles counted from the sources, or measured on the emulator.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen import cost
from fpga_dynamo.errors import OptionError
from fpga_dynamo.frontend.backend import collect_programs, executors_of, fpga
from fpga_dynamo.ir.elements import BEAT_BYTES
from fpga_dynamo.ir.flops import macs
from fpga_dynamo.ir.graph import computes, is_view, module_path
from fpga_dynamo.ir.operators import facts
from fpga_dynamo.ir.program import CardTask, KernelTask, Program
from fpga_dynamo.ir.program import Task as ProgramTask
from fpga_dynamo.ir.target import Platform
from fpga_dynamo.runtime.application import Application, ApplicationError, ApplicationTask, Edge
from fpga_dynamo.runtime.calls.executor import Executor
from fpga_dynamo.runtime.observe.trace import TraceRecorder
from fpga_dynamo.tools.task_results import GraphCall, flat, results_of
from fpga_dynamo.torch_internals.dynamo import settings
from fpga_dynamo.torch_internals.pytree import tree_leaves
from xclbin_build import platform as platforms

GRANULARITIES = ("launch", "layer", "op")

PROCESSORS = {"x86": "emu", "a53": "zcu102", "a72": "vck190"}
"""CPU classes, and the platforms whose figures of a processor (operations and bytes a second, seconds of an eager
operator's dispatch) stand for a core of each. Those of Arm cores are estimates, as their files say."""

RUNS, LEAST_SECONDS = 5, 0.01
"""Of a measurement: the median of so many runs, or of more until they have taken so long together, up to FEW."""
MOST_RUNS = 50

SHOWN = 3
"""Operators that a task without a layer is named by, at most."""


def task_graph(
    model: Callable[..., Any],
    *args: Any,
    granularity: str = "launch",
    platform: str | None = None,
    measure: bool = True,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Application:
    """Compiles `model` for the arguments, runs it, and gives the graph of its tasks.

    granularity: "launch", what the compiler would start at once; "layer", what one module computes; "op", an operator.
    platform: whose clock and start of a launch the seconds of kernels are for, by cycles counted from the sources; None
        is the emulator, measured.
    measure: whether seconds on "x86" are measured here, on one thread; if not they are modelled, and those of kernels
        are counted.
    options: those of torch.compile; by default the xclbin is that of the recipe "signal", with a kernel each for
        convolutions, products, transforms and complex arithmetic.

    The tasks can be run: `task.run(kind, *results of its dependencies)` computes on a kernel or in eager mode, for the
    given inputs; `graph.collect` makes the model's results of what all tasks gave, views behind the last task included.
    The compilation is one of its own: what has been compiled before stays as it is. Raises OptionError for a
    granularity or platform that does not exist, ApplicationError if Dynamo finds no graph in the model.
    """
    if granularity not in GRANULARITIES:
        raise OptionError(f"task_graph(granularity=...) must be one of {', '.join(GRANULARITIES)}, not {granularity!r}")
    card = None if platform is None else _figures(platform)
    inner = getattr(model, "_orig_mod", model)
    chosen = {"recipe": "signal", **dict(options or {}), "granularity": granularity, "cache": False}
    inference = not (isinstance(inner, torch.nn.Module) and inner.training)
    with (
        torch.set_grad_enabled(torch.is_grad_enabled() and not inference),
        settings(recompile_limit=1 << 16, accumulated_recompile_limit=1 << 20),
        collect_programs() as programs,
    ):
        compiled = torch.compile(inner, backend=_own_backend(chosen), dynamic=False)
        compiled(*args, **kwargs)
        executors = executors_of(programs)
        given, calls = _calls(executors, lambda: compiled(*args, **kwargs))
        tasks: list[ApplicationTask] = []
        for number, call in enumerate(calls):
            calls[number] = replace(call, first=len(tasks))
            _append(tasks, _Maker(call.executor, call.inputs, card, measure).tasks())
        results, collect = results_of(given, calls)
    label = name or next((p.model for p in programs if p.model), "") or getattr(inner, "__name__", type(inner).__name__)
    if not calls and not _returns_inputs(given, (args, kwargs)):
        raise ApplicationError(
            f"task_graph found no graph in {label!r}: Dynamo compiled nothing of it. fpga_dynamo.explain(model, ...) "
            "says which code is not compiled and why"
        )
    return Application(label, _named(tasks), granularity, _source(platform, measure), results, collect)


def _own_backend(options: Mapping[str, Any]) -> Callable[..., Any]:
    """A backend that no code has been compiled for: Dynamo would find its earlier code, and compile nothing."""

    @functools.wraps(fpga)
    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return fpga(gm, inputs, options=options)

    return backend


def _returns_inputs(given: Any, inputs: Any) -> bool:
    """Whether a model returns what it gets, as nn.Identity does; it has no graph then."""
    known = {id(leaf) for leaf in tree_leaves(inputs)}
    return all(id(leaf) in known for leaf in tree_leaves(given))


def _figures(platform: str) -> Platform:
    if platform not in platforms.names():
        raise OptionError(f"unknown platform {platform!r}: task_graph supports {', '.join(platforms.names())}")
    return Platform.from_manifest({"name": platform, **platforms.load(platform).speeds})


def _source(platform: str | None, measure: bool) -> str:
    host = "x86 measured on one thread" if measure else "x86 by the cost model"
    card = "the emulator, measured" if platform is None and measure else f"simulated cycles of {platform or 'emu'}"
    return f"{host}, a53 and a72 by the cost model with estimated figures; kernels: {card}"


def _calls(executors: Sequence[Executor], call: Callable[[], Any]) -> tuple[Any, list[GraphCall]]:
    """What `call` returns, and the graphs' calls in it; only the last of several calls of one graph counts."""
    found: dict[Executor, GraphCall] = {}

    def watch(executor: Executor) -> Callable[[Sequence[Any], Any], None]:
        return lambda given, result: found.update({executor: GraphCall(executor, tuple(given), tuple(flat(result)))})

    for executor in executors:
        executor.watch = watch(executor)
    try:
        with TraceRecorder():  # under which no call takes a shortcut
            returned = call()
    finally:
        for executor in executors:
            executor.watch = None
    return returned, [found[executor] for executor in executors if executor in found]


def _append(tasks: list[ApplicationTask], more: list[ApplicationTask]) -> None:
    """Another graph's tasks, which come after all before: PyTorch runs one graph of a frame after the other."""
    first = len(tasks)
    used = {edge.task for task in tasks for edge in task.dependencies}
    ends = tuple(Edge(index) for index in range(first) if index not in used)
    for task in more:
        moved = tuple(Edge(edge.task + first, edge.bytes) for edge in task.dependencies)
        tasks.append(replace(task, dependencies=moved or ends, run=task.run if moved else _after(task.run, len(ends))))


def _after(run: Callable[..., Any], waits: int) -> Callable[..., Any]:
    """`run` without the results of tasks that it only waits for."""
    return lambda kind, *inputs: run(kind, *inputs[waits:])


def _named(tasks: Sequence[ApplicationTask]) -> Iterator[ApplicationTask]:
    """Names that are each other's: a layer that is called again has a number."""
    seen: Counter[str] = Counter()
    for task in tasks:
        seen[task.name] += 1
        yield task if seen[task.name] == 1 else replace(task, name=f"{task.name}#{seen[task.name]}")


@dataclass
class _Maker:
    """The tasks of one program, for one call's inputs."""

    executor: Executor
    inputs: Sequence[Any]
    card: Platform | None
    measure: bool

    def tasks(self) -> list[ApplicationTask]:
        executor, program = self.executor, self.executor.program
        values = executor.start_values(self.inputs)
        maker = {node: i for i, task in enumerate(program.tasks) for node in task.writes}
        results = set(program.result_reads)
        made = []
        with _one_thread(self.measure):
            for index, task in enumerate(program.tasks):
                executor.run_task(index, values, executor.host)
                reads = list(dict.fromkeys(task.reads))
                crossing: dict[int, int] = {}
                for node in reads:
                    if node in maker:
                        crossing[maker[node]] = crossing.get(maker[node], 0) + _bytes(values[executor.place(node)])
                crossing |= {i: crossing.get(i, 0) for i in task.dependencies}
                edges = tuple(Edge(i, size) for i, size in sorted(crossing.items()))
                outside = [n for n in reads if n not in maker and n not in program.graph.static]
                written = [values[executor.place(node)] for node in task.writes]
                seconds, basis = self._seconds(index, task, values)
                made.append(
                    ApplicationTask(
                        name=_name(task, executor.options.granularity),
                        seconds=seconds,
                        dependencies=edges,
                        layer=_layer(task),
                        kernel=_kernel(task),
                        inputs=tuple(_shape(values[executor.place(node)]) for node in reads),
                        outputs=tuple(map(_shape, written)),
                        memory=_memory(task, [values[executor.place(node)] for node in reads], written),
                        from_host=sum(_bytes(values[executor.place(node)]) for node in outside),
                        to_host=sum(_bytes(values[executor.place(n)]) for n in task.writes if n in results),
                        basis=basis,
                        run=_runner(executor, self.inputs, index, [edge.task for edge in edges]),
                    )
                )
        return made

    def _seconds(self, index: int, task: ProgramTask, values: list[Any]) -> tuple[dict[str, float], dict[str, str]]:
        nodes = [node for node in task.nodes if node.op == "call_function" and not is_view(node)]
        seconds, basis = {}, {}
        for kind, platform in PROCESSORS.items():
            figures = _figures(platform)
            seconds[kind] = sum(_modelled(node, figures) for node in nodes)
            rates = f"{figures.ps_flops / 1e9:g} GFLOP/s, {figures.ps_bytes / 1e9:g} GB/s"
            basis[kind] = f"model: {rates}, {figures.ps_node_seconds * 1e6:g} us per operator ({platform})"
        if isinstance(task, KernelTask) and not task.kernel.has_cpu:
            seconds, basis = {}, {}
        elif self.measure:
            seconds["x86"] = _median(lambda: self.executor.run_task(index, list(values), self.executor.host))
            basis["x86"] = f"measured: median, one thread, {torch.backends.cpu.get_cpu_capability()}"
        if kernel := _kernel(task):
            seconds[kernel], basis[kernel] = self._on_card(index, task, values)
        return seconds, basis

    def _on_card(self, index: int, task: ProgramTask, values: list[Any]) -> tuple[float, str]:
        if self.card is None and self.measure:
            unit = self.executor.unit_of(index)
            assert unit is not None, "the task has a kernel"
            seconds = _median(lambda: self.executor.run_task(index, list(values), unit))
            return seconds, "measured: the emulator, transfers included"
        card = self.card or self.executor.card.target.platform
        if not isinstance(task, CardTask):
            moved = sum(_of_fakes(node) for node in (*task.reads, *task.writes))
            seconds = card.launch_seconds + cost.transfer_seconds(moved, card)
            return seconds, f"model: a launch and its transfers on {card.name}, without the kernel's own time"
        cycles = sum(command.cycles for command in task.commands)
        seconds = card.launch_seconds + cost.command_seconds(cycles, card)
        clock, start = card.clock_hz / 1e6, card.launch_seconds * 1e6
        return seconds, f"cycles simulated from the sources, {clock:g} MHz, {start:g} us per launch ({card.name})"


def _kernel(task: ProgramTask) -> str:
    """The name of the kernel that can run a task, "" if only the host can."""
    if isinstance(task, KernelTask):
        return task.kernel.name
    return task.kernel if isinstance(task, CardTask) else ""


def _modelled(node: Node, figures: Platform) -> float:
    moved = _of_fakes(node) + sum(_of_fakes(arg) for arg in node.all_input_nodes)
    return cost.ps_seconds(2.0 * macs(node), facts(node.target).passes * moved, figures)


def _of_fakes(node: Node) -> int:
    found = node.meta.get("val")
    return sum(map(_bytes, found)) if isinstance(found, (tuple, list)) else _bytes(found)


def _bytes(value: Any) -> int:
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


def _memory(task: ProgramTask, reads: Sequence[Any], written: Sequence[Any]) -> int:
    """Operands and results; of a launch the arena, and packed weights."""
    if isinstance(task, CardTask):
        return int(task.plan.beats * BEAT_BYTES + sum(buffer.nbytes for buffer in task.weights))
    return sum(map(_bytes, (*reads, *written)))


def _computing(task: ProgramTask) -> list[Node]:
    return [node for node in task.nodes if computes(node)] or list(task.nodes)


def _name(task: ProgramTask, granularity: str) -> str:
    """Of a layer its path, of an operator the node's name and what is fused to it; else the task's own."""
    nodes = _computing(task)
    if granularity == "layer" and (path := next((path for node in nodes if (path := module_path(node))), "")):
        return path
    return "+".join(node.name for node in nodes) if 0 < len(nodes) <= SHOWN else task.name


def _layer(task: ProgramTask) -> str:
    """The type of the module that it computes, or its operators."""
    types = []
    for node in _computing(task):
        stack = node.meta.get("nn_module_stack") or {}
        kind = next(reversed(list(stack.values())), ("", ""))[1] if stack else ""
        short = getattr(kind, "__name__", str(kind)).rsplit(".", 1)[-1]
        target = str(node.target).removesuffix(".default")
        types.append(short if short and module_path(node) else target)
    return " ".join(dict.fromkeys(types)) if len(set(types)) <= 3 else f"{types[0]} and {len(types) - 1} more"


def _runner(executor: Executor, inputs: Sequence[Any], index: int, before: Sequence[int]) -> Callable[..., Any]:
    """What runs a task for the results of its dependencies, each the values that that one writes."""
    program: Program = executor.program
    task = program.tasks[index]
    unit, kernel = executor.unit_of(index), _kernel(task)
    places = [[executor.place(node) for node in program.tasks[i].writes] for i in before]
    writes = [executor.place(node) for node in task.writes]

    def run(kind: str, *results: Any) -> tuple[Any, ...]:
        values = executor.start_values(inputs)
        for where, given in zip(places, results, strict=True):
            for place, value in zip(where, given, strict=True):
                values[place] = value
        executor.run_task(index, values, unit if unit is not None and kind == kernel else executor.host)
        return tuple(values[place] for place in writes)

    return run


def _median(run: Callable[[], Any]) -> float:
    run()
    times: list[float] = []
    while len(times) < RUNS or (sum(times) < LEAST_SECONDS and len(times) < MOST_RUNS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


@contextmanager
def _one_thread(wanted: bool) -> Iterator[None]:
    """Eager on one thread, as a PE of the host is one core."""
    before = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_num_threads(before)
