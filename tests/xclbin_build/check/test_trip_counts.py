"""Loops of the engine whose bound is not a constant state the range of their trip counts for Vitis' reports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xclbin_build.build import load_design
from xclbin_build.generate import hls_sources, stage
from xclbin_build.hls import clang
from xclbin_build.hls.source import MarkedSource, SourceLoop, read

pytestmark = pytest.mark.skipif(not clang.available(), reason="clang 19 is not installed")

CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*|\d\w*|[^\w\s]+")
"""A token of a constant expression: a constant's name, a number or an operator."""


def without_trip_count(source: MarkedSource, folder: Path) -> list[str]:
    """Loops of the files in `folder` that neither unroll nor have constant bounds, and that lack `loop_tripcount`."""
    found = []
    for loop in source.loops.values():
        pragmas = {source.pragmas[number].kind for number in loop.pragmas}
        known = pragmas & {"unroll", "loop_tripcount"} or unrolls(source, loop) or has_constant_bound(loop)
        if Path(loop.file).is_relative_to(folder) and not known:
            found.append(f"{Path(loop.file).name}:{loop.line}: {loop.name}")
    return found


def unrolls(source: MarkedSource, loop: SourceLoop) -> bool:
    """Whether a loop around it is pipelined or unrolled, so that its bound must be a constant."""
    while loop.parent is not None:
        loop = source.loops[loop.parent]
        if {source.pragmas[number].kind for number in loop.pragmas} & {"pipeline", "unroll"}:
            return True
    return False


def has_constant_bound(loop: SourceLoop) -> bool:
    """Whether a `for` counts a variable, the first token of its condition, by constants between constants."""
    if len(loop.head) != 3 or "=" not in loop.head[0]:
        return False
    first, condition, step = loop.head
    counted = (*first[first.index("=") + 1 :], *condition, *step)
    return all(token == condition[0] or CONSTANT.fullmatch(token) for token in counted)


@pytest.mark.parametrize("recipe, platform", [
    ("engine-kv260", "kv260"), ("engine-u250-bf16", "u250"), ("engine-u250-fp32", "u250"), ("engine-u250-4cu", "u250"),
])  # fmt: skip
def test_loops_of_the_engine_have_trip_counts(recipe: str, platform: str, tmp_path: Path) -> None:
    design = load_design(recipe, {}, platform)
    stage(hls_sources(design, built_here=False), tmp_path)
    kernel = next(one.name for one in design.kernels if one.engine)
    source = read(tmp_path / f"{kernel}.cpp", includes=[str(tmp_path), str(tmp_path / "lib")], defines=[])
    folder = tmp_path / "engine"
    assert sum(Path(loop.file).is_relative_to(folder) for loop in source.loops.values()) > 50
    assert not without_trip_count(source, folder)


@pytest.mark.parametrize("loop, complete", [
    ("for (int i = 0; i < N; i++) f();", True),
    ("for (int i = 0; i < 2 * N; i++) f();", True),
    ("for (int i = 0; i < n; i++) f();", False),
    ("for (int i = 0; i < N && n; i++) f();", False),
    ("for (int i = n; i < N; i++) f();", False),
    ("for (int i = 0; i < N; i += n) f();", False),
    ("for (; n > 0; n--) f();", False),
    ("while (n > 0) n--;", False),
    ("while (n) f();", False),
    ("do f(); while (n);", False),
    ("for (int i = 0; i < n; i++) {\n#pragma HLS loop_tripcount min = 1 max = 9\nf(); }", True),
    ("for (int i = 0; i < n; i++) {\n#pragma HLS unroll\nf(); }", True),
    ("for (int i = 0; i < N; i++) {\n#pragma HLS pipeline\nfor (int j = 0; j < i; j++) f(); }", True),
    ("for (int i = 0; i < N; i++) {\nfor (int j = 0; j < i; j++) f(); }", False),
])  # fmt: skip
def test_a_loop_without_a_trip_count_is_found(loop: str, complete: bool, tmp_path: Path) -> None:
    path = tmp_path / "loops.cpp"
    path.write_text(f"constexpr int N = 4;\nvoid f();\nvoid top(int n) {{\n{loop}\n}}\n")
    assert bool(without_trip_count(read(path, includes=[], defines=[]), tmp_path)) is not complete
