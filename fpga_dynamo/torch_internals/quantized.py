"""The operators that quantised graphs are made of, which PyTorch registers on demand."""

from __future__ import annotations

from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers them

decomposed: Any = torch.ops.quantized_decomposed
"""``quantize_per_tensor``, ``dequantize_per_channel``, ...: what torchao's pt2e flow leaves in a graph."""
