"""Speech classification: which of ten words is in half a second of audio, by M5's kind of network on raw samples.

After W. Dai et al., "Very deep convolutional neural networks for raw waveforms" (2017): a first layer of long filters,
then layers of three taps, each with a ReLU and a pooling of four. Words are generated: sequences of vowels, rows of
pulses through two resonances (formants), with pitch, speed, level and noise of their own. The first layer's filters are
a bank of band-passes, the others are random; the last layer is fitted (readout.py).
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from examples.soc.workloads.readout import one_thread, ridge, scaled

SAMPLING, SAMPLES = 8000, 4096

VOWELS = {"a": (730, 1090), "e": (530, 1840), "i": (270, 2290), "o": (570, 840), "u": (300, 870)}
"""Formants in Hz, as G. E. Peterson and H. L. Barney measured them (1952)."""

WORDS = ("ai", "ia", "au", "ua", "ei", "ie", "oa", "ao", "iu", "eo")


def say(word: str, generator: torch.Generator, noise: float = 0.05) -> Tensor:
    """A word as `SAMPLES` samples: its vowels one after the other, spoken in some voice."""

    def some(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=generator))

    pitch, tract = some(90, 220), some(0.92, 1.08)
    length = int(SAMPLES * some(0.75, 1.0))
    start = int(some(0, SAMPLES - length + 1))
    t = torch.arange(length, dtype=torch.float64) / SAMPLING
    glottis = (t * pitch).frac() < pitch / SAMPLING  # one sample a period
    part = length // len(word)
    audio = torch.zeros(SAMPLES, dtype=torch.float64)
    time = torch.arange(256, dtype=torch.float64) / SAMPLING
    for i, vowel in enumerate(word):
        response = sum(
            torch.exp(-math.pi * 90 * time) * torch.sin(2 * math.pi * tract * formant * time)
            for formant in VOWELS[vowel]
        )
        pulses = torch.zeros(length, dtype=torch.float64)
        pulses[i * part : (i + 1) * part] = glottis[i * part : (i + 1) * part].double()
        spectrum = torch.fft.rfft(pulses, n=2 * SAMPLES) * torch.fft.rfft(torch.as_tensor(response), n=2 * SAMPLES)
        audio[start : start + length] += torch.fft.irfft(spectrum)[:length]
    audio = audio / audio.std() * some(0.5, 1.5)
    return (audio + noise * torch.randn(SAMPLES, generator=generator, dtype=torch.float64)).float()


def spoken(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Words (count x 1 x SAMPLES) and which they are."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % len(WORDS)
    return torch.stack([say(WORDS[int(label)], generator) for label in labels])[:, None], labels


class M5(torch.nn.Module):
    """Audio (batch x 1 x SAMPLES) -> scores of the words."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv1d(1, 32, 80, stride=4)
        self.second = torch.nn.Conv1d(32, 64, 3, padding=1)
        self.third = torch.nn.Conv1d(64, 64, 3, padding=1)
        self.fourth = torch.nn.Conv1d(64, 96, 3, padding=1)
        self.pool = torch.nn.MaxPool1d(4)
        self.words = torch.nn.Linear(96 * 3, len(WORDS))

    def features(self, audio: Tensor) -> Tensor:
        x = audio
        for layer in (self.first, self.second, self.third, self.fourth):
            x = self.pool(torch.relu(layer(x)))
        return x.flatten(1)

    def forward(self, audio: Tensor) -> Tensor:
        return self.words(self.features(audio))


def band_passes(count: int, taps: int) -> Tensor:
    """Filters of tones from 150 to 3500 Hz, each a window's length."""
    frequencies = torch.logspace(math.log10(150), math.log10(3500), count, dtype=torch.float64)
    t = (torch.arange(taps, dtype=torch.float64) - taps / 2) / SAMPLING
    filters = torch.cos(2 * math.pi * frequencies[:, None] * t) * torch.hann_window(taps, dtype=torch.float64)
    return (filters / filters.norm(dim=1, keepdim=True)).float()[:, None]


@lru_cache(maxsize=1)
def model() -> M5:
    """With weights that tell the words apart."""
    made = M5().eval()
    audio, labels = spoken(400, seed=1)
    generator = torch.Generator().manual_seed(2)
    with one_thread():
        made.first.weight.copy_(band_passes(32, 80))
        made.first.get_parameter("bias").zero_()
        for layer in (made.second, made.third, made.fourth):
            layer.weight.normal_(0, (layer.in_channels * 3) ** -0.5, generator=generator)
        x = audio
        for layer in (made.first, made.second, made.third, made.fourth):
            x = made.pool(torch.relu(scaled(layer, x)))
        weight, bias = ridge(x.flatten(1), torch.nn.functional.one_hot(labels, len(WORDS)).float(), 0.1)
        made.words.weight.copy_(weight)
        made.words.bias.copy_(bias)
    return made


def example() -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
    return model(), (spoken(1, seed=7)[0],)
