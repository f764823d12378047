"""Throughput and latency of `fpga-dynamo serve`, and of eager mode in the same server: python -m benchmarks.serving

Both servers run side by side, and blocks of requests to them take turns. Tensors are binary. Each server computes
with one thread, so that other work on the machine slows both alike.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.export import Dim

import fpga_dynamo
from fpga_dynamo.serving.metrics import Metrics
from fpga_dynamo.serving.pool import Pool
from fpga_dynamo.serving.protocol import DATATYPES
from fpga_dynamo.serving.replica import ExportedModel, OpenModel, from_torch, to_torch
from fpga_dynamo.serving.server import serve
from fpga_dynamo.serving.tensors import Tensor
from fpga_dynamo.tools import zoo

_BLOCK_S = 3.0
_MODULE = "eager.pt"


@dataclass(frozen=True)
class Case:
    """make: the model and an example. most_rows: of dynamic batching; 1: the batch is fixed."""

    make: Callable[[], tuple[nn.Module, torch.Tensor]]
    clients: tuple[int, ...]
    most_rows: int = 1


def _resnet18() -> tuple[nn.Module, torch.Tensor]:
    example = zoo.load("resnet18")
    return zoo.randomise_batch_norm(example.model), example.inputs[0]


def _perceptron() -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 64)]
    return nn.Sequential(*layers).eval(), torch.randn(2, 512)


CASES = {"resnet18": Case(_resnet18, (1, 4)), "perceptron, batching": Case(_perceptron, (1, 8), 16)}


class EagerModel(ExportedModel):
    """The module itself, with the inputs and outputs of its export."""

    def __init__(self, directory: str, device: int, timeout: float) -> None:
        super().__init__(directory, device, timeout)
        torch.set_num_threads(1)
        title, state = torch.load(Path(directory) / _MODULE)
        self._module, _ = CASES[title].make()
        self._module.load_state_dict(state)

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        with torch.no_grad():
            return [from_torch(self._module(*map(to_torch, inputs)))]


def _server(directory: str, most_rows: int, open_model: OpenModel, ready: Connection) -> None:
    metrics = Metrics()
    listener = socket.create_server(("127.0.0.1", 0))
    pool = Pool(
        {"model": directory}, replicas=1, devices=[0], most_rows=most_rows, most_waiting=256, timeout=60,
        metrics=metrics, open_model=open_model,
    )  # fmt: skip
    port = listener.getsockname()[1]
    serve(pool, metrics, listener, most_bytes=1 << 26, drain=10, on_ready=lambda _: ready.send(port))


def _requests(port: int, name: str, array: np.ndarray, end: float) -> list[float]:
    """Seconds of each request of one client until `end`."""
    entry: dict[str, Any] = {
        "name": name, "datatype": DATATYPES[array.dtype.name], "shape": list(array.shape),
        "parameters": {"binary_data_size": array.nbytes},
    }  # fmt: skip
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    body, taken = head + array.tobytes(), []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while (start := perf_counter()) < end:
        connection.request("POST", "/v2/models/model/infer", body, headers)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(content.decode())
        taken.append(perf_counter() - start)
    connection.close()
    return taken


def _block(port: int, name: str, array: np.ndarray, clients: int, seconds: float) -> list[float]:
    taken: list[float] = []
    end = perf_counter() + seconds
    threads = [threading.Thread(target=lambda: taken.extend(_requests(port, name, array, end))) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


def _measure(title: str, rounds: int, folder: Path) -> list[str]:
    torch.manual_seed(0)
    case = CASES[title]
    model, example = case.make()
    shapes = ({0: Dim("rows", min=2, max=256)},) if case.most_rows > 1 else None
    directory = fpga_dynamo.export(model, (example,), folder, dynamic_shapes=shapes)
    torch.save((title, model.state_dict()), directory / _MODULE)
    name = fpga_dynamo.load(directory).inputs[0][0]
    context, processes, ports, lines = multiprocessing.get_context("spawn"), [], {}, []
    for server, open_model in (("exported", ExportedModel), ("eager mode", EagerModel)):
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=_server, args=(str(directory), case.most_rows, open_model, theirs)))
        processes[-1].start()
        ports[server] = ours.recv()
    try:
        array = example[: 2 if case.most_rows > 1 else None].numpy()
        for clients in case.clients:
            samples: dict[str, list[float]] = {server: [] for server in ports}
            for port in ports.values():
                _block(port, name, array, clients, 0.5)
            for _ in range(rounds):
                for server, port in ports.items():
                    samples[server] += _block(port, name, array, clients, _BLOCK_S)
            for server, taken in samples.items():
                median, late = statistics.median(taken), float(np.quantile(taken, 0.99))
                rate = len(taken) / (rounds * _BLOCK_S)
                lines.append(f"| {title} | {clients} | {server} | {rate:.1f} | {median * 1e3:.1f} | {late * 1e3:.1f} |")
    finally:
        for process in processes:
            process.terminate()
            process.join()
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help=f"blocks of {_BLOCK_S:.0f} s for each server (5)")
    rounds = parser.parse_args().rounds
    os.environ["FPGA_DYNAMO_LANES"] = "1"
    print("| model | clients | server | requests/s | median ms | p99 ms |\n|---|---|---|---|---|---|")
    for title in CASES:
        with tempfile.TemporaryDirectory() as folder:
            print("\n".join(_measure(title, rounds, Path(folder) / "model")), flush=True)


if __name__ == "__main__":
    main()
