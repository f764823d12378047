"""Virtual-time simulation: how programs would run on a system of any PEs, under the scheduler's own policies.

Nothing is executed. A task takes its stated cost plus its transfers unless a model of durations is given. Decisions
take no virtual time unless a cost is given; their real time is reported as overhead. Any policy can be simulated here;
`fpga-dynamo soc` runs those that there are in C++ by a simulator in C++ with the same rules.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from time import perf_counter

from fpga_dynamo.errors import OptionError
from fpga_dynamo.runtime.observe.trace import ApplicationEvent, DecisionEvent, PathLike, TaskEvent, TraceRecorder
from fpga_dynamo.runtime.scheduling.arrivals import Arrivals, At, check_times
from fpga_dynamo.runtime.scheduling.decisions import DecisionCost
from fpga_dynamo.runtime.scheduling.dispatch import Dispatcher, Occupation
from fpga_dynamo.runtime.scheduling.policies import Policy, make_policy
from fpga_dynamo.runtime.task import Frame, ProcessingElement, ReadyTask, SchedulerError, Task, TaskGraph

DurationModel = Callable[[Task, ProcessingElement, random.Random], float]


def stated_duration(task: Task, pe: ProcessingElement, generator: random.Random) -> float:
    """The task's stated seconds on the PE, transfers included."""
    return task.seconds(pe.resource)


def varied_duration(sigma: float) -> DurationModel:
    """A model that multiplies stated durations by a log-normal factor of median 1 and shape `sigma`.

    Raises OptionError for a shape that is negative, infinite or NaN.
    """

    if not 0 <= sigma < math.inf:
        raise OptionError(f"sigma, the shape of varied durations, must be a finite number >= 0, not {sigma!r}")

    def duration(task: Task, pe: ProcessingElement, generator: random.Random) -> float:
        return task.seconds(pe.resource) * generator.lognormvariate(0.0, sigma)

    return duration


@dataclass(frozen=True)
class SimulationResult:
    """Times in seconds. All but the decisions' overhead is a function of the arguments of `simulate`."""

    makespan: float
    """From the first arrival to the end of the last task."""
    mean_response: float
    """Mean over applications of end minus arrival."""
    utilisation: Mapping[str, float]
    """Share of the makespan for which each PE, by name, runs a task."""
    decisions: int
    decision_seconds: float = field(compare=False)
    """Real time spent in the policy."""
    trace: TraceRecorder = field(compare=False, repr=False)

    def save(self, path: PathLike) -> Path:
        """Write the trace as Chrome/Perfetto JSON."""
        return self.trace.save(path)

    def gantt(self, path: PathLike) -> Path:
        """Draw the trace as a PNG."""
        return self.trace.gantt(path)


def simulate(
    graphs: TaskGraph | Sequence[TaskGraph],
    pes: Iterable[ProcessingElement],
    policy: str | Policy = "adaptive",
    arrivals: Arrivals | Sequence[Arrivals] | None = None,
    seed: int = 0,
    duration: DurationModel = stated_duration,
    decision: DecisionCost | None = None,
) -> SimulationResult:
    """Inject instances of `graphs` as `arrivals` say (one for all graphs, or one each; default: one at 0).

    `seed` drives exponential arrivals, the model of durations, and policy "random" if given by name. SchedulerError if
    no PE supports a task, or `duration` gives no time; OptionError for invalid arrivals. decision: what
    scheduling costs in virtual time (nothing).
    """
    graphs = [graphs] if isinstance(graphs, TaskGraph) else list(graphs)
    if arrivals is None:
        arrivals = At(0.0)
    sources = list(arrivals) if isinstance(arrivals, Sequence) else [arrivals] * len(graphs)
    if len(sources) != len(graphs):
        raise OptionError(
            f"{len(sources)} sequences of arrivals for {len(graphs)} graphs: give one for all graphs, or "
            "one for each graph"
        )
    seeded = isinstance(policy, str) and policy.strip().lower() == "random"
    options = {"seed": seed} if seeded else {}
    dispatcher = Dispatcher(pes, make_policy(policy, **options))
    dispatcher.policy.simulated()
    simulation = _Simulation(dispatcher, duration, random.Random(seed), decision or DecisionCost())
    for number, (graph, source) in enumerate(zip(graphs, sources, strict=True)):
        # Each graph has its own stream of random numbers, so that adding a graph leaves the arrivals of others alone.
        simulation.inject(graph, source.times(random.Random(f"{seed}/{number}")))
    return simulation.run()


_Event = Frame | tuple[Occupation, float, float] | Callable[[float], None]


class _Simulation:
    def __init__(
        self, dispatcher: Dispatcher, duration: DurationModel, generator: random.Random, cost: DecisionCost
    ) -> None:
        self.dispatcher = dispatcher
        self.duration = duration
        self.generator = generator
        self.cost = cost
        self.deciding = False  # a round is under way
        self.ticking = False  # the next multiple of the period is among the events
        self.ended: dict[Occupation, float] = {}  # when the last task of a slot did
        self.changed: float | None = None  # since when there is something to decide
        self.trace = TraceRecorder(origin=0.0)
        self.trace.declare(dispatcher.pes)
        # (time, order of insertion, what happens): a frame arrives, a slot's task ends that started at a time and took
        # so many seconds, or something is called with the time.
        self.events: list[tuple[float, int, _Event]] = []
        self.order = itertools.count()
        self.applications = itertools.count(1)
        self.first_starts: dict[Frame, float] = {}
        self.responses: list[float] = []
        self.busy_seconds = dict.fromkeys((pe.name for pe in dispatcher.pes), 0.0)

    def inject(self, graph: TaskGraph, times: Sequence[float]) -> None:
        self.dispatcher.check(graph)
        check_times(times)
        for time in times:
            self._at(time, Frame(graph, None, time))

    def _at(self, time: float, what: _Event) -> None:
        heapq.heappush(self.events, (time, next(self.order), what))

    def run(self) -> SimulationResult:
        first = self.last = self.events[0][0] if self.events else 0.0
        while self.events:
            now = self.events[0][0]
            while self.events and self.events[0][0] == now:  # what happens at once is decided on at once
                what = heapq.heappop(self.events)[2]
                if isinstance(what, Frame):
                    self._arrive(what, now)
                elif isinstance(what, tuple):
                    self._complete(*what, now)
                else:
                    what(now)
            if not self.deciding:
                self._decide(now)
        makespan = self.last - first
        decisions = self.trace.decisions
        return SimulationResult(
            makespan=makespan,
            mean_response=sum(self.responses) / len(self.responses) if self.responses else 0.0,
            utilisation={pe: busy / makespan if makespan else 0.0 for pe, busy in self.busy_seconds.items()},
            decisions=len(decisions),
            decision_seconds=sum(decision.overhead for decision in decisions),
            trace=self.trace,
        )

    def _arrive(self, frame: Frame, now: float) -> None:
        frame.application = next(self.applications)
        self._change(now)
        self._make_ready(frame.roots())
        if frame.tasks_left == 0:
            self._leave(frame, now)

    def _make_ready(self, items: Iterable[ReadyTask]) -> None:
        self.dispatcher.ready.update(dict.fromkeys(items))

    def _decide(self, now: float) -> None:
        dispatcher = self.dispatcher
        waiting = len(dispatcher.ready)
        if self.changed is None or not waiting or (self.cost.period and not self._at_period(now)):
            return
        since, self.changed = self.changed, None
        begin = now
        begun = perf_counter()
        assignments = dispatcher.propose(now)
        overhead = perf_counter() - begun
        policy = dispatcher.policy
        self.trace.add(DecisionEvent(now, policy.name, waiting, len(assignments), overhead))
        seconds = self.cost.seconds(policy.evaluations(waiting, len(dispatcher.pes)), len(assignments))

        def apply(now: float) -> None:
            self.deciding = False
            if self.cost != DecisionCost():
                policy.decided(now - since)
            for slot in dispatcher.apply(assignments, now):
                awake = self.ended.get(slot) == begin
                self._start(slot, now if awake else now + self.cost.wake)

        if seconds:
            self.deciding = True
            self._at(now + seconds, apply)
        else:
            apply(now)

    def _at_period(self, now: float) -> bool:
        """Whether a round may begin; else there will be something at the next multiple of the period."""
        period = self.cost.period
        if abs(round(now / period) * period - now) <= 1e-9 * period + 1e-12 * now:
            return True
        if not self.ticking:
            self.ticking = True
            self._at(math.ceil(now / period) * period, self._tick)
        return False

    def _tick(self, now: float) -> None:
        self.ticking = False

    def _change(self, now: float) -> None:
        if self.changed is None or not self.dispatcher.ready:  # until then there was nothing to decide
            self.changed = now

    def _start(self, slot: Occupation, now: float) -> None:
        item = slot.running
        assert item is not None
        self.first_starts.setdefault(item.frame, now)
        seconds = self.duration(item.task, slot.pe, self.generator)
        if not (isinstance(seconds, Real) and 0 <= seconds < math.inf):
            raise SchedulerError(
                f"the model of durations gives {seconds!r} s for task {item.task.name!r} on {slot.pe.name!r}: a finite "
                f"number >= 0 is needed"
            )
        self._at(now + seconds, (slot, now, float(seconds)))

    def _complete(self, slot: Occupation, started: float, seconds: float, now: float) -> None:
        item = slot.running
        assert item is not None
        frame, pe, task = item.frame, slot.pe, item.task
        assert frame.application is not None
        program = frame.graph.name
        self.trace.add(TaskEvent(frame.application, program, task.name, pe.name, started, now, task.arguments))
        self.busy_seconds[pe.name] += now - started
        self.dispatcher.policy.observe(task, pe, seconds)  # now - started is not it to the last bit
        self.last = now
        self.ended[slot] = now
        if self.dispatcher.release(slot, item, now):
            self._start(slot, now)
        self._change(now)
        self._make_ready(frame.finish(item.index))
        if frame.tasks_left == 0:
            self._leave(frame, now)

    def _leave(self, frame: Frame, now: float) -> None:
        assert frame.application is not None
        self.dispatcher.policy.leave(frame)
        self.last = max(self.last, now)
        start = self.first_starts.pop(frame, now)
        self.responses.append(now - frame.arrival)
        self.trace.add(ApplicationEvent(frame.application, frame.graph.name, frame.arrival, start, now))
