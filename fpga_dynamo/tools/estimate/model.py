"""A model as the graph that the engine lowering takes, in the type that is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fpga_dynamo.frontend.capture import Captured, capture
from fpga_dynamo.quantize.specs import BiasType, Scales
from fpga_dynamo.tools import zoo
from fpga_dynamo.tools.estimate.hardware import EstimateError

_RANDOM_CALLS = 2


@dataclass(frozen=True)
class Model:
    """graph: of one call of the model in its type. calibration: what its scales rest on."""

    name: str
    graph: Captured
    calibration: str
    batch: int


def quantised(name: str, batch: int, scales: Scales, data: Path | None) -> Model:
    """The model `name` of the zoo in 8 bits. data: a file of its inputs, by `torch.save`; None: random inputs.

    Raises EstimateError for a model that torch.export cannot export, or a file without inputs.
    """
    example = zoo.load(name, batch=batch)
    if zoo.is_quantized(example.model):
        return Model(name, capture(example.model, example.inputs), "of the model's file", example.batch)
    model = zoo.randomise_tokens(zoo.randomise_batch_norm(example.model))
    if data is None:
        calls: Sequence[Any] = [example.inputs, *(_redrawn(example.inputs) for _ in range(_RANDOM_CALLS - 1))]
        calibration = f"random: {_RANDOM_CALLS} calls with the model's example inputs and random inputs like them"
    else:
        calls = _loaded(data)
        calibration = f"{len(calls)} calls of {data}"
    try:
        from fpga_dynamo.quantize import quantize
    except ModuleNotFoundError as error:
        raise EstimateError(f"int8 needs {error.name}: pip install 'fpga_dynamo[quantize]'") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Biases in units of the accumulator: with these and powers of two, sums in eager mode are exact.
            bias: BiasType = "int32" if scales == "pow2" else "float"
            converted = quantize(model, calls, scales=scales, bias=bias, progress=False)
    except EstimateError:
        raise
    except Exception as error:
        raise EstimateError(f"'{name}' cannot be exported and quantized: {_first_line(error)}") from error
    return Model(name, capture(converted, example.inputs), calibration, example.batch)


FLOATS = {"bf16": torch.bfloat16, "fp32": torch.float32}
"""What ``--dtype`` says of a model that is not quantised -> its type."""


def floating(name: str, batch: int, dtype: str) -> Model:
    """The model `name` of the zoo with parameters and inputs of a floating-point type.

    Raises EstimateError for a model that is more than one graph, or that eager cannot run in that type.
    """
    example = zoo.load(name, batch=batch)
    model = zoo.randomise_batch_norm(example.model).to(FLOATS[dtype])
    inputs = tuple(_of_type(x, FLOATS[dtype]) for x in example.inputs)
    try:
        graph = capture(model, inputs)
    except Exception as error:
        raise EstimateError(f"'{name}' cannot be traced in {dtype}: {_first_line(error)}") from error
    return Model(name, graph, "none: the model is not quantized", example.batch)


def _of_type(x: Any, dtype: torch.dtype) -> Any:
    return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def _redrawn(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Inputs of the same shapes: random numbers again, and integers in another order."""
    return tuple(_like(x) if isinstance(x, torch.Tensor) else x for x in inputs)


def _like(x: torch.Tensor) -> torch.Tensor:
    if x.is_floating_point():
        return torch.randn_like(x)
    return x.flatten()[torch.randperm(x.numel())].reshape(x.shape)


def _loaded(path: Path) -> Sequence[Any]:
    try:
        calls = torch.load(path, weights_only=True)
    except Exception as error:
        raise EstimateError(f"--calibration {path}: {_first_line(error)}") from error
    if not isinstance(calls, (list, tuple)) or not calls:
        raise EstimateError(f"--calibration {path}: expected a list of a model's inputs with one item for each call")
    return calls


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
