"""Replicas on the hosts of a Ray cluster, as actors that get the models' files from the object store."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.serving.ray_connection import connect, living_hosts, on_host
from fpga_dynamo.serving.replica import Answer, OpenModel, OpenModels, Ports
from fpga_dynamo.serving.tensors import Tensor

_FILES = ("model.json", "commands.bin", "weights.bin", "model.xclbin")
_NAP_S = 3600.0


class RayCluster:
    """A Ray cluster; its hosts get replicas in turn.

    address: of the cluster, or "auto" for the one that this host belongs to. Raises FpgaError if it does not answer.
    """

    def __init__(self, address: str) -> None:
        connect(address)
        self._turn = itertools.count()
        self._contents: dict[str, Any] = {}

    def start(self, directories: Mapping[str, str], device: int, timeout: float, open_model: OpenModel) -> RayReplica:
        """A replica on the next host. Raises FpgaError if the cluster has none."""
        hosts = list(living_hosts())
        for directory in directories.values():
            if directory not in self._contents:
                files = {name: (Path(directory) / name).read_bytes() for name in _FILES}
                self._contents[directory] = ray.put(files)
        contents = {name: self._contents[directory] for name, directory in directories.items()}
        return RayReplica(hosts[next(self._turn) % len(hosts)], contents, device, timeout, open_model)


class RayReplica:
    """The pool's end of an actor."""

    def __init__(
        self, host: str, contents: Mapping[str, Any], device: int, timeout: float, open_model: OpenModel
    ) -> None:
        # One thread answers, and one waits: its task ends when the actor does.
        actor: Any = ray.remote(num_cpus=0, max_restarts=0, max_concurrency=2, scheduling_strategy=on_host(host))(
            _Actor
        )
        self.name = f"replica on host {host[:8]}"
        self._actor = actor.remote()
        self._alive = self._actor.wait.remote()
        names = list(contents)
        self._pending = self._actor.open.remote(names, device, timeout, open_model, *contents.values())

    def send(self, call: tuple[str, list[Tensor]]) -> None:
        self._pending = self._actor.answer.remote(*call)

    def poll(self, seconds: float = 0.0) -> bool:
        waited = [self._alive] if self._pending is None else [self._pending, self._alive]
        done, _ = ray.wait(waited, timeout=seconds)
        return bool(done)

    def recv(self) -> Any:
        pending, self._pending = self._pending, None
        try:
            return ray.get(pending)
        except RayError as error:
            raise EOFError(str(error).splitlines()[0]) from error

    def end(self, seconds: float, *, kill: bool) -> str:
        ray.kill(self._actor)
        return "an error of its host"


class _Actor:
    def open(
        self, names: list[str], device: int, timeout: float, open_model: OpenModel, *contents: Mapping[str, bytes]
    ) -> dict[str, Ports] | str:
        try:
            with tempfile.TemporaryDirectory(prefix="fpga_dynamo-") as folder:  # an open model needs no file any more
                directories = {}
                for name, files in zip(names, contents, strict=True):
                    directory = Path(folder) / name
                    directory.mkdir()
                    for file, content in files.items():
                        (directory / file).write_bytes(content)
                    directories[name] = str(directory)
                self._models = OpenModels(directories, device, timeout, open_model)
        except (FpgaError, OSError, ValueError) as error:
            return str(error)
        return self._models.ports

    def answer(self, name: str, inputs: list[Tensor]) -> Answer:
        return self._models.answer(name, inputs)

    def wait(self) -> None:
        while True:
            time.sleep(_NAP_S)
