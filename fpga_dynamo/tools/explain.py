"""What ran where, why, and at what cost."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.cost import transfer_seconds
from fpga_dynamo.errors import OptionError
from fpga_dynamo.frontend.backend import collect_programs, fpga
from fpga_dynamo.frontend.eager_ops import OutsideOp, OutsideOps
from fpga_dynamo.frontend.frames import observe_gaps
from fpga_dynamo.ir.command import Command
from fpga_dynamo.ir.elements import BEAT_BYTES
from fpga_dynamo.ir.flops import macs
from fpga_dynamo.ir.graph import computes, module_path, source_line, value
from fpga_dynamo.ir.program import HostTask, KernelTask, Program, Task
from fpga_dynamo.ir.sizes.size import Size
from fpga_dynamo.ir.sizes.size import value as hinted
from fpga_dynamo.lowering.ops.quantised.reasons import arithmetic, is_quantised
from fpga_dynamo.runtime.observe.trace import TraceRecorder
from fpga_dynamo.tools.estimate.figures import host_seconds
from fpga_dynamo.tools.estimate.linking import links_for
from fpga_dynamo.tools.explain_text import BY, Explanation
from fpga_dynamo.tools.reports import (
    COUNTED,
    FORMULA,
    MODELLED,
    CommandReport,
    GraphReport,
    Latency,
    NodeReport,
    OutsideReport,
)
from fpga_dynamo.torch_internals.dynamo import settings
from xclbin_build import platform as platforms
from xclbin_build.recipe import EMULATOR


def explain(
    model: Callable[..., Any],
    *args: Any,
    options: Mapping[str, Any] | None = None,
    by: str = "node",
    **kwargs: Any,
) -> Explanation:
    """Compiles `model` for the arguments, runs it once and says what ran where.

    A module in eval mode is looked at as in inference (no gradient). `options` are those of torch.compile. The
    compilation is one of its own: what has been compiled before stays as it is. `by` is what the rows of the table are:
    "node", or sums by "op", "module" or "reason", or "command" with its cycles. Raises OptionError for another one.
    """
    if by not in BY:
        raise OptionError(f"explain(by=...) must be one of {', '.join(BY)}, not {by!r}")
    inner = getattr(model, "_orig_mod", model)
    inference = isinstance(inner, torch.nn.Module) and not inner.training
    with (
        collect_programs() as programs,
        observe_gaps() as gaps,
        settings(recompile_limit=1 << 16, accumulated_recompile_limit=1 << 20),
        torch.set_grad_enabled(torch.is_grad_enabled() and not inference),
    ):
        backend, runs = _counting_backend(programs, dict(options or {}))
        compiled = torch.compile(inner, backend=backend)
        with OutsideOps() as outside, TraceRecorder() as recorder:
            compiled(*args, **kwargs)
    counted = {
        (event.task, i): end - before
        for event in recorder.counted
        for i, (before, end) in enumerate(pairwise((0, *event.ends)))
    }
    graphs = tuple(report(program, max(runs[program.name], 1), counted) for program in programs)
    gaps += [op.gap for op in outside.ops if op.gap is not None]  # those that were found in earlier calls
    return Explanation(graphs, tuple(dict.fromkeys(gaps)), tuple(_sum_reports(outside.ops)), by)


def _counting_backend(programs: list[Program], options: Mapping[str, Any]) -> tuple[Callable[..., Any], Counter[str]]:
    """The backend, and how often the graphs run that it makes the `programs` of."""
    runs: Counter[str] = Counter()

    @functools.wraps(fpga)
    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        first = len(programs)
        compiled = fpga(gm, inputs, options=options)
        mine = programs[first:]

        def run(*args: Any) -> Any:
            first = len(programs)
            result = compiled(*args)
            mine.extend(programs[first:])  # a graph for all sizes is lowered as it is called
            runs.update(program.name for program in mine)
            return result

        return run

    return backend, runs


def _sum_reports(ops: Sequence[OutsideOp]) -> Iterator[OutsideReport]:
    """A report for each op and line."""
    runs: dict[tuple[str, str, str], list[OutsideOp]] = {}
    for op in ops:
        runs.setdefault((op.op, op.reason, op.source), []).append(op)
    for (name, reason, source), same in runs.items():
        macs, size = sum(op.macs for op in same), sum(op.bytes for op in same)
        yield OutsideReport(name, f"not offloaded: {reason}", source, len(same), macs, size)


def report(program: Program, runs: int = 1, counted: Mapping[tuple[str, int], int] = {}) -> GraphReport:
    """The report of a graph that ran `runs` times in the call. counted: cycles of commands, by task and index."""
    tasks, launches = program.card_tasks, len(program.card_tasks) + len(program.kernel_tasks)
    commands = [command for task in tasks for command in task.commands]
    symbols = program.symbols
    steps = tuple(_steps(program, counted))
    return GraphReport(
        name=program.name,
        nodes=tuple(_nodes(program)),
        launches=launches,
        greedy_launches=program.greedy_launches,
        commands=len(commands),
        layout_changes=sum(command.layout_change for command in commands),
        opcodes=dict(Counter(command.opcode for command in commands)),
        arena_bytes=sum(task.plan.beats for task in tasks) * BEAT_BYTES,
        live_bytes=sum(task.plan.live for task in tasks) * BEAT_BYTES,
        input_bytes=sum(task.plan.input_end - task.plan.input_begin for task in tasks) * BEAT_BYTES,
        output_bytes=sum(hinted(slot.nbytes) for task in tasks for slot in task.outputs),
        parameter_bytes=sum(_bytes(node) for node in {n for t in tasks for b in t.weights for n in b.pack.sources}),
        weight_bytes=sum(buffer.nbytes for task in tasks for buffer in task.weights),
        lowering_seconds=program.lowering_seconds,
        sizes={} if symbols is None else symbols.hints(),
        guards=() if symbols is None else tuple(map(str, symbols.guards.values())),
        occasion=program.occasion,
        runs=runs,
        steps=steps,
        clock_mhz=program.graph.target.platform.clock_hz / 1e6,
        latency=None if program.graph.target.engine is None else _latency(program, steps),
    )


def _latency(program: Program, steps: Sequence[CommandReport]) -> Latency:
    """One call of a program for an engine."""
    platform, tasks = program.graph.target.platform, program.card_tasks
    launches = len(tasks) + len(program.kernel_tasks)
    moved = sum((task.plan.input_end - task.plan.input_begin) * BEAT_BYTES for task in tasks)
    moved += sum(hinted(slot.nbytes) for task in tasks for slot in task.outputs)
    nodes = [node for task in program.tasks if _is_eager(task) for node in task.nodes]
    on_device = {node for task in tasks for covered in task.covers for node in covered.nodes}
    card = platforms.load(EMULATOR)  # which cores match does not depend on it
    return Latency(
        platform.name,
        engine=sum(step.ms for step in steps),
        launches=launches * platform.launch_seconds * 1e3,
        transfers=transfer_seconds(moved, platform) * 1e3,
        host=sum(host_seconds(node, platform) for node in nodes) * 1e3,
        links=links_for(program.graph, on_device, nodes, platform, card),
    )


def _steps(program: Program, counted: Mapping[tuple[str, int], int]) -> Iterator[CommandReport]:
    target = program.graph.target
    for task in program.card_tasks:
        for i, command in enumerate(task.commands):
            cycles, basis = counted.get((task.name, i)), COUNTED
            if cycles is None:
                cycles, basis = round(hinted(command.cycles)), FORMULA if target.engine is None else MODELLED
            yield CommandReport(
                launch=task.name,
                index=i,
                opcode=command.opcode,
                layer=task.layers[i],
                nodes=command.nodes,
                macs=hinted(command.macs),
                bytes=hinted(command.bytes),
                cycles=cycles,
                ms=cycles / target.platform.clock_hz * 1e3,
                basis=basis,
            )


def _heads(commands: Sequence[Command]) -> Iterator[tuple[int, Command]]:
    """The commands and their places in the list; of a group of streams the head only."""
    i = 0
    while i < len(commands):
        yield i, commands[i]
        i += 1 + commands[i].group


def _is_eager(task: Task) -> bool:
    return isinstance(task, HostTask) and not isinstance(task, KernelTask)


def _nodes(program: Program) -> list[NodeReport]:
    how: dict[Node, str] = {}
    taken: dict[Node, str] = {}
    for task in program.card_tasks:
        numbers: dict[str, list[int]] = {}
        for i, command in _heads(task.commands):
            for name in command.nodes:
                numbers.setdefault(name, []).append(i)
        for covered in task.covers:
            for node in covered.nodes:
                which = numbers.get(node.name, [])
                commands = f"command {', '.join(map(str, which))}" if which else "no command"
                taken[node] = f"{task.kernel}: {covered.pattern}"
                how[node] = f"{taken[node]}, {commands} of {task.name}"
    for kernel_task in program.kernel_tasks:
        name = kernel_task.kernel.name
        where = "its own xclbin" if kernel_task.own_xclbin else "the xclbin"
        for node in kernel_task.nodes:
            taken[node] = name
            how[node] = f"{name}: kernel of {where}, launch {kernel_task.name}"
    eager = {node for task in program.tasks if _is_eager(task) for node in task.nodes}
    quantised = is_quantised(program.graph)
    reports = []
    for node in program.module.graph.nodes:
        if node.op != "call_function":
            continue
        if node in how:
            place, text = "PL", how[node]
        elif node in program.graph.static and node not in eager:
            place, text = "PL", "constant: evaluated once, when the weights are packed"
        elif node in eager or computes(node):
            place, text = "PS", program.reasons.get(node, "a view or a constant: made in eager mode")
        else:
            continue
        if quantised and macs(node) and place == "PS" and program.graph.target.engine is not None:
            text = f"{str(value(node).dtype).removeprefix('torch.')}, because {text}"
        elif quantised and macs(node):
            text = f"{arithmetic(node, taken.get(node, '').rpartition(' ')[2], program.graph)}; {text}"
        source, path = source_line(node), module_path(node)
        figures = (macs(node), _bytes(node), computes(node))
        reports.append(
            NodeReport(node.name, str(node.target), place, text, source, *figures, path, taken.get(node, ""))
        )
    return reports


def _bytes(node: Node) -> int:
    fakes = value(node) if isinstance(value(node), (tuple, list)) else [value(node)]
    concrete = [f for f in fakes if isinstance(f, torch.Tensor) and all(isinstance(s, (int, Size)) for s in f.shape)]
    return sum(hinted(f.numel()) * f.element_size() for f in concrete)
