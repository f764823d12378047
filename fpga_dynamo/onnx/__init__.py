"""Models of ONNX files as graphs of PyTorch's operators; needs onnx (``pip install 'fpga_dynamo[onnx]'``)."""

from fpga_dynamo.onnx.builder import OnnxError
from fpga_dynamo.onnx.reader import from_onnx, named_sizes

__all__ = ["OnnxError", "from_onnx", "named_sizes"]
