"""A replica: a process that has the models open and runs them, one call at a time.

What it sends first are the inputs and outputs of each model by name, or a sentence if a model cannot be opened. Then it
answers each call, (name, inputs), by a list of tensors, or a sentence about inputs that the model refuses. After any
other error, such as that of a device, it ends: the next one opens the device again.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, Protocol

import torch

from fpga_dynamo.deployment.loaded import load
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.serving.tensors import Port, Tensor


class ServedModel(Protocol):
    """A model as a replica calls it, on tensors in the model's order."""

    @property
    def inputs(self) -> Sequence[Port]: ...
    @property
    def outputs(self) -> Sequence[Port]: ...
    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]: ...


OpenModel = Callable[[str, int, float], ServedModel]
"""Opens a directory on a device, with a time-out in seconds."""


class ExportedModel:
    """A directory of `fpga_dynamo.export`."""

    def __init__(self, directory: str, device: int, timeout: float) -> None:
        self._model = load(directory, device=device, timeout=timeout)
        self.inputs = [Port(name, str(dtype)[6:], shape) for name, dtype, shape in self._model.inputs]
        self.outputs = [Port(name, str(dtype)[6:], shape) for name, dtype, shape in self._model.outputs]

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [from_torch(result) for result in self._model.run([to_torch(tensor) for tensor in inputs])]


def to_torch(tensor: Tensor) -> torch.Tensor:
    dtype = getattr(torch, tensor.dtype)
    if not tensor.data:
        return torch.empty(tensor.shape, dtype=dtype)
    data = tensor.data if isinstance(tensor.data, bytearray) else bytearray(tensor.data)
    return torch.frombuffer(data, dtype=dtype).reshape(tensor.shape)


def from_torch(tensor: torch.Tensor) -> Tensor:
    data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return Tensor(str(tensor.dtype)[6:], tuple(tensor.shape), data)


Answer = list[Tensor] | str
Ports = tuple[list[Port], list[Port]]


class Replica(Protocol):
    """The end of a replica that the pool has. `send` and `recv` raise EOFError or OSError when the replica is gone."""

    @property
    def name(self) -> str:
        """What log lines call it."""

    def send(self, call: tuple[str, list[Tensor]]) -> None: ...
    def poll(self, seconds: float = 0.0) -> bool:
        """Whether `recv` will not wait, which is so too when the replica is gone."""

    def recv(self) -> Any: ...
    def end(self, seconds: float, *, kill: bool) -> str:
        """Ends it, at once or after its call, and waits for so long; returns how it ended."""


StartReplica = Callable[[Mapping[str, str], int, float, OpenModel], Replica]
"""Starts a replica for directories by name, on a device, with a time-out in seconds."""


class LocalReplica:
    """A process of this host."""

    def __init__(self, directories: Mapping[str, str], device: int, timeout: float, open_model: OpenModel) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_run, args=(theirs, directories, device, timeout, open_model), daemon=True
        )
        self._process.start()
        theirs.close()  # so that the end of the process is seen
        self.send, self.poll, self.recv = self._connection.send, self._connection.poll, self._connection.recv

    @property
    def name(self) -> str:
        return f"process {self._process.pid}"

    def end(self, seconds: float, *, kill: bool) -> str:
        self._connection.close()
        if kill:
            self._process.kill()
        self._process.join(seconds)
        return f"status {self._process.exitcode}"


class OpenModels:
    """The models that a replica has open. Raises FpgaError, OSError or ValueError if one cannot be opened."""

    def __init__(self, directories: Mapping[str, str], device: int, timeout: float, open_model: OpenModel) -> None:
        self._models = {name: open_model(directory, device, timeout) for name, directory in directories.items()}

    @property
    def ports(self) -> dict[str, Ports]:
        return {name: (list(model.inputs), list(model.outputs)) for name, model in self._models.items()}

    def answer(self, name: str, inputs: Sequence[Tensor]) -> Answer:
        try:
            return self._models[name](inputs)
        except ValueError as error:
            return str(error)


def _run(
    connection: Connection, directories: Mapping[str, str], device: int, timeout: float, open_model: OpenModel
) -> None:
    """What the process of a replica does, until the other end of the connection is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal or a supervisor sends these to all; the server drains
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            models = OpenModels(directories, device, timeout, open_model)
        except (FpgaError, OSError, ValueError) as error:
            connection.send(str(error))
            return
        connection.send(models.ports)
        while True:
            connection.send(models.answer(*connection.recv()))
