"""Operators of eager mode on ``torch.device("fpga")``: ``python -m benchmarks.device_operators [--seconds S]``.

Operators on the card beside the launch alone, and operators on the host beside the CPU, 64 x 64 elements of float32;
and the first call with a new shape. All take turns in one process. Prints a table of medians and quartiles.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.environment import cpu_model
from benchmarks.rounds import Contestant, SelfTimed, Timing, interleave
from fpga_dynamo.device import extension
from fpga_dynamo.device.operators import Operators
from fpga_dynamo.options import Options

SIZE = 64

ON_CARD: dict[str, tuple[str, Callable[[Tensor], Tensor], Callable[[Tensor], list[Any]]]] = {
    "relu": ("", torch.relu, lambda x: [x]),
    "add": ("Tensor", lambda x: x + x, lambda x: [x, x, 1]),
    "exp": ("", torch.exp, lambda x: [x]),
    "mm": ("", lambda x: x @ x, lambda x: [x, x]),
}
"""Overload, call, and arguments of the schema."""
ON_HOST: dict[str, Callable[[Tensor], object]] = {"lgamma": torch.lgamma, "sort": torch.sort, "zero_": Tensor.zero_}
"""Operators that no core computes."""


def launch_alone(name: str, overload: str, arguments: list[Any]) -> Callable[[], object]:
    """The program of an operator, called without PyTorch's dispatcher and the cache of programs."""
    compiler = Operators(Options.parse({"partition": "greedy"}))
    run, results, why = compiler.compile(f"aten::{name}", overload, arguments, 0)
    assert run is not None, f"aten::{name} runs on the card, but: {why}"
    views = tuple(extension.start().host_view(a) for a in arguments if isinstance(a, Tensor))
    into = tuple(torch.empty_strided(*kind[:2], dtype=kind[2]) for kind in results if kind is not None)
    return lambda: run(*views, into=into)


def first_calls() -> SelfTimed:
    """Calls of ``relu`` on the card, each with a shape that has not been there."""
    rows = itertools.count(1)

    def call() -> float:
        x = torch.empty(next(rows), 24, device="fpga")
        began = time.perf_counter()
        torch.relu(x)
        return time.perf_counter() - began

    return SelfTimed(call)


def contestants() -> dict[str, Contestant]:
    device, host = torch.randn(SIZE, SIZE, device="fpga"), torch.randn(SIZE, SIZE)
    found: dict[str, Contestant] = {}
    for name, (overload, call, arguments) in ON_CARD.items():
        found[f"{name}: on the card"] = lambda call=call: call(device)  # type: ignore[misc]
        found[f"{name}: launch alone"] = launch_alone(name, overload, arguments(device))
        found[f"{name}: CPU"] = lambda call=call: call(host)  # type: ignore[misc]
    for name, action in ON_HOST.items():
        found[f"{name}: on the host"] = lambda action=action: action(device)  # type: ignore[misc]
        found[f"{name}: CPU"] = lambda action=action: action(host)  # type: ignore[misc]
    found["relu: first call with a shape"] = first_calls()
    return found


def row(name: str, timing: Timing) -> str:
    return f"| {name} | {timing.median * 1e6:.1f} | {timing.lower * 1e6:.1f}-{timing.upper * 1e6:.1f} |"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device_operators", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="time for the rounds (20)")
    seconds = parser.parse_args(argv).seconds
    torch.set_num_threads(1)
    fpga: Any = sys.modules["torch.fpga"]
    fpga.set_operator_placement("greedy")
    with torch.no_grad():
        measured = interleave(contestants(), seconds)
    print(f"{cpu_model()}, {torch.backends.cpu.get_cpu_capability()}; us a call, median and quartiles")
    print("| call | median | quartiles |\n|---|---|---|")
    print("\n".join(row(name, timing) for name, timing in measured.timings.items()))
    for name, why in measured.failures.items():
        print(f"{name}: {why}")
    return 1 if measured.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
