"""A model that uses the core: run with `python -m examples.custom_core.model`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import fpga_dynamo
import xclbin_build
from examples.custom_core import pattern  # noqa: F401 - registers the pattern

RECIPE = Path(__file__).with_name("smoothing.toml")


class Forecast(nn.Module):
    """Readings of 24 sensors over time, mixed into 40 features, smoothed, and mapped to 3 values a step."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(24, 40)
        self.head = nn.Linear(40, 3)

    def forward(self, readings: Tensor) -> Tensor:
        features = torch.ops.demo.smooth(self.mix(readings), 0.9)
        return self.head(torch.relu(features))


def main() -> int:
    """Runs the model on an xclbin with our core; exit code 1 if the card and eager disagree."""
    torch.manual_seed(0)
    model, readings = Forecast().eval(), torch.randn(8, 200, 24)
    xclbin = str(xclbin_build.cached(RECIPE))
    print(fpga_dynamo.explain(model, readings, options={"xclbin": xclbin}))

    compiled = torch.compile(model, backend="fpga", options={"xclbin": xclbin, "strict": True, "verify": True})
    with torch.no_grad():
        error = (compiled(readings) - model(readings)).abs().max().item()
    print("same answer as eager" if error < 1e-5 else f"WRONG: differs from eager by {error:.1e}")
    return 0 if error < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
