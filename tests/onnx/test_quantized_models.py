"""Models that onnxruntime has quantized, in its formats: the same integers, products in 8 bits, one launch."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fpga_dynamo
from fpga_dynamo.quantize import from_onnx
from fpga_dynamo.tools import cli
from fpga_dynamo.tools.answer import compare
from fpga_dynamo.tools.zoo import ZooModel
from tests.onnx.kit import answers, onnx, save

quantization: Any = pytest.importorskip("onnxruntime.quantization")
node = onnx.helper.make_node
generator = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return (generator.standard_normal(shape) * 0.2).astype(np.float32)


def network(path: Path) -> Path:
    """Convolutions with groups and a residual, pooling, a join, resize and a head."""
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c0"], ["r0"]),
        node("Conv", ["r0", "w1"], ["c1"], pads=[1, 1, 1, 1], group=16),
        node("Clip", ["c1", "zero", "six"], ["r1"]),
        node("Conv", ["r1", "w2", "b0"], ["c2"]),
        node("Add", ["c2", "r0"], ["sum"]),
        node("Relu", ["sum"], ["r2"]),
        node("Concat", ["r2", "c2"], ["both"], axis=1),
        node("MaxPool", ["both"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["p", "", "factors"], ["large"], mode="nearest"),
        node("GlobalAveragePool", ["large"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
    ]
    constants = {
        "w0": weights(16, 3, 3, 3), "w1": weights(16, 1, 3, 3), "w2": weights(16, 16, 1, 1), "w3": weights(10, 32),
        "b0": weights(16), "b3": weights(10), "zero": np.float32(0), "six": np.float32(6),
        "factors": np.array([1, 1, 2, 2], np.float32),
    }  # fmt: skip
    return save(path, nodes, images()[0], constants, shapes={"x": ["batch", 3, 16, 16]})


def images(count: int = 4) -> list[dict[str, np.ndarray]]:
    return [{"x": generator.standard_normal((2, 3, 16, 16)).astype(np.float32)} for _ in range(count)]


class Reader(quantization.CalibrationDataReader):
    def __init__(self) -> None:
        self._items = iter(images())

    def get_next(self) -> Any:
        return next(self._items, None)


@pytest.fixture(scope="module")
def float_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return network(tmp_path_factory.mktemp("onnx") / "float.onnx")


STATIC: dict[str, dict[str, Any]] = {
    "QDQ": {"quant_format": "QDQ"},
    "QDQ, channels": {"quant_format": "QDQ", "per_channel": True},
    "QDQ, int8": {"quant_format": "QDQ", "activation_type": "QInt8"},
    "QDQ, uint8 weights": {"quant_format": "QDQ", "weight_type": "QUInt8", "extra_options": {"WeightSymmetric": True}},
    "QOperator": {"quant_format": "QOperator"},
}


def quantized(float_model: Path, how: dict[str, Any], path: Path) -> Path:
    formats, types = quantization.QuantFormat, quantization.QuantType
    named = {key: formats[value] if key == "quant_format" else types[value] if "_type" in key else value
             for key, value in {"activation_type": "QUInt8", "weight_type": "QInt8", **how}.items()}  # fmt: skip
    quantization.quantize_static(float_model, path, Reader(), **named)
    return path


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def share_of_int8(explained: Any) -> float:
    nodes = [own for graph in explained.graphs for own in graph.nodes]
    return sum(own.macs for own in nodes if own.how.startswith("int8")) / sum(own.macs for own in nodes)


@pytest.mark.parametrize("name", STATIC)
def test_static_formats(name: str, float_model: Path, tmp_path: Path) -> None:
    path = quantized(float_model, STATIC[name], tmp_path / "quantized.onnx")
    inputs = images(1)[0]
    (expected,) = answers(path, inputs)
    model, x = from_onnx(path, {"batch": 2}), torch.from_numpy(inputs["x"])
    with torch.no_grad():
        eager, compiled = model(x), torch.compile(model, backend="fpga")(x)
        explained = fpga_dynamo.explain(model, x)
    torch.testing.assert_close(eager, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(compiled, expected, rtol=1e-5, atol=1e-5)
    assert explained.pl_launches == 1
    assert share_of_int8(explained) == 1, str(explained)


def test_weights_with_another_zero_point_are_float32_with_the_reason(float_model: Path, tmp_path: Path) -> None:
    path = quantized(float_model, {"quant_format": "QDQ", "weight_type": "QUInt8"}, tmp_path / "quantized.onnx")
    inputs = images(1)[0]
    model, x = from_onnx(path, {"batch": 2}), torch.from_numpy(inputs["x"])
    with torch.no_grad():
        compiled, explained = torch.compile(model, backend="fpga")(x), fpga_dynamo.explain(model, x)
    (expected,) = answers(path, inputs)
    torch.testing.assert_close(compiled, expected, rtol=1e-5, atol=1e-5)
    reasons = [own.how for graph in explained.graphs for own in graph.nodes if own.macs]
    assert reasons and all("a weight zero point other than 0 is not supported" in reason for reason in reasons)


def test_a_wrong_answer_of_a_quantized_model_is_told(float_model: Path, tmp_path: Path) -> None:
    model = from_onnx(quantized(float_model, STATIC["QDQ"], tmp_path / "quantized.onnx"), {"batch": 2})
    example = ZooModel("quantized", model, tuple(torch.from_numpy(x) for x in images(1)[0].values()), 2)
    with torch.no_grad():
        right = model(*example.inputs)
        assert compare(example, right) == (False, "0: the same bits as eager mode")
        assert compare(example, right * 1.001)[0] is False
        wrong, verdict = compare(example, right * 1.1)
    assert wrong and verdict.startswith("[red]WRONG[/red]: differs from eager mode by 0.1 ")


def test_dynamic_quantization(float_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "dynamic.onnx"
    quantization.quantize_dynamic(float_model, path)
    inputs = images(1)[0]
    model, x = from_onnx(path, {"batch": 2}), torch.from_numpy(inputs["x"])
    with torch.no_grad():
        result = torch.compile(model, backend="fpga")(x)
    (expected,) = answers(path, inputs)
    assert (result - expected).norm() / expected.norm() < 0.01


def test_any_batch(float_model: Path, tmp_path: Path) -> None:
    model = from_onnx(quantized(float_model, STATIC["QDQ"], tmp_path / "quantized.onnx"))
    x = torch.from_numpy(np.concatenate([item["x"] for item in images(3)]))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = torch.compile(model, backend="fpga")
        for count in (1, 4, 6):
            torch.testing.assert_close(compiled(x[:count]), model(x[:count]), rtol=1e-5, atol=1e-5)


QLINEAR: dict[str, tuple[list[str], dict[str, Any]]] = {
    "QLinearAdd": (["x", "s", "z", "x", "t", "z", "s", "z"], {}),
    "QLinearMul": (["x", "s", "z", "x", "t", "z", "t", "z"], {}),
    "QLinearConcat": (["s", "z", "x", "s", "z", "x", "t", "z"], {"axis": 1}),
    "QLinearAveragePool": (["x", "s", "z", "s", "z"], {"kernel_shape": [2, 2]}),
    "QLinearGlobalAveragePool": (["x", "s", "z", "s", "z"], {}),
    "QLinearLeakyRelu": (["x", "s", "z", "s", "z"], {"alpha": 0.1}),
    "QLinearSigmoid": (["x", "s", "z", "s", "z"], {}),
    "QLinearSoftmax": (["x", "s", "z", "small", "zero"], {"opset": 13, "axis": -1}),
    "QLinearMatMul": (["x", "s", "z", "m", "t", "mz", "t", "z"], {}),
}
STEP = 1
"""Of the integers; onnxruntime adds and multiplies some of them in another order."""


@pytest.mark.parametrize("name", QLINEAR)
def test_operators_on_integers(name: str, tmp_path: Path) -> None:
    order, attributes = QLINEAR[name]
    constants = {
        "s": np.float32(2**-5), "t": np.float32(2**-3), "z": np.array(100, np.uint8), "small": np.float32(2**-8),
        "zero": np.array(0, np.uint8), "m": generator.integers(-128, 128, (6, 5)).astype(np.int8),
        "mz": np.array(0, np.int8),
    }  # fmt: skip
    inputs = {"x": generator.integers(0, 256, (2, 4, 5, 6)).astype(np.uint8)}
    domain = "" if name == "QLinearMatMul" else "com.microsoft"
    used = {key: value for key, value in constants.items() if key in order}
    made = node(name, order, ["y"], domain=domain, **attributes)
    path = save(tmp_path / "m.onnx", [made], inputs, used, result_type=onnx.TensorProto.UINT8)
    result, (expected,) = from_onnx(path)(torch.from_numpy(inputs["x"])), answers(path, inputs)
    assert result.dtype is expected.dtype
    assert (result.int() - expected.int()).abs().max() <= STEP


def test_fewer_bits_than_8(tmp_path: Path) -> None:
    """QCDQ, which Brevitas exports: integers of 8 bits are clipped between quantizing and dequantizing."""
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("Clip", ["q", "low", "high"], ["c"]),
        node("DequantizeLinear", ["c", "s", "z"], ["d"]),
        node("QuantizeLinear", ["w", "ws", "wz"], ["wq"], axis=0),
        node("Clip", ["wq", "wlow", "whigh"], ["wc"]),
        node("DequantizeLinear", ["wc", "ws", "wz"], ["wd"], axis=0),
        node("Conv", ["d", "wd"], ["y"]),
    ]
    constants = {
        "s": np.float32(2**-2), "z": np.array(0, np.int8), "low": np.array(-8, np.int8), "high": np.array(7, np.int8),
        "w": weights(16, 3, 3, 3), "ws": np.full(16, 2**-3, np.float32), "wz": np.zeros(16, np.int8),
        "wlow": np.array(-7, np.int8), "whigh": np.array(7, np.int8),
    }  # fmt: skip
    inputs = images(1)[0]
    path = save(tmp_path / "m.onnx", nodes, inputs, constants)
    model, x = from_onnx(path), torch.from_numpy(inputs["x"]) * 2
    (expected,) = answers(path, {"x": x.numpy()})
    with torch.no_grad():
        assert torch.equal(torch.compile(model, backend="fpga")(x), expected)
        assert share_of_int8(fpga_dynamo.explain(model, x)) == 1


def test_command_lines(float_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(quantized(float_model, STATIC["QDQ"], tmp_path / "quantized.onnx"))
    assert cli.main(["run", path, "--batch", "2"]) == cli.RIGHT
    assert "1 of" in capsys.readouterr().out
    assert cli.main(["estimate", path, "--platform", "kv260"]) == cli.RIGHT
    assert "of the model's file" in capsys.readouterr().out
    assert cli.main(["run", str(tmp_path / "none.onnx")]) == cli.FAILED
    assert "does not exist" in capsys.readouterr().err
