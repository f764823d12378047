"""Dynamo's entry: GraphModule and example inputs in, a callable out. AOTAutograd in between, lowering behind it."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from torch.fx import GraphModule, Node
from torch.fx.traceback import preserve_node_meta
from torch.nn import Module

from fpga_dynamo.cache import Trace, lower_cached
from fpga_dynamo.cache.artifacts import recording
from fpga_dynamo.codegen.eager import whole
from fpga_dynamo.errors import FpgaError, NotLoweredError
from fpga_dynamo.frontend.ahead import FpgaCode, Snapshot
from fpga_dynamo.frontend.double_backward import DoubleBackward
from fpga_dynamo.frontend.dropouts import drop_idle_dropouts, refuse_recurrence
from fpga_dynamo.frontend.eager_ops import StrictWatch
from fpga_dynamo.frontend.frames import Frames, Gap, note_gap
from fpga_dynamo.frontend.platform import with_card, with_recipe
from fpga_dynamo.ir.program import Program
from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering import names
from fpga_dynamo.lowering.garbage import collector_paused
from fpga_dynamo.lowering.passes.pipeline import in_eager, lower
from fpga_dynamo.lowering.tracing.decompose import DECOMPOSITIONS, kept_whole
from fpga_dynamo.lowering.tracing.interpolation import PARTS, WHOLE
from fpga_dynamo.lowering.tracing.saved import follow, lay_out_images, misplaced, output_strides, restore, save_copies
from fpga_dynamo.lowering.tracing.specialise import has_symbols
from fpga_dynamo.lowering.tracing.strides import settle_strides
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.calls.direct import direct
from fpga_dynamo.runtime.calls.dynamic import Dynamic
from fpga_dynamo.runtime.calls.executor import Executor
from fpga_dynamo.runtime.calls.lifetime import Lifetime
from fpga_dynamo.runtime.calls.wrappers import do_nothing, why_not_replayed
from fpga_dynamo.runtime.cards.card import Card, open_card
from fpga_dynamo.runtime.internal_errors import or_else
from fpga_dynamo.runtime.observe import counters
from fpga_dynamo.runtime.observe.reproduction import Case
from fpga_dynamo.runtime.scheduling.policies import policy_names
from fpga_dynamo.torch_internals.aot import (
    SerializableAOTDispatchCompiler,
    aot_autograd,
    donate_no_buffer,
    forget_output_strides,
    graph_facts,
    is_ahead_of_time,
    mark_boxed,
    saved_outputs,
    takes_output_strides,
    tell_output_strides,
    why_not_traced,
)
from fpga_dynamo.torch_internals.dynamo import in_forward_ad
from fpga_dynamo.torch_internals.frames import install
from fpga_dynamo.torch_internals.tracing import traced
from fpga_dynamo.torch_internals.versions import warn_once

log = logging.getLogger(__name__)

_collector: ContextVar[list[Program] | None] = ContextVar("fpga_dynamo_programs", default=None)
_executors: weakref.WeakSet[Executor] = weakref.WeakSet()


@dataclass(frozen=True)
class _Frame:
    """What the graphs of one frame (forward, backward, for all sizes) have in common."""

    card: Card
    options: Options
    lifetime: Lifetime = field(default_factory=Lifetime)
    inference: list[Callable[..., Any]] = field(default_factory=list)
    ahead: bool = False
    snapshots: list[Snapshot] = field(default_factory=list)
    subject: names.Subject | None = field(default_factory=names.subject)


def fpga(
    gm: GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """The backend of ``torch.compile(model, backend="fpga", options={...})``; see :class:`fpga_dynamo.options.Options`.

    Raises :class:`fpga_dynamo.FpgaError` (inside Dynamo's BackendCompilerFailed) for a wrong option or mode, an xclbin
    that cannot be used, and with ``strict=True`` for a node that would run on the PS.
    """
    parsed = with_card(with_recipe(_parse_options(options, mode), gm, example_inputs), options, example_inputs)
    warn_once()
    if in_forward_ad():
        return _left_to_eager(
            gm, "forward-mode differentiation is not supported: the card computes no tangents", parsed
        )
    refuse_recurrence(gm)
    frame = _Frame(open_card(parsed), parsed, ahead=is_ahead_of_time())
    case = Case(gm, parsed, example_inputs, from_dynamo=True)

    return or_else(lambda: _compile_dynamo_graph(gm, example_inputs, frame), lambda why: _with_gap(gm, why), case)


def _parse_options(options: Mapping[str, Any] | None = None, mode: str | None = None) -> Options:
    """The options of a call of torch.compile; raises :class:`OptionError` for wrong ones, or a mode."""
    Options.refuse_mode(mode)
    return Options.parse(options, policy_names())


def _strict(options: Mapping[str, Any] | None = None, mode: str | None = None) -> bool:
    """What a call of torch.compile says of `strict`, before anything of it is checked."""
    return isinstance(options, Mapping) and options.get("strict") is True


def _compile_dynamo_graph(gm: GraphModule, example_inputs: Sequence[Any], frame: _Frame) -> Callable[..., Any]:
    """What runs one of Dynamo's graphs."""
    parsed = frame.options
    drop_idle_dropouts(gm)
    double_backward = DoubleBackward(gm, example_inputs)
    trace = Trace(gm, example_inputs, frame.card.target, parsed)
    if _collector.get() is None and not frame.ahead and (program := trace.load()) is not None:
        return _direct(_start(program, frame), None, example_inputs)

    def compile_inference(module: GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
        static = _static_inputs(module)

        def capture_and_compile() -> Callable[..., Any]:
            settle_strides(module)
            trace.capture(module, static)
            return _compile_aten_graph(module, static, frame)

        frame.inference.append(_or_eager(capture_and_compile, module, static, frame))
        return _boxed(frame.inference[-1])

    def compile_part(module: GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
        double_backward.trained(module)
        donate_no_buffer()
        static = _static_inputs(module)
        unchanged = _unchanged_by_training(static)
        saved = saved_outputs() or slice(0)
        run = _or_eager(lambda: _compile_forward(module, unchanged, frame), module, unchanged, frame, saved)
        # What has no weights of its own does not know a parameter to live as long as.
        return _boxed(run if unchanged or not static else frame.lifetime.of_parameter(min(static), run))

    def compile_backward(module: GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
        return _boxed(_or_eager(lambda: _compile_backward(module, inputs, frame), module, (), frame, slice(0)))

    compilers: dict[str, Callable[..., Any]] = {
        "fw_compiler": compile_part,
        "bw_compiler": compile_backward,
        "inference_compiler": compile_inference,
    }
    if frame.ahead:
        compilers = {name: _serialisable(compiler, frame) for name, compiler in compilers.items()}
    wrapped = aot_autograd(**compilers, decompositions=DECOMPOSITIONS)
    try:
        with kept_whole():
            compiled = wrapped(gm, list(example_inputs))
            mark_boxed(compiled, False)  # it carries the mark of the one inside; Dynamo's minifier goes by that
    except (AssertionError, RuntimeError) as error:
        if (reason := why_not_traced(error, DECOMPOSITIONS.values(), (*WHOLE.values(), *PARTS.values()))) is None:
            raise
        return _left_to_eager(gm, reason, parsed)
    if (reason := why_not_replayed(example_inputs)) is not None:
        return _left_to_eager(gm, reason, parsed)
    if frame.ahead:
        return compiled
    trace.store()
    if len(frame.inference) == 1 and isinstance(frame.inference[0], Executor) and do_nothing(example_inputs):
        return _direct(frame.inference[0], compiled, example_inputs)
    return double_backward.wrapped(compiled) if double_backward.wanted else compiled


def _left_to_eager(gm: GraphModule, reason: str, options: Options) -> Callable[..., Any]:
    if options.strict:
        raise NotLoweredError(f"strict=True, but a graph falls back to eager mode: {reason}")
    log.warning("a graph falls back to eager mode: %s", reason)
    return _with_gap(gm, reason)


def _with_gap(gm: GraphModule, reason: str) -> Callable[..., Any]:
    """A graph that eager runs, and of which `explain` says why."""
    note_gap(gm.forward.__code__, Gap("graph falls back to eager mode", reason, "", 0, ""))
    return gm


def _direct(executor: Executor, compiled: Callable[..., Any] | None, inputs: Sequence[Any]) -> Callable[..., Any]:
    """What runs an executor that gets a graph's inputs as they are: `compiled` does no more, None is no more."""
    executor.expect(inputs)
    otherwise = executor if compiled is None else compiled
    return or_else(lambda: direct(otherwise, executor, len(inputs)), lambda why: otherwise, executor.case)


def _or_eager(
    compile_: Callable[[], Callable[..., Any]],
    module: GraphModule,
    static: Collection[int],
    frame: _Frame,
    saved: slice | None = None,
) -> Callable[..., Any]:
    """What runs one of AOTAutograd's graphs: the graph in eager if the compiler fails."""

    def instead(why: str) -> Callable[..., Any]:
        forget_output_strides()
        if (collected := _collector.get()) is not None:
            collected.append(in_eager(module, frame.card.target, why))
        return whole(module)

    return or_else(compile_, instead, Case(module, frame.options, static=static, saved=saved))


def compile_graph(
    graph: Module, inputs: Sequence[Any], options: Options, static: Collection[int], saved: slice | None
) -> Callable[..., Any]:
    """Compiles an ATen graph that is there as a module, for inputs of this kind; those that are numbers may change.

    saved: of a part of a training step, which outputs it saves; None is inference.
    """
    mode: Literal["symbolic", "fake"] = "symbolic" if any(type(given) is int for given in inputs) else "fake"
    with preserve_node_meta(), kept_whole():
        module = traced(graph, inputs, mode)
    settle_strides(module)
    return _compile_settled(module, static, saved, _Frame(open_card(options), options))


def load_graph(
    graph: Callable[[], GraphModule], static: Collection[int], saved: slice | None, options: Options
) -> tuple[Callable[[list[Any]], Any], Target]:
    """What runs a graph that was compiled in another process, and for which target it does."""
    frame = _Frame(open_card(options), options)
    module = graph()
    run = _or_eager(lambda: _compile_settled(module, static, saved, frame), module, static, frame, saved)
    return _boxed(run), frame.card.target


def _compile_settled(
    module: GraphModule, static: Collection[int], saved: slice | None, frame: _Frame
) -> Callable[..., Any]:
    """Of a graph with settled strides."""
    if saved is None or has_symbols(module):
        return _compile_aten_graph(module, static, frame)
    return _start_counted(_lower_with_layouts(module, static, frame, saved)[0], frame)


def _serialisable(compiler: Callable[..., Any], frame: _Frame) -> SerializableAOTDispatchCompiler:
    """`compiler`, one of a frame's three, for a result that can be saved."""

    def compile_and_keep(module: GraphModule, inputs: Sequence[Any]) -> FpgaCode:
        frame.snapshots.clear()
        with recording() as programs:
            run = compiler(module, inputs)
        if not frame.snapshots:
            raise FpgaError("aot_compile cannot save a graph that falls back to eager mode")
        return FpgaCode(run, frame.snapshots[0], programs, frame.card.target, frame.options, load_graph)

    return SerializableAOTDispatchCompiler(FpgaCode, compile_and_keep)


def _keep_snapshot(module: GraphModule, static: Collection[int], saved: slice | None, frame: _Frame) -> None:
    """Keeps a graph that is about to be lowered, if it is to be saved."""
    if frame.ahead:
        frame.snapshots.append(Snapshot(module, static, saved))


def _static_inputs(module: GraphModule) -> Collection[int]:
    """Positions of parameters and buffers among the placeholders of a forward graph."""
    facts = graph_facts()
    return () if facts is None else facts.static


def _unchanged_by_training(static: Collection[int]) -> Collection[int]:
    """Of the parameters and buffers of a training step's forward graph those that the step leaves as they are.

    What changes at every step would have to be packed at every step; as an input it only has to be copied.
    """
    facts = graph_facts()
    if facts is None:
        return static
    return tuple(i for i in static if not (facts.requires_grad[i] or facts.changed[i]))


def _compile_aten_graph(module: GraphModule, static: Collection[int], frame: _Frame) -> Callable[..., Any]:
    _keep_snapshot(module, static, None, frame)
    if has_symbols(module):
        case = Case(module, frame.options, static=static)
        return Dynamic(module, lambda ready: _make_executor(ready, static, frame), case)
    return _make_executor(module, static, frame)


def _compile_forward(module: GraphModule, static: Collection[int], frame: _Frame) -> Callable[..., Any]:
    """The forward graph of a training step; AOTAutograd is told in which strides it saves what."""
    settled = settle_strides(module)
    facts, saved = graph_facts(), saved_outputs()
    if facts is None or saved is None:
        return _compile_aten_graph(module, static, frame)
    save_copies(module, {i for i, changed in enumerate(facts.changed) if changed}, saved)
    if has_symbols(module) or not takes_output_strides():
        return _compile_aten_graph(module, static, frame)
    program, chosen = _lower_with_layouts(module, static, frame, saved)
    tell_output_strides(output_strides(module, settled.union(chosen)))
    return _start_counted(program, frame)


def _compile_backward(module: GraphModule, inputs: Sequence[Any], frame: _Frame) -> Callable[..., Any]:
    settle_strides(module)
    if has_symbols(module):
        return _compile_aten_graph(module, (), frame)
    follow(module, inputs)  # after it: the strides of returned gradients are those of eager mode's feature maps
    program, _ = _lower_with_layouts(module, (), frame)
    return _start_counted(program, frame)


def _lower_with_layouts(
    module: GraphModule, static: Collection[int], frame: _Frame, saved: slice = slice(0)
) -> tuple[Program, Collection[Node]]:
    """The program of a part of a training step, and the nodes whose values were given other strides than in tracing."""
    _keep_snapshot(module, static, saved, frame)
    chosen = lay_out_images(module, saved)
    program = _lower_or_load(module, static, frame)
    while wrong := misplaced(program, chosen):
        restore(chosen, wrong)
        program = _lower_or_load(module, static, frame)
    return program, chosen


def _make_executor(module: GraphModule, static: Collection[int], frame: _Frame) -> Executor:
    return _start_counted(_lower_or_load(module, static, frame), frame)


def _lower_or_load(module: GraphModule, static: Collection[int], frame: _Frame) -> Program:
    # Whoever collects programs wants to see all of how they came about, which the cache does not keep.
    make = lower_cached if _collector.get() is None else lower
    with names.compiling(frame.subject):  # a graph may be lowered long after its frame was converted
        return make(module, frame.card.target, frame.options, static)


def _start_counted(program: Program, frame: _Frame) -> Executor:
    """A program that is going to be used, started."""
    collected = _collector.get()
    if program.lowering_seconds:
        counters.add(graphs_compiled=1, compile_seconds=program.lowering_seconds)
    if collected is not None:
        collected.append(program)
    if frame.options.dump_dir is not None:
        from fpga_dynamo.codegen.dump import dump_program

        dump_program(program, frame.card.target, frame.options.dump_dir)
    return _start(program, frame)


def _start(program: Program, frame: _Frame) -> Executor:
    with collector_paused():
        executor = Executor(program, frame.card, frame.options, frame.lifetime)
    _executors.add(executor)
    return executor


def _boxed(run: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """AOTAutograd's calling convention that lets the callee drop its arguments."""

    def call(args: list[Any]) -> Any:
        given = tuple(args)
        args.clear()
        return run(*given)

    mark_boxed(call)
    return call


@contextmanager
def collect_programs() -> Any:
    """Yields a list that receives every program compiled in this context."""
    programs: list[Program] = []
    token = _collector.set(programs)
    try:
        yield programs
    finally:
        _collector.reset(token)


def executors_of(programs: Sequence[Program]) -> list[Executor]:
    """What runs these programs, in their order; of a program that is gone, nothing."""
    running = {id(executor.program): executor for executor in list(_executors)}
    return [running[id(program)] for program in programs if id(program) in running]


def refresh_weights() -> None:
    """Has all parameters packed again before their next use.

    Needed after a write that nothing counts and a sample may miss: single elements, through ``.data`` or NumPy.
    """
    for executor in list(_executors):
        executor.refresh_weights()


install(fpga, _parse_options, lambda arguments: Frames(StrictWatch() if _strict(**arguments) else None))
