"""The default policy beside CEDR's six, in virtual time: `python -m benchmarks.soc_policies [--arrivals periodic]`.

324 systems (1 to 4 cores, 0 to 2 units each of conv2d, fft, zip, mmult); six mixes of applications, by equal rates and
by equal work, and five loads (shares of what the system can serve) in rotation; three seeds. A figure is the mean
response of the default policy over that of the best of the six in the same configuration, and the 95th percentiles and
the longest responses of the two.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass

import numpy as np

from examples.soc import shapes
from fpga_dynamo.runtime.scheduling.decisions import DECISIONS
from fpga_dynamo.tools.soc.bounds import capacity
from fpga_dynamo.tools.soc.system import System
from fpga_dynamo.tools.soc.virtual import simulate
from fpga_dynamo.tools.soc.workload import Workload

SIX = ("simple", "random", "met", "eft", "etf", "heft_rt")
MINE = "least_work"
LOADS = (0.2, 0.5, 0.8, 0.95, 1.3)
MIXES = {
    "all": tuple(shape.__name__ for shape in shapes.ALL),
    "radar": ("pulse_doppler", "temporal_mitigation"),
    "comm": ("wifi_tx", "pulse_doppler"),
    "vision": ("detection", "vgg16"),
    "av": ("detection", "speech", "pulse_doppler"),
    "edge": ("speech", "wifi_tx", "vgg16"),
}
SYSTEMS = list(itertools.product((1, 2, 3, 4), (0, 1, 2), (0, 1, 2), (0, 1, 2), (0, 1, 2)))


@dataclass(frozen=True)
class Row:
    """Means over seeds, seconds."""

    name: str
    load: float
    means: dict[str, float]
    p95: dict[str, float]
    longest: dict[str, float]
    bound: float

    @property
    def best(self) -> str:
        return min(SIX, key=lambda policy: self.means[policy])

    def ratio(self, policy: str) -> float:
        return self.means[policy] / self.means[self.best]


def workload(names: tuple[str, ...], by_work: bool, arrivals: str) -> Workload:
    def share(name: str) -> float:
        return 1 / sum(min(task.seconds.values()) for task in getattr(shapes, name)().tasks) if by_work else 1.0

    rows = [{"program": f"examples.soc.shapes:{name}", "share": share(name), "arrivals": arrivals} for name in names]
    return Workload({"application": rows, "instances": 300})


def run(number: int, arrivals: str, decision: str, seeds: range, cache: dict[tuple[str, bool], Workload]) -> Row:
    cores, conv2d, fft, zip_, mmult = SYSTEMS[number]
    system = System(
        {
            "cpus": {"a53": cores},
            "accelerators": {"conv2d": conv2d, "fft": fft, "zip": zip_, "mmult": mmult},
            "transfer": {"latency": 2e-6},
        }
    )
    mix, by_work, load = list(MIXES)[number % 6], bool(number // 6 % 2), LOADS[number % 5]
    if (mix, by_work) not in cache:
        cache[mix, by_work] = workload(MIXES[mix], by_work, arrivals)
    made = cache[mix, by_work]
    compiled = [system.compiled(application) for application in made.applications]
    rate = load * capacity(system, compiled, made.shares)
    means: dict[str, list[float]] = {policy: [] for policy in (*SIX, MINE)}
    p95: dict[str, list[float]] = {policy: [] for policy in means}
    longest: dict[str, list[float]] = {policy: [] for policy in means}
    bounds = []
    for seed in seeds:
        times = made.arrivals(rate, seed)
        for policy in means:
            result = simulate(system, made, policy, rate, seed, arrivals=times, decision=DECISIONS[decision])
            means[policy].append(result.mean_response)
            p95[policy].append(float(np.percentile(result.responses, 95)))
            longest[policy].append(float(np.max(result.responses)))
        bounds.append(result.least_mean_response)
    name = f"{mix}{' by work' if by_work else ''} on {SYSTEMS[number]}"

    def over_seeds(values: dict[str, list[float]]) -> dict[str, float]:
        return {policy: float(np.mean(each)) for policy, each in values.items()}

    return Row(name, load, over_seeds(means), over_seeds(p95), over_seeds(longest), float(np.mean(bounds)))


def report(rows: list[Row]) -> str:
    mine = np.array([row.ratio(MINE) for row in rows])
    p95 = np.array([row.p95[MINE] / row.p95[row.best] for row in rows])
    longest = np.array([row.longest[MINE] / row.longest[row.best] for row in rows])
    lines = [
        f"{len(rows)} configurations; {MINE} over the best of the six",
        f"mean response: {mine.mean():.3f} on average, <= 0.9 in {(mine <= 0.9).mean():.0%}, "
        f"> 1.05 in {(mine > 1.05).mean():.1%}, at worst {mine.max():.2f}",
        f"95th percentile: {p95.mean():.3f} on average, at worst {p95.max():.2f}",
        f"longest response: {longest.mean():.3f} on average, at worst {longest.max():.2f}",
    ]
    lines += [
        f"  at load {load}: {np.mean([row.ratio(MINE) for row in rows if row.load == load]):.3f}" for load in LOADS
    ]
    for policy in (*SIX, MINE):
        ratios = np.array([row.ratio(policy) for row in rows])
        above = np.mean([row.means[policy] / row.bound for row in rows])
        lines.append(f"  {policy:10} {ratios.mean():8.3f}, at worst {ratios.max():8.2f}; {above:8.2f} lower bounds")
    worst = sorted(rows, key=lambda row: -row.ratio(MINE))[:3]
    lines += [f"  worst: {row.name} at load {row.load}: {row.ratio(MINE):.2f}" for row in worst]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arrivals", choices=("poisson", "periodic"), default="poisson")
    parser.add_argument("--decision", choices=tuple(DECISIONS), default="native")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds FIRST to FIRST + N - 1")
    parser.add_argument("--first-seed", type=int, default=0, metavar="FIRST")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth system")
    arguments = parser.parse_args()
    cache: dict[tuple[str, bool], Workload] = {}
    numbers = range(0, len(SYSTEMS), arguments.every)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    print(report([run(n, arguments.arrivals, arguments.decision, seeds, cache) for n in numbers]))


if __name__ == "__main__":
    main()
