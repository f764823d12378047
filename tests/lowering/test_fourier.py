"""Discrete Fourier transforms of every kind of length, layout and direction, against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fpga_dynamo.lowering.ops.signal.plan import pack_twiddles, radices, smooth_above, split, twiddle_floats
from fpga_dynamo.lowering.ops.signal.transform import refuse_points
from tests.lowering.signal_kit import SIGNAL, assert_as_exact, check, numbers, opcodes, run
from tests.opinfo.cases import op_subjects
from tests.opinfo.runs import run_subject

FFT = {"fft"}
REAL = torch.float32

LENGTHS = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    12,
    13,
    15,
    16,
    25,
    49,
    64,
    77,
    100,
    128,
    144,
    210,
    256,
    1000,
    1024,
    2048,
    4000,
    16384,
)
PRIMES = (17, 31, 97, 101, 509, 1021, 2 * 47, 5003)


def check_all(function: Callable[[torch.Tensor], torch.Tensor], inputs: list[torch.Tensor]) -> None:
    """One graph for all inputs, which takes a fraction of the time of a graph for each."""
    results, programs = run(lambda *given: tuple(map(function, given)), *inputs)
    for x, result in zip(inputs, results, strict=True):
        assert_as_exact(result, function, x)
    assert not [why for program in programs for why in program.reasons.values()]


def test_transforms_of_every_length() -> None:
    check_all(torch.fft.fft, [numbers(3, length) for length in (*LENGTHS, *PRIMES)])


def test_inverses_of_one_row_and_of_many() -> None:
    check_all(torch.fft.ifft, [numbers(n, length) for length in (16, 60, 1000, 2048, 97, 1021) for n in (1, 40)])


@pytest.mark.parametrize("length", [1, 2, 101, 256, 1000, 4096])
def test_of_real_numbers_and_to_them(length: int) -> None:
    real = [numbers(rows, length, dtype=REAL) for rows in (1, 20)]
    check_all(torch.fft.rfft, real)
    check_all(torch.fft.fft, real)
    check_all(lambda x: torch.fft.irfft(x, n=length), [numbers(rows, length // 2 + 1) for rows in (1, 20)])


@pytest.mark.parametrize("length", [32768, 30030 * 4, 1 << 20, 40009])
def test_long_transforms_are_two_commands_each(length: int) -> None:
    x = numbers(1, length)
    result, programs = run(torch.fft.fft, x)
    assert_as_exact(result, torch.fft.fft, x)
    assert opcodes(programs).count("fft") == (4 if radices(length) is None else 2)


def test_a_length_that_no_two_lanes_hold_stays_in_eager_with_a_reason() -> None:
    x = numbers(1, 2**21)
    result, programs = run(torch.fft.fft, x)
    assert torch.equal(result, torch.fft.fft(x))
    reasons = [why for program in programs for why in program.reasons.values()]
    why = "they do not split into two factors of at most 1024 (FFT_POINTS)"
    assert reasons == [f"2097152 points are not supported: {why}"]


LAYOUTS: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "columns": (lambda x: torch.fft.fft(x, dim=0), numbers(48, 33)),
    "the middle": (lambda x: torch.fft.fft(x, dim=1), numbers(3, 20, 17)),
    "both": (torch.fft.fft2, numbers(3, 24, 40)),
    "both, back": (torch.fft.ifft2, numbers(2, 15, 64)),
    "three": (torch.fft.fftn, numbers(8, 9, 10)),
    "real ones in two dimensions": (torch.fft.rfft2, numbers(3, 20, 30, dtype=REAL)),
    "to real ones in two dimensions": (lambda x: torch.fft.irfft2(x, s=(20, 30)), numbers(3, 20, 16)),
    "rows of a transposed matrix": (lambda x: torch.fft.fft(x.t()), numbers(32, 20)),
    "every second number": (lambda x: torch.fft.fft(x[:, ::2]), numbers(5, 64)),
    "a part of a row": (lambda x: torch.fft.fft(x[:, 3:35]), numbers(5, 64)),
    "the same row for all": (lambda x: torch.fft.fft(x.expand(6, 30)), numbers(1, 30)),
    "a vector": (torch.fft.fft, numbers(60)),
    "six dimensions": (lambda x: torch.fft.fft(x.permute(5, 1, 3, 0, 2, 4), dim=2), numbers(2, 3, 2, 3, 2, 3)),
    "orthonormal": (lambda x: torch.fft.fft(x, norm="ortho"), numbers(4, 36)),
    "scaled forward": (lambda x: torch.fft.ifft(x, norm="forward"), numbers(4, 36)),
    "fewer points": (lambda x: torch.fft.fft(x, n=20), numbers(4, 36)),
    "a long column": (lambda x: torch.fft.fft(x, dim=0), numbers(5000, 3)),
    "there and back": (lambda x: torch.fft.ifft(torch.fft.fft(x)), numbers(4, 100)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    function, x = LAYOUTS[name]
    check(function, x, on=FFT)


@pytest.mark.parametrize("points", [32, 101, 2048])
def test_more_points_than_numbers(points: int) -> None:
    check(lambda x: torch.fft.fft(x, n=points), numbers(3, 20, dtype=REAL), on=FFT)


def test_infinite_and_nan_rows_stay_theirs() -> None:
    x = numbers(40, 64)
    x[3, 5], x[17, 0] = torch.inf, torch.nan
    result, _ = run(torch.fft.fft, x)
    clean = [row for row in range(40) if row not in (3, 17)]
    assert torch.isfinite(result[clean]).all()
    assert not torch.isfinite(result[[3, 17]]).any()


def test_a_recipe_without_the_core_leaves_it_to_eager_with_a_reason() -> None:
    x = numbers(4, 64)
    result, programs = run(torch.fft.fft, x, recipe="emulator")
    assert torch.equal(result, torch.fft.fft(x))
    assert [why for p in programs for why in p.reasons.values()] == [
        "no kernel of the xclbin has all its opcodes: sequencer lacks fft"
    ]


def test_double_precision_stays_in_eager_with_a_reason() -> None:
    x = numbers(4, 64, dtype=torch.complex128)
    result, programs = run(torch.fft.fft, x)
    assert torch.equal(result, torch.fft.fft(x))
    (why,) = [why for p in programs for why in p.reasons.values()]
    assert why == "input is complex128; the complex cores support complex64 and float32"


def test_verify_holds_complex_values_against_eager() -> None:
    x = numbers(4, 60)
    result, _ = run(lambda x: torch.fft.ifft(torch.fft.fft(x) * 2), x, verify=True)
    torch.testing.assert_close(result, 2 * x)


@pytest.mark.parametrize("name", ["fft.fft", "fft.ihfft2", "fft.irfftn", "fft.rfft2", "fft.hfft"])
def test_samples_of_pytorchs_database(name: str) -> None:
    dtype = REAL if name in ("fft.ihfft2", "fft.rfft2") else torch.complex64
    (subject,) = [s for s in op_subjects(dtype, backward=False, in_place=False) if s.name == name]
    result = run_subject(subject, backward=False, limit=4, options=SIGNAL)
    assert {verdict for verdict, number in result.counts.items() if number} == {"right"}
    assert result.on_card == sum(result.counts.values())


def test_plans_of_lengths() -> None:
    for length in range(1, 3000):
        passes = radices(length)
        largest = max(
            (p for p in range(2, length + 1) if length % p == 0 and all(p % q for q in range(2, p))), default=1
        )
        assert (passes is None) == (largest > 13)
        if passes is not None and length <= 1024:
            assert pack_twiddles((length,)).numel() == twiddle_floats(length)
        assert radices(smooth_above(length)) is not None
        assert smooth_above(length) >= length
    assert split(1 << 20, 1024) == (1024, 1024)
    assert split(1 << 21, 1024) is None
    assert all(refuse_points(length, 1024) is None for length in range(1, 1025))
