from __future__ import annotations

from typing import Any

import pytest

from fpga_dynamo.runtime.task import Frame, ProcessingElement, Task, TaskGraph
from tests.runtime.systems import host, nothing, topcuoglu, unit


def test_upward_ranks_of_the_heft_paper() -> None:
    graph, _ = topcuoglu()
    # Worked by hand: mean cost plus the greatest rank of a successor; thirds because there are three processors.
    assert graph.ranks == pytest.approx([61, 48, 40, 44, 43, 112 / 3, 77 / 3, 74 / 3, 94 / 3, 44 / 3])


def test_ranks_count_transfers() -> None:
    first = Task("first", {"PS": 1.0, "conv": 3.0}, nothing, transfer_seconds={"conv": 2.0})
    second = Task("second", {"PS": 10.0}, nothing, (0,))
    assert TaskGraph("g", [first, second]).ranks == pytest.approx((13.0, 10.0))  # (1 + 3 + 2) / 2 + 10


def test_a_frame_makes_a_task_ready_when_its_last_dependency_is_done() -> None:
    a, b = Task("a", {"PS": 1}, nothing), Task("b", {"PS": 1}, nothing)
    c = Task("c", {"PS": 1}, nothing, (0, 1, 1))  # named twice, counted once
    frame = Frame(TaskGraph("g", [a, b, c]), None, 0.0)
    assert [item.task for item in frame.roots()] == [a, b]
    assert frame.finish(1) == []
    assert [item.task for item in frame.finish(0)] == [c]
    assert frame.tasks_left == 1


@pytest.mark.parametrize("dependency", [1, 0, -1])
def test_tasks_out_of_order_are_refused(dependency: int) -> None:
    with pytest.raises(ValueError, match=r"\('loop'\) depends on .*topological order"):
        TaskGraph("g", [Task("loop", {"PS": 1}, nothing, (dependency,))])


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_costs_must_be_finite_times(seconds: Any) -> None:
    with pytest.raises(ValueError, match="cost on 'PS' must be finite"):
        Task("t", {"PS": seconds}, nothing)
    with pytest.raises(ValueError, match="transfer time on 'PS' must be finite"):
        Task("t", {"PS": 1.0}, nothing, transfer_seconds={"PS": seconds})


def test_a_task_that_nothing_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="name at least one resource type"):
        Task("t", {}, nothing)


def test_later_changes_of_the_given_costs_do_not_reach_the_task() -> None:
    costs = {"PS": 1.0}
    task = Task("t", costs, nothing)
    costs["PS"] = 7.0
    assert task.costs == {"PS": 1.0}


def test_processing_elements() -> None:
    assert host().resource == "PS"
    assert unit("conv").resource == "conv"
    assert host() != host()  # two pieces of hardware
    for kind, kernel in [("PL", None), ("PS", "conv"), ("PL", "PS"), ("GPU", None)]:
        with pytest.raises(ValueError, match="processing element 'x'"):
            ProcessingElement("x", kind, kernel)  # type: ignore[arg-type]


@pytest.mark.parametrize("deadline", [0.0, -1.0, float("nan")])
def test_a_deadline_is_greater_than_0(deadline: float) -> None:
    with pytest.raises(ValueError, match="graph 'g': deadline must be greater than 0 seconds"):
        TaskGraph("g", [], deadline=deadline)
