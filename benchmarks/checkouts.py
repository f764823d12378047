"""This checkout beside another, call by call: ``python -m benchmarks.checkouts OTHER [--only NAMES] [--seconds S]``.

Each has a process with the Python of its own `.venv`, which holds the same network compiled and times blocks of calls
as it is told; the two take turns (rounds.py), so that what slows the machine slows both. Networks are those of
`models`, small models those of `overhead`. A ratio above 1: this checkout is faster.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from benchmarks.environment import ROOT
from benchmarks.results import OURS
from benchmarks.rounds import SAMPLE, SelfTimed, interleave
from benchmarks.suites.overhead import MODELS
from benchmarks.summary import table
from benchmarks.workloads import WORKLOADS

OTHER = "other"

# Runs in the checkout's own Python and imports its own modules, so it knows of them only what all versions have.
_WORKER = f"""
import sys
from time import perf_counter
import torch
from benchmarks.peers import make
from benchmarks.suites.overhead import MODELS
from benchmarks.workloads import WORKLOADS
name, threads = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(threads)
torch.manual_seed(0)
model, example = WORKLOADS[name].make() if name in WORKLOADS else MODELS[name]()
with torch.no_grad():
    call = make({OURS!r}, model.eval(), example, threads).bound(example)
    for _ in range(5):
        call()
    began = perf_counter()
    call()
    calls = max(1, round({SAMPLE} / (perf_counter() - began)))
    print("ready", flush=True)
    for line in sys.stdin:
        began = perf_counter()
        for _ in range(calls):
            call()
        print((perf_counter() - began) / calls, flush=True)
"""


class CheckoutError(Exception):
    """A checkout's process ended before it had answered."""


class Worker:
    """A network, compiled by a checkout in a process of its own.

    checkout: its folder, with `.venv` in it unless it is this one. Raises CheckoutError if it cannot run the network.
    """

    def __init__(self, checkout: Path, network: str, threads: int) -> None:
        python = Path(sys.executable) if checkout == ROOT else checkout / ".venv/bin/python"
        if not python.exists():
            raise CheckoutError(f"{checkout} has no .venv/bin/python: run `make setup` there first")
        self._checkout = checkout
        self._errors = TemporaryFile("w+")  # noqa: SIM115 - closed with the worker
        self._process = subprocess.Popen(
            [python, "-c", _WORKER, network, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, cwd=checkout,
        )  # fmt: skip
        while self._read() != "ready":
            pass  # what compilers print

    def call(self) -> float:
        """Seconds a call, of a block of calls."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return line.strip()
        code = self._process.wait()
        self._errors.seek(0)
        last = self._errors.read().strip().splitlines()[-1:] or [f"it ended with code {code}"]
        raise CheckoutError(f"{self._checkout}: {last[0]}")

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


def compare(other: Path, network: str, *, seconds: float, threads: int) -> tuple[float, float]:
    """Median seconds a call of `network` here and in the other checkout. Raises CheckoutError."""
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(Worker(checkout, network, threads))
            for name, checkout in ((OURS, ROOT), (OTHER, other))
        }
        measured = interleave({name: SelfTimed(worker.call) for name, worker in workers.items()}, seconds)
    if measured.failures:
        raise CheckoutError("; ".join(measured.failures.values()))
    return measured.timings[OURS].median, measured.timings[OTHER].median


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkouts", description=__doc__)
    parser.add_argument("other", type=Path, help="another checkout, in which `make setup` has run")
    names = [*WORKLOADS, *MODELS]
    parser.add_argument("--only", default=",".join(names), help="networks, separated by commas")
    parser.add_argument("--seconds", type=float, default=10.0, help="for the rounds of one network")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args(arguments)
    chosen = given.only.split(",")
    if unknown := sorted(set(chosen) - set(names)):
        parser.error(f"there is no network {', '.join(unknown)}; there are {', '.join(names)}")
    rows, ratios = [], []
    for name in chosen:
        try:
            here, there = compare(given.other.resolve(), name, seconds=given.seconds, threads=given.threads)
        except CheckoutError as error:
            rows.append([name, "", "", str(error)])
            continue
        ratios.append(there / here)
        rows.append([name, f"{here * 1e3:.3f}", f"{there * 1e3:.3f}", f"{ratios[-1]:.3f}"])
        print(f"{name}: {ratios[-1]:.3f}", file=sys.stderr, flush=True)
    if ratios:
        rows.append(["geometric mean", "", "", f"{statistics.geometric_mean(ratios):.3f}"])
    print(table(["network", "here, ms", "there, ms", "there / here"], rows), end="")
    return 0 if len(ratios) == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
