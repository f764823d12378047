"""Virtual time: what must hold of every run, against the other simulator, and against schedules worked by hand."""

from __future__ import annotations

from dataclasses import replace
from time import thread_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.soc.shapes import pulse_doppler, temporal_mitigation
from fpga_dynamo._native import graph_model, least_work, system_model
from fpga_dynamo.runtime.application import Application, ApplicationTask, Edge
from fpga_dynamo.runtime.scheduling import simulate as python_simulation
from fpga_dynamo.runtime.scheduling.arrivals import At
from fpga_dynamo.runtime.scheduling.decisions import DecisionCost
from fpga_dynamo.tools.soc.bounds import capacity
from fpga_dynamo.tools.soc.graphs import task_graph
from fpga_dynamo.tools.soc.outcome import processing_elements
from fpga_dynamo.tools.soc.system import System
from fpga_dynamo.tools.soc.tables import StudyError
from fpga_dynamo.tools.soc.virtual import NATIVE_POLICIES, simulate
from fpga_dynamo.tools.soc.workload import Arrivals, ArrivingApplication, Workload
from tests.soc.soc_kit import applications, check, systems, workloads

POLICIES = st.sampled_from(NATIVE_POLICIES)
BOTH = ("simple", "met", "eft", "etf", "heft_rt", "edf", "llf")


@settings(max_examples=120, deadline=None)
@given(systems(), workloads(), POLICIES, st.integers(0, 3))
def test_every_run(system: System, workload: Workload, policy: str, seed: int) -> None:
    run = simulate(system, workload, policy, seed=seed, trace=True)
    check(run, system, workload)
    if not workload.spread and not workload.tail:
        assert run.mean_response >= run.least_mean_response * (1 - 1e-9)
    again = simulate(system, workload, policy, seed=seed)
    assert (again.ended == run.ended).all() and again.busy == run.busy and again.rounds == run.rounds


@settings(max_examples=60, deadline=None, derandomize=True)
@given(systems(resident=False), workloads(spread=False), st.sampled_from(BOTH))
def test_both_simulators_agree(system: System, workload: Workload, policy: str) -> None:
    """The one in C++ and the dispatcher's: two programs, one schedule."""
    system.decision = replace(system.decision, evaluation=0.0)  # they count different pairs where some cannot run
    run = simulate(system, workload, policy)
    graphs = [task_graph(system, one.application, deadline=one.deadline) for one in workload.sources]
    which = np.array(run.arrivals.which)
    other = python_simulation.simulate(
        graphs,
        processing_elements(system),
        policy,
        [At(*run.arrivals.times[which == number].tolist()) for number in range(len(graphs))],
        decision=system.decision,
    )
    events = sorted(other.trace.applications, key=lambda event: (event.program, event.arrival, event.stop))
    order = sorted(range(len(which)), key=lambda i: (f"app{which[i]}", run.arrivals.times[i], run.ended[i]))
    assert [event.stop for event in events] == pytest.approx([run.ended[i] for i in order], rel=1e-9)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(systems(resident=False), workloads(spread=False))
def test_the_default_policy_is_one(system: System, workload: Workload) -> None:
    """In the simulator and as the object that the real scheduler calls: the same schedules while decisions are free.

    Also where much happens at once: seconds and arrivals are multiples of few numbers.
    """
    system.decision = DecisionCost()
    arrivals = workload.arrivals(workload.rate, 0)
    times = np.round(arrivals.times / 20e-6) * 20e-6
    order = sorted(range(len(times)), key=lambda i: (times[i], arrivals.which[i]))
    times, arrivals = times[order], Arrivals(times[order], [arrivals.which[i] for i in order])
    run = simulate(system, workload, "least_work", arrivals=arrivals)
    which = np.array(arrivals.which)
    graphs = [task_graph(system, application, paced=True) for application in workload.applications]
    sources = [At(*times[which == number].tolist()) for number in range(len(graphs))]
    other = python_simulation.simulate(graphs, processing_elements(system), "least_work", sources)
    stops = sorted((event.arrival, event.program, event.stop) for event in other.trace.applications)
    mine = sorted((time, f"app{number}", end) for time, number, end in zip(times, which, run.ended, strict=True))
    assert [stop for *_, stop in stops] == pytest.approx([end for *_, end in mine], rel=1e-9)


def chain(name: str, *seconds: dict[str, float]) -> Application:
    tasks = [
        ApplicationTask(f"{name}{index}", cost, (Edge(index - 1),) if index else ())
        for index, cost in enumerate(seconds)
    ]
    return Application(name, tasks)


def system(cpus: int = 1, decision: Any = "free", **accelerators: int) -> System:
    return System({"cpus": {"a53": cpus}, "accelerators": accelerators, "scheduler": {"decision": decision}})


def workload(*applications: Application) -> Workload:
    return Workload.of([ArrivingApplication(application) for application in applications])


def at(*times_and_numbers: tuple[float, int]) -> Arrivals:
    times = np.array([time for time, _ in times_and_numbers])
    return Arrivals(times, [number for _, number in times_and_numbers])


def test_edf_lets_a_late_arrival_with_a_deadline_overtake() -> None:
    """One core is busy with the first of three; the second has no deadline, the third one at 11.5 s."""
    long, urgent = chain("long", {"a53": 10.0}), chain("urgent", {"a53": 1.0})
    both = Workload.of([ArrivingApplication(long), ArrivingApplication(urgent, deadline=9.5)])
    times = at((0.0, 0), (1.0, 0), (2.0, 1))
    runs = {policy: simulate(system(), both, policy, arrivals=times) for policy in ("eft", "edf")}
    assert runs["eft"].ended.tolist() == [10.0, 20.0, 21.0] and runs["eft"].late.tolist() == [False, False, True]
    assert runs["edf"].ended.tolist() == [10.0, 21.0, 11.0] and not runs["edf"].late.any()


def test_llf_starts_a_long_chain_before_earlier_deadlines() -> None:
    """Two cores. The chain of 10 s has no time to spare; two tasks of 4 s with an earlier deadline have 5 s each."""
    long, short = chain("long", {"a53": 5.0}, {"a53": 5.0}), chain("short", {"a53": 4.0})
    both = Workload.of([ArrivingApplication(long, deadline=10.0), ArrivingApplication(short, deadline=9.0)])
    times = at((0.0, 0), (0.0, 1), (0.0, 1))
    runs = {policy: simulate(system(2), both, policy, arrivals=times) for policy in ("edf", "llf")}
    assert runs["edf"].ended.tolist() == [14.0, 4.0, 4.0] and runs["edf"].late.tolist() == [True, False, False]
    assert runs["llf"].ended.tolist() == [10.0, 4.0, 8.0] and not runs["llf"].late.any()


def test_a_task_waits_for_its_fastest_unit_while_that_ends_earlier() -> None:
    """The second task would take 9 s on the idle core, and ends at 6 s on the unit; transfers take 1 s each way."""
    transform = Application("t", [ApplicationTask("t", {"a53": 9.0, "fft": 1.0}, from_host=1, to_host=1)])
    here = System({
        "cpus": {"a53": 1}, "accelerators": {"fft": 1}, "transfer": {"latency": 0.5, "bandwidth": 2.0},
        "scheduler": {"decision": "free"},
    })  # fmt: skip
    for policy in ("edf", "llf"):
        run = simulate(here, workload(transform), policy, arrivals=at((0.0, 0), (0.0, 0), (0.0, 0), (0.0, 0)))
        assert run.ended.tolist() == [3.0, 6.0, 9.0, 9.0]


def test_transfers_wait_for_a_channel() -> None:
    """Two units with tasks of 1 s, and 1 s of transfer before and after each. The core's task needs no channel."""
    there = Application("there", [ApplicationTask("t", {"fft": 1.0}, from_host=1, to_host=1)])
    here = Application("here", [ApplicationTask("h", {"a53": 2.5})])

    def ends(**transfer: Any) -> list[float]:
        made = System({
            "cpus": {"a53": 1}, "accelerators": {"fft": 3}, "scheduler": {"decision": "free"},
            "transfer": {"latency": 0.5, "bandwidth": 2.0, **transfer},
        })  # fmt: skip
        run = simulate(made, workload(there, here), "eft", arrivals=at((0.0, 0), (0.0, 0), (0.0, 0), (0.0, 1)))
        return [float(end) for end in run.ended]

    assert ends() == [3.0, 3.0, 3.0, 2.5]
    assert ends(channels=3) == ends(resident=True) == ends()
    assert ends(channels=1) == [4.0, 5.0, 6.0, 2.5]  # in at 0, 1, 2; out in the order in which they are computed
    assert ends(channels=2) == [3.0, 3.0, 4.0, 2.5]


def test_a_crossing_needs_a_channel_too() -> None:
    """Results stay on the card until the core needs them: 2 s for each of two, one after the other."""
    pair = Application(
        "pair", [ApplicationTask("a", {"fft": 1.0}), ApplicationTask("b", {"a53": 1.0}, (Edge(0, 2),))]
    )  # fmt: skip
    made = System({
        "cpus": {"a53": 2}, "accelerators": {"fft": 2}, "scheduler": {"decision": "free"},
        "transfer": {"latency": 1.0, "bandwidth": 2.0, "resident": True, "channels": 1},
    })  # fmt: skip
    run = simulate(made, workload(pair), "eft", arrivals=at((0.0, 0), (0.0, 0)))
    assert run.ended.tolist() == [4.0, 6.0]
    with pytest.raises(StudyError, match="does not support `channels`"):
        simulate(made, workload(pair), "adaptive", arrivals=at((0.0, 0)))


def test_seconds_on_a_class_of_the_system() -> None:
    """Twice as fast as an a53 at 1.5 GHz, half as fast at 0.375 GHz; what a task states for the class goes first."""
    here = System({
        "classes": {"u74": {"clock": 1.5e9, "speed": 2}}, "cpus": {"u74": {"clock": 375e6}},
        "scheduler": {"decision": "free"},
    })  # fmt: skip
    both = workload(chain("scaled", {"a53": 1.0}), chain("stated", {"a53": 9.0, "u74": 0.5}))
    run = simulate(here, both, arrivals=at((0.0, 0), (10.0, 1)))
    assert run.responses.tolist() == [pytest.approx(2.0), pytest.approx(2.0)]
    assert run.joules == pytest.approx((0.35 * 0.25 - 0.05) * 4.0 + 0.05 * 12.0)


def test_a_round_takes_time_and_tasks_pile_up_meanwhile() -> None:
    """EFT, one core: 1 s a round, 0.25 s a pair, 0.5 s a task. The second and third task wait for the first round."""
    one = workload(chain("a", {"a53": 10.0}))
    cost = {"round": 1.0, "evaluation": 0.25, "assignment": 0.5}
    run = simulate(system(1, cost), one, "eft", arrivals=at((0.0, 0), (0.5, 0), (1.0, 0)), trace=True)
    assert run.trace is not None
    decisions = [(event.time, event.queued, event.assigned, event.overhead) for event in run.trace.decisions]
    assert decisions == [(0.0, 1, 1, 1.75), (1.75, 2, 2, 2.5)]
    assert run.started.tolist() == [1.75, 11.75, 21.75] and run.deciding == 4.25


def test_a_period_delays_rounds() -> None:
    one = workload(chain("a", {"a53": 0.1}))
    run = simulate(system(1, {"period": 1.0}), one, "eft", arrivals=at((0.0, 0), (0.25, 0), (1.5, 0)))
    assert run.started.tolist() == [0.0, 1.0, 2.0]


def test_etf_costs_the_square_of_the_queue() -> None:
    one = workload(chain("a", {"a53": 1.0}))
    times = at(*[(0.0, 0)] * 8)
    runs = {p: simulate(system(2, {"evaluation": 1e-3}), one, p, arrivals=times) for p in ("eft", "etf")}
    assert runs["eft"].deciding == pytest.approx(8 * 2 * 1e-3)
    assert runs["etf"].deciding == pytest.approx(8 * 9 / 2 * 2 * 1e-3)


def test_an_idle_unit_wakes_up_but_the_one_that_asks_is_awake() -> None:
    """Two tasks, then one for which both wait: the first two are late, the third begins where its round was made."""
    both = Application(
        "both", [ApplicationTask("a", {"a53": 1.0}), ApplicationTask("b", {"a53": 2.0}),
                 ApplicationTask("c", {"a53": 1.0}, (Edge(0), Edge(1)))]
    )  # fmt: skip
    run = simulate(system(2, {"wake": 0.25}), workload(both), "eft", arrivals=at((0.0, 0)), trace=True)
    assert run.trace is not None
    assert {event.task: event.start for event in run.trace.tasks} == {"a": 0.25, "b": 0.25, "c": 2.5}
    assert run.ended[0] == 3.5


def test_costs_of_decisions_tell_the_policies_apart() -> None:
    """Free decisions see one task a round, so the order of the queue cannot matter; a period makes it matter."""
    short, long = chain("short", {"a53": 1e-3}), chain("long", {"a53": 9e-3})
    both, times = workload(short, long), at(*[(i * 1e-4, i % 2) for i in range(60)])

    def ends(decision: Any) -> list[list[float]]:
        policies = ("eft", "etf", "heft_rt")
        return [simulate(system(2, decision), both, p, arrivals=times).ended.tolist() for p in policies]

    free, periodic = ends("free"), ends({"period": 2e-3})
    assert free[0] == free[1] == free[2]
    assert len({tuple(one) for one in periodic}) == 3


def test_results_that_stay_on_the_card_do_not_cross() -> None:
    tasks = [ApplicationTask("a", {"fft": 1e-3}, from_host=4000), ApplicationTask("b", {"fft": 1e-3}, (Edge(0, 4000),))]
    tasks.append(ApplicationTask("c", {"a53": 1e-3}, (Edge(1, 4000),)))
    both = Workload.of([ArrivingApplication(Application("x", tasks))])
    transfer = {"latency": 1e-3, "bandwidth": 4e6}  # 2 ms for 4,000 bytes
    ends = {}
    for resident in (False, True):
        made = System(
            {"cpus": {"a53": 1}, "accelerators": {"fft": 1}, "transfer": {**transfer, "resident": resident},
             "scheduler": {"decision": "free"}}
        )  # fmt: skip
        ends[resident] = simulate(made, both, "eft", arrivals=at((0.0, 0))).ended[0]
    assert ends[False] == pytest.approx(3e-3 + 4 * 2e-3)  # in, out, in, out
    assert ends[True] == pytest.approx(3e-3 + 2 * 2e-3)  # the inputs, and what the core reads


def test_a_short_application_does_not_wait_behind_a_long_one() -> None:
    long, short = chain("long", *[{"a53": 1.0}] * 50), chain("short", {"a53": 1.0})
    times = at(*[(0.0, 0)] * 4, (0.5, 1))
    run = simulate(system(1), workload(long, short), "least_work", arrivals=times)
    assert run.responses[4] == pytest.approx(1.5)
    assert simulate(system(1), workload(long, short), "eft", arrivals=times).responses[4] > 4


def test_a_long_application_is_not_starved() -> None:
    long, short = chain("long", *[{"a53": 1.0}] * 10), chain("short", {"a53": 1.0})
    stream = sorted([(0.0, 0), *[(float(i), 1) for i in range(1, 400)]])
    run = simulate(system(1), workload(long, short), "least_work", arrivals=at(*stream))
    # A second of it is done before the first short one arrives. Work on a lone core is 1.1 times its seconds (a tenth
    # is added, which no second core would take over), and both are slowed down 7 times: the long one was the first of
    # all, so not known to be rare. What arrives less than 7 x 1.1 x (9 - 1) s later is served before the rest of it.
    assert run.ended[0] == pytest.approx(71)


@pytest.mark.parametrize("others, waits", [(0, 300), (20, 139)])
def test_what_is_long_and_rare_waits_longer(others: int, waits: int) -> None:
    """After 100 arrivals, so many of them long, a long one and 300 short ones, each of which keeps the core a second.

    Its rest is 19 s, 1.1 times that in work. A fifth of the arrivals being like it, it waits for those that arrive less
    than 7 x 1.1 x (19 - 1) s after it, the first 139 (the first half a second after it); one of a hundred: 60 x.
    """
    long, short = chain("long", *[{"a53": 1.0}] * 20), chain("short", {"a53": 1.0})
    before = [(25.0 * i, int(others == 0 or i % (100 // others) > 0)) for i in range(100)]
    now = 25.0 * len(before)
    stream = [*before, (now, 0), *[(now + 0.5 + i, 1) for i in range(300)]]
    run = simulate(system(1), workload(long, short), "least_work", arrivals=at(*stream))
    assert run.responses[len(before)] == pytest.approx(20 + waits)


def test_a_core_is_left_to_what_only_it_can_run() -> None:
    """Full units that a core could relieve, while products that only it runs, and they wait for, pile up before it."""
    made = System({"cpus": {"a53": 1}, "accelerators": {"fft": 2, "mmult": 1}, "transfer": {"latency": 2e-6}})
    shapes = (pulse_doppler, temporal_mitigation)
    both = Workload.of([ArrivingApplication(shape(), kind="periodic") for shape in shapes])
    rate = 0.95 * capacity(made, [made.compiled(one) for one in both.applications], both.shares)
    both = Workload.of(both.sources, rate=rate, instances=300)
    # With this seed's phases, what piled up once stayed: without that charge 10.8 times the response of MET, and 1.6
    # times where the core may go on taking some hundredths more than its share.
    responses = {policy: simulate(made, both, policy, seed=201).mean_response for policy in ("met", "least_work")}
    assert responses["least_work"] < 1.15 * responses["met"]


def test_a_core_is_left_to_what_only_it_can_run_of_the_same_application() -> None:
    tasks = [ApplicationTask("z", {"a53": 1.0, "zip": 1.1}), *[ApplicationTask(n, {"a53": 1.0}) for n in "ab"]]
    run = simulate(system(1, zip=1), workload(Application("x", tasks)), "least_work", arrivals=at((0.0, 0)))
    assert run.ended[0] == 2.0


def test_who_has_little_left_on_a_core_goes_first_there() -> None:
    """Convolutions with a short task on the core after each, beside an application of fewer seconds in all."""
    network = chain("network", *[{"conv2d": 1.0}, {"a53": 0.125}] * 5)
    products = Application("products", [ApplicationTask(f"p{index}", {"a53": 1.0}) for index in range(3)])
    run = simulate(system(1, conv2d=1), workload(network, products), "least_work", arrivals=at((0.0, 0), (0.0, 1)))
    assert run.ended.tolist() == [5 * 1.125, 3 + 2 * 0.125]


def test_an_arrival_costs_no_more_beside_a_thousand_graphs_than_beside_a_hundred() -> None:
    """Prices look at the graphs of late, and the less often the more of them there are: it was 12 times as much."""
    model = system_model([0, 0, 1], [0, 0])
    seconds = {}
    for count in (100, 1000):
        policy = least_work(model)
        for number in range(count):
            costs = [cost for task in range(10) for cost in (1e-4 + 1e-6 * ((7 * number + task) % 50), 2e-5)]
            edges = [[task - 1] if task else [] for task in range(10)]
            policy.add_graph(graph_model(model, costs, [0.0] * 20, edges, [0.0] * 9))
        taken = []
        for turn in range(6):  # the first time, all are new
            begun = thread_time()
            for number in range(count):
                policy.arrive(number, 1e-4 * (turn * count + number), 1.0)
            taken.append((thread_time() - begun) / count)
        seconds[count] = min(taken[1:])
    assert seconds[1000] < 4 * seconds[100]


def test_capacity_is_what_the_linear_program_says() -> None:
    """Two cores and a unit: 3 s on a core or 1 s on the unit, by hand 1 a second and 2/3 more."""
    one = workload(chain("a", {"a53": 3.0, "fft": 1.0}))
    made = System({"cpus": {"a53": 2}, "accelerators": {"fft": 1}})
    found = capacity(made, [made.compiled(one.applications[0])], [1.0])
    assert found == pytest.approx(1 + 2 / 3, rel=0.01) and found >= (1 + 2 / 3) * (1 - 1e-9)


def test_an_unknown_policy_and_a_task_that_nothing_runs() -> None:
    with pytest.raises(StudyError, match="unknown scheduling policy 'fifo'"):
        simulate(system(1), workload(chain("a", {"a53": 1.0})), "fifo")
    with pytest.raises(StudyError, match="task 'a0' of 'a' runs on gemm, but the system"):
        simulate(system(1), workload(chain("a", {"gemm": 1.0})), "eft")


@settings(max_examples=25, deadline=None, derandomize=True)
@given(applications(), st.integers(1, 3))
def test_more_cores_serve_more(application: Application, cpus: int) -> None:
    found = []
    for count in (cpus, cpus + 1):
        made = system(count)
        found.append(capacity(made, [made.compiled(application)], [1.0]))
    assert found[1] >= found[0] * (1 - 0.02)  # bounds are found to within a percent


def test_names_of_policies_are_those_of_the_runtime() -> None:
    from fpga_dynamo.runtime.scheduling.policies import policy_names

    assert set(NATIVE_POLICIES) == set(policy_names()) - {"adaptive"}
