"""The bench of the vector side: random lists in both schedules against plain loops, and mistakes it must notice."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fpga_dynamo.codegen.engine.cycles import MemoryTiming
from fpga_dynamo.codegen.engine.sizes import EngineSizes
from fpga_dynamo.codegen.engine.vector import VectorCommand, VectorOperation, interleaved
from fpga_dynamo.codegen.engine.vector_timing import vector_cycles
from hls_kernels import ROOT
from tests.hls_kernels.engine_kit import (
    READS_A_MAP_TOO_EARLY,
    SIZES,
    Mutation,
    assert_noticed,
    compile_bench,
    run_bench,
)
from tests.marks import EXTENDED
from xclbin_build import records

BENCH = "vector/tb.cpp"
LANES = {
    "2": {"VECTOR_LANES": 2, "VECTOR_DEPTH": 256, "PORT_BYTES": 16},
    "4": {"VECTOR_LANES": 4, "VECTOR_DEPTH": 256},
    "8": {**SIZES["8x32x16"], "VECTOR_LANES": 8, "VECTOR_DEPTH": 256, "VECTOR_BLOCKS": 16},
    "16": {"VECTOR_LANES": 16, "VECTOR_DEPTH": 512},
}
_GROUP = "                const rows_t rows = rows_of(job, first);\n                CYCLES(vector_group);\n"
MUTATIONS = {
    "greatest of all": Mutation("vector/arithmetic.hpp", "exists && !masked ? x", "exists ? x"),
    "channels that fill": Mutation("vector/arithmetic.hpp", "exists ? square : 0", "square"),
    "first word": Mutation("vector/collect.hpp", "at.block() == 0 ? word_sums : all", "all"),
    "parts of a word": Mutation("vector/collect.hpp", "word_sums = begins ? part : more;", "word_sums = part;"),
    "uncentered rows": Mutation("vector/scale_rows.hpp", "if (is_uncentered(c)) row.sum = 0;", ""),
    "epsilon": Mutation("vector/arithmetic.hpp", "measure + c.epsilon", "measure"),
    "scale's last bits": Mutation("vector/arithmetic.hpp", "left >= 0 ? mantissa << left", "left >= 0 ? mantissa"),
    "scale's places": Mutation("vector/arithmetic.hpp", "exponent - 128 + 4", "exponent - 127 + 4"),
    "sign of beta": Mutation("vector/arithmetic.hpp", "GAMMA_FRACTION) + beta", "GAMMA_FRACTION) - beta"),
    "upper half": Mutation("vector/arithmetic.hpp", "+ (lower >> 17)", ""),
    "zero point": Mutation("vector/arithmetic.hpp", "ap_int<8>(r) - other_zero", "ap_int<8>(r)"),
    "masked weights": Mutation("vector/weigh.hpp", " && lane_of(other, at.part(), l) == 0;", ";"),
    "sum of a block": Mutation("vector/weigh.hpp", "at.block() == 0 ? word_sum : all", "word_sum"),
    "masked results": Mutation("vector/apply.hpp", "r == 0 ? static_cast", "true ? static_cast"),
    "scale of a row": Mutation("vector/apply.hpp", "scale = kept[row];", "scale = kept[0];"),
    "block's gamma": Mutation("vector/apply.hpp", "at.block() * VECTOR_PARTS + at.part() : 0", "at.part() : 0"),
    "filling": Mutation("vector/apply.hpp", ": vector_filling(c);", ": 0;"),
    "one row for all": Mutation("vector/collect.hpp", "? row == 0", "? row == 0 && at.block() == 0"),
    "strobe": Mutation("vector/move.hpp", "ends && n == last_line ? rest : 0", "0"),
    "whole planes": Mutation("vector/move.hpp", "if (!whole || block == 0) {", "if (block == 0) {"),
    "waiting for a map": READS_A_MAP_TOO_EARLY,
    "waiting for the other": Mutation("vector/move.hpp", "if (c.other_after)", "if (false)"),
    "reported too early": Mutation("vector/streams.hpp", "done_pixels_t(behind) << LINE_SHIFT",
                               "done_pixels_t(ALL_PIXELS)"),
    "rows as wide as lines": Mutation("vector/plan.hpp", "group_rows_t(r.lines) << LINE_SHIFT",
                                      "r.lines << LINE_SHIFT"),
    "turns": Mutation("vector/interleave.hpp", "turn_ends ? next : fewer", "turn_ends ? first : fewer"),
    "rows": Mutation("vector/interleave.hpp", "!row_ends && from_other", "from_other"),
    "turn of a row": Mutation("vector/interleave.hpp", "row_ends ? first : turn_ends", "turn_ends"),
    "place of a word": Mutation("vector/interleave.hpp", "if (from_other)\n            other_place",
                                "if (true)\n            other_place"),
    "last line": Mutation("vector/interleave.hpp", "words = job.p.plane << LINE_SHIFT", "words = job.c.pixels"),
    "exchange of channels": Mutation("vector/transpose.hpp", "second ? lower : upper", "second ? upper : lower"),
    "bit of a word's number": Mutation("vector/transpose.hpp", "twos_.next(b, n[1])", "twos_.next(b, n[2])"),
    "latency of a tile": Mutation("vector/transpose.hpp", "TILE_LATENCY = CHANNELS - 1", "TILE_LATENCY = CHANNELS"),
    "behind the last word": Mutation("vector/interleave.hpp", "real = n < pixels;", "real = true;"),
    "reported for each group": Mutation("vector/move.hpp", "if (moves_words(c) && !ends) continue;", ""),
    "a group of a block": Mutation("vector/move.hpp", f"first != 0) break;\n{_GROUP}                progress",
                                   f"false) break;\n{_GROUP}                progress"),
    "a part of an interleaving": Mutation("vector/move.hpp", "reads_runs(c) ? done_pixels_t(ALL_PIXELS) : ", ""),
    "waiting for words": Mutation("vector/move.hpp", "progress.until(done, here - c.input_after, ALL_PIXELS);", ""),
    "place of a run": Mutation("vector/gather.hpp", "asked = {place,", "asked = {0,"),
    "beats of a run": Mutation("vector/gather.hpp", "(place + static_cast<uint32_t>(run.words)",
                               "(static_cast<uint32_t>(run.words)"),
    "next head": Mutation("vector/gather.hpp", "row_ends ? next_row : next", "next_row"),
    "once and again": Mutation("vector/gather.hpp", "last_ ? once_ : next_is_last", "next_is_last"),
    "run of one word": Mutation("vector/gather.hpp", "begins = left == words_t(1);", "begins = left == words_t(2);"),
    "lines of a constant": Mutation("vector/move.hpp", "if (constant) at +=", "if (false) at +="),
    "a tie": Mutation("vector/cast_numbers.hpp", "more || halves[1]", "true"),
    "bits behind a half": Mutation("vector/cast_numbers.hpp", "(mantissa & 0x3fff) != 0 || ", ""),
    "numbers below a half": Mutation("vector/cast_numbers.hpp", "small ? ap_uint<9>(0) :", ""),
    "no number": Mutation("vector/cast_numbers.hpp", "bits << 1 > 0xff000000u ? int8_t(0) :", ""),
    "zero point of dequantize": Mutation("vector/cast_numbers.hpp", "x - ap_int<9>(c.input_zero)", "x"),
    "zero point of quantize": Mutation("vector/cast_numbers.hpp", "ap_int<12>(zero) << 1 | 1", "1"),
    "a quarter of a word": Mutation("vector/cast.hpp", "if (q == turn) whole", "if (q == 0) whole"),
    "the CPU's rows": Mutation("vector/plan.hpp", "row * (c.row - of_input)", "row * of_input"),
    "the CPU's sum": Mutation("vector/cpu.hpp", "smaller((line + 1) * BEAT, c_.pixels)", "(line + 1) * BEAT"),
}  # fmt: skip
QUICK = ("masked weights", "reported too early")


def passes(program: Path, lists: int, seed: int = 1) -> None:
    result = run_bench(program, lists, seed)
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    assert f": {lists} cases, 0 failures" in result.stdout


@pytest.mark.parametrize("lanes", [pytest.param("8", marks=EXTENDED)])
def test_bench(lanes: str, tmp_path: Path) -> None:
    # Without optimisation: compiling takes longer than running.
    passes(compile_bench(tmp_path, LANES[lanes], sanitized=True, source=BENCH, optimisation="-O0"), 150)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", LANES)
def test_many_lists(lanes: str, tmp_path: Path) -> None:
    passes(compile_bench(tmp_path, LANES[lanes], sanitized=True, source=BENCH), 10_000, seed=1000)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == QUICK[0] else EXTENDED) for name in QUICK])
def test_notices_a_mistake(name: str, tmp_path: Path) -> None:
    notices(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MUTATIONS if name not in QUICK])
def test_notices_every_mistake(name: str, tmp_path: Path) -> None:
    notices(name, tmp_path)


def notices(name: str, directory: Path) -> None:
    mutation = MUTATIONS[name]
    program = compile_bench(directory, LANES["4"], sanitized=False, source=BENCH, mutation=mutation, optimisation="-O0")
    assert_noticed(run_bench(program, 1500))


def test_the_command_is_the_kernel_s_record() -> None:
    """Field by field, as the header has them."""
    record = records.parse_header(ROOT / "engine" / "vector" / "record.hpp").records["vector"]
    default = VectorCommand()
    assert [f.name for f in dataclasses.fields(default)] == [f.name for f in record.fields]
    for theirs in record.fields:
        value = getattr(default, theirs.name)
        assert (len(value) if isinstance(value, tuple) else 1) == theirs.count, theirs.name
        assert isinstance(value, float) == (theirs.type == "float"), theirs.name


@pytest.mark.slow
@pytest.mark.extended
def test_the_cost_model_tells_the_cycles(tmp_path: Path) -> None:
    """Of commands alone: (operation, heads, pixels, channels, lines of a group)."""
    sizes = EngineSizes(2, 16, vector_lanes=8, vector_depth=2048, vector_blocks=64, gather=True, casts=True)
    options = {"VECTOR_LANES": 8, "VECTOR_DEPTH": 2048, "VECTOR_BLOCKS": 64}
    program = compile_bench(tmp_path, options, sanitized=False, counting=True, source="vector/tb/count.cpp")
    shapes: list[tuple[int, ...]] = [(0, 12, 128, 128, 32), (0, 1, 196, 196, 16), (0, 3, 7, 100, 2)]
    shapes += [(1, 1, 128, 768, 8), (2, 1, 3136, 64, 32)]
    shapes += [(4, 4, 3136, 16, 64), (4, 16, 98, 16, 64), (4, 1, 200, 16, 8), (6, 4, 3136, 16, 64), (6, 1, 50, 16, 8)]
    shapes += [(5, 4, 3136, 16, 64, 7), (5, 4, 784, 16, 64, 1), (5, 2, 3136, 16, 64, 56), (5, 12, 49, 16, 64, 49)]
    shapes += [(8, 1, 12544, 16, 64), (8, 4, 784, 16, 64), (8, 1, 800, 16, 8), (9, 1, 784, 16, 64), (9, 4, 64, 16, 8)]
    shapes += [(5, 64, 16, 16, 64, 16), (7, 4, 784, 16, 64, 1), (7, 64, 32, 16, 64, 16), (7, 12, 208, 16, 64, 16)]
    for operation, heads, pixels, channels, lines, *words in shapes:
        sizes_of = [str(n) for n in (operation, heads, pixels, channels, lines, *words)]
        interleaves = VectorOperation(operation) is VectorOperation.INTERLEAVE
        result = subprocess.run(
            [str(program), *sizes_of, *["other"] * interleaves], capture_output=True, text=True, check=True
        )
        counted = json.loads(result.stdout)["cycles"]
        command = VectorCommand(
            operation=VectorOperation(operation), heads=(1, heads), pixels=pixels, channels=channels, group_lines=lines
        )
        if interleaves:
            command = replace(interleaved(pixels, pixels, (1, 1)), heads=(1, heads), group_lines=lines)
        elif command.casts:
            wide = (4 * pixels, pixels) if operation == VectorOperation.QUANTIZE else (pixels, 4 * pixels)
            command = replace(command, taken=(wide[0], 0), pixels=wide[1])
        elif words:
            command = replace(command, runs=-(-pixels // words[0]), taken=(2 * pixels, 0))
        assert abs(vector_cycles(command, sizes, MemoryTiming(1e6, 60, 60)) / counted - 1) < 0.05, sizes_of
