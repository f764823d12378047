"""Loops around many loops are hidden from LLVM while those unroll; what is found stays the same."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from xclbin_build.check.loops import Check, check
from xclbin_build.hls import loop_hiding

from .conftest import Load

TILES = """
    extern "C" void top(const float* in, float* out, int tiles) {
    #pragma HLS interface m_axi port = in bundle = a
    #pragma HLS interface m_axi port = out bundle = b
        float sums[8], rows[8][32];
        int total = 0;
    tiles:
        for (int t = 0; t < tiles; t++) {
        lanes:
            for (int i = 0; i < 8; i++) {
    #pragma HLS unroll
                sums[i] = t * 0.5f;
            }
        rows:
            for (int r = 0; r < 64; r++) {
            copy:
                for (int i = 0; i < 32; i++) {
    #pragma HLS pipeline II = 1
                    rows[r & 7][i] = in[(t * 64 + r) * 32 + i];
                }
            add:
                for (int i = 0; i < 32; i++) {
    #pragma HLS pipeline II = 1
                    sums[0] += rows[r & 7][i];
                    total += i & t;
                }
            }
        write:
            for (int i = 0; i < 8; i++) {
    #pragma HLS pipeline II = 1
                out[t * 8 + i] = sums[i] + total;
            }
        }
    }
"""


def found(load: Load) -> Check:
    """What is found, without what LLVM calls blocks, and how it orders instructions."""
    result = check(load(TILES))
    return replace(
        result,
        loops=[
            replace(loop, header="", bursts=[replace(burst, indices=()) for burst in loop.bursts])
            for loop in result.loops
        ],
    )


def test_what_is_found_stays_the_same(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals, depths, trip counts and bursts, those of the hidden loops included."""
    expected = found(load)
    monkeypatch.setattr(loop_hiding, "LEAST", 2)
    assert loop_hiding.hide_loops(load(TILES).module.text, "top").count("call i1 @__hls_hidden") == 2
    assert found(load) == expected
    assert {loop.name for loop in expected.loops} >= {"tiles", "rows", "copy", "add", "write"}
    assert [loop.kind for loop in expected.loops if loop.name == "add"] == ["recurrence"]


def test_what_is_hidden_can_be_shown_again(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_hiding, "LEAST", 2)
    text = load(TILES).module.text
    back = loop_hiding.restore_loops(loop_hiding.hide_loops(text, "top"))
    assert "poison" not in back and "call i1 @__hls_hidden" not in back
    assert back.count(" = phi ") > text.count(" = phi ")  # the latch's, of one way each
    assert len(re.findall(r"^hls\.hidden\.latch\.\d+:", back, re.M)) == 2


def test_few_loops_are_left_as_they_are(load: Load) -> None:
    text = load(TILES).module.text
    assert loop_hiding.hide_loops(text, "top") is text
