"""The gRPC server: `inference.GRPCInferenceService` of the Open Inference Protocol (KServe v2).

Messages and the service's stubs are those of NVIDIA's client library, which are generated from the same definition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc as service

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.serving.inference import PLATFORM, SERVER, VERSION, Inference
from fpga_dynamo.serving.protocol import DATATYPES, RequestError, dtype_of, in_order, output_position
from fpga_dynamo.serving.tensors import Port, Tensor

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    503: grpc.StatusCode.UNAVAILABLE,
}
_CONTENTS = {
    "float32": "fp32_contents",
    "int64": "int64_contents",
    "int32": "int_contents",
    "int8": "int_contents",
    "uint8": "uint_contents",
    "bool": "bool_contents",
}
"""Fields of a tensor with its numbers, by dtype; others are raw only."""


class GrpcServer:
    """address: host and port to listen on. most_bytes: of a message. Raises FpgaError if the address is not free."""

    def __init__(self, inference: Inference, address: str, most_bytes: int) -> None:
        limits = [("grpc.max_receive_message_length", most_bytes), ("grpc.max_send_message_length", -1)]
        self._server = grpc.aio.server(options=[*limits, ("grpc.so_reuseport", 0)])
        service.add_GRPCInferenceServiceServicer_to_server(_Service(inference), self._server)
        try:
            self.port: int = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise FpgaError(f"gRPC cannot listen on {address}; give another --grpc-port") from error

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, drain: float) -> None:
        """Refuses new requests, and gives those under way so many seconds."""
        await self._server.stop(drain)


class _Service(service.GRPCInferenceServiceServicer):
    """The methods that KServe v2 has; those of Triton alone answer UNIMPLEMENTED."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    async def ServerLive(self, request: Any, context: Any) -> Any:
        return messages.ServerLiveResponse(live=True)

    async def ServerReady(self, request: Any, context: Any) -> Any:
        return messages.ServerReadyResponse(ready=self._inference.ready)

    async def ServerMetadata(self, request: Any, context: Any) -> Any:
        return messages.ServerMetadataResponse(name=SERVER, version=VERSION)

    async def ModelReady(self, request: Any, context: Any) -> Any:
        async def answer() -> Any:
            self._ports(request.name, request.version)
            return messages.ModelReadyResponse(ready=self._inference.ready)

        return await _answered(answer, context)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:
        async def answer() -> Any:
            inputs, outputs = self._ports(request.name, request.version)
            return messages.ModelMetadataResponse(
                name=request.name, platform=PLATFORM, inputs=_described(inputs), outputs=_described(outputs)
            )

        return await _answered(answer, context)

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        async def answer() -> Any:
            inputs, outputs = self._ports(request.model_name, request.model_version)
            with self._inference.counted(request.model_name):
                tensors = in_order(_given(request), inputs)
                names = [output.name for output in request.outputs] or [port.name for port in outputs]
                positions = [output_position(name, outputs) for name in names]
                results = await self._inference.results(request.model_name, tensors)
            response = messages.ModelInferResponse(model_name=request.model_name, id=request.id)
            for position in positions:
                port, result = outputs[position], results[position]
                response.outputs.add(name=port.name, datatype=DATATYPES[port.dtype], shape=result.shape)
                response.raw_output_contents.append(bytes(result.data))
            return response

        return await _answered(answer, context)

    def _ports(self, model: str, version: str) -> tuple[Sequence[Port], Sequence[Port]]:
        ports = self._inference.ports(model)
        if version:
            raise RequestError(404, f"model '{model}' has no versions; leave out '{version:.80}'")
        return ports


async def _answered(answer: Callable[[], Awaitable[Any]], context: Any) -> Any:
    """The answer; ends the call with a status of gRPC for a request that cannot be answered."""
    try:
        return await answer()
    except RequestError as error:
        await context.abort(_CODES[error.status], str(error))


def _described(ports: Sequence[Port]) -> list[Any]:
    kind = messages.ModelMetadataResponse.TensorMetadata
    return [kind(name=port.name, datatype=DATATYPES[port.dtype], shape=port.shape) for port in ports]


def _given(request: Any) -> dict[str, Tensor]:
    """The tensors of a request by name; all of them are raw, or none."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise RequestError(400, f"raw_input_contents has {len(raw)} entries for {len(request.inputs)} inputs")
    found: dict[str, Tensor] = {}
    for position, entry in enumerate(request.inputs):
        name = f"input '{entry.name:.80}'"
        if entry.name in found:
            raise RequestError(400, f"{name} is given twice")
        if any(size < 0 for size in entry.shape):
            raise RequestError(400, f"{name}: its shape must be a list of sizes")
        dtype = dtype_of(entry.datatype, name)
        data = raw[position] if raw else _packed(entry.contents, dtype, name)
        found[entry.name] = Tensor(dtype, tuple(entry.shape), data)
    return found


def _packed(contents: Any, dtype: str, name: str) -> bytes:
    """The numbers of a tensor as its elements lie in memory."""
    field = _CONTENTS.get(dtype)
    others = [one.name for one, _ in contents.ListFields() if one.name != field]
    if field is None or others:
        where = f"in {field}" if field else "in raw_input_contents"
        raise RequestError(400, f"{name}: elements of {DATATYPES[dtype]} belong {where}")
    numbers = np.asarray(getattr(contents, field), None if dtype != "bool" else bool)
    if dtype in ("int8", "uint8") and numbers.size:
        limits = np.iinfo(dtype)
        if not limits.min <= int(numbers.min()) <= int(numbers.max()) <= limits.max:
            raise RequestError(400, f"{name}: its data are no numbers of {DATATYPES[dtype]}")
    return numbers.astype(dtype).tobytes()
