"""What requests of all protocols have in common: which model they are for, its results, and the counters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from time import perf_counter

from fpga_dynamo.serving.metrics import Metrics
from fpga_dynamo.serving.pool import Pool, RefusedError, UnavailableError
from fpga_dynamo.serving.protocol import RequestError
from fpga_dynamo.serving.tensors import Port, Tensor

SERVER = "fpga_dynamo"
VERSION = version("fpga_dynamo")
PLATFORM = "fpga_dynamo"
OK = 200


class Inference:
    """Requests for the models of `pool`; all raise :class:`RequestError` for a model that is not there."""

    def __init__(self, pool: Pool, metrics: Metrics) -> None:
        self._pool, self._metrics = pool, metrics

    @property
    def ready(self) -> bool:
        return self._pool.ready > 0

    def ports(self, model: str) -> tuple[Sequence[Port], Sequence[Port]]:
        """Inputs and outputs."""
        if model not in self._pool.models:
            known = ", ".join(f"'{known}'" for known in self._pool.models)
            raise RequestError(404, f"there is no model '{model:.80}', only {known}")
        return self._pool.models[model]

    async def results(self, model: str, inputs: list[Tensor]) -> list[Tensor]:
        """Raises :class:`RequestError` if no replica can answer, or the model refuses the inputs."""
        try:
            return await asyncio.wrap_future(self._pool.submit(model, inputs))
        except UnavailableError as error:
            raise RequestError(503, str(error)) from error
        except RefusedError as error:
            raise RequestError(400, str(error)) from error

    @contextmanager
    def counted(self, model: str) -> Iterator[None]:
        """Counts a request by its status, which is that of HTTP, and its time."""
        start, status = perf_counter(), 500
        try:
            yield
            status = OK
        except RequestError as error:
            status = error.status
            raise
        finally:
            self._metrics.requests.labels(model, str(status)).inc()
            self._metrics.seconds.labels(model).observe(perf_counter() - start)
