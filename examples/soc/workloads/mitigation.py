"""Temporal mitigation: a radar's return under a communication signal of the same band that is stronger.

The interfering signal has been decoded, so its samples are known; it comes over several paths. What any combination of
its delayed copies S can explain is taken out of the received rows Z by projection: Z - Z S^H (S S^H)^-1 S.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

PATHS = 16
"""Delays of the interfering signal that are taken out."""


class TemporalMitigation(torch.nn.Module):
    """Received rows (rows x samples) and delayed copies of the interferer (paths x samples) -> rows without it."""

    def forward(self, received: Tensor, copies: Tensor) -> Tensor:
        adjoint = copies.conj().t()
        gram = copies @ adjoint
        crossing = received @ adjoint
        # small: paths x paths, on the host
        weights = torch.linalg.solve(gram.t(), crossing.t()).t()
        return received - weights @ copies


def delayed(signal: Tensor, paths: int = PATHS) -> Tensor:
    """Copies delayed by 0 to paths - 1 samples."""
    rows = torch.zeros(paths, len(signal), dtype=signal.dtype)
    for delay in range(paths):
        rows[delay, delay:] = signal[: len(signal) - delay]
    return rows


def scene(rows: int = 16, samples: int = 512, delay: int = 150, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Received rows, copies of the interferer, the radar's pulse and its return alone.

    The interferer is 100 times as strong as the return (20 dB) and comes over paths that differ from row to row.
    """
    generator = torch.Generator().manual_seed(seed)
    t = torch.arange(64, dtype=torch.float64)
    pulse = torch.polar(torch.ones_like(t), math.pi * 0.4 / 64 * (t - 32) ** 2).to(torch.complex64)
    echo = torch.zeros(rows, samples, dtype=torch.complex64)
    echo[:, delay : delay + 64] = pulse
    bits = torch.randint(0, 4, (samples,), generator=generator)
    interferer = torch.polar(torch.ones(samples), math.pi / 4 + math.pi / 2 * bits)
    copies = delayed(interferer)
    gains = 10 * torch.randn(rows, PATHS, dtype=torch.complex64, generator=generator) / math.sqrt(PATHS)
    noise = 0.05 * torch.randn(rows, samples, dtype=torch.complex64, generator=generator)
    return echo + gains @ copies + noise, copies, pulse, echo


def delay_of(rows: Tensor, pulse: Tensor) -> int:
    """The delay at which the rows together are most like the pulse."""
    windows = rows.unfold(1, len(pulse), 1)
    return int((windows * pulse.conj()).sum(-1).abs().sum(0).argmax())


def example() -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
    received, copies, _, _ = scene()
    return TemporalMitigation().eval(), (received, copies)
