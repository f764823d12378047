"""Memories: shapes of RAMs, and what Vitis HLS takes where the source names none. Figures are those of published
reports."""

from __future__ import annotations

import pytest

from xclbin_build.estimate.memories import Memory, bram18, chosen, cost, uram


@pytest.mark.parametrize(
    ("bits", "words", "count"),
    [
        # "Memory" tables of Crazy-James26/HeteroCL_Transformer (Vitis HLS 2022.1.2) and of Marui-9/swiglu (2025.1).
        (32, 512, 1), (8, 768, 1), (22, 768, 2), (8, 3072, 2), (22, 3072, 6), (32, 3072, 8), (32, 9216, 32),
        (24, 9216, 24), (24, 36864, 96), (32, 36864, 128), (32, 2048, 4), (128, 9, 4), (8, 8192, 4),
        # ForgeHLS: a float array of 1024 x 1024 takes 2,048.
        (32, 1 << 20, 2048),
    ],
)  # fmt: skip
def test_block_rams_are_those_of_reports(bits: int, words: int, count: int) -> None:
    assert bram18(bits, words) == count


def test_an_uram_is_4096_words_of_72_bits() -> None:
    assert [uram(72, 4096), uram(73, 4096), uram(72, 4097), uram(2048, 4096)] == [1, 2, 2, 29]


@pytest.mark.parametrize(
    ("bits", "words", "has_uram", "storage"),
    [
        (32, 64, True, "lutram"), (8, 256, True, "lutram"), (8, 512, True, "bram"), (32, 256, True, "bram"),
        (64, 4096, True, "uram"), (64, 1024, True, "bram"), (64, 4096, False, "bram"), (32, 4096, True, "bram"),
    ],
)  # fmt: skip
def test_storage_that_the_source_leaves_open(bits: int, words: int, has_uram: bool, storage: str) -> None:
    assert chosen(bits, words, has_uram) == storage


def test_storage_that_the_source_names() -> None:
    assert cost(Memory(32, 64, "bram")).bram36 == 0.5
    assert cost(Memory(8, 512, "uram")).uram == 1
    luts = cost(Memory(8, 256))  # 33 LUTs and 8 registers: LmDeng0/CryptoHLS, Vitis HLS 2021.1
    assert (luts.lut, luts.ff, luts.bram36) == (33, 8, 0)
    assert cost(Memory(0, 64)).values() == (0, 0, 0, 0, 0)
