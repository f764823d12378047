"""LEAST_WORK: least remaining work first, bound late."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

from fpga_dynamo._native import graph_model, least_work, system_model
from fpga_dynamo.runtime.scheduling.policies.adaptive import Adaptive
from fpga_dynamo.runtime.scheduling.policies.base import Assignment, Available, PEs, Ready, register_policy
from fpga_dynamo.runtime.task import Frame, ProcessingElement, ReadyTask, Task, TaskGraph


class _Core:
    """The native policy for one set of PEs, and which Python object its numbers mean."""

    def __init__(self, pes: Sequence[ProcessingElement]) -> None:
        self.pes = pes
        self.kinds = {resource: number for number, resource in enumerate(dict.fromkeys(pe.resource for pe in pes))}
        # Transfers belong to tasks here, so all kinds are as if in one memory.
        system = system_model([self.kinds[pe.resource] for pe in pes], [0] * len(self.kinds))
        self.system = system
        self.native = least_work(system)
        self.graphs: dict[int, tuple[ref[TaskGraph], int]] = {}  # by id of the graph
        self.places: dict[int, tuple[int, int]] = {}  # by id of the task: the graph's number and its index there
        self.frames: dict[Frame, int] = {}
        self.offered: dict[int, ReadyTask] = {}  # by tag
        self.known: tuple[ReadyTask, ...] = ()  # what was ready and left so, in the order of `ready`
        self.tag = 0


@register_policy
class LeastWork(Adaptive):
    """Applications in the order of their remaining work, each task bound only when a PE is about to be free for it.

    Remaining work is counted for each type of PE on its own: the best seconds of tasks not yet bound there, over the
    number of PEs of that type, in part by that type's price. An application is served as if it had arrived seven times
    that later (the longest few per cent of arrivals: up to sixty times), so it is overtaken by shorter ones, but not
    for ever. A PE that is not a task's best is charged for what others need it for. Which task goes where is decided in
    C++ (native/scheduling/least_work.hpp has the whole rule), by estimates that follow what is measured as
    :class:`Adaptive`'s do.
    """

    name = "least_work"
    indifferent = True

    def __init__(self, smoothing: float = 0.25, patience: int = 64) -> None:
        super().__init__(smoothing, patience)
        self._core: _Core | None = None
        self._shortcut = True

    def simulated(self) -> None:
        self._shortcut = False  # in which the traffic, and so the prices, would not count lone tasks

    def _begin(self, pes: Sequence[ProcessingElement]) -> _Core:
        core = self._core = _Core(pes)
        # Only from now on: a scheduler that has seen nothing but lone tasks has no one to tell, and asking whether
        # there is one would take a tenth of such a launch.
        self.observe = self._observe_and_tell  # type: ignore[method-assign]
        return core

    def _observe_and_tell(self, task: Task, pe: ProcessingElement, seconds: float) -> None:
        super().observe(task, pe, seconds)
        core = self._core
        place = core.places.get(id(task)) if core is not None else None
        if core is not None and place is not None:
            for resource, value in self._record(task).seconds.items():
                kind = core.kinds.get(resource)
                if kind is not None:
                    core.native.set_estimate(*place, kind, value)

    def decided(self, latency: float) -> None:
        if self._core is not None:
            self._core.native.applied(latency)

    def forget(self) -> None:
        self._core = None

    def leave(self, frame: Frame) -> None:
        core = self._core
        number = core.frames.pop(frame, None) if core is not None else None
        if core is not None and number is not None:
            core.native.leave(number)
            if any(item.frame is frame for item in core.known):
                core.offered = {tag: item for tag, item in core.offered.items() if item.frame is not frame}
                core.known = tuple(item for item in core.known if item.frame is not frame)

    def assign(self, ready: Ready, pes: PEs, now: float, available: Available) -> list[Assignment]:
        core = self._core
        lone = self._shortcut and len(ready) == 1 and len(ready[0].frame.graph.tasks) == 1
        if lone and (core is None or not core.frames):
            # Alone in the system, where prices count for nothing: in a third of the time, the same.
            _, pe = self.earliest_finish(ready[0].task, pes, now, available)
            return [(ready[0], pe)] if available[pe] <= now else []
        known = core.known if core is not None else ()
        count = len(known)
        if core is None or core.pes is not pes or tuple(ready[:count]) != known:
            # Another system, or not what was left of the last call (a fork, say): start over.
            core, known, count = self._begin(pes), (), 0
        for item in ready[count:]:
            self._offer(core, item)
        made = core.native.decide(now, [available[pe] for pe in pes])
        assignments: list[Assignment] = []
        for tag, pe_number, over in made:
            item = core.offered.pop(tag)
            assignments.append((item, pes[pe_number]))
            if over:
                del core.frames[item.frame]
        if assignments:
            taken = {item for item, _ in assignments}
            core.known = tuple(item for item in ready if item not in taken) if len(taken) < len(ready) else ()
        else:
            core.known = tuple(ready)
        return assignments

    def _offer(self, core: _Core, item: ReadyTask) -> None:
        frame = item.frame
        number = core.frames.get(frame)
        if number is None:
            graph = frame.graph
            entry = core.graphs.get(id(graph))
            known = entry[1] if entry is not None else self._register(core, graph)
            # What ran before this policy saw the frame is not to be waited for.
            number = core.native.arrive(known, frame.arrival, frame.tasks_left / len(graph.tasks))
            core.frames[frame] = number
        core.tag += 1
        core.offered[core.tag] = item
        core.native.add(number, item.index, core.tag)

    def _register(self, core: _Core, graph: TaskGraph) -> int:
        """Tells the native policy of a graph, until the graph goes."""
        stated = []
        for task in graph.tasks:
            seconds = self.estimates(task)
            stated += [seconds.get(resource, -1.0) for resource in core.kinds]
        edges = [list(task.dependencies) for task in graph.tasks]
        model = graph_model(core.system, stated, [0.0] * len(stated), edges, [0.0] * sum(map(len, edges)))
        number = core.native.add_graph(model)
        key, tasks = id(graph), [id(task) for task in graph.tasks]
        core.places.update((task, (number, index)) for index, task in enumerate(tasks))

        def forget(_: object) -> None:
            del core.graphs[key]
            for task in tasks:
                core.places.pop(task, None)
            core.native.forget_graph(number)

        core.graphs[key] = ref(graph, forget), number
        return number
