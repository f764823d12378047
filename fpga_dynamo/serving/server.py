"""The HTTP server: routes of the Open Inference Protocol, health and metrics."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fpga_dynamo.serving import metrics as metrics_of
from fpga_dynamo.serving.inference import PLATFORM, SERVER, VERSION, Inference
from fpga_dynamo.serving.metrics import Metrics
from fpga_dynamo.serving.pool import Pool
from fpga_dynamo.serving.protocol import HEADER_LENGTH, RequestError, decode_request, encode_response, metadata

if TYPE_CHECKING:
    from fpga_dynamo.serving.grpc_server import GrpcServer

_SERVER = {"name": SERVER, "version": VERSION, "extensions": ["binary_tensor_data"]}


class _Routes:
    def __init__(self, inference: Inference, metrics: Metrics, most_bytes: int) -> None:
        self._inference, self._metrics, self._most_bytes = inference, metrics, most_bytes

    def app(self) -> Starlette:
        model = "/v2/models/{model}"
        routes = [
            Route("/v2", self.server),
            Route("/v2/health/live", self.live),
            Route("/v2/health/ready", self.ready),
            Route(model, self.about),
            Route(f"{model}/ready", self.model_ready),
            Route(f"{model}/infer", self.infer, methods=["POST"]),
            Route("/metrics", self.counters),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: _no_route, RequestError: _sentence})

    async def server(self, request: Request) -> Response:
        return JSONResponse(_SERVER)

    async def live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, request: Request) -> Response:
        ready = self._inference.ready
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def model_ready(self, request: Request) -> Response:
        name, ready = request.path_params["model"], self._inference.ready
        self._inference.ports(name)
        return JSONResponse({"name": name, "ready": ready}, 200 if ready else 503)

    async def about(self, request: Request) -> Response:
        name = request.path_params["model"]
        inputs, outputs = self._inference.ports(name)
        ports = {"inputs": metadata(inputs), "outputs": metadata(outputs)}
        return JSONResponse({"name": name, "versions": [], "platform": PLATFORM, **ports})

    async def counters(self, request: Request) -> Response:
        return Response(self._metrics.text(), media_type=metrics_of.CONTENT_TYPE)

    async def infer(self, request: Request) -> Response:
        name = request.path_params["model"]
        inputs, outputs = self._inference.ports(name)
        with self._inference.counted(name):
            body = await self._body(request)
            wanted = decode_request(body, request.headers.get(HEADER_LENGTH), inputs, outputs)
            results = await self._inference.results(name, wanted.inputs)
            content, json_bytes = encode_response(name, wanted, outputs, results)
        if json_bytes is None:
            return Response(content, media_type="application/json")
        headers = {HEADER_LENGTH: str(json_bytes)}
        return Response(content, headers=headers, media_type="application/octet-stream")

    async def _body(self, request: Request) -> bytes:
        encoding = request.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise RequestError(415, f"content-encoding '{encoding:.40}' is not supported; send the body as it is")
        body, size = bytearray(), 0
        async for chunk in request.stream():
            size += len(chunk)
            if size <= self._most_bytes:
                body += chunk
            elif size > 2 * self._most_bytes:  # up to there a client can send all of it, and reads the answer
                break
        if size > self._most_bytes:
            raise RequestError(413, f"the body has more than {self._most_bytes} bytes")
        return bytes(body)


async def _sentence(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    headers = {503: {"Retry-After": "1"}, 413: {"Connection": "close"}}.get(error.status)
    return JSONResponse({"error": str(error)}, error.status, headers)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": f"{request.method} {request.url.path:.80}: {error.detail}"}, error.status_code)


class _Server(uvicorn.Server):
    """Calls `on_ready`, with the port of gRPC, when requests are accepted; `start_grpc` starts that server, if any."""

    def __init__(
        self,
        config: uvicorn.Config,
        start_grpc: Callable[[], GrpcServer] | None,
        on_ready: Callable[[int | None], None],
        drain: float,
    ) -> None:
        super().__init__(config)
        self._start_grpc, self._on_ready, self._drain = start_grpc, on_ready, drain
        self._grpc: GrpcServer | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._start_grpc is not None:
            self._grpc = self._start_grpc()
            await self._grpc.start()
        await super().startup(sockets)
        self._on_ready(None if self._grpc is None else self._grpc.port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        stops = [super().shutdown(sockets)]
        if self._grpc is not None:
            stops.append(self._grpc.stop(self._drain))
        await asyncio.gather(*stops)


def serve(
    pool: Pool,
    metrics: Metrics,
    listener: socket.socket,
    *,
    grpc_address: str | None = None,
    most_bytes: int,
    drain: float,
    on_ready: Callable[[int | None], None],
) -> None:
    """Starts the replicas and answers requests until SIGTERM or SIGINT, after which requests under way are finished.

    listener: a bound socket for HTTP. grpc_address: host and port for gRPC, None for none. most_bytes: of a body.
    drain: seconds after which requests under way are given up. on_ready: called with the port of gRPC.
    Raises FpgaError if a model cannot be opened, or the address of gRPC is not free.
    """
    # Accepted sockets inherit it. asyncio sets it only where the protocol of the listener is named.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    inference = Inference(pool, metrics)
    start_grpc = None
    if grpc_address is not None:
        from fpga_dynamo.serving.grpc_server import GrpcServer

        start_grpc = partial(GrpcServer, inference, grpc_address, most_bytes)
    with closing(pool):
        pool.start()
        settings: dict[str, Any] = {"access_log": False, "log_level": "warning", "lifespan": "off"}
        app = _Routes(inference, metrics, most_bytes).app()
        config = uvicorn.Config(app, timeout_graceful_shutdown=max(1, int(drain)), **settings)
        for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again when it has drained
            signal.signal(number, lambda *_: None)
        _Server(config, start_grpc, on_ready, drain).run([listener])
