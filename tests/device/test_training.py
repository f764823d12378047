"""A CNN trained on the device follows the same training in float64, without a copy but for inputs and losses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from tests.device.device_kit import fpga

STEPS, BATCH = 96, 16

Optimizer = Callable[[Iterable[Tensor]], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Optimizer] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
}
NETWORKS: dict[str, tuple[type[nn.Module], type[nn.Module]]] = {
    "smooth": (nn.Tanh, nn.AvgPool2d),
    "relu": (nn.ReLU, nn.MaxPool2d),
}
"""Activation and pooling of a CNN, by name."""


def losses(device: str, dtype: torch.dtype, network: str, optimizer: Optimizer, compiled: bool = False) -> Tensor:
    """Of STEPS steps on handwritten digits."""
    pictures, labels = load_digits(return_X_y=True)
    images, classes = torch.tensor(pictures / 16, dtype=dtype).view(-1, 1, 8, 8), torch.tensor(labels)
    activation, pooling = NETWORKS[network]
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), activation(), pooling(2), nn.Conv2d(8, 16, 3, padding=1), activation(),
        nn.Flatten(), nn.Linear(256, 10),
    ).to(device, dtype)  # fmt: skip
    update = optimizer(model.parameters())
    options: dict[str, Any] = {"partition": "greedy"}
    run: Any = torch.compile(model, backend="fpga", options=options) if compiled else model
    noted = []
    for i in range(STEPS):
        part = slice(i * BATCH, (i + 1) * BATCH)
        update.zero_grad()
        loss = nn.functional.cross_entropy(run(images[part].to(device)), classes[part].to(device))
        loss.backward()
        update.step()
        noted.append(loss.item())
    return torch.tensor(noted, dtype=torch.float64)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_only_inputs_and_losses_are_copied(name: str) -> None:
    """Once the model is there: 16 pictures of 64 float32 and 16 labels of int64 a step, and a float32 back."""
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
    model = nn.Sequential(*layers).to("fpga")
    update = OPTIMIZERS[name](model.parameters())
    for step in range(8):
        if step == 3:
            fpga.reset_transfer_stats()
        images, labels = torch.randn(BATCH, 1, 8, 8).to("fpga"), torch.arange(BATCH).to("fpga") % 10
        update.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        update.step()
        loss.item()
    found = fpga.transfer_stats()
    assert (found["to_card"], found["from_card"], found["between_cards"]) == (5 * BATCH * (64 * 4 + 8), 5 * 4, 0)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_follows_float64(name: str, network: str, compiled: bool) -> None:
    """Adam divides a gradient by its own size, so a rounding at a kink of ReLU can turn a step, on the CPU too."""
    reference = losses("cpu", torch.float64, network, OPTIMIZERS[name])
    result = losses("fpga", torch.float32, network, OPTIMIZERS[name], compiled)
    assert reference[-1] < reference[0] * 0.7
    assert (result - reference).abs().max() < (1e-4 if (name, network) == ("Adam", "relu") else 1e-5)


@pytest.mark.parametrize("steps", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_memory_stays_constant_over_steps(steps: int) -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to("fpga")
    update = torch.optim.Adam(model.parameters())
    used = []
    for _ in range(steps):
        update.zero_grad()
        model(torch.randn(8, 16, device="fpga")).square().mean().backward()
        update.step()
        used.append((fpga.memory_allocated(), fpga.memory_reserved()))
    assert len(set(used[5:])) == 1
