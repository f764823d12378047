"""Files that are no models, and what is not supported: one sentence that names the node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fpga_dynamo.onnx import OnnxError, from_onnx, named_sizes
from tests.onnx.kit import onnx, save

node = onnx.helper.make_node
X = np.zeros((2, 3, 8), np.float32)
BLOCKS = {"block_size": 4, "axis": 2}

REFUSED: dict[str, tuple[Any, dict[str, np.ndarray], str]] = {
    "unknown operator": (node("Hardmax", ["x"], ["y"], name="h"), {}, "Hardmax 'h' is not supported"),
    "other domain": (node("Gelu", ["x"], ["y"], domain="ai.other"), {}, "ai.other.Gelu 'y' is not supported"),
    "int16": (
        node("QuantizeLinear", ["x", "s", "z"], ["y"]),
        {"s": np.float32(1), "z": np.array(0, np.int16)},
        "QuantizeLinear 'y': quantization to torch.int16 is not supported; int8 and uint8 are",
    ),
    "blocks": (
        node("QuantizeLinear", ["x", "s"], ["y"], **BLOCKS),
        {"s": np.ones((2, 3, 2), np.float32)},
        "QuantizeLinear 'y': a scale for each block is not supported; one per tensor or channel is",
    ),
    "shapes": (node("MatMul", ["x", "w"], ["y"]), {"w": np.zeros((3, 3), np.float32)}, "MatMul 'y': "),
    "indices": (
        node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2]), {}, "MaxPool 'y': indices are not supported",
    ),
    "nearest": (
        node("Resize", ["x", "", "", "n"], ["y"], mode="nearest", nearest_mode="ceil"),
        {"n": np.array([2, 3, 12])},
        "Resize 'y': nearest by half_pixel and ceil is not supported; asymmetric and floor are",
    ),
    "training": (
        node("BatchNormalization", ["x", "o", "o", "o", "o"], ["y", "m", "v"], training_mode=1),
        {"o": np.ones(3, np.float32)},
        "BatchNormalization 'y': training mode is not supported; export the model in eval mode",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.checker, "check_model", lambda model: None)  # some of these are for newer versions
    made, constants, sentence = REFUSED[name]
    path = save(tmp_path / "m.onnx", [made], {"x": X}, constants, result_type=onnx.TensorProto.FLOAT)
    with pytest.raises(OnnxError) as raised:
        from_onnx(path)
    assert str(raised.value).startswith(f"{path}: {sentence}")


def test_a_shape_that_the_graph_computes(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Reshape", ["x", "s"], ["y"])], {"x": X, "s": np.array([2, -1])}, {})
    with pytest.raises(OnnxError, match="Reshape 'y': input 1 must be a constant, and the graph computes it"):
        from_onnx(path)


def test_shapes_from_sizes_of_inputs(tmp_path: Path) -> None:
    """Shape, Gather, Concat and arithmetic of sizes are constants."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "first"], ["u"]),
        node("Concat", ["u", "minus"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
    ]
    constants = {"zero": np.array(0), "first": np.array([0]), "minus": np.array([-1])}
    path = save(tmp_path / "m.onnx", nodes, {"x": X}, constants, shapes={"x": ["n", 3, 8]})
    assert named_sizes(path) == ["n"]
    model = from_onnx(path, {"n": 2})
    assert [own.target for own in model.graph.nodes if own.op == "call_function"] == [torch.reshape]
    x = torch.randn(5, 3, 8)
    assert torch.equal(model(x), x.reshape(5, -1))


def test_unknown_size(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Relu", ["x"], ["y"])], {"x": X}, {}, shapes={"x": ["n", 3, "m"]})
    with pytest.raises(OnnxError, match="no size is named batch; there are m, n"):
        from_onnx(path, {"batch": 2})


@pytest.mark.parametrize("content", [b"", b"no model", b"\x08\x07" * 100])
def test_files_that_are_no_models(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(OnnxError, match="is not a valid ONNX file: "):
        from_onnx(tmp_path / "m.onnx")
    with pytest.raises(OnnxError, match="does not exist"):
        from_onnx(tmp_path / "none.onnx")


def test_truncated_files_never_crash(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("MatMul", ["x", "w"], ["y"])], {"x": X}, {"w": np.ones((8, 4), np.float32)})
    content = path.read_bytes()
    generator = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(content[: int(generator.integers(1, len(content) + 1))])
        damaged[int(generator.integers(len(damaged)))] = int(generator.integers(256))
        path.write_bytes(damaged)
        try:
            from_onnx(path)
        except OnnxError as error:
            assert "\n" not in str(error)


def test_a_model_can_be_trained_and_copied(tmp_path: Path) -> None:
    """Constants are parameters, and the state is a module's."""
    path = save(tmp_path / "m.onnx", [node("MatMul", ["x", "w"], ["y"])], {"x": X}, {"w": np.ones((8, 4), np.float32)})
    model = from_onnx(path)
    assert [tuple(own.shape) for own in model.parameters()] == [(8, 4)]
    model.load_state_dict({name: own * 2 for name, own in model.state_dict().items()})
    assert torch.equal(model(torch.ones(2, 3, 8)), torch.full((2, 3, 4), 16.0))
