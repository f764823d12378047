"""Functions without effects become operators where a kernel would have too many loops with everything inlined."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from xclbin_build.check import inlining
from xclbin_build.check.loops import Check, Loop
from xclbin_build.hls import frontend, pure
from xclbin_build.hls.clang import SourceError
from xclbin_build.hls.processes import Process
from xclbin_build.hls.translation import Compiled, compile_sources

SOURCE = """
    #include <hls_vector.h>
    typedef hls::vector<float, 16> vec16;
    float table[64];

    vec16 largest(const vec16& a, const vec16& b) {
        vec16 r;
        for (int i = 0; i < 16; i++) {
    #pragma HLS unroll
            r[i] = a[i] > b[i] ? a[i] : b[i];
        }
        return r;
    }
    vec16 cube(const vec16& x) {  // five loops
        return largest(x, x * x * x + x * x);
    }
    void in_place(vec16& x) { x = cube(x); }
    vec16 with_memory(const vec16& x) {  // as many loops, but the table may change
        return largest(cube(x), vec16(table[0]));
    }
    extern "C" void top(const vec16* in, vec16* out, int kind, float start) {
    #pragma HLS interface m_axi port = in bundle = a
    #pragma HLS interface m_axi port = out bundle = b
        table[0] = start;
    plain:
        for (int i = 0; i < 64; i++) {
    #pragma HLS pipeline II = 1
            out[i] = cube(in[i]);
        }
        vec16 sum(start);
    carried:
        for (int i = 0; i < 64; i++) {
    #pragma HLS pipeline II = 1
            sum = cube(sum + in[i]);
        }
        out[64] = with_memory(sum);
        in_place(sum);
        out[65] = sum;
    }
"""


KINDS = """
    #include <hls_vector.h>
    typedef hls::vector<float, 16> vec16;
    vec16 of_kind(const vec16& x, int kind) {
        vec16 y = x;
        if (kind == 1)
            for (int n = 0; n < 4; n++) {
    #pragma HLS unroll
                y *= y + x;
            }
        return kind == 0 ? -y : y - x * x / x;
    }
    extern "C" void top(const vec16* in, vec16* out) {
    #pragma HLS interface m_axi port = in bundle = a
    #pragma HLS interface m_axi port = out bundle = b
    negated:
        for (int i = 0; i < 64; i++) out[i] = of_kind(in[i], 0);
    powers:
        for (int i = 64; i < 128; i++) out[i] = of_kind(in[i], 1);
    }
"""


@pytest.fixture
def unit(tmp_path: Path) -> Compiled:
    path = tmp_path / "kernel.cpp"
    path.write_text(textwrap.dedent(SOURCE))
    return compile_sources(path)


def checked(unit: Compiled) -> Check:
    return inlining.check_function(unit, Process("top"), clock_ns=10 / 3, part="", memories=False, inferred=False)


def named(check: Check) -> dict[str, Loop]:
    return {loop.name: loop for loop in check.loops}


def test_only_functions_without_effects_are_found(unit: Compiled) -> None:
    found = {one.symbol: one for one in pure.find(unit.raw, "top", pure.Calls(unit.raw))}
    (cube,) = found.values()
    assert "cube" in cube.symbol
    assert cube.operands == (("[16 x i32]", True),)
    assert cube.by_reference


def test_a_function_with_its_callees_is_a_module_of_its_own(unit: Compiled) -> None:
    calls = pure.Calls(unit.raw)
    (cube,) = pure.find(unit.raw, "top", calls)
    alone = pure.Calls(pure.with_constants(unit.reached_from(cube.symbol), cube))
    assert set(alone.loops) == {cube.symbol, *calls.order(cube.symbol)}
    assert alone.inlined(cube.symbol) == calls.inlined(cube.symbol) == 5


def test_constant_integers_make_operators_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlining, "MOST_INLINED", 1)
    path = tmp_path / "kernel.cpp"
    path.write_text(textwrap.dedent(KINDS))
    unit = compile_sources(path)
    found = pure.find(unit.raw, "top", pure.Calls(unit.raw))
    assert [one.constants for one in found] == [((1, "0"),), ((1, "1"),)]
    loops = named(checked(unit))
    assert loops["negated"].ii == loops["powers"].ii == 1
    assert loops["powers"].depth > loops["negated"].depth + 20  # four products


def test_operators_leave_the_intervals_as_they_are(unit: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    inlined = named(checked(unit))
    monkeypatch.setattr(inlining, "MOST_INLINED", 3)
    apart = checked(unit)
    loops = named(apart)
    assert loops.keys() == inlined.keys()
    for name in ("plain", "carried"):
        # What is carried through a function waits for its last cycle to end, in which another operator may begin.
        assert (loops[name].ii or 0) - (inlined[name].ii or 0) in ((0, 1) if name == "carried" else (0,))
        assert abs(loops[name].depth - inlined[name].depth) <= 1
    assert loops["plain"].ii == 1
    assert loops["carried"].ii is not None and loops["carried"].ii > 10
    assert "cube" in loops["carried"].limit
    assert any(word.startswith("fmul") for word in apart.sources)  # the operators of the function are cited


def test_what_is_too_large_even_then_is_refused(unit: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlining, "MOST_INLINED", 3)
    monkeypatch.setattr(frontend, "MOST_LOOPS", 5)
    with pytest.raises(SourceError, match="at most 5 are supported"):
        checked(unit)
