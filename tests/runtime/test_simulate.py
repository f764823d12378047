"""Simulations against schedules worked by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fpga_dynamo.errors import OptionError
from fpga_dynamo.runtime.scheduling.arrivals import Arrivals, At, Exponential, Periodic
from fpga_dynamo.runtime.scheduling.policies import Adaptive, Assignment, policy_names, register_policy
from fpga_dynamo.runtime.scheduling.simulate import SimulationResult, simulate, varied_duration
from fpga_dynamo.runtime.task import ProcessingElement, ReadyTask, SchedulerError, Task, TaskGraph
from tests.runtime.systems import host, nothing, topcuoglu, unit


def schedule(result: SimulationResult) -> dict[str, tuple[str, float, float]]:
    return {event.task: (event.pe, event.start, event.stop) for event in result.trace.tasks}


def test_adaptive_on_the_heft_example() -> None:
    graph, pes = topcuoglu()
    result = simulate(graph, pes, "adaptive")
    assert schedule(result) == {
        "T1": ("p3", 0, 9),
        "T2": ("p1", 9, 22),  # ranks: T2, T4, T5, T3, T6; three PEs are idle
        "T4": ("p2", 9, 17),
        "T5": ("p3", 9, 19),
        "T3": ("p2", 17, 30),
        "T6": ("p3", 19, 28),
        "T9": ("p1", 22, 40),
        "T7": ("p3", 30, 41),
        "T8": ("p2", 30, 41),  # ready at 28, but 30 + 11 on p2 beats 28 + 14 on p3
        "T10": ("p2", 41, 48),
    }
    assert result.makespan == result.mean_response == 48
    assert result.utilisation == {"p1": 31 / 48, "p2": 39 / 48, "p3": 39 / 48}


def test_eft_on_the_heft_example() -> None:
    graph, pes = topcuoglu()
    assert schedule(simulate(graph, pes, "eft")) == {
        "T1": ("p3", 0, 9),
        "T2": ("p1", 9, 22),  # in the order of the queue, T5 and T6 behind others
        "T3": ("p2", 9, 22),
        "T4": ("p3", 9, 26),
        "T5": ("p1", 22, 34),
        "T6": ("p3", 26, 35),
        "T7": ("p2", 22, 37),
        "T9": ("p2", 37, 49),
        "T8": ("p1", 35, 40),
        "T10": ("p2", 49, 56),
    }


def pipeline(name: str = "net", **options: Any) -> TaskGraph:
    """2 s of convolution (1 s of transfers on top), then 1 s on the host."""
    conv = Task("conv", {"conv": 2.0}, nothing, transfer_seconds={"conv": 1.0}, **options)
    return TaskGraph(name, [conv, Task("post", {"PS": 1.0}, nothing, (0,))])


def test_periodic_arrivals_overlap() -> None:
    result = simulate(pipeline(), [host(0), unit("conv")], "eft", Periodic(period=2.0, count=3))
    # conv takes 3 s with transfers: 0-3, 3-6, 6-9; post follows each: 3-4, 6-7, 9-10.
    assert {event.pe for event in result.trace.tasks if event.task == "conv"} == {"conv_1"}
    assert [event.start for event in result.trace.tasks if event.task == "conv"] == [0, 3, 6]
    assert [event.start for event in result.trace.tasks if event.task == "post"] == [3, 6, 9]
    assert result.makespan == 10
    assert result.mean_response == pytest.approx((4 + 5 + 6) / 3)
    assert result.utilisation == pytest.approx({"PS0": 0.3, "conv_1": 0.9})
    assert [(event.arrival, event.start, event.stop) for event in result.trace.applications] == [
        (0, 0, 4), (2, 3, 7), (4, 6, 10),
    ]  # fmt: skip


def test_another_compute_unit_shortens_the_response() -> None:
    def run(units: int) -> Any:
        pes = [host(0), *(unit("conv", index) for index in range(units))]
        return simulate(pipeline(), pes, "adaptive", Periodic(2.0, 50)).mean_response

    assert run(1) == 28.5  # each of the 50 instances waits 1 s longer than the one before: 4 + 49 / 2
    assert run(2) == 4


def test_late_tasks_do_not_look_free() -> None:
    """`a` is stated to take 1 s and takes 10: the next task goes to the idle PE, not to the one that should be free."""
    graph = TaskGraph("g", [Task("t", {"conv": 1.0}, nothing)])
    pes = [unit("conv", 0), unit("conv", 1)]
    for policy in ("eft", "etf", "heft_rt", "adaptive"):
        result = simulate(graph, pes, policy, At(0.0, 5.0), duration=lambda task, pe, generator: 10.0)
        assert [event.pe for event in result.trace.tasks] == ["conv_1", "conv_2"], policy


def test_adaptive_learns_that_the_accelerator_is_slow() -> None:
    graph = TaskGraph("g", [Task("t", {"conv": 1.0, "PS": 2.0}, nothing)])
    pes = [host(0), unit("conv")]

    def duration(task: Task, pe: ProcessingElement, generator: random.Random) -> float:
        return 6.0 if pe.kind == "PL" else 2.0

    responses = {
        policy: simulate(graph, pes, policy, Periodic(10.0, 50), duration=duration).mean_response
        for policy in ("eft", "adaptive")
    }
    assert responses["eft"] == 6
    assert responses["adaptive"] < 2.5


@pytest.mark.parametrize("policy", policy_names())
def test_same_arguments_same_result(policy: str) -> None:
    pes = [host(0), host(1), unit("conv", 0), unit("conv", 1)]
    tasks = [Task("a", {"PS": 2.0, "conv": 1.0}, nothing), Task("b", {"PS": 1.0}, nothing)]
    tasks += [Task("c", {"conv": 1.5, "PS": 4.0}, nothing, (0, 1), {"conv": 0.25})]
    graphs = [TaskGraph("x", tasks), pipeline("y")]
    arrivals: list[Arrivals] = [Exponential(1.0, 40), Periodic(2.0, 20, start=1.0)]

    def run(seed: int) -> Any:
        return simulate(graphs, pes, policy, arrivals, seed, varied_duration(0.3))

    first, again, other = run(1), run(1), run(2)
    assert first == again and first.trace.tasks == again.trace.tasks
    assert first.makespan != other.makespan
    assert len(first.trace.tasks) == 40 * 3 + 20 * 2
    starts = sorted((event.start, event.stop) for event in first.trace.tasks if event.pe == "conv_1")
    assert all(stop <= start for (_, stop), (start, _) in pairwise(starts))


def test_exponential_arrivals_have_the_stated_mean() -> None:
    graph = TaskGraph("g", [Task("t", {"PS": 0.0}, nothing)])
    result = simulate(graph, [host(0)], "simple", Exponential(mean=0.5, count=4000))
    assert result.makespan / 3999 == pytest.approx(0.5, rel=0.05)


def test_arrivals_of_a_graph_do_not_depend_on_other_graphs() -> None:
    def arrivals(graphs: list[TaskGraph]) -> list[float]:
        result = simulate(graphs, [host(0), unit("conv")], "eft", Exponential(1.0, 5), seed=3)
        return [event.arrival for event in result.trace.applications if event.program == "x"]

    assert arrivals([pipeline("x")]) == arrivals([pipeline("x"), pipeline("y")])


def test_decisions_are_traced() -> None:
    result = simulate(pipeline(), [host(0), unit("conv")], "eft", At(0.0, 0.0))
    decisions = result.trace.decisions
    assert [(event.time, event.queued, event.assigned) for event in decisions] == [(0, 2, 2), (3, 1, 1), (6, 1, 1)]
    assert result.decisions == 3
    assert 0 < result.decision_seconds == sum(event.overhead for event in decisions)


def test_results_can_be_saved(tmp_path: Path) -> None:
    result = simulate(pipeline(arguments={"commands": 7}), [host(0), host(1), unit("conv")], "eft")
    events = json.loads(result.save(tmp_path / "t.json").read_text())["traceEvents"]
    conv = next(event for event in events if event["name"] == "conv")
    assert (conv["ts"], conv["dur"], conv["args"]["commands"]) == (0, 3e6, 7)
    assert "PS1" in [event["args"]["name"] for event in events if event["name"] == "thread_name"]  # idle all the time
    assert result.gantt(tmp_path / "t.png").stat().st_size > 1000


def test_errors() -> None:
    with pytest.raises(SchedulerError, match=r"task 'conv' of 'net' runs on conv, but .* are PS"):
        simulate(pipeline(), [host(0)])
    with pytest.raises(ValueError, match="2 sequences of arrivals for 1 graphs"):
        simulate(pipeline(), [host(0), unit("conv")], arrivals=[At(0), At(1)])
    with pytest.raises(SchedulerError, match="two processing elements are called 'PS0'"):
        simulate(pipeline(), [host(0), host(0)])
    with pytest.raises(SchedulerError, match="at least one processing element"):
        simulate(pipeline(), [])
    with pytest.raises(ValueError, match="no arrivals can be made from mean interval 0"):
        Exponential(0.0, 3)

    class Lazy(Adaptive):
        name = "lazy"

        def assign(
            self,
            ready: Sequence[ReadyTask],
            pes: Sequence[ProcessingElement],
            now: float,
            available: Mapping[ProcessingElement, float],
        ) -> list[Assignment]:
            return []

    with pytest.raises(SchedulerError, match="policy 'lazy' assigned none of 1 ready tasks while all"):
        simulate(pipeline(), [host(0), unit("conv")], Lazy())


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), "1"])
def test_durations_and_arrivals_that_are_no_times(seconds: Any) -> None:
    pes = [host(0), unit("conv")]
    with pytest.raises(SchedulerError, match=r"model of durations gives .* s for task '.*' on '.*': a finite"):
        simulate(pipeline(), pes, duration=lambda task, pe, generator: seconds)
    with pytest.raises(OptionError, match="arrival times must be finite numbers >= 0, not"):
        At(0.0, seconds)

    class Odd:
        def times(self, generator: random.Random) -> list[float]:
            return [0.0, seconds]

    with pytest.raises(OptionError, match="arrival times must be finite numbers >= 0, not"):
        simulate(pipeline(), pes, arrivals=Odd())
    with pytest.raises(ValueError, match="must be finite and >= 0, not"):
        Task("t", {"PS": seconds}, lambda pe, frame: None)
    with pytest.raises(OptionError, match=f"count 1 and start {seconds} s"):
        Periodic(1.0, start=seconds)
    if seconds != "1":
        for make in (Periodic, Exponential):
            with pytest.raises(OptionError, match="no arrivals can be made from"):
                make(seconds)
        with pytest.raises(OptionError, match="the shape of varied durations, must be"):
            varied_duration(seconds)
    with pytest.raises(OptionError, match=r"count 1\.5"):
        Periodic(1.0, count=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", [3, None, int, "no such"])
def test_what_is_no_policy(policy: Any) -> None:
    with pytest.raises(OptionError, match="scheduling policy"):
        simulate(pipeline(), [host(0), unit("conv")], policy)
    with pytest.raises(OptionError, match="expects a subclass of Policy"):
        register_policy(policy)
