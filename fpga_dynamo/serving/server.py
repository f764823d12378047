"""The HTTP server: routes of the Open Inference Protocol, health and metrics."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import version
from time import perf_counter
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fpga_dynamo.serving import metrics as metrics_of
from fpga_dynamo.serving.metrics import Metrics
from fpga_dynamo.serving.pool import Pool, RefusedError, UnavailableError
from fpga_dynamo.serving.protocol import HEADER_LENGTH, RequestError, decode_request, encode_response, metadata

_SERVER = {"name": "fpga_dynamo", "version": version("fpga_dynamo"), "extensions": ["binary_tensor_data"]}


class _Routes:
    def __init__(self, pool: Pool, metrics: Metrics, most_bytes: int) -> None:
        self._pool, self._metrics, self._most_bytes = pool, metrics, most_bytes

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
        return JSONResponse({"ready": self._pool.ready > 0}, 200 if self._pool.ready else 503)

    async def model_ready(self, request: Request) -> Response:
        name, ready = self._name(request), self._pool.ready > 0
        return JSONResponse({"name": name, "ready": ready}, 200 if ready else 503)

    async def about(self, request: Request) -> Response:
        name = self._name(request)
        inputs, outputs = self._pool.models[name]
        ports = {"inputs": metadata(inputs), "outputs": metadata(outputs)}
        return JSONResponse({"name": name, "versions": [], "platform": "fpga_dynamo", **ports})

    async def counters(self, request: Request) -> Response:
        return Response(self._metrics.text(), media_type=metrics_of.CONTENT_TYPE)

    async def infer(self, request: Request) -> Response:
        name = self._name(request)
        start, status = perf_counter(), 500
        try:
            response = await self._answer(name, request)
            status = response.status_code
            return response
        except RequestError as error:
            status = error.status
            raise
        finally:
            self._metrics.requests.labels(name, str(status)).inc()
            self._metrics.seconds.labels(name).observe(perf_counter() - start)

    async def _answer(self, name: str, request: Request) -> Response:
        inputs, outputs = self._pool.models[name]
        body = await self._body(request)
        wanted = decode_request(body, request.headers.get(HEADER_LENGTH), inputs, outputs)
        try:
            results = await asyncio.wrap_future(self._pool.submit(name, wanted.inputs))
        except UnavailableError as error:
            raise RequestError(503, str(error)) from error
        except RefusedError as error:
            raise RequestError(400, str(error)) from error
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

    def _name(self, request: Request) -> str:
        name: str = request.path_params["model"]
        if name not in self._pool.models:
            known = ", ".join(f"'{known}'" for known in self._pool.models)
            raise RequestError(404, f"there is no model '{name:.80}', only {known}")
        return name


async def _sentence(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    headers = {503: {"Retry-After": "1"}, 413: {"Connection": "close"}}.get(error.status)
    return JSONResponse({"error": str(error)}, error.status, headers)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": f"{request.method} {request.url.path:.80}: {error.detail}"}, error.status_code)


class _Server(uvicorn.Server):
    """Calls `on_ready` when requests are accepted."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()


def serve(
    pool: Pool,
    metrics: Metrics,
    listener: socket.socket,
    *,
    most_bytes: int,
    drain: float,
    on_ready: Callable[[], None],
) -> None:
    """Starts the replicas and answers requests until SIGTERM or SIGINT, after which requests under way are finished.

    listener: a bound socket. most_bytes: of a body. drain: seconds after which requests under way are given up.
    Raises FpgaError if a model cannot be opened.
    """
    # Accepted sockets inherit it. asyncio sets it only where the protocol of the listener is named.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with closing(pool):
        pool.start()
        settings: dict[str, Any] = {"access_log": False, "log_level": "warning", "lifespan": "off"}
        app = _Routes(pool, metrics, most_bytes).app()
        config = uvicorn.Config(app, timeout_graceful_shutdown=max(1, int(drain)), **settings)
        for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again when it has drained
            signal.signal(number, lambda *_: None)
        _Server(config, on_ready).run([listener])
