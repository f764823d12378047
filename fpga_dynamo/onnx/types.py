"""Element types of ONNX as PyTorch's."""

from __future__ import annotations

import torch

from fpga_dynamo.onnx.builder import OnnxError

_TYPES = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int32, 7: torch.int64, 9: torch.bool,
    10: torch.float16, 11: torch.float64, 16: torch.bfloat16,
}  # fmt: skip
"""By the numbers of ``onnx.TensorProto``."""


def torch_type(number: int, where: str) -> torch.dtype:
    """Raises OnnxError for a type that PyTorch computes nothing with."""
    found = _TYPES.get(number)
    if found is None:
        import onnx

        name = onnx.TensorProto.DataType.Name(number) if number in onnx.TensorProto.DataType.values() else str(number)
        raise OnnxError(f"{where}: elements of the type {name} are not supported")
    return found
