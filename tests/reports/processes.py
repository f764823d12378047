"""Reports on threads, memory, and training by two processes over gloo."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.reports.case import Kind, Trial

Tensor = torch.Tensor

threads = Kind("threads")
memory = Kind("memory")
distributed = Kind("DDP and FSDP2")

ROOT = Path(__file__).resolve().parents[2]


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What `work` returns in each of as many threads, or the exception's text."""
    found: list[Any] = [None] * count

    def run(i: int) -> None:
        try:
            found[i] = work(i)
        except Exception as error:
            found[i] = f"{type(error).__name__}: {error}"

    workers = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


@threads("pytorch#118260", "two threads compile one function for many sizes at once")
def compile_in_two_threads(trial: Trial) -> Any:
    compiled = trial.compile(lambda x: x * x + 1, dynamic=False)
    inputs = [trial.randn(n) for n in range(1, 7)]
    return in_threads(2, lambda i: [compiled(x) for x in inputs[i::2]])


@threads("pytorch#126024", "a model with dynamic sizes is first called by several threads")
def dynamic_in_threads(trial: Trial) -> Any:
    model = trial.module(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    compiled, inputs = trial.compile(model, dynamic=True), [trial.randn(n, 4) for n in (2, 3, 5, 7)]

    def call(i: int) -> Tensor:
        with torch.no_grad():
            return compiled(inputs[i])

    return in_threads(4, call)


@threads("pytorch#123177", "32 threads call one compiled function")
def many_threads(trial: Trial) -> Any:
    compiled = trial.compile(lambda x, y: torch.sin(x) + torch.cos(y))
    inputs = [(trial.randn(2, 3), trial.randn(2, 3)) for _ in range(32)]
    return in_threads(32, lambda i: compiled(*inputs[i]))


def _growth(call: Callable[[], Any], calls: int) -> int:
    """Bytes of Python objects that remain of each call, in the better of two windows: what grows once is no leak."""
    tracemalloc.start()
    used = []
    for count in (2 * calls, calls, calls):
        for _ in range(count):
            call()
        gc.collect()
        used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return min(after - before for before, after in itertools.pairwise(used)) // calls


@memory("pytorch#174468", "Python memory after hundreds of calls: at most 100 bytes a call remain")
def memory_of_calls(trial: Trial) -> Any:
    compiled, x = trial.compile(lambda x: x + 1), trial.randn(9, 40)
    return _growth(lambda: compiled(x), 400) <= 100


@memory("pytorch#96937", "memory after hundreds of training steps: at most 100 bytes a step remain")
def memory_of_training(trial: Trial) -> Any:
    model = trial.module(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)))
    compiled, x = trial.compile(model), trial.randn(3, 6)

    def step() -> None:
        model.zero_grad()
        compiled(x).sum().backward()

    return _growth(step, 150) <= 100


@memory("pytorch#165407", "tensors that are alive after steps with ever new lengths")
def tensors_alive(trial: Trial) -> Any:
    layer = trial.module(nn.Linear(4, 4))
    compiled = trial.compile(lambda x: layer(x).relu().sum())

    def alive() -> int:
        gc.collect()
        return sum(isinstance(found, torch.Tensor) for found in gc.get_objects())

    counts = []
    for n in range(2, 11):
        layer.zero_grad()
        compiled(trial.randn(n, 4)).backward()
        counts.append(alive())
    return counts[-1] - counts[-4] <= 0


@memory("pytorch#94990", "a compiled model and its input are freed once nobody holds them")
def model_is_freed(trial: Trial) -> Any:
    model, x = trial.module(nn.Linear(4, 4)), trial.randn(2, 4)
    compiled = trial.compile(model)
    compiled(x).sum().backward()
    watched = [weakref.ref(model.weight), weakref.ref(x)]
    del model, compiled, x
    torch._dynamo.reset()
    gc.collect()
    return [reference() is None for reference in watched]


@memory("TensorRT#2326", "a result is freed while the compiled function lives")
def result_is_freed(trial: Trial) -> Any:
    compiled, x = trial.compile(lambda x: torch.relu(x @ x.t()) * 2), trial.randn(5, 5, grad=True)
    y = compiled(x)
    watched = weakref.ref(y)
    del y
    gc.collect()
    return watched() is None


_START = """
import sys, warnings, torch, torch.distributed as dist, torch.nn.functional as F
from torch import nn
warnings.filterwarnings("error", message=".*falls back to eager mode, because.*|.*a launch failed.*")
backend, rank, store, out = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
torch.manual_seed(0)
options = {"partition": "greedy"} if backend == "fpga" else None
def compiled(module):
    return module if backend == "eager" else torch.compile(module, backend=backend, options=options)
class Net(nn.Module):
    def __init__(self, p=0.0, width=8):
        super().__init__()
        self.a, self.b, self.p = nn.Linear(width, width), nn.Linear(width, width), p
    def forward(self, x):
        x = x + F.gelu(self.a(x))
        keep = float(torch.rand(()) >= self.p) if self.p else 1.0
        return x + keep * self.b(x)
data = torch.randn(3, 2, 4, 8, generator=torch.Generator().manual_seed(5))
found = []
"""
_END = """
torch.save(found, out)
dist.destroy_process_group()
"""


def two_processes(trial: Trial, body: str) -> Any:
    """What both ranks put into `found`, after `body` has run in processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        outs = [f"{folder}/{rank}" for rank in range(2)]
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", _START + body + _END, trial.backend, str(rank), f"{folder}/store", out],
                cwd=ROOT,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank, out in enumerate(outs)
        ]
        try:
            for rank in ranks:
                _, error = rank.communicate(timeout=240)
                if rank.returncode:
                    lines = error.strip().splitlines()
                    raise RuntimeError(lines[-1] if lines else f"exit status {rank.returncode}")
        finally:
            for rank in ranks:
                rank.kill()
        return [torch.load(out) for out in outs]


TRAIN = """
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    optimizer.zero_grad()
    called(data[step, rank]).square().mean().backward()
    optimizer.step()
found += [p.detach().full_tensor() if hasattr(p, "full_tensor") else p.detach() for p in model.parameters()]
"""


@distributed("pytorch#109774", "DDP, compiled outside and inside: averaged gradients", exact=False, processes=True)
def ddp(trial: Trial) -> Any:
    body = "from torch.nn.parallel import DistributedDataParallel as DDP\n"
    outside = body + "model = Net(); called = compiled(DDP(model))" + TRAIN
    inside = body + "model = Net(); called = DDP(compiled(model))" + TRAIN
    return two_processes(trial, outside), two_processes(trial, inside)


@distributed("pytorch#196227", "DDP with stochastic depth and a graph break", exact=False, processes=True)
def ddp_stochastic_depth(trial: Trial) -> Any:
    body = """
from torch.nn.parallel import DistributedDataParallel as DDP
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Net(0.0), Net(0.3)])
    def forward(self, x):
        for block in self.blocks:
            torch._dynamo.graph_break()
            x = block(x)
        return x
model = Model()
called = compiled(DDP(model))
"""
    return two_processes(trial, body + TRAIN)


@distributed("pytorch#144035", "DDP with activation checkpointing", exact=False, processes=True)
def ddp_checkpoint(trial: Trial) -> Any:
    body = """
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
    def forward(self, x):
        return checkpoint(self.net, x, use_reentrant=False)
model = Model()
called = DDP(compiled(model))
"""
    return two_processes(trial, body + TRAIN)


@distributed("ao#652", "FSDP2: the layers of a compiled model are sharded", exact=False, processes=True)
def fsdp2(trial: Trial) -> Any:
    body = """
from torch.distributed.fsdp import fully_shard
model = nn.Sequential(Net(), Net())
for part in model:
    fully_shard(part)
fully_shard(model)
called = compiled(model)
"""
    return two_processes(trial, body + TRAIN)


@distributed("torchtitan#61", "FSDP2 over blocks that are compiled one by one", exact=False, processes=True)
def fsdp2_compiled_blocks(trial: Trial) -> Any:
    body = """
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
model = nn.Sequential(Net(), Net())
for part in model:
    if backend != "eager":
        part.compile(backend=backend, options=options)
    fully_shard(part, mp_policy=MixedPrecisionPolicy(param_dtype=torch.float32, reduce_dtype=torch.float32))
fully_shard(model)
called = model
"""
    return two_processes(trial, body + TRAIN)
