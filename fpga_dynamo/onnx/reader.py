"""An ONNX file as a graph of PyTorch's operators: inputs, constants, then each node in the file's order."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from fpga_dynamo.onnx.builder import Builder, Call, OnnxError, Translation, Value
from fpga_dynamo.onnx.movement import MOVING
from fpga_dynamo.onnx.operators import COMPUTING
from fpga_dynamo.onnx.quantized import QUANTIZED, between_scales
from fpga_dynamo.onnx.types import torch_type
from xclbin_build.trusted_path import check_named

OPERATORS: dict[str, Translation] = {**COMPUTING, **MOVING, **QUANTIZED}
OPERATORS |= {name: between_scales(OPERATORS[name]) for name in ("MaxPool", "Resize", "Upsample")}
"""By name; those of onnxruntime's domain com.microsoft have names of their own."""

_DOMAINS = ("", "ai.onnx", "com.microsoft")


def from_onnx(path: str | os.PathLike[str], sizes: Mapping[str, int] | None = None) -> GraphModule:
    """The model of an ONNX file, in eval mode; inputs and results are in the file's order, by position.

    Quantized models (QDQ, QOperator) become graphs of ``quantized_decomposed`` operators, whose products are in 8 bits.
    sizes: a number for each size of an input that the file names instead. 1 by default, with which the graph is traced;
    where no shape is computed from it, other sizes do as well.
    The inputs' shapes and dtypes are in ``module.meta["inputs"]``: example tensors of zeros.

    Raises OnnxError for other files, and for an operator or a form of it that is not supported.
    """
    path = Path(path)
    model = _load(path)
    builder = Builder()
    values: dict[str, Value | None] = {"": None}
    try:
        for tensor in model.graph.initializer:
            values[tensor.name] = _tensor(tensor, path)
        examples = _inputs(model, values, builder, sizes or {})
        versions = {own.domain: own.version for own in model.opset_import}
        for node in model.graph.node:
            _translate(node, values, versions, builder, path)
        results = [_result(values, output.name, builder) for output in model.graph.output]
    except OnnxError as error:
        raise OnnxError(f"{path}: {error}") from error
    builder.graph.output(results[0] if len(results) == 1 else tuple(results))
    builder.graph.eliminate_dead_code()
    made = GraphModule(builder.module, builder.graph, "OnnxModel")
    made.delete_all_unused_submodules()
    made.meta["inputs"] = examples
    return made.eval()


def named_sizes(path: str | os.PathLike[str]) -> list[str]:
    """The sizes of inputs that a file names and leaves open; raises OnnxError for other files."""
    inputs = _load(Path(path)).graph.input
    names = [size.dim_param for given in inputs for size in given.type.tensor_type.shape.dim if size.dim_param]
    return list(dict.fromkeys(names))


def _load(path: Path) -> Any:
    try:
        import onnx
    except ImportError as error:
        raise OnnxError("reading ONNX files needs the package onnx: pip install 'fpga_dynamo[onnx]'") from error
    if not path.is_file():
        raise OnnxError(f"'{path}' does not exist")
    check_named(path, "model file")
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except Exception as error:  # of protobuf's or the checker's kinds
        raise OnnxError(f"'{path}' is not a valid ONNX file: {str(error).strip().splitlines()[0]}") from error
    return model


def _tensor(proto: Any, path: Path) -> Tensor:
    from onnx import numpy_helper

    dtype = torch_type(proto.data_type, f"constant '{proto.name}'")
    array = numpy_helper.to_array(proto, base_dir=str(path.parent))
    if dtype is torch.bfloat16:
        return torch.from_numpy(array.astype("float32")).to(dtype)
    return torch.from_numpy(array.copy())


def _inputs(
    model: Any, values: dict[str, Value | None], builder: Builder, sizes: Mapping[str, int]
) -> tuple[Tensor, ...]:
    examples: list[Tensor] = []
    named: set[str] = set()
    for given in model.graph.input:
        if given.name in values:
            continue  # older versions list constants too
        kind = given.type.tensor_type
        if not given.type.HasField("tensor_type") or not kind.HasField("shape"):
            raise OnnxError(f"input '{given.name}' is not a tensor of known rank")
        dtype = torch_type(kind.elem_type, f"input '{given.name}'")
        named |= {size.dim_param for size in kind.shape.dim if size.dim_param}
        shape = [
            size.dim_value if size.HasField("dim_value") else sizes.get(size.dim_param, 1) for size in kind.shape.dim
        ]
        name = re.sub(r"\W", "_", given.name) or "input"
        values[given.name] = builder.placeholder(name if not name[0].isdigit() else f"_{name}", shape, dtype)
        examples.append(torch.zeros(shape, dtype=dtype))
    if unknown := sorted(set(sizes) - named):
        raise OnnxError(f"no size is named {', '.join(unknown)}; there are {', '.join(sorted(named)) or 'none'}")
    return tuple(examples)


def _translate(
    node: Any, values: dict[str, Value | None], versions: Mapping[str, int], builder: Builder, path: Path
) -> None:
    import onnx

    attributes = {own.name: _attribute(own, path) for own in node.attribute}
    name = node.name or next(iter(node.output), "")
    if node.op_type == "Constant":
        values[node.output[0]] = _constant(attributes)
        return
    translation = OPERATORS.get(node.op_type) if node.domain in _DOMAINS else None
    if translation is None:
        domain = f"{node.domain}." if node.domain else ""
        raise OnnxError(f"{domain}{node.op_type} '{name}' is not supported")
    missing = [given for given in node.input if given not in values]
    if missing:
        raise OnnxError(f"{node.op_type} '{name}' reads '{missing[0]}', which nothing gives")
    call = Call(
        name,
        node.op_type,
        tuple(values[given] for given in node.input),
        attributes,
        versions.get(node.domain, versions.get("", onnx.defs.onnx_opset_version())),
        len([output for output in node.output if output]),
        builder,
    )
    try:
        results = translation(call)
    except OnnxError:
        raise
    except Exception as error:  # what PyTorch refuses of operands' shapes and types
        raise call.refuse(str(error).strip().splitlines()[0]) from error
    given = [results] if isinstance(results, (Tensor, Node)) else list(results)
    if len(given) < call.outputs:
        raise call.refuse(f"result {len(given)} is not supported")
    values.update(zip(node.output, given, strict=False))


def _constant(attributes: Mapping[str, Any]) -> Tensor:
    (name, value), *_ = attributes.items()
    if name == "value" and isinstance(value, Tensor):
        return value
    if name in ("value_float", "value_floats", "value_int", "value_ints"):
        return torch.tensor(value)
    raise OnnxError(f"a Constant by {name} is not supported")


def _attribute(proto: Any, path: Path) -> Any:
    import onnx

    value = onnx.helper.get_attribute_value(proto)
    return _tensor(value, path) if isinstance(value, onnx.TensorProto) else value


def _result(values: Mapping[str, Value | None], name: str, builder: Builder) -> Node:
    found = values.get(name)
    if found is None:
        raise OnnxError(f"nothing gives the result '{name}'")
    return builder.kept(found) if isinstance(found, Tensor) else found
