"""Runs a Program: its tasks as a task graph under the scheduler, values in a list, eager where the card cannot."""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.fx import Node

from fpga_dynamo.errors import DeviceError, FpgaError
from fpga_dynamo.ir.dtypes import OutOfRangeError
from fpga_dynamo.ir.graph import computes
from fpga_dynamo.ir.launch import Form
from fpga_dynamo.ir.plain_kernels import plain_kernel
from fpga_dynamo.ir.program import CardTask, HostTask, KernelTask, Program
from fpga_dynamo.ir.sizes.size import Size
from fpga_dynamo.ir.weights import NotEvaluatedError, NotExactError, NotFiniteError, all_finite
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.calls.binding import Binding, Bindings
from fpga_dynamo.runtime.calls.kernel_tasks import KernelRunner, on_host
from fpga_dynamo.runtime.calls.launch import Launcher
from fpga_dynamo.runtime.calls.lifetime import Lifetime
from fpga_dynamo.runtime.cards.card import Card, reopen
from fpga_dynamo.runtime.cards.plain_units import Units
from fpga_dynamo.runtime.device_tensors import as_host_tensor
from fpga_dynamo.runtime.internal_errors import or_else
from fpga_dynamo.runtime.observe import counters, verify
from fpga_dynamo.runtime.observe.reproduction import Case
from fpga_dynamo.runtime.scheduling.scheduler import Scheduler
from fpga_dynamo.runtime.task import PS, Frame, ProcessingElement, Task, TaskGraph
from fpga_dynamo.torch_internals.tensors import is_batched
from fpga_dynamo.torch_internals.tracing import tensors_are_fake

log = logging.getLogger(__name__)

SHOWN_NODES = 4
"""How many of the nodes of an eager task traces name."""

Run = Callable[[ProcessingElement, Frame], None]

Values = list[Any]
"""What the nodes of a program give, by place; None for what is not computed yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of a program, which its tasks have in common.

    forms: what the launches are at the call's sizes. failure: what the first launch is to be taken to have failed with.
    """

    values: Values
    forms: Sequence[Form]
    failure: Exception | None


class Shortcut(Protocol):
    """A way past the executor (direct.py), which it opens when a call has found what that needs to know."""

    def open(self, binding: Binding, inputs: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None: ...

    def close(self) -> None: ...

    def follow(self, executor: Executor) -> None:
        """The executor's tasks are on another card now."""

    def report(self, scheduler: Scheduler) -> None:
        """Tells the policy of the launches that it has not seen."""


class Executor:
    """A Program on a card: call it with the graph's inputs. Re-entrant.

    lifetime: shared by the graphs that one frame was compiled to; see there.
    """

    def __init__(self, program: Program, card: Card, options: Options, lifetime: Lifetime) -> None:
        self.program = program
        self.options = options
        self._place: dict[Node, int] = {}
        for node in program.graph.placeholders:
            self._slot(node)
        self._inputs = len(self._place)
        self._constants = [(self._slot(node), tensor) for node, tensor in program.attributes.items()]
        self._lifetime = lifetime
        parameters = [i for i, node in enumerate(program.graph.placeholders) if node in program.graph.static]
        self.case = Case(program.module, options, static=parameters)
        self._parameter = parameters[0] if parameters else None
        self._warned: set[str] = set()
        self._left: set[CardTask] = set()  # tasks that run in eager mode after an internal error
        self._reconnecting = threading.Lock()
        self._connect(card)
        self._result_reads = [self._slot(node) for node in program.result_reads]
        self._failures: dict[int, Exception] = {}
        self._forms = [task.form for task in program.card_tasks]
        self.direct: Shortcut | None = None
        # Is told inputs and results of calls by the whole way.
        self.watch: Callable[[Sequence[Any], Any], None] | None = None
        if self.launchers:
            lifetime.add(self)

    def _connect(self, card: Card) -> None:
        """Makes the tasks for a card."""
        self.card = card
        self.bindings: list[Bindings] = []
        self.launchers: list[Launcher] = []
        self.scheduler: Scheduler = card.scheduler(self.options.policy)
        tasks = [self._task(task) for task in self.program.tasks]
        self.graph = TaskGraph(self.program.name, tasks, self.program.model) if tasks else None
        card.add_user(self)

    def _reconnect(self) -> None:
        """Has a card that has been displaced loaded again; if it cannot be now, the launches fail, and say so."""
        with self._reconnecting:
            if self.card.displaced:
                with contextlib.suppress(FpgaError):
                    self._connect(reopen(self.card))
                    if self.direct is not None:
                        self.direct.follow(self)

    def card_displaced(self) -> None:
        """Called by the card: what would start a launch without asking it has to come here first."""
        self._close_direct()

    def _slot(self, node: Node) -> int:
        return self._place.setdefault(node, len(self._place))

    def __call__(self, *args: Any) -> Any:
        """The graph's results (a tuple or list, as the graph has it); fake ones by eager."""
        if tensors_are_fake():
            return self.program.module(*args)
        return self.run(args, self._forms)

    def __deepcopy__(self, memo: Any) -> Executor:
        """Itself, as of a function: Dynamo's minifier copies what it runs."""
        return self

    def run(self, args: Sequence[Any], forms: Sequence[Form]) -> Any:
        """As a call; `forms`: what the program's launches are at the sizes of `args`."""
        failure = self._failures.pop(threading.get_ident(), None) if self._failures else None
        values = self.start_values(args)
        if self._parameter is not None:
            self._lifetime.follow(args[self._parameter])
        if self.card.displaced:
            self._reconnect()
        if self.direct is not None:
            self.direct.report(self.scheduler)
        if self.graph is not None:
            self.scheduler.execute(self.graph, Call(values, forms, failure))
        self._lifetime.settle()
        result = self.program.result(*[values[place] for place in self._result_reads])
        if self.watch is not None:
            self.watch(args, result)
        return result

    def start_values(self, args: Sequence[Any]) -> Values:
        """What the nodes give before any task has run, by place (:meth:`place`), for the graph's inputs."""
        values: Values = [*args, *[None] * (len(self._place) - self._inputs)]
        for place, tensor in self._constants:
            values[place] = tensor
        return values

    def place(self, node: Node) -> int:
        return self._place[node]

    def unit_of(self, index: int) -> ProcessingElement | None:
        """The first compute unit that can run a task; None for a task of the host."""
        assert self.graph is not None, "the program has tasks"
        resources = self.graph.tasks[index].resources
        return next((pe for pe in self.scheduler.pes if pe.kernel is not None and pe.resource in resources), None)

    @property
    def host(self) -> ProcessingElement:
        """The processor core on which `run_task` runs a task in eager mode."""
        return ProcessingElement("ps0", "PS", None, 0)

    def run_task(self, index: int, values: Values, pe: ProcessingElement) -> None:
        """Runs one task on `pe` for values that its dependencies have written, past the scheduler."""
        assert self.graph is not None, "the program has tasks"
        frame = Frame(self.graph, Call(values, self._forms, None), 0.0)
        self.graph.tasks[index].run(pe, frame)

    def expect(self, args: Sequence[Any]) -> None:
        """Makes room on the card for the parameters among `args`, which a call is about to come with.

        Fresh memory takes a while to come; what Dynamo still has to do until that call takes as long.
        """
        values = {place: tensor for place, tensor in (*enumerate(args), *self._constants)}
        for bindings in self.bindings:
            with contextlib.suppress(Exception):  # which the call meets again, and tells
                bindings.expect([values[self._place[node]] for node in bindings.nodes])

    def fail_next(self, error: Exception) -> None:
        """Has this thread's next call take its launch for one that failed with `error`; for programs of one task."""
        self._failures[threading.get_ident()] = error

    def refresh_weights(self) -> None:
        """Has every pack made again before the next call."""
        self.card.weights.invalidate()
        for bindings in self.bindings:
            bindings.invalidate()
        self._close_direct()

    def rest(self) -> None:
        """Gives idle memory on the card back; the next call takes it again. Acquires no lock: see Lifetime."""
        for launcher, bindings in zip(self.launchers, self.bindings, strict=True):
            launcher.free()
            bindings.rest()
        self._close_direct()

    def _close_direct(self) -> None:
        if self.direct is not None:
            self.direct.close()

    # --- tasks --------------------------------------------------------------------------------------------------------

    def _task(self, task: CardTask | HostTask) -> Task:
        if isinstance(task, CardTask):
            run = self._card_task(task)
            costs = {task.kernel: task.seconds}
            if self.options.granularity != "launch":
                costs[PS] = task.ps_seconds
            arguments: dict[str, Any] = {"commands": task.code.count, "macs": sum(c.macs for c in task.commands)}
        else:
            run, costs = self._kernel_task(task) if isinstance(task, KernelTask) else self._host_task(task)
            nodes = [node.name for node in task.nodes if computes(node)]
            arguments = {"nodes": len(nodes), "ops": " ".join(nodes[:SHOWN_NODES])}
        return Task(task.name, costs, run, task.dependencies, arguments=arguments)

    def _kernel_task(self, task: KernelTask) -> tuple[Run, dict[str, float]]:
        """What runs a plain kernel's task, and its seconds on each resource type."""
        units: Units = task.kernel.open(self.card)
        reads = [self._slot(node) for node in task.reads]
        writes = [self._slot(node) for node in task.writes]
        runner = KernelRunner(
            task, units, self.options.timeout, self.options.verify, lambda error, cpu: self._instead(task, error, cpu)
        )

        def run(pe: ProcessingElement, frame: Frame) -> None:
            call: Call = frame.values
            results = runner(pe, [call.values[place] for place in reads])
            for place, result in zip(writes, results, strict=True):
                call.values[place] = result
            if pe.kernel is None:
                counters.add(ps_nodes=1)

        costs = {units.resource_in(self.scheduler, self.card): task.seconds}
        if task.kernel.has_cpu and self.options.granularity != "launch":
            costs[PS] = task.ps_seconds
        return run, costs

    def _host_task(self, task: HostTask) -> tuple[Run, dict[str, float]]:
        reads = [self._slot(node) for node in task.reads]
        writes = [self._slot(node) for node in task.writes]
        count = sum(map(computes, task.nodes))
        eager = task.eager.forward
        if any(plain_kernel(node) is not None for node in task.nodes):  # which no launch of this program can run
            eager = on_host(eager)

        def run(pe: ProcessingElement, frame: Frame) -> None:
            call: Call = frame.values
            values = call.values
            results = eager(*[values[place] for place in reads])
            for place, result in zip(writes, results, strict=True):
                values[place] = result
            if count:
                counters.add(ps_nodes=count)

        return run, {PS: task.seconds}

    def _card_task(self, task: CardTask) -> Callable[[ProcessingElement, Frame], None]:
        launcher = Launcher(task, self.card, self.options.timeout)
        number = len(self.launchers)
        bindings = Bindings(task, self.card, self.options.weight_check, launcher.free)
        self.launchers.append(launcher)
        self.bindings.append(bindings)
        sources = [self._slot(node) for node in bindings.nodes]
        reads = [self._slot(node) for node in task.reads]
        writes = [self._slot(node) for node in task.writes]
        eager_reads = [self._slot(node) for node in task.eager_reads]
        eager = task.eager.forward

        def run_in_eager(values: Values) -> Sequence[Any]:
            return eager(*[values[place] for place in eager_reads])

        def launch(call: Call, unit: int) -> Sequence[Any] | None:
            if task in self._left:
                return None
            if call.failure is not None:
                raise call.failure
            values = call.values
            parameters = [values[place] for place in sources]
            inputs = [values[place] for place in reads]
            try:
                binding = bindings.find(parameters)
                results = launcher(unit, binding, inputs, call.forms[number])
            except RuntimeError:
                if any(map(is_batched, (*parameters, *inputs))):  # vmap over a backward pass: they have no memory
                    return None
                raise
            _check_finite(task, results)
            if self.direct is not None:
                self.direct.open(binding, inputs, parameters)
            return results

        def fall_back(why: str) -> None:
            self._left.add(task)

        def run(pe: ProcessingElement, frame: Frame) -> None:
            call: Call = frame.values
            values = call.values
            if pe.kernel is None:  # the policy gave it to a thread of the host
                self._write(values, writes, run_in_eager(values), task.nodes)
                return
            try:
                results = or_else(lambda: launch(call, pe.index), fall_back, self.case)
            except (DeviceError, OutOfRangeError, NotFiniteError, NotExactError, NotEvaluatedError) as error:
                results = self._instead(task, error, lambda: run_in_eager(values))
            else:
                if results is None:
                    results = self._counted(task, lambda: run_in_eager(values))
                elif self.options.verify:
                    arguments = [values[place] for place in eager_reads]
                    verify.compare(task, results, arguments)
            for place, result in zip(writes, results, strict=True):
                values[place] = result

        return run

    @staticmethod
    def _write(values: Values, places: Sequence[int], results: Sequence[Any], nodes: Sequence[Node]) -> None:
        """Results of a task that eager ran because it was given to the PS."""
        for place, result in zip(places, results, strict=True):
            values[place] = result
        counters.add(ps_nodes=sum(map(computes, nodes)))

    def _counted(self, task: CardTask | KernelTask, eager: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """Eager mode's results in the place of a launch."""
        results = eager()  # raises what eager raises, an index out of range for one
        counters.add(ps_fallbacks=1, ps_nodes=sum(map(computes, task.nodes)))
        return results

    def _instead(
        self, task: CardTask | KernelTask, error: Exception, eager: Callable[[], Sequence[Any]]
    ) -> Sequence[Any]:
        """Eager mode's results for a launch that failed; the first failure of a kind is a warning, further ones are
        logged.

        Under ``strict`` a failure of the card is an error.
        """
        results = self._counted(task, eager)
        if isinstance(error, DeviceError) and self.options.strict:
            raise error
        kind = f"{task.name}: {type(error).__name__}"
        if isinstance(error, DeviceError) and kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(
                f"a launch failed, and its segment ran in eager mode instead: {error}", RuntimeWarning, stacklevel=2
            )
        log.info("%s runs in eager mode: %s", task.name, error)
        return results


def _check_finite(task: CardTask, results: Sequence[torch.Tensor]) -> None:
    """Raises :class:`NotFiniteError` where only finite results are as good as eager mode's."""
    for i, dim, step in task.must_be_finite:
        step = 1 if isinstance(step, Size) else step  # of a program for all sizes: every slice
        part = as_host_tensor(results[i])[(slice(None),) * dim + (slice(None, None, step),)]
        if not all_finite(part):
            raise NotFiniteError(
                f"{task.outputs[i].node} contains Inf or NaN, perhaps at other places than in eager mode"
            )
