"""Accelerators of signal processing as functions: Fourier transforms, complex arithmetic, products, convolutions.

Each call is a small graph. It is lowered once for each combination of shapes, strides and types, and then runs as any
compiled model does: by the scheduler, on a compute unit or a PS thread, with the result of eager mode.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fpga_dynamo.errors import FpgaError, OptionError
from fpga_dynamo.frontend.backend import compile_graph
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.scheduling.policies import policy_names

KINDS = 256
"""Kinds of calls that are kept; of more, those that were called least recently are lowered again."""

PLACES = ("any", "PL", "PS")

Number = torch.Tensor


class _Call(torch.nn.Module):
    """A function of tensors, its other arguments settled."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        super().__init__()
        self.function = function
        self.arguments = arguments

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors, *self.arguments)


class Accelerators:
    """The accelerators of one card, as functions that any thread may call.

    place: "PL" runs every call on a compute unit, "PS" in eager, "any" (default) where the policy says, by what it
    expects and has measured. options: those of torch.compile; by default the xclbin of the recipe "signal" is used.

    Arguments are tensors of complex64 or float32 on the host; what a core does not take, and whatever needs a gradient,
    eager runs. With ``strict=True`` and place "PL" that is an error instead. Raises OptionError for wrong options.
    """

    def __init__(self, place: str = "any", **options: Any) -> None:
        if place not in PLACES:
            raise OptionError(f"Accelerators(place=...) must be one of {', '.join(PLACES)}, not {place!r}")
        settings = {"recipe": "signal", **options}
        settings |= {"partition": "greedy"} if place == "PL" else {"granularity": "op"}
        self.place = place
        self.options = Options.parse(settings, policy_names())
        self._lock = threading.Lock()
        self._compiled: OrderedDict[Any, Callable[..., Any]] = OrderedDict()

    # --- transforms ---------------------------------------------------------------------------------------------------

    def fft(self, x: Number, n: int | None = None, dim: int = -1, norm: str | None = None) -> torch.Tensor:
        """:func:`torch.fft.fft`: of `n` points along `dim`, from real or complex numbers."""
        return self._run("fft", torch.fft.fft, [x], n, dim, norm)

    def ifft(self, x: Number, n: int | None = None, dim: int = -1, norm: str | None = None) -> torch.Tensor:
        """:func:`torch.fft.ifft`."""
        return self._run("ifft", torch.fft.ifft, [x], n, dim, norm)

    def rfft(self, x: Number, n: int | None = None, dim: int = -1, norm: str | None = None) -> torch.Tensor:
        """:func:`torch.fft.rfft`: n // 2 + 1 results for n real inputs."""
        return self._run("rfft", torch.fft.rfft, [x], n, dim, norm)

    def irfft(self, x: Number, n: int | None = None, dim: int = -1, norm: str | None = None) -> torch.Tensor:
        """:func:`torch.fft.irfft`: `n` real results from one half of their spectrum."""
        return self._run("irfft", torch.fft.irfft, [x], n, dim, norm)

    def fft2(
        self, x: Number, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
    ) -> torch.Tensor:
        """:func:`torch.fft.fft2`."""
        return self._run("fft2", torch.fft.fft2, [x], None if s is None else tuple(s), tuple(dim), norm)

    def ifft2(
        self, x: Number, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
    ) -> torch.Tensor:
        """:func:`torch.fft.ifft2`."""
        return self._run("ifft2", torch.fft.ifft2, [x], None if s is None else tuple(s), tuple(dim), norm)

    # --- element by element -------------------------------------------------------------------------------------------

    def multiply(self, a: Number, b: Number) -> torch.Tensor:
        """a * b, with broadcasting."""
        return self._run("multiply", torch.mul, [a, b])

    def conj_multiply(self, a: Number, b: Number) -> torch.Tensor:
        """a times the conjugate of b."""
        return self._run("conj_multiply", _conj_multiply, [a, b])

    def add(self, a: Number, b: Number) -> torch.Tensor:
        """a + b, with broadcasting."""
        return self._run("add", torch.add, [a, b])

    def subtract(self, a: Number, b: Number) -> torch.Tensor:
        """a - b, with broadcasting."""
        return self._run("subtract", torch.sub, [a, b])

    def conj(self, x: Number) -> torch.Tensor:
        """The conjugate, as numbers of its own."""
        return self._run("conj", torch.conj_physical, [x])

    def magnitude(self, x: Number) -> torch.Tensor:
        """Absolute values."""
        return self._run("magnitude", torch.abs, [x])

    # --- matrices and images ------------------------------------------------------------------------------------------

    def matmul(self, a: Number, b: Number) -> torch.Tensor:
        """:func:`torch.matmul` of real or complex matrices, or batches of them."""
        return self._run("matmul", torch.matmul, [a, b])

    def conv2d(
        self,
        x: Number,
        weight: Number,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
    ) -> torch.Tensor:
        """:func:`torch.nn.functional.conv2d` of real inputs, without a bias."""
        return self._run("conv2d", _conv2d, [x, weight], stride, padding)

    # --- calls --------------------------------------------------------------------------------------------------------

    def _run(self, name: str, function: Callable[..., Any], tensors: list[Any], *arguments: Any) -> torch.Tensor:
        for position, given in enumerate(tensors):
            if not isinstance(given, torch.Tensor):
                kind = type(given).__name__
                raise FpgaError(
                    f"signal.{name}: argument {position} is a {kind}, not a tensor (torch.as_tensor makes one)"
                )
        needs_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        if self.place == "PS" or needs_gradient:
            result: torch.Tensor = function(*tensors, *arguments)
            return result
        given = [tensor.resolve_conj().resolve_neg() for tensor in tensors]
        kinds = tuple((tensor.dtype, tuple(tensor.shape), tensor.stride()) for tensor in given)
        key = (name, arguments, kinds)
        with self._lock:
            compiled = self._compiled.get(key)
            if compiled is not None:
                self._compiled.move_to_end(key)
        if compiled is None:
            compiled = self._compile(key, function, given, arguments)
        with torch.no_grad():
            made = compiled(*given)
        return made if isinstance(made, torch.Tensor) else made[0]

    def _compile(
        self, key: Any, function: Callable[..., Any], tensors: list[torch.Tensor], arguments: tuple[Any, ...]
    ) -> Callable[..., Any]:
        """Two threads may do the same at once; one of the results is kept."""
        with torch.no_grad():
            made = compile_graph(_Call(function, arguments), [t.detach() for t in tensors], self.options, (), None)
        with self._lock:
            compiled = self._compiled.setdefault(key, made)
            while len(self._compiled) > KINDS:
                self._compiled.popitem(last=False)
        return compiled


def _conj_multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * b.conj()


def _conv2d(x: torch.Tensor, weight: torch.Tensor, stride: Any, padding: Any) -> torch.Tensor:
    return torch.nn.functional.conv2d(x, weight, None, stride, padding)
