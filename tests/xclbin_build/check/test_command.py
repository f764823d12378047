"""`xclbin-build check`: sources, contracts, dataflow regions, JSON, and what it says of wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xclbin_build import qor
from xclbin_build.check import loops, uncertainty
from xclbin_build.check.run import Checked, check_source
from xclbin_build.cli import main

SUM = """
extern "C" void top(const float* x, float* out) {
#pragma HLS interface m_axi port = x
#pragma HLS interface m_axi port = out
    float sum = 0;
adds:
    for (int i = 0; i < 64; i++) {
#pragma HLS pipeline
        sum += x[i];
    }
    out[0] = sum;
}
"""
REGION = """
#include <hls_stream.h>
static void load(const int* in, hls::stream<int>& out) {
read:
    for (int i = 0; i < 64; i++) out.write(in[i]);
}
static void twice(hls::stream<int>& in, hls::stream<int>& out) {
pairs:
    for (int i = 0; i < 32; i++) {
#pragma HLS pipeline II = 1
        out.write(in.read() + in.read());
    }
}
static void region(const int* in, int* out) {
#pragma HLS inline
    hls::stream<int> a, b;
    load(in, a);
    twice(a, b);
    for (int i = 0; i < 32; i++) out[i] = b.read();
}
extern "C" void top(const int* in, int* out) {
#pragma HLS dataflow
    region(in, out);
}
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "top.cpp"
    path.write_text(SUM)
    return path


def test_a_contract_beside_the_source_decides(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(kernel)]) == 0  # its pragma asks for no interval
    contract = kernel.parent / "qor.toml"
    contract.write_text('[loop.adds]\nii = 4\ndepth = 9\nwhy = "hoped for"\n')
    capsys.readouterr()
    assert main(["check", str(kernel), "--json"]) == 1
    words = json.loads(capsys.readouterr().out)
    (miss,) = words["misses"]
    assert (miss["loop"], miss["ii"], miss["asked"], miss["by"]) == ("adds", 6, 4, "contract")
    assert words["passes"] is False
    (part,) = words["parts"]
    assert part["loops"][0]["limited_by"] == "recurrence" and "xcu" in part["operators"]["fadd"]
    contract.write_text(contract.read_text().replace("ii = 4", "ii = 6"))
    assert main(["check", str(kernel)]) == 0


def test_the_clock_is_the_platforms(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(kernel), "--clock", "10", "--json"]) == 0
    slow = json.loads(capsys.readouterr().out)["parts"][0]
    assert main(["check", str(kernel), "--platform", "u250", "--json"]) == 0
    fast = json.loads(capsys.readouterr().out)["parts"][0]
    assert (slow["clock_ns"], fast["clock_ns"]) == (10.0, 3.333)
    assert slow["loops"][0]["ii"] < fast["loops"][0]["ii"]


def test_processes_of_a_region_are_checked_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "region.cpp"
    path.write_text(REGION)
    parts = check_source(path, "top")
    assert [part.name for part in parts] == ["load", "twice", "top"]  # the last has the region's own loop
    found = {loop.name: (loop.ii, loop.kind) for part in parts if part.check for loop in part.check.loops}
    assert found == {"read": (1, ""), "pairs": (2, "stream"), "VITIS_LOOP_19_1": (1, "")}


@pytest.mark.parametrize("command", ["check", "estimate"])
def test_a_recipe_with_macros_and_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "sizes.hpp").write_text("#define LENGTH (16 * FACTOR)\n")
    (tmp_path / "top.cpp").write_text('#include "sizes.hpp"\n' + SUM.replace("64", "LENGTH"))
    recipe = tmp_path / "my.toml"
    recipe.write_text('[kernel.top]\nsource = "top.cpp"\ninclude = ["inc"]\ndefine = ["FACTOR=4"]\n')
    main([command, "--recipe", str(recipe), "--platform", "u250", "--json"])
    said = capsys.readouterr()
    assert "FACTOR" not in said.out + said.err and "not counted" not in said.out
    document = json.loads(said.out)
    if command == "check":
        (part,) = document["parts"]
        assert part["loops"] and not part.get("note")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give a source, --recipe or --platform"),
        (["nowhere.cpp"], "source 'nowhere.cpp' does not exist"),
        (["{kernel}", "--top", "other"], "has no function 'other'; it has top"),
        (["--platform", "u251"], "u251"),
    ],
)
def test_wrong_input_is_told(
    arguments: list[str], words: str, kernel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *(word.format(kernel=kernel) for word in arguments)]) == 2
    assert words in capsys.readouterr().err.replace("\n", " ")


STRUCTURE = """
#include <hls_stream.h>
#include <hls_streamofblocks.h>
struct block_t { int low[512]; int high[512]; };
typedef hls::stream_of_blocks<block_t, 2> blocks_t;
static void fill(hls::stream<int>& in, blocks_t& blocks) {
    hls::write_lock<block_t> lock(blocks);
    block_t& block = lock;
PRAGMA
fill_pairs:
    for (int i = 0; i < 256; i++) {
#pragma HLS pipeline II = 1
        const int x = in.read();
        block.low[2 * i] = x;
        block.low[2 * i + 1] = x;
        block.high[i] = x;
    }
}
static void drain(blocks_t& blocks, hls::stream<int>& out) {
    hls::read_lock<block_t> lock(blocks);
    const block_t& block = lock;
drain_all:
    for (int i = 0; i < 512; i++) {
#pragma HLS pipeline II = 1
        if (i % 3 == 0) continue;
        out.write(block.low[i] + block.high[i]);
    }
}
void top(hls::stream<int>& in, hls::stream<int>& out) {
#pragma HLS dataflow
    blocks_t blocks;
#pragma HLS bind_storage variable = blocks type = ram_s2p impl = uram
    fill(in, blocks);
    drain(blocks, out);
}
"""


@pytest.mark.parametrize(
    ("pragma", "ii"),
    [("", 2), ("#pragma HLS array_partition variable = block.low cyclic factor = 2", 1),
     ("#pragma HLS array_partition variable = block.high cyclic factor = 2", 2),
     ("#pragma HLS array_partition variable = lock cyclic factor = 2", 1)],
)  # fmt: skip
def test_arrays_of_a_blocks_structure_have_their_own_banks(tmp_path: Path, pragma: str, ii: int) -> None:
    path = tmp_path / "top.cpp"
    path.write_text(STRUCTURE.replace("PRAGMA", pragma))
    fill, drain = check_source(path, "top")
    assert fill.check is not None and drain.check is not None
    (pairs,), (words,) = fill.check.loops, drain.check.loops
    assert pairs.ii == ii and words.ii == 1
    if ii == 2:  # the region's pragma gives the block one port to write to
        assert "0 reads and 2 writes of 'blocks.low', which supports 1 read and 1 write per cycle" in pairs.limit
    assert check_source(path, "top", only=["drain"])[0].name == "drain"


@pytest.mark.parametrize(
    ("top", "options", "ii"),
    [('extern "C" void top', [], 4), ("void top", [], 2), ("void top", ["--flow", "vitis"], 4),
     ('extern "C" void top', ["--flow", "vivado"], 2)],
)  # fmt: skip
def test_pointers_without_a_pragma_are_what_the_flow_makes_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], top: str, options: list[str], ii: int
) -> None:
    path = tmp_path / "top.cpp"
    path.write_text(f"{top}(const int x[256], int out[64]) {{\nfours:\n    for (int i = 0; i < 64; i++)\n"
                    "        out[i] = x[i] + x[i + 64] + x[i + 128] + x[i + 192];\n}\n")  # fmt: skip
    main(["check", str(path), "--json", *options])
    (loop,) = json.loads(capsys.readouterr().out)["parts"][0]["loops"]
    assert loop["ii"] == ii


def test_figures_have_error_bars_and_what_they_rest_on(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", str(kernel), "--json"])
    words = json.loads(capsys.readouterr().out)
    (part,) = words["parts"]
    (loop,) = part["loops"]
    for figure in ("ii", "depth", "latency"):
        low, high = loop[f"{figure}_bounds"]
        assert low <= loop[figure] <= high and low < high
    assert part["latency_bounds"][0] <= part["latency"] <= part["latency_bounds"][1]
    assert "449 designs" in words["bounds_rest_on"]
    main(["check", str(kernel)])
    said = capsys.readouterr().out
    assert f"{loop['ii']} [{loop['ii_bounds'][0]}-{loop['ii_bounds'][1]}]" in said
    assert "four of five public reports" in said


def test_an_interval_of_one_that_reports_confirm_has_no_band() -> None:
    assert uncertainty.of_interval(1) == (1, 1)
    assert uncertainty.of_interval(4) == (1, 6)
    assert uncertainty.of_latency(0) == (0, 0)


def test_a_loop_of_a_contract_that_is_too_large_does_not_pass(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contract = kernel.parent / "qor.toml"
    contract.write_text("[loop.adds]\nii = 6\ndepth = 9\nwhy = 'a sum'\n")
    whole = Checked(check_source(kernel, "top", contract=qor.load(contract)))
    assert whole.passes is True and not whole.unchecked
    monkeypatch.setattr(loops, "_MOST_CODE", 4)
    cut = Checked(check_source(kernel, "top", contract=qor.load(contract)))
    assert cut.passes is None
    assert [words.partition(":")[0] for words in cut.unchecked] == ["top.adds"]
