"""INT8 in other runtimes: a float network through onnxruntime's static quantisation, run by onnxruntime and OpenVINO.

Both read the same ONNX file with QuantizeLinear and DequantizeLinear around each operator (uint8 activations, int8
weights with a scale for each output channel), which onnxruntime fuses to its QLinear kernels and OpenVINO lowers to
oneDNN's int8 primitives. Calibrated on random inputs: speed does not depend on what the scales are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.peers import missing, onnxruntime_session, openvino_request, plain_attention, quiet
from benchmarks.workloads import ONNXRUNTIME, OPENVINO

NAMES = (ONNXRUNTIME, OPENVINO)
CALIBRATIONS = 2


def installed() -> list[str]:
    """Which of the two are there; OpenVINO's file is written by onnxruntime."""
    return [name for name in NAMES if not missing(ONNXRUNTIME) and not missing(name)]


@contextmanager
def quantised_file(model: nn.Module, example: Tensor) -> Iterator[Path]:
    """The network as an ONNX file in INT8, for as long as the context lasts."""
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with plain_attention(), quiet(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exported: Any = torch.onnx.export(model, (example,), dynamo=True, verbose=False)
        exported.save(str(folder / "float.onnx"))
        quant_pre_process(str(folder / "float.onnx"), str(folder / "prepared.onnx"))
        operand = exported.model.graph.inputs[0].name

        class Random(CalibrationDataReader):
            def __init__(self) -> None:
                self.left = CALIBRATIONS

            def get_next(self) -> dict[str, Any] | None:
                self.left -= 1
                return None if self.left < 0 else {operand: torch.randn(example.shape).numpy()}

        quantize_static(
            str(folder / "prepared.onnx"),
            str(folder / "int8.onnx"),
            Random(),
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        yield folder / "int8.onnx"


def runner(name: str, file: Path, example: Tensor, threads: int) -> Callable[[], object]:
    """A call of the network in that file with this input."""
    make = {ONNXRUNTIME: onnxruntime_session, OPENVINO: openvino_request}[name]
    with quiet():
        return make(file, threads).bound(example)
