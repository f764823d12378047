"""Metrics for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters of one server, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter("fpga_dynamo_requests", "Inference requests", ("model", "status"), registry=registry)
        self.seconds = Histogram(
            "fpga_dynamo_request_seconds", "From the body to the answer", ("model",), buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self.batch_rows = Histogram(
            "fpga_dynamo_batch_rows", "Rows of a call with dynamic batching", ("model",), buckets=_ROWS,
            registry=registry,
        )  # fmt: skip
        self.replicas = Gauge("fpga_dynamo_replicas_ready", "Replicas that answer", registry=registry)
        self.restarts = Counter("fpga_dynamo_replica_restarts", "Replicas started again", registry=registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)
