"""ONNX models of one operator or a few, and what onnxruntime answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

QUIET = 3
"""Of onnxruntime's levels of severity: errors."""


def save(
    path: Path,
    nodes: Sequence[Any],
    inputs: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    results: Sequence[str] = ("y",),
    opset: int = 17,
    shapes: dict[str, Sequence[int | str]] | None = None,
    result_type: int | None = None,
) -> Path:
    """A file with these nodes. result_type: where ONNX cannot infer it; results then have the rank of the inputs."""
    helper = onnx.helper
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(x.dtype), (shapes or {}).get(name, list(x.shape))
        )
        for name, x in inputs.items()
    ]
    graph = helper.make_graph(
        list(nodes),
        "model",
        given,
        [_result(name, result_type, max((x.ndim for x in inputs.values()), default=0)) for name in results],
        [onnx.numpy_helper.from_array(x, name) for name, x in constants.items()],
    )
    domains = {"com.microsoft", *(node.domain for node in nodes)} - {""}
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def _result(name: str, result_type: int | None, rank: int) -> Any:
    if result_type is None:
        return onnx.ValueInfoProto(name=name)
    return onnx.helper.make_tensor_value_info(name, result_type, [None] * rank)


def answers(path: Path, inputs: dict[str, np.ndarray]) -> list[torch.Tensor]:
    """What onnxruntime computes, without the optimisations that reorder floating-point operations."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = QUIET
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    return [torch.from_numpy(np.asarray(result)) for result in session.run(None, inputs)]
