"""Complex arithmetic, parts of complex numbers, and products of complex matrices, against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.lowering.signal_kit import assert_as_exact, check, numbers, opcodes, run

ZIP = {"zip"}
REAL = torch.float32

ARITHMETIC: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "a product": (lambda a, b: a * b, (numbers(5, 33), numbers(5, 33, seed=2))),
    "with a conjugate": (lambda a, b: a * b.conj(), (numbers(5, 33), numbers(5, 33, seed=2))),
    "of two conjugates": (lambda a, b: a.conj() * b.conj(), (numbers(5, 33), numbers(5, 33, seed=2))),
    "with its own conjugate": (lambda a: a * a.conj(), (numbers(5, 33),)),
    "with a row": (lambda a, b: a * b, (numbers(5, 33), numbers(33, seed=2))),
    "with a column": (lambda a, b: a * b, (numbers(5, 33), numbers(5, 1, seed=2))),
    "outer": (lambda a, b: a * b, (numbers(5, 1), numbers(1, 7, seed=2))),
    "with a real operand": (lambda a, b: a * b, (numbers(5, 33, dtype=REAL), numbers(5, 33, seed=2))),
    "with a real number": (lambda a: a * 0.3, (numbers(5, 33),)),
    "with a complex number": (lambda a: a * (0.3 - 2j), (numbers(5, 33),)),
    "by a real number": (lambda a: a / 3, (numbers(5, 33),)),
    "a sum": (lambda a, b: a + b, (numbers(5, 33), numbers(5, 33, seed=2))),
    "a sum with a real operand": (lambda a, b: a + b, (numbers(5, 33), numbers(33, dtype=REAL))),
    "a difference": (lambda a, b: a - b.conj(), (numbers(5, 33), numbers(5, 33, seed=2))),
    "a negation": (lambda a: -a, (numbers(4, 5),)),
    "a conjugate alone": (lambda a: torch.conj_physical(a), (numbers(4, 5),)),
    "magnitudes": (lambda a: a.abs(), (numbers(4, 50),)),
    "transposed": (lambda a, b: a.t() * b, (numbers(33, 5), numbers(5, 33, seed=2))),
    "of an image": (lambda a, b: a * b, (numbers(2, 3, 4, 5), numbers(2, 3, 4, 5, seed=2))),
    "several": (lambda a, b: (a * b + a) * b.conj() - 1.5, (numbers(6, 20), numbers(6, 20, seed=2))),
    "scalars": (lambda a, b: a * b, (numbers(), numbers(seed=2))),
    "seen as pairs": (lambda a: torch.view_as_complex(torch.view_as_real(a * 2) * 3) * 2, (numbers(4, 9),)),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name: str) -> None:
    function, inputs = ARITHMETIC[name]
    check(function, *inputs, on=ZIP)


def test_numbers_made_of_their_parts() -> None:
    check(torch.complex, numbers(4, 9, dtype=REAL), numbers(9, dtype=REAL, seed=2), on={"fft"})  # the first that moves


def test_magnitudes_neither_overflow_nor_vanish() -> None:
    x = torch.tensor([3e38 + 1e38j, 1e-30 + 1e-30j, 0j, complex(torch.inf, torch.nan), complex(torch.nan, 1), -4 + 3j])
    result, _ = run(torch.abs, x)
    torch.testing.assert_close(result, x.abs(), equal_nan=True, rtol=3e-7, atol=0)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_products_of_matrices(batch: tuple[int, ...]) -> None:
    check(torch.matmul, numbers(*batch, 9, 20), numbers(*batch, 20, 17, seed=2), on={"mmult"})


def test_products_with_a_matrix_that_is_a_buffer() -> None:
    class Beams(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weights", numbers(20, 6, seed=3))
            self.register_buffer("window", numbers(20, seed=4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.get_buffer("window")) @ self.get_buffer("weights")

    model, x = Beams(), numbers(11, 20)
    result, programs = run(model, x)
    exact = (x.to(torch.complex128) * model.get_buffer("window")) @ model.get_buffer("weights").to(torch.complex128)
    torch.testing.assert_close(result.to(torch.complex128), exact, rtol=1e-5, atol=1e-5)
    assert sorted(set(opcodes(programs)) - {"move"}) == ["gemm", "zip"]


def test_products_of_transposed_and_conjugated_matrices() -> None:
    x = numbers(30, 7)
    result, _ = run(lambda x: x.conj().t() @ x, x)
    assert_as_exact(result, lambda x: x.conj().t() @ x, x)


def test_a_chain_that_changes_kernels() -> None:
    def matched(x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(h).conj())

    x, h = numbers(16, 128), numbers(128, seed=2)
    result, programs = run(matched, x, h)
    assert_as_exact(result, matched, x, h)
    assert [task.kernel for program in programs for task in program.card_tasks].count("zip") == 1


def test_what_the_core_does_not_do_stays_in_eager_with_a_reason() -> None:
    result, programs = run(lambda a, b: a / b, numbers(4), numbers(4, seed=2))
    torch.testing.assert_close(result, numbers(4) / numbers(4, seed=2))
    (why,) = [why for program in programs for why in program.reasons.values()]
    assert why.startswith("complex division is supported by a real number")


MOVED: dict[str, Callable[..., Any]] = {
    "joined": lambda x: torch.cat([x, x * 2], 1),
    "stacked": lambda x: torch.stack([x, x * 2]),
    "padded": lambda x: torch.nn.functional.pad(x * 2, (1, 2)),
    "turned round": lambda x: (x * 2).flip(1),
    "repeated": lambda x: (x * 2).repeat(2, 3),
    "images side by side": lambda x: torch.cat([x.reshape(1, 5, 3, 2), x.reshape(1, 5, 3, 2) * 2], 1),
}


@pytest.mark.parametrize("name", MOVED)
def test_movement(name: str) -> None:
    check(MOVED[name], numbers(5, 6), on=ZIP)
