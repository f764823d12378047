"""What ran where and when: a process-wide recorder of tasks, scheduling decisions and applications.

An application is one execution of a program (CEDR's word). While nobody records, the cost is one look at `recorders`.
Times of events are in seconds on the clock of whoever reports them: `time.perf_counter`, or a simulation's.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

from fpga_dynamo._native import critical_section, guarded_scope, observe_calls
from fpga_dynamo.runtime.observe.card_time import in_card_time
from fpga_dynamo.runtime.observe.events import (
    ApplicationEvent,
    CommandEvent,
    CountedEvent,
    DecisionEvent,
    Event,
    PathLike,
    TaskEvent,
)
from fpga_dynamo.runtime.task import Frame, ProcessingElement, ReadyTask
from xclbin_build import atomic_file


class TraceRecorder(guarded_scope):
    """Collects events while it is entered: `with TraceRecorder() as t: ...; t.save("trace.json")`.

    Recorders may nest or overlap; each gets all events of the process. `origin` is what saved times are relative to.
    """

    def __init__(self, origin: float | None = None) -> None:
        super().__init__(_section, _change)
        self.origin = perf_counter() if origin is None else origin
        self._events: list[Event] = []  # list.append is atomic
        self._pes: dict[str, ProcessingElement] = {}

    def add(self, event: Event) -> None:
        self._events.append(event)

    def declare(self, pes: Iterable[ProcessingElement]) -> None:
        """Give these PEs a row each even if no task runs on them."""
        for pe in pes:
            self._pes.setdefault(pe.name, pe)

    @property
    def events(self) -> list[Event]:
        """All events by start time (arrival for applications), launches on a cycle simulator in card time."""
        return sorted(in_card_time(self._events), key=_time_of)

    @property
    def counted(self) -> list[CountedEvent]:
        """Launches on a cycle simulator, in the host's time."""
        return [event for event in self._events if isinstance(event, CountedEvent)]

    @property
    def in_card_time(self) -> bool:
        """Whether launches were counted, and so last as long as their cycles say."""
        return bool(self.counted)

    @property
    def tasks(self) -> list[TaskEvent]:
        return [event for event in self.events if isinstance(event, TaskEvent)]

    @property
    def commands(self) -> list[CommandEvent]:
        return [event for event in self.events if isinstance(event, CommandEvent)]

    @property
    def decisions(self) -> list[DecisionEvent]:
        return [event for event in self.events if isinstance(event, DecisionEvent)]

    @property
    def applications(self) -> list[ApplicationEvent]:
        return [event for event in self.events if isinstance(event, ApplicationEvent)]

    @property
    def rows(self) -> list[str]:
        """Names of the PEs: host threads first, then compute units, then PEs that were never declared."""
        declared = sorted(self._pes.values(), key=lambda pe: (pe.kind != "PS", pe.kernel or "", pe.index, pe.name))
        rows = [pe.name for pe in declared]
        rows += sorted({event.pe for event in self.tasks} - set(rows))
        return rows

    def to_chrome(self) -> dict[str, Any]:
        """The trace in the Trace Event Format of chrome://tracing and Perfetto; times there are in microseconds."""
        pe_process, scheduler_process, application_process = 1, 2, 3
        rows = {name: row for row, name in enumerate(self.rows, start=1)}
        out: list[dict[str, Any]] = []

        def name_row(kind: str, pid: int, tid: int, **args: Any) -> None:
            out.append({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args})

        def microseconds(time: float) -> float:
            return max(time - self.origin, 0.0) * 1e6  # what began before the recording is shown from its start

        def span(start: float, stop: float) -> dict[str, float]:
            return {"ts": microseconds(start), "dur": microseconds(stop) - microseconds(start)}

        name_row("process_name", pe_process, 0, name="processing elements")
        for name, row in rows.items():
            name_row("thread_name", pe_process, row, name=name)
            name_row("thread_sort_index", pe_process, row, sort_index=row)
        name_row("process_name", scheduler_process, 0, name="scheduler")
        name_row("thread_name", scheduler_process, 1, name="decisions")
        name_row("process_name", application_process, 0, name="applications")
        for event in self.events:
            if isinstance(event, ApplicationEvent):
                common: dict[str, Any] = {"name": event.program, "cat": "application", "id": event.application}
                common |= {"pid": application_process, "tid": 1}
                args: dict[str, Any] = {"waited_us": (event.start - event.arrival) * 1e6}
                out.append({"ph": "b", "ts": microseconds(event.arrival), **common, "args": args})
                out.append({"ph": "e", "ts": microseconds(event.stop), **common})
            elif isinstance(event, DecisionEvent):
                args = {"policy": event.policy, "queued": event.queued, "assigned": event.assigned}
                common = {"name": "decide", "cat": "decision", "pid": scheduler_process, "tid": 1}
                out.append({"ph": "X", **common, **span(event.time, event.time + event.overhead), "args": args})
            else:
                common = {"ph": "X", **span(event.start, event.stop)}
                common |= {"pid": pe_process, "tid": rows.setdefault(event.pe, len(rows) + 1)}
                if isinstance(event, TaskEvent):
                    args = {"program": event.program, "application": event.application, **event.arguments}
                    out.append({**common, "name": event.task, "cat": event.program, "args": args})
                elif isinstance(event, CommandEvent):
                    args = dict(event.arguments)
                    out.append({**common, "name": event.name, "cat": "command", "args": args})
        return {"traceEvents": out, "displayTimeUnit": "ms"}

    def save(self, path: PathLike) -> Path:
        """Write the trace as JSON for chrome://tracing or ui.perfetto.dev; returns the path."""
        path = Path(path)
        atomic_file.write(path, json.dumps(self.to_chrome(), default=str) + "\n", durable=True)
        return path

    def gantt(self, path: PathLike, *, begin: float | None = None, end: float | None = None) -> Path:
        """Draw the trace, a row per PE, as a PNG or whatever the name ends in (svg, pdf); returns the path.

        begin, end: the part to be drawn, in ms from the first event, as on the picture's axis; all of it by default.
        Raises ValueError if there is nothing between them, or no such kind of picture; FpgaError without matplotlib.
        """
        from fpga_dynamo.runtime.observe.gantt import draw  # matplotlib takes half a second to import

        return draw(self, path, begin, end)


def _time_of(event: Event) -> float:
    if isinstance(event, ApplicationEvent):
        return event.arrival
    return event.time if isinstance(event, DecisionEvent) else event.start


recorders: tuple[TraceRecorder, ...] = ()
"""Those that record now; replaced as a whole, so that readers need no lock."""
_section = critical_section(lambda: _follow)
_applications = itertools.count(1)


def _change(recorder: TraceRecorder, enters: bool) -> None:
    global recorders
    others = tuple(other for other in recorders if other is not recorder)
    recorders = (*others, recorder) if enters else others
    _follow()


def _follow() -> None:
    observe_calls(len(recorders))


def _application_of(frame: Frame) -> int:
    if frame.application is None:
        frame.application = next(_applications)
    return frame.application


def report(event: Event) -> None:
    """Give an event to all recorders."""
    for recorder in recorders:
        recorder.add(event)


def task(item: ReadyTask, pe: ProcessingElement, start: float, stop: float) -> None:
    """Report a finished task."""
    graph = item.frame.graph
    application = _application_of(item.frame)
    report(TaskEvent(application, graph.name, item.task.name, pe.name, start, stop, item.task.arguments))


def application(frame: Frame, start: float | None, stop: float, pes: Iterable[ProcessingElement]) -> None:
    """Report a frame that is over, and the PEs of the system that it ran on, to all recorders."""
    event = ApplicationEvent(
        _application_of(frame),
        frame.graph.name,
        frame.arrival,
        stop if start is None else start,
        stop,
        frame.graph.model,
    )
    for recorder in recorders:
        recorder.declare(pes)
        recorder.add(event)
