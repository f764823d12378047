"""DistributedDataParallel over gloo, two processes: gradients are the average that eager would take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.backend.backend_kit import ROOT

pytestmark = pytest.mark.slow

WORKER = """
import copy, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import fpga_dynamo

rank, store = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
torch.manual_seed(0)

class Net(nn.Module):  # Dynamo compiles nothing of what DistributedDataParallel calls, if that is torch's own code
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8 * 36, 5)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).flatten(1))

model = Net()
alone = copy.deepcopy(model)
parallel = torch.compile(DistributedDataParallel(model), backend="fpga", options={"partition": "greedy"})
optimizers = [torch.optim.SGD(m.parameters(), 0.05) for m in (model, alone)]
for step in range(3):
    halves = torch.randn(2, 4, 3, 6, 6, generator=torch.Generator().manual_seed(step))
    for optimizer in optimizers:
        optimizer.zero_grad()
    parallel(halves[rank]).square().mean().backward()
    alone(halves.flatten(0, 1)).square().mean().backward()
    for mine, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-6)
    for optimizer in optimizers:
        optimizer.step()
assert fpga_dynamo.stats()["pl_launches"] >= 3 and not fpga_dynamo.stats()["ps_fallbacks"]
dist.destroy_process_group()
"""


def test_two_processes_train_one_model(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORKER]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        for rank in ranks:
            _, errors = rank.communicate(timeout=240)
            assert rank.returncode == 0, errors
    finally:
        for rank in ranks:
            rank.kill()
