"""What no scheduler can beat: how many applications a second a system can serve, and the least mean response.

Give each kind k of processing element a price y_k >= 0 for a second of it, with sum(m_k y_k) = 1 over the m_k elements
of the kinds. Then the system as a whole does at most one unit of priced work a second, and an application needs at
least w = sum over its tasks of min_k(c_k y_k) units. So

- no more than 1 / (mean w) applications a second can be served for long (the linear program's dual: the best prices
  give the highest throughput of any schedule), and
- each schedule is one of a single machine of speed 1 with jobs of size w, on which shortest remaining processing time
  first has the least mean response (Schrage, 1968).

Both hold for all prices, so those found need not be the best ones. No response is shorter than its critical path
either.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fpga_dynamo.tools.soc.system import SimulatorInput, System

_ROUNDS = 400
Array = npt.NDArray[np.float64]


def prices(system: System, applications: Sequence[SimulatorInput], shares: Sequence[float]) -> Array:
    """Prices by kind that make the bound on throughput low: multiplicative weights on the kinds' loads."""
    counts = np.array([unit.count for unit in system.units], dtype=float)
    costs = np.concatenate([np.array(one.totals).reshape(-1, len(counts)) for one in applications])
    weights = np.concatenate([np.full(len(one.totals), share) for one, share in zip(applications, shares, strict=True)])
    # Tasks with equal costs count as one.
    costs, inverse = np.unique(costs, axis=0, return_inverse=True)
    weights = np.bincount(inverse.ravel(), weights=weights)
    price = np.ones(len(counts)) / counts.sum()
    best, most = price, 0.0
    for step in range(_ROUNDS):
        priced = np.where(np.isfinite(costs), costs * price, np.inf)
        choice = priced.argmin(axis=1)
        work = float(weights @ priced[np.arange(len(costs)), choice])
        if work > most:
            best, most = price, work
        taken = costs[np.arange(len(costs)), choice] * weights
        load = np.bincount(choice, weights=taken, minlength=len(counts)) / counts
        scale = load.max()
        if not scale:
            break
        price = price * np.exp(2.0 / np.sqrt(step + 4) * (load / scale - (load * counts).sum() / counts.sum() / scale))
        price = np.maximum(price, 1e-12)
        price = price / (price @ counts)
    return best


def priced_work(compiled: SimulatorInput, price: Array) -> float:
    costs = np.array(compiled.totals).reshape(-1, len(price))
    return float(np.where(np.isfinite(costs), costs * price, np.inf).min(axis=1).sum())


def capacity(system: System, applications: Sequence[SimulatorInput], shares: Sequence[float]) -> float:
    """Applications a second that can be served for long, at most, in the mix that `shares` say."""
    price = prices(system, applications, shares)
    total = sum(shares)
    work = sum(share / total * priced_work(one, price) for one, share in zip(applications, shares, strict=True))
    return 1.0 / work if work else float("inf")


def least_response(
    system: System, applications: Sequence[SimulatorInput], shares: Sequence[float], times: Array, which: Sequence[int]
) -> float:
    """A lower bound of the mean response to arrivals of application `which[i]` at `times[i]`, seconds."""
    if not len(times):
        return 0.0
    paths = float(np.mean([applications[i].alone for i in which]))
    price = prices(system, applications, shares)
    work = [priced_work(one, price) for one in applications]
    return max(paths, _shortest_remaining(times, [work[i] for i in which]))


def _shortest_remaining(times: Array, sizes: Sequence[float]) -> float:
    """Mean response on one machine under shortest remaining processing time first."""
    heap: list[float] = []
    now = total = 0.0
    for time, size in [*zip(times, sizes, strict=True), (np.inf, 0.0)]:
        while heap and now + heap[0] <= time:
            now += heapq.heappop(heap)
            total += now
        if heap:
            heapq.heapreplace(heap, heap[0] - (time - now))
        now = float(time)
        heapq.heappush(heap, size)
    return (total - float(np.sum(times))) / len(sizes)
