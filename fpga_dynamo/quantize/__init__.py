"""INT8 with PyTorch's own flow: a quantizer for torchao's PT2E, quantisation in one line, and what that costs.

Needs the package torchao (``pip install 'fpga_dynamo[quantize]'``). May import `onnx` and the layers
below `deployment`: a quantised model is a graph of PyTorch's own operators, which any backend and eager can run.
"""

from fpga_dynamo.quantize.requirement import torchao_error

try:
    import torchao.quantization.pt2e  # noqa: F401
except Exception as error:  # with a version of torch that it does not fit, torchao fails in many ways
    raise torchao_error(error) from error

from fpga_dynamo.onnx import from_onnx
from fpga_dynamo.quantize.biases import round_biases
from fpga_dynamo.quantize.compare import Comparison, LayerNoise, compare
from fpga_dynamo.quantize.flow import prepare, quantize
from fpga_dynamo.quantize.mixed import Mixed, mixed_precision
from fpga_dynamo.quantize.quantizer import FPGAQuantizer

__all__ = [
    "Comparison",
    "FPGAQuantizer",
    "LayerNoise",
    "Mixed",
    "compare",
    "from_onnx",
    "mixed_precision",
    "prepare",
    "quantize",
    "round_biases",
]
