"""A transmitter of IEEE 802.11a (clause 17 of the standard): from the octets of a frame to the samples of a packet.

Scrambler, convolutional code with puncturing, interleaver, QPSK or 16-QAM, pilots, 64-point IFFT, cyclic prefix, with
the preamble in front. `tests/workloads/test_workloads.py` holds it against the example of the standard's Annex G.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

POLYNOMIALS = (0o133, 0o171)
"""Of the convolutional code of rate 1/2, constraint length 7."""

DATA_CARRIERS = tuple(k for k in range(-26, 27) if k not in (-21, -7, 0, 7, 21))
PILOT_CARRIERS, PILOTS = (-21, -7, 7, 21), (1, 1, 1, -1)


@dataclass(frozen=True)
class Rate:
    """bits: coded ones of a carrier; keep: which of the code's bits are sent, a pattern that repeats; signal: RATE."""

    bits: int
    keep: tuple[int, ...]
    signal: tuple[int, int, int, int]

    @property
    def data_bits(self) -> int:
        """Of a symbol, before the code."""
        return 48 * self.bits * len(self.keep) // (2 * sum(self.keep))


RATES = {
    6: Rate(1, (1, 1), (1, 1, 0, 1)),
    12: Rate(2, (1, 1), (0, 1, 0, 1)),
    24: Rate(4, (1, 1), (1, 0, 0, 1)),
    36: Rate(4, (1, 1, 1, 0, 0, 1), (1, 0, 1, 1)),
}
"""By Mbit/s."""


@lru_cache
def scrambling(count: int, state: int = 0b1011101) -> Tensor:
    """The first bits of the scrambler x^7 + x^4 + 1."""
    bits = []
    for _ in range(count):
        bit = (state >> 6 ^ state >> 3) & 1
        state = (state << 1 | bit) & 0x7F
        bits.append(bit)
    return torch.tensor(bits, dtype=torch.float32)


def interleaving(rate: Rate) -> Tensor:
    """Of a symbol's bits in the order in which they are sent, which coded bit each is (17.3.5.6)."""
    count, s = 48 * rate.bits, max(rate.bits // 2, 1)
    source = torch.empty(count, dtype=torch.long)
    for k in range(count):
        i = (count // 16) * (k % 16) + k // 16
        j = s * (i // s) + (i + count - 16 * i // count) % s
        source[j] = k
    return source


def bits_of(octets: bytes) -> Tensor:
    """Their bits as numbers 0 and 1, the lowest bit of an octet first."""
    return torch.tensor([octet >> i & 1 for octet in octets for i in range(8)], dtype=torch.float32)


def signal_bits(rate: Rate, octets: int) -> Tensor:
    """The SIGNAL field: rate, length, parity, tail."""
    bits = [*rate.signal, 0, *(octets >> i & 1 for i in range(12))]
    return torch.tensor([*bits, sum(bits) % 2, *[0] * 6], dtype=torch.float32)


def _periodic(carriers: dict[int, complex], scale: float = 1.0) -> Tensor:
    spectrum = torch.zeros(64, dtype=torch.complex128)
    for carrier, number in carriers.items():
        spectrum[carrier % 64] += scale * torch.tensor(number)
    return torch.fft.ifft(spectrum)


def preamble() -> Tensor:
    """Ten short training symbols and two long ones, a sample more, overlapped as symbols are."""
    up = (-24, -16, -4, 12, 16, 20, 24)
    down = (-20, -12, -8, 4, 8)
    short = _periodic({k: (1 + 1j if k in up else -1 - 1j) for k in (*up, *down)}, math.sqrt(13 / 6))
    signs = (
        "++--++-+-++++++--++-+-++++"  # carriers -26 to -1
        "+--++-+-+-----++--+-+-++++"  # 1 to 26
    )
    carriers = [k for k in range(-26, 27) if k]
    long = _periodic({k: 1.0 if sign == "+" else -1.0 for k, sign in zip(carriers, signs, strict=True)})
    first = torch.cat([short, short, short[:33]])
    second = torch.cat([long[32:], long, long, long[:1]])
    first, second = (part * _edges(161) for part in (first, second))
    return torch.cat([first[:160], first[160:] + second[:1], second[1:]]).to(torch.complex64)


def _edges(samples: int) -> Tensor:
    """Half at the first sample and at the last, which lies on the next symbol's first."""
    window = torch.ones(samples, dtype=torch.float64)
    window[0] = window[-1] = 0.5
    return window


class Coder(torch.nn.Module):
    """Bits (n,) of whole symbols -> coded and interleaved bits (symbols x 48 bits of a carrier), all of them 0 or 1."""

    def __init__(self, rate: Rate, symbols: int) -> None:
        super().__init__()
        self.rate, self.symbols = rate, symbols
        taps = [[polynomial >> i & 1 for i in range(7)] for polynomial in POLYNOMIALS]  # the newest bit is the highest
        self.register_buffer("taps", torch.tensor(taps, dtype=torch.float32)[:, None])
        sent = torch.tensor(rate.keep * (2 * rate.data_bits * symbols // len(rate.keep))).nonzero().flatten()
        order = interleaving(rate) + torch.arange(symbols)[:, None] * 48 * rate.bits
        self.register_buffer("order", sent[order])

    def coded(self, bits: Tensor) -> Tensor:
        """The code of rate 1/2: pairs of bits."""
        sums = torch.nn.functional.conv1d(torch.nn.functional.pad(bits[None, None], (6, 0)), self.get_buffer("taps"))
        return torch.remainder(sums[0].t().reshape(-1), 2.0)

    def forward(self, bits: Tensor) -> Tensor:
        return self.coded(bits)[self.get_buffer("order")]


class Modulator(torch.nn.Module):
    """Interleaved bits (symbols x n) -> samples with prefix and overlap (symbols x 80, and the last symbol's last one).

    first: the number of the first symbol, which the pilots' sign depends on.
    """

    def __init__(self, rate: Rate, symbols: int, first: int) -> None:
        super().__init__()
        self.rate, self.symbols = rate, symbols
        polarity = 1 - 2 * scrambling(127 + first + symbols, 0x7F)[first : first + symbols]
        self.register_buffer("pilots", polarity[:, None] * torch.tensor(PILOTS, dtype=torch.float32))
        places = {carrier: i for i, carrier in enumerate((*DATA_CARRIERS, *PILOT_CARRIERS))}
        where = [places.get(k if k < 32 else k - 64, 52) for k in range(64)]
        self.register_buffer("where", torch.tensor(where))
        self.register_buffer("edges", _edges(81).float())

    def levels(self, bits: Tensor) -> tuple[Tensor, Tensor]:
        """Real and imaginary parts of a symbol's carriers."""
        groups = bits.reshape(self.symbols, 48, self.rate.bits)
        signs = 2 * groups - 1
        if self.rate.bits == 1:
            return signs[..., 0], torch.zeros_like(signs[..., 0])
        if self.rate.bits == 2:
            return signs[..., 0] * math.sqrt(0.5), signs[..., 1] * math.sqrt(0.5)
        inner = 3 - 2 * groups
        scale = math.sqrt(0.1)
        return signs[..., 0] * inner[..., 1] * scale, signs[..., 2] * inner[..., 3] * scale

    def carriers(self, bits: Tensor) -> Tensor:
        """The spectrum of each symbol, symbols x 64."""
        re, im = self.levels(bits)
        pilots = self.get_buffer("pilots")
        nothing, where = torch.zeros_like(re[:, :1]), self.get_buffer("where")
        real = torch.cat([re, pilots, nothing], 1)[:, where]
        imaginary = torch.cat([im, torch.zeros_like(pilots), nothing], 1)[:, where]
        return torch.complex(real, imaginary)

    def forward(self, bits: Tensor) -> Tensor:
        samples = torch.fft.ifft(self.carriers(bits))
        return torch.cat([samples[:, 48:], samples, samples[:, :1]], 1) * self.get_buffer("edges")


class Transmitter(torch.nn.Module):
    """The bits of a frame (8 x octets,) -> the samples of its packet, at 20 MHz.

    parts: in how many groups symbols are modulated; they can run side by side.
    """

    def __init__(self, mbits: int = 36, octets: int = 100, parts: int = 2) -> None:
        super().__init__()
        rate = RATES[mbits]
        self.octets = octets
        self.symbols = -(-(16 + 8 * octets + 6) // rate.data_bits)
        self.padding = self.symbols * rate.data_bits - 16 - 8 * octets
        tail = torch.ones(self.symbols * rate.data_bits)
        tail[16 + 8 * octets : 22 + 8 * octets] = 0  # the tail's bits are not scrambled
        self.register_buffer("scrambling", scrambling(len(tail)) * tail)
        self.coder = Coder(rate, self.symbols)
        self.sizes = [len(part) for part in torch.arange(self.symbols).chunk(parts)]
        starts = [sum(self.sizes[:i]) for i in range(len(self.sizes))]
        modulators = [Modulator(rate, n, 1 + at) for n, at in zip(self.sizes, starts, strict=True)]
        self.modulators = torch.nn.ModuleList(modulators)
        head = Modulator(RATES[6], 1, 0)(Coder(RATES[6], 1)(signal_bits(rate, octets)))[0]
        start = preamble()
        self.register_buffer("head", torch.cat([start[:320], start[320:] + head[:1], head[1:]]))

    def scrambled(self, bits: Tensor) -> Tensor:
        """Service field, frame, tail and padding, scrambled."""
        whole = torch.nn.functional.pad(bits, (16, self.padding))
        return torch.remainder(whole + self.get_buffer("scrambling"), 2.0)

    def forward(self, bits: Tensor) -> Tensor:
        groups = self.coder(self.scrambled(bits)).split(self.sizes)
        rows = torch.cat([modulate(part) for modulate, part in zip(self.modulators, groups, strict=True)])
        head = self.get_buffer("head")
        before = torch.cat([head[400:], rows[:-1, 80]])
        firsts = (rows[:, 0] + before)[:, None]
        body = torch.cat([firsts, rows[:, 1:80]], 1).reshape(-1)
        return torch.cat([head[:400], body, rows[-1, 80:]])


FRAME = bytes.fromhex("0402002e006008cd37a60020d6013cf1006008ad3baf0000") + (
    b"Joy, bright spark of divinity,\nDaughter of Elysium,\nFire-insired we trea" + bytes.fromhex("673321b6")
)
"""The frame of Annex G: a header, text of 72 octets and their CRC."""


def example() -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
    return Transmitter().eval(), (bits_of(FRAME),)
