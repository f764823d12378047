"""`fpga_dynamo.load`: an exported model as a callable over tensors, without tracing or lowering."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import torch

import xclbin_build
from fpga_dynamo._native import exported_model
from fpga_dynamo.deployment.driver_device import DriverDevice
from fpga_dynamo.deployment.errors import ModelFileError
from fpga_dynamo.deployment.nesting import read_nesting
from fpga_dynamo.errors import OptionError
from fpga_dynamo.ir.view import extent
from xclbin_build import atomic_file
from xclbin_build.manifest import EMULATED
from xclbin_build.trusted_path import UntrustedPathError, check_named

_LONGEST_MS = (1 << 31) - 1


class LoadedModel:
    """A model from :func:`load`: call it as the module that was exported, from any number of threads.

    inputs, outputs: name, dtype and shape of each tensor; -1 is a size that changes from call to call.
    """

    def __init__(self, directory: Path, device: int | str, timeout: float, check_weights: bool) -> None:
        self._directory = directory
        self._device = device
        self._timeout_ms = min(max(int(timeout * 1000), 1), _LONGEST_MS)
        self._check_weights = check_weights
        self._lock = threading.Lock()
        self._remote: DriverDevice | None = None
        self._weights: IO[bytes] | None = None
        self._model = self._opened()
        text = (directory / "model.json").read_text(encoding="utf-8")
        self._nesting = read_nesting(text, len(self._model.inputs), len(self._model.outputs))
        self._outputs = [getattr(torch, dtype) for _, dtype, *_ in self._model.outputs]
        self._fixed = [
            (tuple(shape), tuple(strides))
            for _, _, shape, strides in self._model.outputs
            if -1 not in shape and -1 not in strides
        ]

    def _opened(self) -> exported_model:
        return exported_model(
            str(self._directory),
            device=0 if isinstance(self._device, str) else self._device,
            timeout_ms=self._timeout_ms,
            check_weights=self._check_weights,
            through=self._connected if isinstance(self._device, str) else None,
        )

    def _connected(self, xclbin: str) -> DriverDevice:
        target = xclbin_build.axlf.read(Path(xclbin)).manifest["target"]
        self._remote = DriverDevice(str(self._device), Path(xclbin), is_hardware=target not in EMULATED)
        return self._remote

    def _current(self) -> exported_model:
        """The open model: opened again if the connection to its card was lost, and all that it had there."""
        with self._lock:
            if self._remote is not None and not self._remote.is_usable:
                self._model = self._opened()
                if self._weights is not None:
                    self._model.load_weights(_path_of(self._weights))
            return self._model

    @property
    def inputs(self) -> list[tuple[str, torch.dtype, tuple[int, ...]]]:
        return [(name, getattr(torch, dtype), tuple(shape)) for name, dtype, shape, _ in self._model.inputs]

    @property
    def outputs(self) -> list[tuple[str, torch.dtype, tuple[int, ...]]]:
        return [(name, getattr(torch, dtype), tuple(shape)) for name, dtype, shape, _ in self._model.outputs]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's results. Tensors and numpy arrays are accepted; results are tensors.

        Raises ValueError for inputs that the model does not accept, DeviceError for a launch that failed, MemoryError
        if the host has no memory for a result.
        """
        tensors = [torch.as_tensor(given) for given in self._nesting.flat(args, kwargs)]
        return self._nesting.nested(self.run(tensors))

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors of `outputs` for the tensors of `inputs`. Raises as a call does."""
        given = [_row(tensor) for tensor in tensors]
        layouts = self._fixed
        model = self._model if self._remote is None else self._current()
        if len(layouts) < len(self._outputs):
            layouts = [(tuple(shape), tuple(strides)) for shape, strides in model.output_layouts(given)]
        results = [
            _allocated(shape, strides, dtype) for (shape, strides), dtype in zip(layouts, self._outputs, strict=True)
        ]
        model.run(given, [_row(result) for result in results])
        return results

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Takes other parameters and buffers, as a module does; calls under way end with the old ones.

        Raises ValueError for a state_dict that lacks an entry of the model, or has one of another shape. Entries that
        the model does not need have no effect.
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.bin"
            self.pack_weights(state, file)
            self.load_weights(file)  # which keeps the file open

    def pack_weights(self, state: Mapping[str, torch.Tensor], file: str | Path) -> None:
        """Writes a weights.bin with other parameters, for a process without Python. Raises as `load_state_dict`."""
        from fpga_dynamo.deployment.weight_recipe import packed  # imports all of lowering

        atomic_file.write(file, packed(self._directory, state).numpy().tobytes())

    def load_weights(self, file: str | Path) -> None:
        """Takes the packed weights of another export of the same model. Raises ValueError for another layout."""
        self._current().load_weights(str(file))
        if self._remote is not None:  # the model may have to be opened again
            with self._lock:
                self._weights = Path(file).open("rb")  # noqa: SIM115 - as long as the model


def _path_of(file: IO[bytes]) -> str:
    """A name of an open file, also after the file was deleted."""
    return f"/proc/self/fd/{file.fileno()}"


def load(
    directory: str | Path, *, device: int | str = 0, timeout: float = 60.0, check_weights: bool = True
) -> LoadedModel:
    """Opens a directory that :func:`export` wrote; takes milliseconds and the time to read the weights.

    device: the index of the card, or the address of one at the other end of a network (``tcp://host:port/0``).
    timeout: seconds that a launch may take. check_weights: compare the checksum of the weights.

    Raises :class:`fpga_dynamo.ModelFileError` for a directory that is no model, is damaged, or needs another version.
    For an address also OptionError, and DeviceError if the server refuses or cannot be reached. A call whose connection
    is lost raises DeviceError, and the next call connects again.
    """
    xclbin = Path(directory) / "model.xclbin"
    try:
        if xclbin.exists():
            check_named(xclbin, "xclbin")
        return LoadedModel(Path(directory), device, timeout, check_weights)
    except (ValueError, UntrustedPathError, xclbin_build.XclbinError) as error:
        if isinstance(error, OptionError):
            raise
        raise ModelFileError(str(error)) from error


def _row(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], tuple[int, ...], int]:
    """A tensor as the run-time library gets it. Its memory must live as long as the call."""
    return (str(tensor.dtype)[6:], tuple(tensor.shape), tensor.stride(), tensor.data_ptr())


def _allocated(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    try:
        return torch.empty_strided(shape, _dense(shape, strides), dtype=dtype)
    except RuntimeError as error:
        raise MemoryError(f"no memory for a result of shape {tuple(shape)} and {dtype}") from error


def _dense(shape: Sequence[int], strides: Sequence[int]) -> Sequence[int]:
    """Strides for a new tensor: those of the result, unless its elements lie in one another's places or far apart."""
    count = torch.Size(shape).numel()
    if count == 0 or extent(shape, strides) == count:
        return strides
    return torch.empty(shape, device="meta").stride()
