"""The policies beside the optimum, in small cases: `python -m benchmarks.soc_optimum`.

Four instances of one to three small applications in the literature's shapes arrive within half of their work;
decisions are free. The optimum knows all arrivals beforehand (OR-tools' CP-SAT); only cases that it proves count.
Figures are mean responses over the optimum's.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence

import numpy as np

from examples.soc import shapes
from fpga_dynamo.runtime.application import Application
from fpga_dynamo.tools.soc.bounds import capacity
from fpga_dynamo.tools.soc.optimum import optimum
from fpga_dynamo.tools.soc.system import System
from fpga_dynamo.tools.soc.virtual import NATIVE_POLICIES, simulate
from fpga_dynamo.tools.soc.workload import Arrivals, ArrivingApplication, Workload

INSTANCES = 4
SYSTEMS = ({"fft": 1}, {"fft": 1, "zip": 1}, {"conv2d": 1, "mmult": 1}, {"conv2d": 1, "fft": 1, "mmult": 1})


def applications() -> list[Application]:
    return [shapes.wifi_tx(2), shapes.pulse_doppler(1, 16), shapes.speech(), shapes.temporal_mitigation(1)]


def case(number: int) -> tuple[System, Workload, Arrivals]:
    generator = random.Random(number)
    system = System(
        {
            "cpus": {"a53": 1 + number % 3},
            "accelerators": dict(generator.choice(SYSTEMS)),
            "transfer": {"latency": 2e-6},
            "scheduler": {"decision": "free"},
        }
    )
    chosen = generator.sample(applications(), generator.randint(1, 3))
    workload = Workload.of([ArrivingApplication(one) for one in chosen])
    most = capacity(system, [system.compiled(one) for one in chosen], workload.shares)
    times = sorted(generator.uniform(0, INSTANCES / most / 2) for _ in range(INSTANCES))
    return system, workload, Arrivals(np.array(times), [generator.randrange(len(chosen)) for _ in times])


def table(ratios: Sequence[dict[str, float]]) -> str:
    lines = ["| | over the optimum | at worst | optimal in |", "|---|---|---|---|"]
    for name in ratios[0]:
        values = np.array([row[name] for row in ratios])
        optimal = "" if name == "lower bound" else f"{(values < 1.001).sum()} of {len(values)}"
        lines.append(f"| {name} | {values.mean():.3f} | {values.max():.2f} | {optimal} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=10.0, help="of search, for each case")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    ratios = []
    for number in range(arguments.cases):
        system, workload, arrivals = case(number)
        compiled = [system.compiled(one) for one in workload.applications]
        best = optimum(system, compiled, arrivals, arguments.seconds, arguments.workers)
        if not best.proved:
            continue
        runs = {policy: simulate(system, workload, policy, arrivals=arrivals) for policy in NATIVE_POLICIES}
        row = {policy: run.mean_response / best.mean_response for policy, run in runs.items()}
        row["lower bound"] = runs["eft"].least_mean_response / best.mean_response
        ratios.append(row)
    print(f"{len(ratios)} of {arguments.cases} optima proved")
    if ratios:
        print(table(ratios))


if __name__ == "__main__":
    main()
