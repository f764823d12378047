"""`fpga_dynamo.signal`: eager mode's answers from functions, on either side, from many threads, and clear errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import fpga_dynamo
from fpga_dynamo import FpgaError, OptionError, signal
from fpga_dynamo.signal import Accelerators
from tests.lowering.signal_kit import assert_as_exact, numbers

CARD = Accelerators(place="PL", strict=True)
REAL = torch.float32

CALLS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "fft": (torch.fft.fft, (numbers(4, 30),)),
    "ifft": (torch.fft.ifft, (numbers(4, 31),)),
    "rfft": (torch.fft.rfft, (numbers(4, 64, dtype=REAL),)),
    "irfft": (torch.fft.irfft, (numbers(4, 33),)),
    "fft2": (torch.fft.fft2, (numbers(12, 20),)),
    "ifft2": (torch.fft.ifft2, (numbers(12, 20),)),
    "multiply": (torch.mul, (numbers(4, 30), numbers(30, seed=2))),
    "conj_multiply": (lambda a, b: a * b.conj(), (numbers(4, 30), numbers(30, seed=2))),
    "add": (torch.add, (numbers(4, 30), numbers(30, seed=2))),
    "subtract": (torch.sub, (numbers(4, 30), numbers(30, seed=2))),
    "conj": (torch.conj_physical, (numbers(4, 30),)),
    "magnitude": (torch.abs, (numbers(4, 30),)),
    "matmul": (torch.matmul, (numbers(4, 30), numbers(30, 5, seed=2))),
    "conv2d": (torch.nn.functional.conv2d, (numbers(1, 3, 9, 9, dtype=REAL), numbers(4, 3, 3, 3, dtype=REAL))),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_give_eagers_answer(name: str) -> None:
    function, inputs = CALLS[name]
    fpga_dynamo.reset_stats()
    assert_as_exact(getattr(CARD, name)(*inputs), function, *inputs)
    assert fpga_dynamo.stats()["pl_launches"] == 1
    assert_as_exact(getattr(signal, name)(*inputs), function, *inputs)


def test_arguments_are_those_of_torch() -> None:
    x = numbers(6, 20)
    torch.testing.assert_close(CARD.fft(x, 32, 0, "ortho"), torch.fft.fft(x, 32, 0, "ortho"))
    torch.testing.assert_close(CARD.fft(x.conj(), dim=0), torch.fft.fft(x.conj(), dim=0))
    image, kernel = numbers(1, 2, 8, 8, dtype=REAL), numbers(3, 2, 3, 3, dtype=REAL)
    wanted = torch.nn.functional.conv2d(image, kernel, stride=2, padding=1)
    torch.testing.assert_close(CARD.conv2d(image, kernel, stride=2, padding=1), wanted, rtol=1e-4, atol=1e-5)


def test_any_thread_may_call() -> None:
    x = [numbers(4, 32 + i % 3, seed=i) for i in range(24)]
    results: list[Any] = [None] * len(x)

    def call(i: int) -> None:
        results[i] = signal.fft(x[i])

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(x))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for given, result in zip(x, results, strict=True):
        torch.testing.assert_close(result, torch.fft.fft(given))


def test_gradients_are_eagers() -> None:
    x = numbers(3, 8).requires_grad_()
    signal.fft(x).abs().sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape


def test_the_host_alone() -> None:
    x = numbers(3, 8)
    assert torch.equal(Accelerators(place="PS").fft(x), torch.fft.fft(x))


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(FpgaError, match=r"signal\.fft: argument 0 is a list, not a tensor"):
        signal.fft([1, 2, 3])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="must be one of any, PL, PS, not 'card'"):
        Accelerators(place="card")
    with pytest.raises(OptionError, match="unknown option 'recip'"):
        Accelerators(recip="signal")
    with pytest.raises(fpga_dynamo.NotLoweredError, match="input is complex128"):
        CARD.fft(numbers(8, dtype=torch.complex128))
    with pytest.raises(IndexError):
        signal.fft(numbers(8), dim=3)
