"""Virtual against real time: `python -m benchmarks.soc_real`.

The five workloads' graphs on two systems at three rates, tasks paced, so that the machine needs no more cores than its
scheduler does. What the real scheduler costs here (a decision, the tasks in it, a thread that wakes up, and how much
longer than asked a paced task takes) is measured first and given to virtual time. A machine that is busy with other
things wakes its threads milliseconds late: `--stretch 20` makes everything that much slower, and those little. Figures:
mean responses, their ratio, the share of pairs of instances that end in the same order, and what is served a second
where more arrives than can be.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fpga_dynamo.runtime.application import CPU_CLASSES, Application
from fpga_dynamo.tools.soc.bounds import capacity
from fpga_dynamo.tools.soc.outcome import RunOutcome
from fpga_dynamo.tools.soc.real import overheads, run_real
from fpga_dynamo.tools.soc.system import ACCELERATOR_CLOCK, System, Transfer
from fpga_dynamo.tools.soc.tables import read
from fpga_dynamo.tools.soc.virtual import simulate
from fpga_dynamo.tools.soc.workload import Workload

EXAMPLE = Path(__file__).parent.parent / "examples" / "soc"
SYSTEMS: tuple[dict[str, dict[str, int]], ...] = (
    {"cpus": {"a53": 3}, "accelerators": {"conv2d": 1, "fft": 1, "zip": 1}},
    {"cpus": {"a53": 2}, "accelerators": {"conv2d": 2}},
)
LOADS = (0.3, 0.6, 0.9)
SATURATING = 3.0
"""A load at which what is served a second is what the system can serve."""


def slower(description: dict[str, dict[str, int]], stretch: float) -> dict[str, Any]:
    """The system with clocks and transfers so many times slower."""
    clocks = {"cpus": CPU_CLASSES["a53"].clock, "accelerators": ACCELERATOR_CLOCK}
    made: dict[str, Any] = {
        part: {name: {"count": count, "clock": clocks[part] / stretch} for name, count in units.items()}
        for part, units in description.items()
    }
    transfer = {"latency": Transfer.latency * stretch, "bandwidth": Transfer.bandwidth / stretch}
    return {"name": " + ".join(f"{n} {k}" for p in description.values() for k, n in p.items()), **made} | {
        "transfer": transfer
    }


def longer(application: Application, seconds: float) -> Application:
    """The application with tasks that take so much longer on every kind of unit."""
    tasks = [
        replace(task, seconds={kind: value + seconds for kind, value in task.seconds.items()})
        for task in application.tasks
    ]
    return Application(application.name, tasks, application.granularity, application.source)


def same_order(virtual: RunOutcome, real: RunOutcome) -> float:
    """Of all pairs of instances: the share that ends in the same order."""
    first, second = np.sign(np.subtract.outer(virtual.ended, virtual.ended)), np.subtract.outer(real.ended, real.ended)
    pairs = np.triu_indices(len(virtual.ended), 1)
    return float((first[pairs] == np.sign(second)[pairs]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", nargs="+", default=["eft", "least_work"])
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--stretch", type=float, default=1.0, help="everything so many times slower than it should be")
    arguments = parser.parse_args()
    workload = Workload(read(EXAMPLE / "workload.toml"), EXAMPLE)
    workload.instances = arguments.instances
    for policy in arguments.policies:
        decision, late = overheads(policy)
        print(
            f"{policy}: {decision.round * 1e6:.1f} us a decision and {decision.assignment * 1e6:.1f} for each task in "
            f"it, {decision.wake * 1e6:.1f} until an idle unit begins, {late * 1e6:.1f} more for each task"
        )
        slow = Workload.of(
            [
                replace(source, application=longer(source.application, late / arguments.stretch))
                for source in workload.sources
            ],
            instances=workload.instances,
        )
        for description in SYSTEMS:
            system = System(slower(description, arguments.stretch))
            most = capacity(system, [system.compiled(one) for one in slow.applications], slow.shares)
            for load in (*LOADS, SATURATING):
                arrivals = workload.arrivals(load * most, 0)
                real = run_real(system, workload, policy, arrivals=arrivals, paced=True)
                # The injector is late, too: virtual time gets the arrivals as they were.
                virtual = simulate(system, slow, policy, arrivals=real.arrivals, decision=decision)
                if load == SATURATING:
                    served = [len(run.responses) / run.span for run in (real, virtual)]
                    print(
                        f"  {system.title}, saturated: real {served[0]:.2f}/s, virtual {served[1]:.2f}/s, "
                        f"virtual / real {served[1] / served[0]:.3f}",
                        flush=True,
                    )
                    continue
                print(
                    f"  {system.title}, load {load}: real {real.mean_response * 1e3:.3f} ms, "
                    f"virtual {virtual.mean_response * 1e3:.3f} ms, "
                    f"virtual / real {virtual.mean_response / real.mean_response:.3f}, "
                    f"same order {same_order(virtual, real):.1%}, "
                    f"{real.deciding / max(real.assignments, 1) * 1e6:.1f} us of scheduling a task",
                    flush=True,
                )


if __name__ == "__main__":
    main()
