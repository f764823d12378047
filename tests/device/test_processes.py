"""The device in processes of its own: the first use, two cards, forks, and a machine without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.marks import EXTENDED


def extended(test: Callable[..., None]) -> Callable[..., None]:
    """Marks a test that starts a process, which takes seconds."""
    for mark in EXTENDED:
        test = mark(test)
    return test


def process(code: str, **environment: str) -> str:
    """What a Python process prints; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_torch_loads_names_only() -> None:
    """Neither the compiler nor the extension: those come with the first tensor on the device."""
    code = """
import sys, time
import torch
ours = [name for name in sys.modules if name.startswith("fpga_dynamo")]
print(torch.device("fpga:0"), torch.fpga.is_initialized(), "sympy" in sys.modules, len(ours) < 15)
torch.manual_seed(5)
print(torch.fpga.is_initialized())
made = torch.rand(3, device="fpga")
print(made.device, torch.fpga.is_initialized(), torch.equal(made.cpu(), torch.rand(3)))
"""
    assert process(code).split() == ["fpga:0", "False", "False", "True", "False", "fpga:0", "True", "True"]


def test_a_forked_child_raises_and_does_not_hang() -> None:
    code = """
import os, torch
x = torch.ones(3, device="fpga")
kept = [torch.ones(1000, device="fpga") for _ in range(10)]
if os.fork() == 0:
    for use in (lambda: x + 1, lambda: torch.ones(2, device="fpga"), lambda: x.cpu(), lambda: x[0].item()):
        try:
            use()
            print("no error", flush=True)
        except RuntimeError as error:
            print(str(error)[:41], flush=True)
    kept.clear()
    print(torch.fpga._is_in_bad_fork(), torch.manual_seed(1) is not None, flush=True)
    os._exit(0)
print(os.wait()[1], (x + 1).sum().item())
"""
    lines = process(code).splitlines()
    assert lines == ["device 'fpga' cannot be used in this proc"] * 4 + ["True True", "0 6.0"]


@extended
@pytest.mark.parametrize("use", ["eager", "compiled"])
def test_two_cards(use: str) -> None:
    eager = """
import torch
a, b = torch.randn(4, device="fpga:0", requires_grad=True), torch.ones(4, device="fpga:1")
(a.to("fpga:1") * b).to("fpga:0").sum().backward()
print(a.grad.device, a.grad.sum().item())
with torch.fpga.device(1):
    print(torch.ones(2, device="fpga").device, torch.fpga.memory_allocated() > 0)
try:
    a + b
except RuntimeError as error:
    print("found at least two devices, fpga:0 and fpga:1" in str(error))
"""
    compiled = """
import torch
from torch import nn
model = nn.Linear(16, 16).to("fpga:1").eval()
x = torch.randn(8, 16, device="fpga:1")
with torch.no_grad():
    y = torch.compile(model, backend="fpga", options={"strict": True, "partition": "greedy"})(x)
    print(y.device, torch.allclose(y, model(x), atol=1e-5))
"""
    expected = {"eager": "fpga:0 4.0 fpga:1 True True", "compiled": "fpga:1 True"}
    assert (
        process({"eager": eager, "compiled": compiled}[use], FPGA_DYNAMO_EMULATED_CARDS="2").split()
        == expected[use].split()
    )


def test_nothing_is_built_for_programs_without_device_tensors(tmp_path: Path) -> None:
    code = """
import torch, fpga_dynamo
from torch.utils.data import DataLoader
torch.manual_seed(0)
print(torch.fpga.is_available(), torch.accelerator.is_available())
print(sum(part.item() for part in DataLoader(torch.arange(4.0), pin_memory=True)))
print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).sum().item(), torch.fpga.is_initialized())
"""
    lines = process(code, FPGA_DYNAMO_CACHE=str(tmp_path)).splitlines()
    assert [line for line in lines if "arn" not in line] == ["True False", "6.0", "4.0 False"]
    assert not (tmp_path / "torch_device").exists()


def test_the_cpu_is_the_default_of_programs_without_tensors_on_the_device(tmp_path: Path) -> None:
    """FSDP makes its mesh on the accelerator, if there is one."""
    code = f"""
import torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo", init_method="file://{tmp_path}/store", rank=0, world_size=1)
model = torch.nn.Linear(4, 2)
fully_shard(model)
model(torch.ones(3, 4)).sum().backward()
print(model.weight.grad.full_tensor().tolist(), torch.get_device_module().__name__)
dist.destroy_process_group()
torch.ones(2, device="fpga")
print(torch.accelerator.current_accelerator(), torch._C._get_accelerator())
"""
    assert process(code) == "[[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]] torch.cpu\nfpga fpga\n"


@extended
def test_without_a_compiler_there_is_one_sentence(tmp_path: Path) -> None:
    code = """
import torch
try:
    torch.ones(2, device="fpga")
except RuntimeError as error:
    print(error)
print(torch.fpga.is_available(), torch.ones(2).sum().item())
"""
    said = process(code, CXX="no-such-compiler", FPGA_DYNAMO_CACHE=str(tmp_path))
    assert "device 'fpga' needs its extension for torch" in said and "'no-such-compiler', was not found" in said
    assert said.endswith("False 2.0\n") and len(said.splitlines()) == 2


@extended
def test_a_cache_that_others_can_write_to_is_not_loaded_from(tmp_path: Path) -> None:
    """The extension is built elsewhere, or again; here the compiler that would do so is missing, which is said."""
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    code = f"""
import warnings, torch
from pathlib import Path
from xclbin_build.cache import folder
warnings.simplefilter("ignore")
print(folder("torch_device").is_relative_to(Path({str(cache)!r})))
"""
    assert process(code, FPGA_DYNAMO_CACHE=str(cache)) == "False\n"


def test_the_first_backward_pass_may_be_of_the_cpu() -> None:
    """PyTorch starts autograd's threads at that pass, for the devices that it knows then."""
    code = """
import torch
a = torch.ones(3, requires_grad=True)
(a * 2).sum().backward()
b = torch.ones(3, requires_grad=True, device="fpga")
(b * 3).sum().backward()
print(b.grad.tolist())
"""
    assert process(code) == "[3.0, 3.0, 3.0]\n"


TRAINING = """
import copy, torch
from torch import nn

def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))

def train(run, parameters, inputs, steps=4):
    update = torch.optim.SGD(parameters, lr=0.1)
    for _ in range(steps):
        update.zero_grad()
        run(inputs).square().mean().backward()
        update.step()

torch.manual_seed(5)
x = torch.randn(8, 8)
reference = network()
train(reference, reference.parameters(), x)

def is_right(model):
    pairs = zip(model.parameters(), reference.parameters())
    return all(torch.allclose(mine.cpu(), other, atol=1e-6) for mine, other in pairs)
"""


@extended
def test_a_model_split_over_two_cards() -> None:
    code = (
        TRAINING
        + """
model = network()
model[0].to("fpga:0")
model[1:].to("fpga:1")
train(lambda x: model[1:](model[0](x.to("fpga:0")).to("fpga:1")), model.parameters(), x)
print(is_right(model), {str(parameter.device) for parameter in model.parameters()} == {"fpga:0", "fpga:1"})
print(torch.fpga.transfer_stats()["between_cards"] == 2 * 4 * 8 * 16 * 4)
"""
    )
    assert process(code, FPGA_DYNAMO_EMULATED_CARDS="2").split() == ["True", "True", "True"]


@extended
def test_data_parallel_training_with_a_process_for_each_card(tmp_path: Path) -> None:
    """DistributedDataParallel over gloo, whose collectives work on the memory of the cards."""
    script = tmp_path / "script.py"
    script.write_text(
        TRAINING
        + """
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, place):
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)
    card = f"fpga:{rank}"
    total = torch.full((3,), rank + 1.0, device=card)
    dist.all_reduce(total)
    parts = [torch.empty(2, device=card) for _ in range(2)]
    dist.all_gather(parts, torch.full((2,), float(rank), device=card))
    given = torch.full((2,), float(rank), device=card)
    dist.broadcast(given, src=1)
    collected = total.tolist(), [part.tolist() for part in parts], given.tolist()
    assert collected == ([3.0] * 3, [[0.0, 0.0], [1.0, 1.0]], [1.0, 1.0]), collected
    model = network().to(card)
    parallel = nn.parallel.DistributedDataParallel(model)
    train(parallel, parallel.parameters(), x[rank * 4 : rank * 4 + 4].to(card))
    assert is_right(model) and all(str(p.device) == card for p in model.parameters())
    print("right", flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    import sys
    mp.spawn(work, (sys.argv[1],), nprocs=2)
"""
    )
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "meeting")],
        env=os.environ | {"FPGA_DYNAMO_EMULATED_CARDS": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["right", "right"] and "Overriding" not in done.stderr
