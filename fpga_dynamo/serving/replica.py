"""A replica: a process that has the models open and runs them, one call at a time."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Protocol

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


def run_replica(
    connection: Connection, directories: Mapping[str, str], device: int, timeout: float, open_model: OpenModel
) -> None:
    """Opens the models, sends their inputs and outputs, and answers calls until the other end is closed.

    An answer is a list of tensors, or a sentence about inputs that the model refuses. After any other error, such as
    that of a device, the process ends: the next one opens the device again.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal or a supervisor sends these to all; the server drains
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            models = {name: open_model(directory, device, timeout) for name, directory in directories.items()}
        except (FpgaError, OSError, ValueError) as error:
            connection.send(str(error))
            return
        connection.send({name: (list(model.inputs), list(model.outputs)) for name, model in models.items()})
        while True:
            name, inputs = connection.recv()
            try:
                answer: list[Tensor] | str = models[name](inputs)
            except ValueError as error:
                answer = str(error)
            connection.send(answer)
