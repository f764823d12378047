"""Each operator of ONNX, in forms of several versions of the set, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fpga_dynamo.onnx import from_onnx
from fpga_dynamo.onnx.reader import OPERATORS
from tests.onnx.kit import answers, onnx, save

node = onnx.helper.make_node
Case = tuple[Any, dict[str, np.ndarray], dict[str, np.ndarray], int]


def floats(*shape: int, seed: int = 0, least: float = -2.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(least, 2.0, shape).astype(np.float32)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


IMAGE, ROWS, WIDE = floats(2, 4, 7, 6), floats(3, 8), floats(2, 3, 8)
KERNEL = floats(6, 2, 3, 3, seed=1)


def case(operator: str, x: Any = None, opset: int = 17, parts: int = 1, **given: Any) -> Case:
    """A node of `operator`: capitals are constant inputs in their order, the rest attributes; x: inputs."""
    inputs = dict(enumerate(x if isinstance(x, tuple) else (ROWS if x is None else x,)))
    named = {f"x{i}": value for i, value in inputs.items()}
    constants = {key: value for key, value in given.items() if key.isupper() and value is not None}
    order = [*named, *("" if given[key] is None else key for key in given if key.isupper())]
    attributes = {key: value for key, value in given.items() if not key.isupper()}
    outputs = ["y"] if parts == 1 else [f"y{i}" for i in range(parts)]
    return node(operator, order, outputs, **attributes), named, constants, opset


POSITIVE, BOTH = floats(3, 8, least=0.1), (ROWS, floats(3, 8, seed=2))
TRUTH = (ROWS > 0, BOTH[1] > 0)
BYTES = np.random.default_rng(3).integers(0, 256, (2, 3, 8)).astype(np.uint8)
NORM: dict[str, Any] = {"S": floats(4, least=0.5), "B": floats(4), "M": floats(4, seed=4), "V": floats(4, least=0.5)}
SCALE, ZERO = np.float32(0.05), np.array(120, np.uint8)

CASES: dict[str, Case] = {
    **{name: case(name) for name in (
        "Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "HardSwish", "Identity", "Neg", "Relu", "Round", "Selu", "Sigmoid",
        "Sign", "Sin", "Softplus", "Softsign", "Tanh", "Shape", "Size", "Elu", "LeakyRelu", "HardSigmoid", "Flatten",
        "Transpose", "Squeeze", "GlobalMaxPool",
    ) if name != "GlobalMaxPool"},
    **{name: case(name, POSITIVE) for name in ("Log", "Reciprocal", "Sqrt")},
    **{name: case(name, BOTH) for name in (
        "Add", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mul", "Sub", "Sum",
    )},
    **{name: case(name, TRUTH) for name in ("And", "Or", "Xor")},
    **{name: case(name, IMAGE) for name in ("GlobalAveragePool", "GlobalMaxPool")},
    **{name: case(name, WIDE, axes=[1], keepdims=0) for name in (
        "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSumSquare",
    )},
    "Not": case("Not", TRUTH[0]),
    "Pow": case("Pow", POSITIVE, E=np.float32(1.5)),
    "Div, integers": case("Div", (ints(7, -7, 9), ints(2, 2, -4))),
    "Mod": case("Mod", (ints(7, -7, 9), ints(2, 3, -4))),
    "Mod, fmod": case("Mod", BOTH, fmod=1),
    "Mish": case("Mish", opset=18),
    "Gelu": case("Gelu", opset=20),
    "Gelu, tanh": case("Gelu", opset=20, approximate="tanh"),
    "Clip": case("Clip", L=np.float32(-0.5), H=np.float32(0.7)),
    "Clip, one limit": case("Clip", L=None, H=np.float32(0.7)),
    "Clip, 6": case("Clip", opset=6, min=-0.5, max=0.7),
    "HardSigmoid, alpha": case("HardSigmoid", alpha=0.3, beta=0.4),
    "PRelu": case("PRelu", IMAGE, S=floats(4, 1, 1)),
    "Where": case("Where", (TRUTH[0], *BOTH)),
    "Cast": case("Cast", to=onnx.TensorProto.DOUBLE),
    "Cast, integers": case("Cast", to=onnx.TensorProto.INT64),
    "CumSum": case("CumSum", A=np.array(1, np.int64)),
    "ArgMax": case("ArgMax", axis=1, keepdims=0),
    "ArgMin": case("ArgMin", axis=-1),
    "ReduceSum": case("ReduceSum", WIDE, A=ints(0, 2)),
    "ReduceSum, all": case("ReduceSum", WIDE),
    "ReduceMean, 18": case("ReduceMean", WIDE, opset=18, A=ints(-1)),
    "Dropout": case("Dropout"),
    "MatMul": case("MatMul", WIDE, W=floats(8, 5)),
    "Gemm": case("Gemm", W=floats(5, 8), B=floats(5), transB=1),
    "Gemm, scaled": case("Gemm", floats(8, 3), W=floats(8, 5), B=floats(3, 1), transA=1, alpha=0.5, beta=2.0),
    "Einsum": case("Einsum", (WIDE, floats(8, 5)), equation="abc,cd->adb"),
    "Conv": case("Conv", IMAGE, W=KERNEL, B=floats(6), group=2, strides=[2, 1], pads=[1, 0, 1, 0], dilations=[1, 2]),
    "Conv, uneven pads": case("Conv", IMAGE, W=KERNEL, group=2, pads=[0, 1, 1, 2]),
    "Conv, same": case("Conv", IMAGE, W=KERNEL, group=2, strides=[2, 2], auto_pad="SAME_UPPER"),
    "Conv, 1-D": case("Conv", WIDE, W=floats(4, 3, 3)),
    "ConvTranspose": case("ConvTranspose", IMAGE, W=floats(4, 3, 2, 2), strides=[2, 2], output_padding=[1, 0]),
    "MaxPool": case("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0], ceil_mode=1),
    "MaxPool, uneven pads": case("MaxPool", IMAGE, kernel_shape=[3, 2], pads=[0, 0, 2, 1]),
    "AveragePool": case("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "AveragePool, counted": case("AveragePool", IMAGE, kernel_shape=[2, 2], pads=[0, 0, 1, 1], count_include_pad=1),
    "BatchNormalization": case("BatchNormalization", IMAGE, **NORM, epsilon=1e-3),
    "InstanceNormalization": case("InstanceNormalization", IMAGE, S=NORM["S"], B=NORM["B"]),
    "LayerNormalization": case("LayerNormalization", WIDE, S=floats(3, 8), B=floats(3, 8), axis=1),
    "Softmax": case("Softmax", WIDE, axis=1),
    "Softmax, 11": case("Softmax", WIDE, opset=11, axis=1),
    "LogSoftmax": case("LogSoftmax", WIDE, axis=-1),
    "Reshape": case("Reshape", WIDE, S=ints(0, -1)),
    "Flatten, 2": case("Flatten", WIDE, axis=2),
    "Flatten, 0": case("Flatten", WIDE, axis=0),
    "Transpose, perm": case("Transpose", WIDE, perm=[1, 0, 2]),
    "Squeeze, axes": case("Squeeze", floats(1, 3, 1), A=ints(0)),
    "Squeeze, 11": case("Squeeze", floats(1, 3, 1), opset=11, axes=[2]),
    "Unsqueeze": case("Unsqueeze", A=ints(0, -1)),
    "Concat": case("Concat", BOTH, axis=-1),
    "Split": case("Split", WIDE, parts=3, axis=2, S=ints(1, 5, 2)),
    "Split, even": case("Split", WIDE, parts=2, axis=2),
    "Split, num_outputs": case("Split", WIDE, opset=18, parts=3, axis=2, num_outputs=3),
    "Slice": case("Slice", WIDE, S=ints(1, -6), E=ints(3, 2**40), A=ints(1, 2), T=ints(1, 2)),
    "Slice, backwards": case("Slice", WIDE, S=ints(-1, 5), E=ints(-(2**40), 0), A=ints(1, 2), T=ints(-1, -2)),
    "Slice, 9": case("Slice", WIDE, opset=9, starts=[1], ends=[3], axes=[1]),
    "Gather": case("Gather", WIDE, I=np.array([[0, 2], [1, 1]]), axis=1),
    "Gather, from the end": case("Gather", WIDE, I=np.array([[-1, 0], [-3, 1]]), axis=1),
    "GatherElements, from the end": case("GatherElements", I=np.array([[-1, 0, -8]]), axis=1),
    "Gather, one": case("Gather", WIDE, I=np.array(1), axis=2),
    "Gather, computed": case("Gather", (WIDE, np.array([[1, 0]])), axis=0),
    "GatherElements": case("GatherElements", (ROWS, np.array([[1, 0, 7]])), axis=1),
    "Expand": case("Expand", floats(3, 1), S=ints(2, 1, 8)),
    "Tile": case("Tile", R=ints(2, 3)),
    "Pad": case("Pad", WIDE, P=ints(0, 1, 0, 0, 0, 2), V=np.float32(1.5)),
    "Pad, edge": case("Pad", WIDE, P=ints(0, 0, 1, 0, 0, 2), mode="edge"),
    "Pad, reflect, 2": case("Pad", WIDE, opset=2, pads=[0, 0, 1, 0, 0, 2], mode="reflect"),
    "Resize, nearest": case("Resize", IMAGE, R=None, F=np.array([1, 1, 2, 3], np.float32), mode="nearest"),
    "Resize, linear": case("Resize", IMAGE, R=None, F=None, S=ints(2, 4, 10, 9), mode="linear"),
    "Resize, aligned": case(
        "Resize", IMAGE, R=None, F=None, S=ints(2, 4, 13, 9), mode="linear",
        coordinate_transformation_mode="align_corners",
    ),
    "Resize, floor": case(
        "Resize", IMAGE, R=None, F=None, S=ints(2, 4, 9, 4), mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    ),
    "Upsample": case("Upsample", IMAGE, opset=9, F=np.array([1, 1, 2, 2], np.float32)),
    "DepthToSpace": case("DepthToSpace", IMAGE, blocksize=2),
    "DepthToSpace, CRD": case("DepthToSpace", IMAGE, blocksize=2, mode="CRD"),
    "SpaceToDepth": case("SpaceToDepth", floats(1, 2, 4, 6), blocksize=2),
    "Trilu": case("Trilu", K=np.array(1), upper=0),
    "EyeLike": case("EyeLike", k=1),
    "ConstantOfShape": case("ConstantOfShape", (), S=ints(2, 3), value=onnx.numpy_helper.from_array(ints(7))),
    "Range": case("Range", (), B=np.array(2), E=np.array(11), T=np.array(3)),
    "QuantizeLinear": case("QuantizeLinear", S=SCALE, Z=ZERO),
    "QuantizeLinear, channels": case("QuantizeLinear", S=floats(8, least=0.1), Z=np.zeros(8, np.int8), axis=1),
    "DequantizeLinear": case("DequantizeLinear", BYTES, S=SCALE, Z=ZERO),
    "DynamicQuantizeLinear": case("DynamicQuantizeLinear", parts=3),
    "MatMulInteger": case("MatMulInteger", BYTES, W=np.arange(40, dtype=np.int8).reshape(8, 5) - 20, Z=ZERO),
    "ConvInteger": case("ConvInteger", BYTES, W=np.arange(36, dtype=np.int8).reshape(4, 3, 3) - 20, Z=ZERO),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, tmp_path: Path) -> None:
    made, inputs, constants, opset = CASES[name]
    path = save(tmp_path / "model.onnx", [made], inputs, constants, list(made.output), opset)
    expected = answers(path, inputs)
    results = from_onnx(path)(*(torch.from_numpy(np.asarray(x)) for x in inputs.values()))
    results = results if isinstance(results, tuple) else (results,)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(result, wanted, rtol=2e-6, atol=2e-6)


def test_every_operator_has_a_case() -> None:
    """QLinearConv and its like are in test_quantized_models.py; onnxruntime has no GroupNormalization of version 18."""
    elsewhere = {name for name in OPERATORS if name.startswith("Q") and name != "QuantizeLinear"}
    assert set(OPERATORS) - elsewhere - {"GroupNormalization"} == {name.split(",")[0] for name in CASES}
