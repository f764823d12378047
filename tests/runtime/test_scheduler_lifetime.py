"""The scheduler's threads at its end, and after a fork."""

from __future__ import annotations

import gc
import os
import signal
import threading

import pytest

from fpga_dynamo.runtime.scheduling.scheduler import Scheduler
from fpga_dynamo.runtime.task import Frame, ProcessingElement, SchedulerError, Task, TaskGraph
from tests.runtime.systems import PATIENCE, host, nothing, single, threads_of


def parallel_graph(name: str) -> TaskGraph:
    """Two tasks that end only if they run at the same time."""
    barrier = threading.Barrier(2)

    def run(pe: ProcessingElement, frame: Frame) -> None:
        barrier.wait(PATIENCE)

    return TaskGraph(name, [Task(str(i), {"PS": 1e-3}, run) for i in range(2)])


def test_close_and_collection_end_the_threads() -> None:
    scheduler = Scheduler([host(name="closed 0"), host(name="closed 1")])
    graph = parallel_graph("g")
    scheduler.execute(graph)
    (thread,) = threads_of(scheduler)
    scheduler.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    with pytest.raises(SchedulerError, match="closed: make a new one"):
        scheduler.execute(graph)

    scheduler = Scheduler([host(name="collected 0"), host(name="collected 1")])
    scheduler.execute(graph)
    (thread,) = threads_of(scheduler)
    del scheduler
    gc.collect()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_the_child_of_a_fork_starts_afresh() -> None:
    scheduler = Scheduler([host(0), host(1)])
    scheduler.execute(parallel_graph("before"))  # there is a worker now, which the child will not have
    occupied, free = threading.Event(), threading.Event()

    def occupy(pe: ProcessingElement, frame: Frame) -> None:
        occupied.set()
        assert free.wait(PATIENCE)

    other = threading.Thread(target=scheduler.execute, args=(single(occupy, "PS"),))
    other.start()
    assert occupied.wait(PATIENCE)
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(PATIENCE)
            scheduler.execute(parallel_graph("child"))  # needs both PEs, one of which is occupied in the parent
            os._exit(0)
        except BaseException:
            os._exit(1)
    free.set()
    other.join(PATIENCE)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    scheduler.execute(parallel_graph("parent"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_frame_that_forks_fails_clearly_in_the_child_only() -> None:
    scheduler, children = Scheduler([host(0)]), []

    def fork(pe: ProcessingElement, frame: Frame) -> None:
        children.append(os.fork())

    graph = TaskGraph("forks", [Task("fork", {"PS": 1}, fork), Task("after", {"PS": 1}, nothing, (0,))])
    try:
        scheduler.execute(graph)
        outcome = 2
    except SchedulerError as error:
        outcome = 0 if "forked while 'forks' ran" in str(error) else 3
    except BaseException:
        outcome = 4
    if children == [0]:
        os._exit(outcome)
    assert outcome == 2
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
