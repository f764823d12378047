"""Mistakes in our own kernels that cost cycles and no emulator would show: each changes what the checker says.

That the loops have an interval of 1 without them is held by test_contracts.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hls_kernels import ENGINE
from tests.marks import EXTENDED
from xclbin_build.build import load_design
from xclbin_build.check import run
from xclbin_build.check.loops import Loop
from xclbin_build.check.run import check_design, check_source
from xclbin_build.generate import stage

# file of the engine, process, loop, what stands there, the mistake, what then limits the loop
ENGINES = {
    "a partition dropped": (
        "feed.hpp", "feed", "feed_steps", "#pragma HLS array_partition variable = window.bank dim = 1 complete\n", "",
        "memory", "window"),
    "registers become a memory": (
        "load_weights.hpp", "load_weights", "map_beats", "#pragma HLS array_partition variable = queue complete\n", "",
        "memory", "queue"),
    "a second read of one port": (
        "load_weights.hpp", "load_weights", "packed_lines", "write_beat(weights, port.read(), block, address, bank);",
        "write_beat(weights, port.read(), block, address, bank); port.read();", "stream", "2 values per stream"),
}  # fmt: skip

# The reduction of gemm and conv2d (lib/mac), for a small tile; ARRAY stands before the call.
REDUCTION = """
#include "lib/mac/accumulate.hpp"
using namespace fpga;
extern "C" void top(const float* a, const vec16* b, vec16* out, int depth, int pitch) {
#pragma HLS interface m_axi port = a bundle = gmem0
#pragma HLS interface m_axi port = b bundle = gmem1
#pragma HLS interface m_axi port = out bundle = gmem2
    float slab[1024];
    vec16 weight[2048];
    uint32_t offset[512];
#pragma HLS array_partition variable = weight cyclic factor = 4
    for (int i = 0; i < 1024; i++) slab[i] = a[i];
    for (int i = 0; i < 2048; i++) weight[i] = b[i];
    for (int i = 0; i < 512; i++) offset[i] = i;
    vec16 sum[2][4];
#pragma HLS array_partition variable = sum complete dim = 0
    const uint32_t row[2] = {0, 512};
    mac_step step = {};
    step.depth = depth;
    step.pitch = PITCH;
    accumulate<2, 4, true>(sum, slab, row, offset, weight, step, {});
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) out[4 * i + j] = sum[i][j];
}
"""


def loop_of(parts: list[run.CheckedPart], name: str) -> Loop:
    """The slowest of that name."""
    loops = [loop for part in parts if part.check for loop in part.check.loops if loop.name == name]
    assert loops, [part.note for part in parts]
    return max(loops, key=lambda loop: loop.ii or 0)


@pytest.mark.parametrize(
    "mistake", [pytest.param(name, marks=() if name == "a partition dropped" else EXTENDED) for name in ENGINES]
)
def test_a_mistake_in_the_engine_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file, process, name, there, wrong, kind, words = ENGINES[mistake]
    design = load_design("engine-kv260", {}, "kv260")

    def with_mistake(files: Any, folder: Path) -> None:
        stage(files, folder)
        (path,) = folder.rglob(file)
        text = path.read_text()
        assert text.count(there) == 1
        path.write_text(text.replace(there, wrong))

    monkeypatch.setattr(run, "stage", with_mistake)
    found = loop_of(check_design(design, [process]).parts, name)
    assert (found.ii or 0) > 1 and found.kind == kind and words in found.limit


@pytest.mark.parametrize(
    ("mistake", "pitch", "ii", "kind"),
    [(None, "64", 1, ""), (("constexpr int PHASES = 8", "constexpr int PHASES = 4"), "64", 2, "recurrence"),
     (None, "pitch", 2, "memory")],
    ids=["as it is", "PHASES halved", "the pitch a run-time value"],
)  # fmt: skip
def test_mistakes_in_the_reduction_are_found(
    mistake: tuple[str, str] | None, pitch: str, ii: int, kind: str, tmp_path: Path
) -> None:
    root = tmp_path / "hls_kernels"
    shutil.copytree(ENGINE.parent / "lib", root / "lib")
    for header in ("tiles.hpp", "command.hpp"):
        shutil.copy(ENGINE.parent / header, root)
    shutil.copytree(ENGINE.parent / "cores", root / "cores", ignore=shutil.ignore_patterns("*.cpp", "*.md"))
    if mistake:
        path = root / "lib/mac/accumulate.hpp"
        text = path.read_text()
        assert text.count(mistake[0]) == 1
        path.write_text(text.replace(*mistake).replace("inter true distance = 8", "inter true distance = 4"))
    path = tmp_path / "top.cpp"
    path.write_text(REDUCTION.replace("PITCH", pitch))
    (part,) = check_source(path, "top", includes=[str(root)], part="xcu250-figd2104-2L-e")
    assert part.check is not None, part.note
    found = loop_of([part], "reduction")
    assert (found.ii, found.kind) == (ii, kind), found.limit
