"""Requests and responses of the Open Inference Protocol (KServe v2): tensors in JSON, or in binary behind the JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fpga_dynamo.serving.tensors import Port, Tensor

HEADER_LENGTH = "inference-header-content-length"
DATATYPES = {
    "float32": "FP32", "float16": "FP16", "bfloat16": "BF16", "int64": "INT64", "int32": "INT32", "int8": "INT8",
    "uint8": "UINT8", "bool": "BOOL",
}  # fmt: skip
_KINDS = {"float32": "fiu", "float16": "fiu", "int64": "iu", "int32": "iu", "int8": "iu", "uint8": "iu", "bool": "b"}
"""Kinds of numpy arrays, of numbers in JSON, that a dtype is made from."""


class RequestError(Exception):
    """A request that cannot be answered: the status of HTTP, and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class InferenceRequest:
    """inputs: in the model's order. outputs: positions of the outputs that are wanted, and whether in binary."""

    id: str | None
    inputs: list[Tensor]
    outputs: list[tuple[int, bool]]


def decode_request(
    body: bytes, header_length: str | None, inputs: Sequence[Port], outputs: Sequence[Port]
) -> InferenceRequest:
    """The request in a body, for a model with these inputs and outputs.

    header_length: the value of the header `Inference-Header-Content-Length`, the bytes of JSON before binary tensors.
    Raises :class:`RequestError` for a body that is no request, and for tensors that the model does not accept.
    """
    length = len(body)
    if header_length is not None:
        if not header_length.isdecimal() or int(header_length) > len(body):
            raise RequestError(400, f"the body has {len(body)} bytes, and {HEADER_LENGTH} is '{header_length:.40}'")
        length = int(header_length)
    try:
        document = json.loads(body[:length])
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"the request is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise RequestError(400, "the request must be a JSON object")
    name = document.get("id")
    if name is not None and not isinstance(name, str):
        raise RequestError(400, "'id' must be a string")
    given, rest = {}, body[length:]
    for entry in _objects(document.get("inputs"), "inputs"):
        tensor, rest = _tensor(entry, rest)
        if entry["name"] in given:
            raise RequestError(400, f"input '{entry['name']:.80}' is given twice")
        given[entry["name"]] = tensor
    if rest:
        raise RequestError(400, f"{len(rest)} bytes of the body belong to no input")
    return InferenceRequest(name, in_order(given, inputs), _wanted(document, outputs))


def in_order(given: Mapping[str, Tensor], inputs: Sequence[Port]) -> list[Tensor]:
    """The tensors of a request in the model's order. Raises :class:`RequestError` for any that it does not accept."""
    unknown = [name for name in given if name not in {port.name for port in inputs}]
    if unknown:
        raise RequestError(400, f"the model has no input '{unknown[0]:.80}', only {_names(inputs)}")
    for port in inputs:
        if port.name not in given:
            raise RequestError(400, f"input '{port.name}' is missing")
        _check(port, given[port.name])
    return [given[port.name] for port in inputs]


def output_position(name: str, outputs: Sequence[Port]) -> int:
    """Raises :class:`RequestError` for a name that no output has."""
    names = [port.name for port in outputs]
    if name not in names:
        raise RequestError(400, f"the model has no output '{name:.80}', only {_names(outputs)}")
    return names.index(name)


def dtype_of(datatype: Any, name: str) -> str:
    """PyTorch's name of a datatype. Raises :class:`RequestError` for one that no tensor has; name: of the input."""
    found = next((own for own, theirs in DATATYPES.items() if theirs == datatype), None)
    if found is None:
        raise RequestError(400, f"{name}: its datatype must be one of {', '.join(DATATYPES.values())}")
    return found


def encode_response(
    model: str, request: InferenceRequest, ports: Sequence[Port], results: Sequence[Tensor]
) -> tuple[bytes, int | None]:
    """The body of a response, and its bytes of JSON if binary tensors follow."""
    entries, binary = [], bytearray()
    for position, is_binary in request.outputs:
        port, result = ports[position], results[position]
        entry: dict[str, Any] = {
            "name": port.name, "datatype": DATATYPES[port.dtype], "shape": list(result.shape),
        }  # fmt: skip
        if is_binary:
            entry["parameters"] = {"binary_data_size": len(result.data)}
            binary += result.data
        else:
            entry["data"] = np.frombuffer(result.data, port.dtype).tolist()
        entries.append(entry)
    answer = {"model_name": model, "outputs": entries} | ({"id": request.id} if request.id is not None else {})
    text = json.dumps(answer).encode()
    return (text + binary, len(text)) if binary else (text, None)


def metadata(ports: Sequence[Port]) -> list[dict[str, Any]]:
    return [{"name": port.name, "datatype": DATATYPES[port.dtype], "shape": list(port.shape)} for port in ports]


def _objects(value: Any, key: str) -> list[dict[str, Any]]:
    """The value of a key that is a list of objects, each with a name."""
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise RequestError(400, f"'{key}' must be a list of objects")
    if not all(isinstance(entry.get("name"), str) for entry in value):
        raise RequestError(400, f"each of '{key}' must have a name")
    return value


def _tensor(entry: Mapping[str, Any], rest: bytes) -> tuple[Tensor, bytes]:
    """The tensor of an input, and what is left of the binary part of the body."""
    name, shape = f"input '{entry['name']:.80}'", entry.get("shape")
    dtype = dtype_of(entry.get("datatype"), name)
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 1 << 40 for size in shape):
        raise RequestError(400, f"{name}: its shape must be a list of sizes")
    size = _parameters(entry, name).get("binary_data_size")
    if size is None:
        return Tensor(dtype, tuple(shape), _from_json(entry.get("data"), dtype, name)), rest
    if "data" in entry:
        raise RequestError(400, f"{name} has both data and binary_data_size")
    if type(size) is not int or not 0 <= size <= len(rest):
        raise RequestError(400, f"{name}: its binary_data_size is {size!r:.40}, and {len(rest)} bytes are left")
    return Tensor(dtype, tuple(shape), rest[:size]), rest[size:]


def _from_json(data: Any, dtype: str, name: str) -> bytes:
    if not isinstance(data, list):
        raise RequestError(400, f"{name}: its data must be a list")
    if dtype not in _KINDS:
        raise RequestError(400, f"{name}: JSON has no {DATATYPES[dtype]}; send the tensor in binary")
    try:
        array = np.asarray(data) if data else np.empty(0, dtype)
        if array.dtype.kind not in _KINDS[dtype] and data:
            raise ValueError
        if dtype in ("int32", "int8", "uint8", "int64") and array.size:
            limits = np.iinfo(dtype)
            if not limits.min <= int(array.min()) <= int(array.max()) <= limits.max:
                raise ValueError
        with np.errstate(over="ignore"):
            return array.astype(dtype).tobytes()
    except (ValueError, OverflowError, RecursionError) as error:
        raise RequestError(400, f"{name}: its data are no numbers of {DATATYPES[dtype]} in equal rows") from error


def _parameters(entry: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    parameters = entry.get("parameters", {})
    if not isinstance(parameters, dict):
        raise RequestError(400, f"{what}: its parameters must be an object")
    return parameters


def _check(port: Port, tensor: Tensor) -> None:
    if tensor.dtype != port.dtype:
        raise RequestError(400, f"input '{port.name}' must be {DATATYPES[port.dtype]}, not {DATATYPES[tensor.dtype]}")
    if not port.accepts(tensor.shape):
        raise RequestError(400, f"input '{port.name}' must have shape {list(port.shape)}, not {list(tensor.shape)}")
    if len(tensor.data) != tensor.nbytes:
        raise RequestError(400, f"input '{port.name}' has {len(tensor.data)} bytes, and its shape {tensor.nbytes}")


def _wanted(document: Mapping[str, Any], outputs: Sequence[Port]) -> list[tuple[int, bool]]:
    default = _parameters(document, "the request").get("binary_data_output", False) is True
    names = [port.name for port in outputs]
    chosen = [(i, default) for i in range(len(names))]
    if "outputs" in document:
        chosen = []
        for entry in _objects(document["outputs"], "outputs"):
            position = output_position(entry["name"], outputs)
            is_binary = _parameters(entry, f"output '{entry['name']}'").get("binary_data", default) is True
            chosen.append((position, is_binary))
    for i, is_binary in chosen:
        if outputs[i].dtype not in _KINDS and not is_binary:
            raise RequestError(400, f"JSON has no {DATATYPES[outputs[i].dtype]}; ask for binary_data of '{names[i]}'")
    return chosen


def _names(ports: Sequence[Port]) -> str:
    return ", ".join(f"'{port.name}'" for port in ports)
