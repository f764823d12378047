"""Memories: how many block RAMs, UltraRAMs or LUTs an array of words takes.

Shapes of a RAM: UG573 (UltraScale Architecture Memory Resources). Which kind Vitis HLS chooses where the source names
none,
and how it rounds, is read off the "Memory" tables of published reports: `RULES` says which ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..hls.resources import Resources

# Words and bits of a RAMB18 (UG573, table "Block RAM port aspect ratios"); 512 x 36 is its simple dual-port shape.
_RAMB18 = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
_RAMB18_WORDS = _RAMB18[-1][0]
# Words and bits of an URAM288 (UG573); there is no other shape.
URAM_WORDS, URAM_BITS = 4096, 72
_LUT_WORDS = 64  # of a LUT as a single-port RAM (UG574)

RULES = """
Up to 2,048 bits: LUTs. 64 x 32 and 256 x 8 come as LUTs, 512 x 8 and 256 x 32 as block RAM
  (Crazy-James26/HeteroCL_Transformer, Vitis HLS 2022.1; LmDeng0/CryptoHLS, 2021.1).
Depths count as the next power of two. 9,216 x 32 takes 32 RAMB18, 36,864 x 24 takes 96 (HeteroCL_Transformer, 2022.1).
LUT RAM: one LUT a bit and 64 words, and a register a bit of the output. 256 x 8: 33 LUT, 8 FF (CryptoHLS, 2021.1).
URAM on its own accord: words that fill it (64 to 72 bits) deeper than 1,024, but for arrays of more than 32,768 words:
  inferred from designs of ForgeHLS that keep 2,000 and 4,096 doubles in no block RAM.
"""
LUTRAM_BITS = 2048
_URAM_LEAST_BITS, _URAM_LEAST_WORDS, _URAM_MOST_WORDS = 64, 1025, 32768


@dataclass(frozen=True)
class Memory:
    """One memory. storage: "lutram", "bram", "uram", or None where Vitis HLS chooses."""

    bits: int
    words: int
    storage: str | None = None


def bram18(bits: int, words: int) -> int:
    """RAMB18s of a memory, depth rounded up to a power of two as Vitis HLS does."""
    if bits < 1 or words < 1:
        return 0
    depth = 1 << (words - 1).bit_length()
    for most, width in _RAMB18:
        if depth <= most:
            return -(-bits // width)
    return bits * (depth // _RAMB18_WORDS)


def uram(bits: int, words: int) -> int:
    return -(-bits // URAM_BITS) * -(-words // URAM_WORDS)


def lutram(bits: int, words: int) -> Resources:
    depth = 1 << max(0, words - 1).bit_length()
    return Resources(lut=math.ceil(depth / _LUT_WORDS) * bits + 1, ff=bits)


def chosen(bits: int, words: int, has_uram: bool) -> str:
    """What Vitis HLS takes for a memory whose storage the source does not name."""
    if bits * words <= LUTRAM_BITS:
        return "lutram"
    fills = bits % URAM_BITS == 0 or bits % URAM_BITS >= _URAM_LEAST_BITS
    if has_uram and fills and _URAM_LEAST_WORDS <= words <= _URAM_MOST_WORDS:
        return "uram"
    return "bram"


def cost(memory: Memory, *, has_uram: bool = True) -> Resources:
    """What one memory takes. has_uram: whether the device has any."""
    if memory.bits < 1 or memory.words < 1:
        return Resources()
    storage = memory.storage or chosen(memory.bits, memory.words, has_uram)
    if storage == "lutram":
        return lutram(memory.bits, memory.words)
    if storage == "uram":
        return Resources(uram=uram(memory.bits, memory.words))
    return Resources(bram36=bram18(memory.bits, memory.words) / 2)
