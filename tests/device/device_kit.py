"""What the tests of the device share."""

from __future__ import annotations

import sys
from typing import Any

import torch

assert hasattr(torch, "fpga"), "import torch has made the device known"
fpga: Any = sys.modules["torch.fpga"]
"""``torch.fpga``, of which PyTorch's type hints know nothing."""
