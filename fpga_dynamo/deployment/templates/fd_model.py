"""An exported model with numpy alone: ctypes over libfpga_dynamo_rt.so.

>>> model = Model("resnet18")
>>> (logits,) = model(pixels)
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_MAX_RANK = 16
_DTYPES = {
    1: "float32",
    2: "float16",
    3: "uint16",
    4: "int64",
    5: "int32",
    6: "int8",
    7: "uint8",
    8: "bool",
    9: "complex64",
}
"""fd_dtype -> dtype of numpy, which has no bfloat16: those are their 16 bits."""


class ModelError(RuntimeError):
    """A function of the library failed; the message is its sentence."""


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
    ]


class _Port(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


class _Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("device", ctypes.c_uint32),
        ("timeout_ms", ctypes.c_uint32),
        ("check_weights", ctypes.c_int32),
    ]


class Model:
    """A model in a directory. It may be called from several threads at once.

    library: libfpga_dynamo_rt.so; by default that of the directory's folder `build`.
    """

    def __init__(
        self,
        directory: str | Path,
        library: str | Path | None = None,
        *,
        device: int = 0,
        timeout: float = 60.0,
        check_weights: bool = True,
    ) -> None:
        path = Path(library) if library is not None else Path(directory) / "build" / "libfpga_dynamo_rt.so"
        self._library = ctypes.CDLL(str(path))
        self._library.fd_last_error.restype = ctypes.c_char_p
        for function in (self._library.fd_model_input_count, self._library.fd_model_output_count):
            function.restype, function.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
        self._library.fd_model_close.argtypes = [ctypes.c_void_p]
        self._library.fd_model_close.restype = None
        self._model = ctypes.c_void_p()
        options = _Options(ctypes.sizeof(_Options), device, int(timeout * 1000), check_weights)
        opened = self._library.fd_model_open(str(directory).encode(), ctypes.byref(options), ctypes.byref(self._model))
        self._check(opened)
        self.inputs = self._ports("input")
        self.outputs = self._ports("output")

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            self._library.fd_model_close(self._model)

    def __call__(self, *inputs: Any) -> tuple[np.ndarray, ...]:
        """The results of the model, in row-major order. Raises :class:`ModelError`."""
        if len(inputs) != len(self.inputs):
            raise ModelError(f"the model has {len(self.inputs)} inputs, and {len(inputs)} were given")
        arrays = [
            np.ascontiguousarray(given, dtype) if np.ndim(given) else np.asarray(given, dtype)
            for given, (_, dtype, _) in zip(inputs, self.inputs, strict=True)
        ]
        from_, kept = self._tensors(arrays, "input")
        results = []
        for k, (_, dtype, shape) in enumerate(self.outputs):
            sizes = (ctypes.c_int64 * _MAX_RANK)()
            self._check(
                self._library.fd_model_output_shape(
                    self._model, from_, ctypes.c_size_t(len(arrays)), ctypes.c_size_t(k), sizes
                )
            )
            results.append(np.empty(sizes[: len(shape)], dtype))
        to, kept_too = self._tensors(results, "output")
        counts = ctypes.c_size_t(len(arrays)), ctypes.c_size_t(len(results))
        self._check(self._library.fd_model_run(self._model, from_, counts[0], to, counts[1]))
        del kept, kept_too
        return tuple(results)

    def load_weights(self, file: str | Path) -> None:
        """Takes the packed weights of another file of the same layout. Raises :class:`ModelError`."""
        self._check(self._library.fd_model_load_weights(self._model, str(file).encode()))

    def _check(self, status: int) -> None:
        if status:
            raise ModelError(self._library.fd_last_error().decode(errors="replace"))

    def _port(self, what: str, index: int) -> _Port:
        port = _Port()
        function = getattr(self._library, f"fd_model_{what}")
        self._check(function(self._model, ctypes.c_size_t(index), ctypes.byref(port)))
        return port

    def _ports(self, what: str) -> list[tuple[str, np.dtype, tuple[int, ...]]]:
        """Name, dtype and shape of each; -1 is a size that changes from call to call."""
        count = getattr(self._library, f"fd_model_{what}_count")(self._model)
        ports = [self._port(what, i) for i in range(count)]
        return [(port.name.decode(), np.dtype(_DTYPES[port.dtype]), tuple(port.shape[: port.rank])) for port in ports]

    def _tensors(self, arrays: Sequence[np.ndarray], what: str) -> tuple[Any, list[Any]]:
        """fd_tensors of arrays in row-major order, and what has to live as long."""
        shapes = [(ctypes.c_int64 * max(array.ndim, 1))(*array.shape) for array in arrays]
        made = [
            _Tensor(self._port(what, i).dtype, array.ndim, shape, None, array.ctypes.data)
            for i, (array, shape) in enumerate(zip(arrays, shapes, strict=True))
        ]
        return (_Tensor * max(len(made), 1))(*made), shapes
