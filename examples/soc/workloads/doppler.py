"""Pulse Doppler radar: where a target is and how fast it moves, from the echoes of a train of chirps.

Each pulse's echo is correlated with the chirp by transforms (the matched filter); along the pulses, at each distance, a
transform shows by how much the echo's phase turns from pulse to pulse, and so the target's speed (M. A. Richards,
"Fundamentals of Radar Signal Processing", chapters 4 and 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

SPEED_OF_LIGHT = 299_792_458.0


@dataclass(frozen=True)
class Radar:
    """carrier, bandwidth, sampling and repetition: Hz; pulse: seconds; samples of each echo, and pulses of a train."""

    carrier: float = 10e9
    bandwidth: float = 5e6
    sampling: float = 6.4e6
    repetition: float = 10e3
    pulse: float = 10e-6
    samples: int = 256
    pulses: int = 64

    @property
    def range_bin(self) -> float:
        """Metres from one sample's distance to the next."""
        return SPEED_OF_LIGHT / (2 * self.sampling)

    @property
    def speed_bin(self) -> float:
        """Metres a second from one Doppler bin to the next."""
        return SPEED_OF_LIGHT / (2 * self.carrier) * self.repetition / self.pulses

    def chirp(self) -> Tensor:
        """The pulse that is sent, complex samples."""
        t = torch.arange(round(self.pulse * self.sampling), dtype=torch.float64) / self.sampling
        phase = math.pi * self.bandwidth / self.pulse * (t - self.pulse / 2) ** 2
        return torch.polar(torch.ones_like(phase), phase).to(torch.complex64)

    def echoes(self, distance: float, speed: float, noise: float = 1.0, seed: int = 0) -> Tensor:
        """What comes back from a target (m, m/s towards the radar): pulses x samples, with noise of that deviation."""
        chirp, generator = self.chirp(), torch.Generator().manual_seed(seed)
        echo = torch.zeros(self.pulses, self.samples, dtype=torch.complex64)
        delay = round(distance / self.range_bin)
        turn = 2 * math.pi * 2 * speed * self.carrier / SPEED_OF_LIGHT / self.repetition
        phases = turn * torch.arange(self.pulses, dtype=torch.float64)
        rows = torch.polar(torch.ones_like(phases), phases).to(torch.complex64)
        echo[:, delay : delay + len(chirp)] = rows[:, None] * chirp[: self.samples - delay]
        return echo + noise * torch.randn(echo.shape, dtype=torch.complex64, generator=generator)


class PulseDoppler(torch.nn.Module):
    """Echoes (pulses x samples) -> magnitude at each speed and distance (pulses x samples), speeds from negative on.

    groups: parts that the pulses are filtered in, and the distances are transformed in; they can run side by side.
    """

    def __init__(self, radar: Radar, groups: int = 4) -> None:
        super().__init__()
        self.radar, self.groups = radar, groups
        self.points = 1 << (radar.samples + len(radar.chirp()) - 1).bit_length()
        self.register_buffer("reference", torch.fft.fft(radar.chirp(), n=self.points).conj().resolve_conj())
        window = torch.hamming_window(radar.pulses, periodic=False)
        signs = 1.0 - 2.0 * (torch.arange(radar.pulses) % 2)  # which puts speed 0 in the middle
        self.register_buffer("window", (window * signs)[:, None])

    def forward(self, echoes: Tensor) -> Tensor:
        reference, window = self.get_buffer("reference"), self.get_buffer("window")
        filtered = []
        for part in echoes.chunk(self.groups):
            spectrum = torch.fft.fft(part, n=self.points)
            filtered.append(torch.fft.ifft(spectrum * reference)[:, : self.radar.samples])
        ranges = torch.cat(filtered) * window
        powers = []
        for part in ranges.chunk(self.groups, 1):
            powers.append(torch.fft.fft(part, dim=0).abs())
        return torch.cat(powers, 1)


def target(radar: Radar, power: Tensor) -> tuple[float, float]:
    """Distance (m) and speed (m/s) of the strongest echo."""
    row, column = divmod(int(power.argmax()), power.shape[1])
    return column * radar.range_bin, (row - radar.pulses // 2) * radar.speed_bin


def example() -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
    radar = Radar()
    return PulseDoppler(radar).eval(), (radar.echoes(distance=2000.0, speed=40.0),)
