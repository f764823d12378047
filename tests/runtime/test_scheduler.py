"""The scheduler with real threads. Barriers prove that things run at the same time: without overlap they time out."""

import gc
import os
import random
import signal
import threading
import time
import traceback
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fpga_dynamo.runtime.policies import Adaptive, Policy, policy_names
from fpga_dynamo.runtime.scheduler import Scheduler
from fpga_dynamo.runtime.task import SchedulerError, Task, TaskGraph

from .systems import host, nothing, single, unit

PATIENCE = 20  # seconds until a test gives up on another thread


def threads_of(scheduler):
    names = {f"fpga_dynamo {pe.name}" for pe in scheduler.pes}
    return [thread for thread in threading.enumerate() if thread.name in names]


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("policy", policy_names())
def test_one_task_runs_in_the_callers_thread(policy):
    scheduler = Scheduler([unit("fast", 0), unit("fast", 1)], policy)
    seen = []
    graph = single(lambda pe, frame: seen.append((threading.get_ident(), pe.resource, frame.values)), "fast")
    for number in range(5):
        scheduler.execute(graph, number)
    assert seen == [(threading.get_ident(), "fast", number) for number in range(5)]
    assert threads_of(scheduler) == []


def test_a_chain_stays_in_the_callers_thread():
    scheduler = Scheduler([host(name="chain host"), unit("chain")])
    seen = []

    def run(pe, frame):
        seen.append((pe.kind, threading.current_thread()))

    tasks = [Task(str(i), {("chain", "PS")[i % 2]: 1e-3}, run, (i - 1,) if i else ()) for i in range(6)]
    scheduler.execute(TaskGraph("chain", tasks))
    assert seen == [("PL", threading.current_thread()), ("PS", threading.current_thread())] * 3
    assert threads_of(scheduler) == []


def test_the_fast_path_is_cheap():
    """Well below a launch. About 3 us where this was written; the bound leaves room for slow and busy machines."""
    scheduler, graph = Scheduler([host(), unit("conv")]), single(nothing, "conv")
    times = []
    for _ in range(300):
        start = time.perf_counter()
        scheduler.execute(graph)
        times.append(time.perf_counter() - start)
    assert min(times) < 15e-6


def test_the_fast_path_honours_the_policys_choice():
    class Second(Policy):
        name = "second"

        def assign(self, ready, pes, now, available):
            return [(item, pes[1]) for item in ready]

    seen = []
    Scheduler([host(0), host(1), host(2)], Second()).execute(single(lambda pe, frame: seen.append(pe.name), "PS"))
    assert seen == ["PS1"]


def test_two_frames_overlap_on_two_compute_units_and_a_third_waits():
    scheduler = Scheduler([unit("overlap", 0), unit("overlap", 1)])
    barrier, lock, running, most, used = threading.Barrier(2), threading.Lock(), set(), [], set()

    def run(pe, frame):
        with lock:
            assert pe not in running
            running.add(pe)
            used.add(pe.name)
            most.append(len(running))
        barrier.wait(PATIENCE)
        time.sleep(0.002)
        with lock:
            running.remove(pe)

    graph = single(run, "overlap")
    with ThreadPoolExecutor(6) as callers:
        for future in [callers.submit(scheduler.execute, graph) for _ in range(12)]:
            future.result(PATIENCE)
    assert used == {"overlap_1", "overlap_2"}
    assert max(most) == 2 and len(most) == 12
    assert threads_of(scheduler) == []  # the callers served the units


@pytest.mark.parametrize("policy", policy_names())
def test_who_waits_for_a_busy_unit_runs_when_it_is_free(policy):
    scheduler = Scheduler([unit("busy")], policy)
    occupied, free, log = threading.Event(), threading.Event(), []

    def occupy(pe, frame):
        occupied.set()
        assert free.wait(PATIENCE)
        log.append("first")

    with ThreadPoolExecutor(2) as callers:
        first = callers.submit(scheduler.execute, single(occupy, "busy"))
        assert occupied.wait(PATIENCE)
        second = callers.submit(scheduler.execute, single(lambda pe, frame: log.append("second"), "busy"))
        dispatcher = scheduler._dispatcher
        eventually(lambda: dispatcher.ready or any(slot.queue for slot in dispatcher.slots.values()))
        free.set()
        first.result(PATIENCE)
        second.result(PATIENCE)
    assert log == ["first", "second"]


def test_tasks_of_one_frame_overlap():
    scheduler = Scheduler([host(name="fork host"), unit("fork")])
    barrier, threads = threading.Barrier(2), []

    def run(pe, frame):
        threads.append(threading.current_thread())
        barrier.wait(PATIENCE)

    tasks = [Task("left", {"PS": 1e-3}, run), Task("right", {"fork": 1e-3}, run)]
    tasks.append(Task("join", {"PS": 1e-3}, nothing, (0, 1)))
    for _ in range(3):
        scheduler.execute(TaskGraph("diamond", tasks))
    assert threads.count(threading.current_thread()) == 3
    assert len(threads_of(scheduler)) <= 2  # threads are reused
    assert all(thread.daemon for thread in threads_of(scheduler))


@st.composite
def dags(draw):
    count = draw(st.integers(1, 12))
    kinds = [draw(st.sampled_from([("PS",), ("conv",), ("PS", "conv")])) for _ in range(count)]
    before = [tuple(draw(st.sets(st.integers(0, max(i - 1, 0)), max_size=3))) if i else () for i in range(count)]
    return list(zip(kinds, before, strict=True))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(dags(), min_size=1, max_size=3), st.sampled_from(policy_names()), st.integers(0, 1000))
def test_random_graphs_from_eight_threads(shapes, policy, seed):
    pes = [host(0), host(1), unit("conv", 0), unit("conv", 1)]
    occupied = {pe: threading.Lock() for pe in pes}
    generator = random.Random(seed)

    def make(index, kinds, before):
        seconds = generator.choice([0, 0, 1e-4, 5e-4])

        def run(pe, frame):
            assert occupied[pe].acquire(blocking=False), "two tasks on one PE"
            assert pe.resource in kinds
            assert all(frame.values[other] == 1 for other in before), "a dependency was not done"
            if seconds:
                time.sleep(seconds)
            frame.values[index] += 1
            occupied[pe].release()

        return Task(f"t{index}", dict.fromkeys(kinds, 1e-4), run, before)

    graphs = [TaskGraph(f"g{n}", [make(i, *task) for i, task in enumerate(shape)]) for n, shape in enumerate(shapes)]

    def call(number):
        graph = graphs[number % len(graphs)]
        done = [0] * len(graph.tasks)
        scheduler.execute(graph, done)
        return done

    with Scheduler(pes, policy) as scheduler, ThreadPoolExecutor(8) as callers:
        for future in [callers.submit(call, number) for number in range(16)]:
            assert set(future.result(PATIENCE)) == {1}
        assert not scheduler._dispatcher.busy and not scheduler._dispatcher.ready


class Broken(Exception):
    pass


def fail(pe, frame):
    raise Broken("no luck")


def test_an_exception_reaches_the_caller_with_its_traceback():
    scheduler = Scheduler([host()])
    two = TaskGraph("two", [Task("a", {"PS": 1}, nothing), Task("b", {"PS": 1}, fail, (0,))])
    for graph in (single(fail, "PS"), two):
        with pytest.raises(Broken, match="no luck") as caught:
            scheduler.execute(graph)
        assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "fail"
        scheduler.execute(single(nothing, "PS"))  # the PE is free again


def test_an_exception_on_another_thread_ends_the_frame_when_its_running_tasks_are_done():
    scheduler = Scheduler([host(0), host(1)])
    failed, log = threading.Event(), []

    def wait(pe, frame):
        if threading.current_thread() is not caller:
            raise Broken("in a worker")
        failed.wait(0.05)
        log.append("the other one ended")

    def unreachable(pe, frame):
        log.append("unreachable")

    caller = threading.current_thread()
    tasks = [Task("a", {"PS": 1}, wait), Task("b", {"PS": 1}, wait), Task("c", {"PS": 1}, unreachable, (0,))]
    tasks += [Task("d", {"PS": 1}, unreachable, (1,))]
    with pytest.raises(Broken, match="in a worker") as caught:
        scheduler.execute(TaskGraph("g", tasks))
    assert log == ["the other one ended"]
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "wait"


def test_other_frames_go_on_when_one_fails():
    scheduler = Scheduler([host(0), host(1)], "eft")
    ok = TaskGraph("ok", [Task(str(i), {"PS": 1e-3}, lambda pe, frame: time.sleep(1e-3)) for i in range(8)])
    bad = TaskGraph("bad", [Task(str(i), {"PS": 1e-3}, fail if i == 3 else nothing) for i in range(8)])

    def call(graph):
        try:
            scheduler.execute(graph)
        except Broken:
            return "broken"
        return "done"

    with ThreadPoolExecutor(4) as callers:
        results = list(callers.map(call, [ok, bad] * 10, timeout=PATIENCE))
    assert results == ["done", "broken"] * 10
    assert not scheduler._dispatcher.busy


def test_a_failed_frame_leaves_nothing_behind():
    class Values:
        pass

    scheduler, values = Scheduler([host(0), host(1)]), Values()
    gone = weakref.ref(values)
    graph = TaskGraph("g", [Task("a", {"PS": 1}, fail), Task("b", {"PS": 1}, nothing)])
    gc.disable()  # no reference cycle keeps a frame's tensors until the next collection
    try:
        with pytest.raises(Broken):
            scheduler.execute(graph, values)
        del values
        eventually(lambda: gone() is None)
    finally:
        gc.enable()


def test_a_task_that_nothing_supports():
    with pytest.raises(SchedulerError, match=r"task 'launch' of 'single' runs on conv or gemm, but the .* are PS: add"):
        Scheduler([host()]).execute(single(nothing, "gemm", "conv"))


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda ready, pes: [], "assigned none of . ready tasks"),
        (lambda ready, pes: [(ready[0], pes[1])], "assigned task 't0' to 'conv_1'"),
        (lambda ready, pes: [(ready[0], pes[0])] * 2, "assigned a task twice"),
        (lambda ready, pes: 1 / 0, "division by zero"),
    ],
)
def test_a_policy_that_breaks_the_contract_is_named_and_nobody_hangs(tasks, answer, message):
    class Odd(Policy):
        name = "odd"

        def assign(self, ready, pes, now, available):
            return answer(ready, pes) if self.odd else [(item, pes[0]) for item in ready]

    policy = Odd()
    scheduler = Scheduler([host(), unit("conv")], policy)
    graph = TaskGraph("g", [Task(f"t{i}", {"PS": 1e-3}, nothing) for i in range(tasks)])
    policy.odd = True
    with pytest.raises((SchedulerError, ZeroDivisionError), match=message):
        scheduler.execute(graph)
    policy.odd = False
    scheduler.execute(graph)


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("hook", ["observe", "estimates"])
def test_a_policy_whose_other_methods_fail(hook, tasks):
    policy = Adaptive()
    scheduler = Scheduler([host(0), host(1)], policy)
    graph = TaskGraph("g", [Task(f"t{i}", {"PS": 1e-3}, nothing) for i in range(tasks)])

    def broken(*arguments):
        raise Broken(hook)

    setattr(policy, hook, broken)
    with pytest.raises(Broken, match=hook):
        scheduler.execute(graph)
    delattr(policy, hook)
    scheduler.execute(graph)
    assert not scheduler._dispatcher.busy


def test_no_more_threads(monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    scheduler = Scheduler([host(0), host(1)])
    graph = TaskGraph("g", [Task(f"t{i}", {"PS": 1e-3}, nothing) for i in range(6)])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            scheduler.execute(graph)
    scheduler.execute(graph)
    assert not scheduler._dispatcher.busy


def test_torch_state_of_the_caller_is_applied_everywhere():
    scheduler = Scheduler([host(0), host(1)])
    barrier, states = threading.Barrier(2), []

    def run(pe, frame):
        barrier.wait(PATIENCE)
        autocast = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu")
        states.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast))

    def seen():
        states.clear()
        scheduler.execute(graph)
        assert len(states) == 2 and states[0] == states[1]
        return states[0]

    graph = TaskGraph("g", [Task(name, {"PS": 1e-3}, run) for name in "ab"])
    assert seen() == (True, False, False)
    with torch.no_grad():
        assert seen() == (False, False, False)
    with torch.inference_mode():
        assert seen() == (False, True, False)
        with torch.enable_grad():
            assert seen() == (torch.is_grad_enabled(), True, False)
    with torch.autocast("cpu", dtype=torch.float16):
        assert seen() == (True, False, torch.float16)
    assert seen() == (True, False, False)  # the worker is as it was


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize("inner_tasks", [1, 3])
def test_a_task_may_execute_a_graph_on_the_pe_that_it_holds(policy, inner_tasks):
    scheduler, log = Scheduler([host()], policy), []

    def log_in(pe, frame):
        log.append("in")

    inner = TaskGraph("in", [Task(f"i{i}", {"PS": 1e-3}, log_in) for i in range(inner_tasks)])

    def run(pe, frame):
        scheduler.execute(inner)
        log.append("out")

    with ThreadPoolExecutor(2) as callers:
        for graph in (single(run, "PS"), TaskGraph("two", [Task(name, {"PS": 1}, run) for name in "ab"])):
            for future in [callers.submit(scheduler.execute, graph) for _ in range(2)]:
                future.result(PATIENCE)
    assert log.count("out") == 6 and log.count("in") == 6 * inner_tasks
    assert not scheduler._dispatcher.busy


def test_ctrl_c_while_the_caller_waits():
    scheduler, ended = Scheduler([host(0), host(1)]), []
    main = threading.current_thread()

    def run(pe, frame):
        if threading.current_thread() is not main:
            time.sleep(0.02)  # now the caller waits
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        scheduler.execute(TaskGraph("g", [Task(name, {"PS": 1}, run) for name in "ab"]))
    assert ended == [True]  # values are not in use any more
    scheduler.execute(single(nothing, "PS"))
    assert not scheduler._dispatcher.busy


def test_ctrl_c_inside_a_task():
    scheduler = Scheduler([host()])

    def run(pe, frame):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(PATIENCE)

    with pytest.raises(KeyboardInterrupt):
        scheduler.execute(single(run, "PS"))
    scheduler.execute(single(nothing, "PS"))


def parallel_graph(name):
    """Two tasks that end only if they run at the same time."""
    barrier = threading.Barrier(2)

    def run(pe, frame):
        barrier.wait(PATIENCE)

    return TaskGraph(name, [Task(str(i), {"PS": 1e-3}, run) for i in range(2)])


def test_close_and_collection_end_the_threads():
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
def test_the_child_of_a_fork_starts_afresh():
    scheduler = Scheduler([host(0), host(1)])
    scheduler.execute(parallel_graph("before"))  # there is a worker now, which the child will not have
    occupied, free = threading.Event(), threading.Event()

    def occupy(pe, frame):
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
def test_a_frame_that_forks_fails_clearly_in_the_child_only():
    scheduler, children = Scheduler([host(0)]), []

    def fork(pe, frame):
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


def test_profiler_ranges():
    from torch.profiler import ProfilerActivity, profile

    scheduler, graph = Scheduler([unit("conv")]), single(nothing, "conv")
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        scheduler.execute(graph)
    assert "fpga_dynamo::launch" in [event.name for event in profiler.events()]


def test_an_empty_graph_is_done_at_once():
    Scheduler([host()]).execute(TaskGraph("empty", []))
