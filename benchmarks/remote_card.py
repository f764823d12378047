"""Latency of a card at the other end of a network, beside its estimate: python -m benchmarks.remote_card

The estimate is local + round trip + bytes / bandwidth. The network is a proxy on this machine, with a delay and a
bandwidth. Blocks of local and of remote calls take turns; a time is that of the fastest call, with one
thread. First calls are those of a process that has compiled the model for a local card, so that they pack and send
weights, and compile nothing.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import nn

from fpga_dynamo.runtime.drivers import select
from fpga_dynamo.runtime.observe.counters import stats
from fpga_dynamo.testing.network import Network
from fpga_dynamo.tools import zoo

_TRIPS = 10
_BLOCK = 10
"""Calls of one kind, before the other kind has its turn."""
_PAUSE_S = 0.2
_MEGABYTE = 1e6


@dataclass(frozen=True)
class Line:
    """A network: seconds in each direction, bytes/s in each direction."""

    title: str
    delay: float = 0.0
    bandwidth: float = math.inf


LINES = (
    Line("loopback"),
    Line("20 ms round trip", 0.01),
    Line("20 ms, 100 MB/s", 0.01, 100 * _MEGABYTE),
)


def _resnet18() -> tuple[nn.Module, torch.Tensor]:
    example = zoo.load("resnet18")
    return zoo.randomise_batch_norm(example.model), example.inputs[0]


def _perceptron() -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 64)]
    return nn.Sequential(*layers).eval(), torch.randn(16, 512)


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {"resnet18": _resnet18, "perceptron": _perceptron}


def _start(folder: Path) -> tuple[subprocess.Popen[str], int, Path]:
    """A server, its port, and the file with its token."""
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text("benchmark" * 4)
    command = [sys.executable, "-m", "fpga_dynamo.tools.cli", "card-server", "--listen", "127.0.0.1:0"]
    command += ["--token-file", str(token), "--driver", "emulated"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline().split()[2].rstrip(":").rsplit(":", 1)[1]), token


def _seconds(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _compiled(model: nn.Module, **options: Any) -> Any:
    torch.compiler.reset()
    return torch.compile(model, backend="fpga", options={"strict": True, **options})


def _measure(title: str, line: Line, rounds: int) -> str:
    torch.manual_seed(0)
    model, example = MODELS[title]()
    local = _compiled(model)
    expected = local(example)
    with tempfile.TemporaryDirectory() as folder:
        process, port, token = _start(Path(folder))
        with Network(port, delay=line.delay, bandwidth=line.bandwidth) as network:
            driver = f"tcp://127.0.0.1:{network.port}?token-file={token}"
            address = driver.replace("?", "/0?")
            trip: Any = select(driver)
            round_trip = min(_seconds(trip.status) for _ in range(_TRIPS))
            firsts, sent = [], []
            for _ in range(2):
                before = network.sent
                remote = _compiled(model, device=address)
                firsts.append(_seconds(lambda: remote(example)))  # noqa: B023 - called at once
                sent.append(network.sent - before)
            if not torch.equal(remote(example), expected):
                raise RuntimeError(f"{title}: the remote card gave another result than the local one")
            before_calls = stats()
            remote(example)
            after = stats()
            moved = sum(after[name] - before_calls[name] for name in ("bytes_to_device", "bytes_from_device"))
            times: dict[str, list[float]] = {"local": [], "remote": []}
            for _ in range(rounds):
                for where, call in (("local", local), ("remote", remote)):
                    time.sleep(_PAUSE_S)  # threads of the other kind of calls may spin for a while
                    call(example)
                    times[where] += [_seconds(lambda: call(example)) for _ in range(_BLOCK)]  # noqa: B023 - at once
        process.terminate()
        process.wait()
    here, there = (min(taken) for taken in times.values())
    estimate = here + round_trip + moved / line.bandwidth
    cells = [f"{value * 1e3:.2f}" for value in (here, round_trip, there, estimate)]
    first = [f"{seconds:.2f}" for seconds in firsts]
    megabytes = [f"{nbytes / _MEGABYTE:.2f}" for nbytes in sent]
    return f"| {title} | {line.title} | {moved:,} | {' | '.join([*cells, *first, *megabytes])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help=f"blocks of {_BLOCK} calls of each kind (5)")
    rounds = parser.parse_args().rounds
    os.environ["FPGA_DYNAMO_LANES"] = "1"  # of both ends, which share this machine
    titles = ["model", "network", "bytes a call", "local ms", "round trip ms", "remote ms", "estimate ms"]
    titles += ["first call s", "again s", "sent MB", "again MB"]
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    with torch.no_grad():
        for title in MODELS:
            for line in LINES:
                print(_measure(title, line, rounds), flush=True)


if __name__ == "__main__":
    main()
