"""A server of `fpga-dynamo serve` in a process of its own, and requests to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

DATATYPES = {"float32": "FP32", "int64": "INT64"}


class Server:
    """port: of 127.0.0.1. process: the server's. grpc_port: 0 without gRPC."""

    def __init__(self, process: subprocess.Popen[str], port: int, grpc_port: int = 0) -> None:
        self.process, self.port, self.grpc_port = process, port, grpc_port

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers in lower case, and body."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()

    def get(self, path: str) -> tuple[int, Any]:
        status, _, body = self.request("GET", path)
        return status, json.loads(body)

    def post(self, model: str, document: Any) -> tuple[int, Any]:
        status, _, body = self.request("POST", f"/v2/models/{model}/infer", json.dumps(document).encode())
        return status, json.loads(body)

    def infer(self, model: str, name: str, array: np.ndarray) -> tuple[int, list[np.ndarray]]:
        """Status, and results in float32, none for an error; tensors are binary both ways."""
        entry = {**described(name, array), "parameters": {"binary_data_size": array.nbytes}}
        head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        path = f"/v2/models/{model}/infer"
        status, answered, body = self.request("POST", path, head + array.tobytes(), headers)
        if status != 200:
            return status, []
        at = int(answered["inference-header-content-length"])
        results = []
        for output in json.loads(body[:at])["outputs"]:
            size = output["parameters"]["binary_data_size"]
            results.append(np.frombuffer(body[at : at + size], np.float32).reshape(output["shape"]))
            at += size
        assert at == len(body)
        return status, results

    def ready(self, replicas: int) -> bool:
        """Whether so many replicas answer."""
        return f"fpga_dynamo_replicas_ready {replicas}.0" in self.request("GET", "/metrics")[2].decode()

    def replicas(self) -> list[int]:
        """Processes of the replicas."""
        children = Path(f"/proc/{self.process.pid}/task")
        found = {int(pid) for task in children.iterdir() for pid in (task / "children").read_text().split()}
        return [pid for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def described(name: str, array: np.ndarray) -> dict[str, Any]:
    """An input without its data."""
    return {"name": name, "datatype": DATATYPES[array.dtype.name], "shape": list(array.shape)}


@contextlib.contextmanager
def serving(*words: str | Path) -> Iterator[Server]:
    """A server on a free port. It must end by itself after SIGTERM, with status 0 and nothing on standard error."""
    command = [sys.executable, "-m", "fpga_dynamo.tools.cli", "serve", "--port", "0", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        found = re.match(r"ready on http://127\.0\.0\.1:(\d+)(?: and grpc://127\.0\.0\.1:(\d+))?: ", line)
        assert found, line + process.stderr.read()
        yield Server(process, int(found[1]), int(found[2] or 0))
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()
        process.communicate()
