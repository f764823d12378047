"""The bench of the vector side on floats: both schedules' bits, errors, and mistakes that it must notice."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fpga_dynamo.codegen.engine.cycles import MemoryTiming
from fpga_dynamo.codegen.engine.sizes import EngineSizes
from fpga_dynamo.codegen.engine.vector import VectorCommand, VectorFlags, VectorOperation
from fpga_dynamo.codegen.engine.vector_timing import vector_cycles
from tests.hls_kernels.engine_kit import (
    READS_A_MAP_TOO_EARLY,
    SIZES,
    Mutation,
    assert_noticed,
    compile_bench,
    run_bench,
)
from tests.marks import EXTENDED

BENCH = "vector/floats/tb.cpp"
_BF16 = SIZES["bf16-2x16x8"]
LANES = {
    "2": {**_BF16, "VECTOR_LANES": 2, "VECTOR_DEPTH": 256, "VECTOR_BLOCKS": 16},
    "4": {**_BF16, "VECTOR_LANES": 4, "VECTOR_DEPTH": 256, "VECTOR_BLOCKS": 16},
    "8": {**SIZES["bf16-3x32x4"], "VECTOR_LANES": 8, "VECTOR_DEPTH": 512},
    "4 of float32": {**SIZES["fp32-4x16x8"], "VECTOR_LANES": 4, "VECTOR_DEPTH": 512, "VECTOR_BLOCKS": 16},
}
F = "vector/floats/"
MUTATIONS = {
    "greatest of what fills": Mutation(F + "collect.hpp", "exists ? key_of(e) : LEAST_KEY", "key_of(e)"),
    "sum of what fills": Mutation(F + "collect.hpp", "exists ? term_of(e, origin) : 0.0f", "term_of(e, origin)"),
    "first block": Mutation(F + "collect.hpp", "at.block() == 0 ? own : all", "all"),
    "sums of blocks": Mutation(F + "collect.hpp", "at.block() == 0 ? own : all", "own"),
    "place of a part": Mutation(F + "collect.hpp", "at.row() * VECTOR_PARTS + at.part()", "at.row() * VECTOR_PARTS"),
    "order of negative keys": Mutation(F + "arithmetic.hpp", "bits ^ (bits >> 31 & 0x7fffffff)", "bits"),
    "parts of a center": Mutation(F + "rows.hpp", "parts[q] = parts[q + 1];", ""),
    "the last part": Mutation(F + "rows.hpp", "if (part == VECTOR_PARTS - 1)", "if (part == 0)"),
    "mean": Mutation(F + "arithmetic.hpp", "/ static_cast<float>(c.channels)",
                     "* (1.0f / static_cast<float>(c.channels))"),
    "epsilon": Mutation(F + "arithmetic.hpp", "spread + c.epsilon", "spread"),
    "channels": Mutation(F + "arithmetic.hpp", "sum * c.row_scale", "sum"),
    "center of a row": Mutation(F + "weigh.hpp", "center = kept[row];", "center = kept[0];"),
    "weights of what fills": Mutation(F + "weigh.hpp", "exists ? found.weight : 0.0f", "found.weight"),
    "sums of weights": Mutation(F + "weigh.hpp", "at.block() == 0 ? sum : all", "sum"),
    "scale of a row": Mutation(F + "apply.hpp", "scale = kept[row];", "scale = kept[0];"),
    "block's gamma": Mutation(F + "apply.hpp", "at.block() * VECTOR_PARTS + at.part() : 0", "at.part() : 0"),
    "filling": Mutation(F + "apply.hpp", "exists ? result : element_t(0)", "result"),
    "beta": Mutation("vector/groups.hpp", "if (last) beta = !beta;", ""),
    "steps of the exponential": Mutation(F + "exponential.hpp", "(k * by_ln_2) >> 8", "(k * by_ln_2) >> 7"),
    "square": Mutation(F + "exponential.hpp", "(g - half_square + 4) >> 3", "(g + 4) >> 3"),
    "rest": Mutation(F + "exponential.hpp", "entry - ((of_entry * less + (1 << 22)) >> 23)", "entry"),
    "smallest exponential": Mutation(F + "exponential.hpp", "is_far || of_result <= 0", "is_far"),
    "far distances": Mutation(F + "exponential.hpp", "is_far || of_result <= 0", "of_result <= 0"),
    "exponential of NaN": Mutation(F + "exponential.hpp", "if (is_nan) return v;", ""),
    "tiny distances": Mutation(F + "exponential.hpp", "exponent < 133 - 63 ? 63 :", ""),
    "exponentials for apply": Mutation("vector/move.hpp", "if (!VECTOR_FLOATS || job.c.operation == VECTOR_NORM)",
                                       "if (true)"),
    "lines of float32": Mutation(F + "collect.hpp", "(is_wide(job.c) || turn == 0)", "turn == 0"),
    "float32 of a line": Mutation(F + "collect.hpp", "is_wide(c) ? float_of_bits(bits32_of(line, l)) :", ""),
    "planes of float32": Mutation("vector/move.hpp", "static_cast<uint32_t>(job.p.pitch) << wide", "job.p.pitch"),
    "groups of float32": Mutation("vector/move.hpp", "static_cast<uint32_t>(rows.first) << wide", "rows.first"),
    "masked keys": Mutation(F + "collect.hpp", "? masked(number) : number", "? number : number"),
    "place of a row": Mutation("vector/streams.hpp", "(place_t(rows.first) << LINE_SHIFT) + row + 1",
                               "place_t(row) + 1"),
    "masked NaN": Mutation(F + "arithmetic.hpp", "is_none ? 0x7fc00000 : 0xff800000", "0xff800000"),
    "the CPU's mask": Mutation(F + "cpu.hpp", "lane > pixel ? masked(x) : x", "lane >= pixel ? masked(x) : x"),
    "strobe": Mutation("vector/move.hpp", "ends && n == last_line ? rest : 0", "0"),
    "waiting for a map": READS_A_MAP_TOO_EARLY,
    "the CPU's parts": Mutation(F + "cpu.hpp", "b == 0 ? sum : part.sum + sum", "sum"),
    "the CPU's sums": Mutation(F + "cpu.hpp", "b == 0 ? sum : sums[q] + sum", "sum"),
    "the CPU's rows": Mutation(F + "cpu.hpp", "smaller((line + 1) * BEAT, c_.pixels)", "(line + 1) * BEAT"),
}  # fmt: skip


def passes(program: Path, lists: int, seed: int = 1) -> None:
    result = run_bench(program, lists, seed)
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    assert f": {lists} cases, 0 failures" in result.stdout


@pytest.mark.parametrize("lanes", ["4", *(pytest.param(name, marks=EXTENDED) for name in ("8", "4 of float32"))])
def test_bench(lanes: str, tmp_path: Path) -> None:
    passes(compile_bench(tmp_path, LANES[lanes], sanitized=lanes != "4", source=BENCH, optimisation="-O0"), 150)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", LANES)
def test_many_lists(lanes: str, tmp_path: Path) -> None:
    passes(compile_bench(tmp_path, LANES[lanes], sanitized=True, source=BENCH), 10_000, seed=1000)


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_notices_every_mistake(name: str, tmp_path: Path) -> None:
    program = compile_bench(
        tmp_path, LANES["4"], sanitized=False, source=BENCH, mutation=MUTATIONS[name], optimisation="-O0"
    )
    assert_noticed(run_bench(program, 300))


@pytest.mark.parametrize("lanes", [pytest.param(4), pytest.param(2, marks=EXTENDED), pytest.param(8, marks=EXTENDED)])
def test_the_cost_model_tells_the_cycles(lanes: int, tmp_path: Path) -> None:
    """Of commands alone: (operation, heads, pixels, channels, lines of a group), and of a softmax of float32."""
    sizes = EngineSizes(2, 16, in_channels=8, element_bytes=2, vector_lanes=lanes, vector_depth=1024, vector_blocks=64)
    options = {**_BF16, "VECTOR_LANES": lanes, "VECTOR_DEPTH": 1024, "VECTOR_BLOCKS": 64}
    program = compile_bench(
        tmp_path, options, sanitized=False, counting=True, source="vector/tb/count.cpp", optimisation="-O0"
    )
    shapes = [(0, 12, 128, 128, 32), (0, 1, 196, 196, 16), (0, 3, 7, 100, 2), (0, 1, 1, 1000, 1), (0, 1, 3000, 16, 64)]
    shapes += [(1, 1, 128, 768, 8), (1, 1, 128, 768, 4), (1, 1, 1, 768, 1), (1, 1, 5, 64, 1), (1, 4, 50, 40, 25)]
    cases = [*((shape, False) for shape in shapes), *((shape, True) for shape in shapes if shape[0] == 0)]
    for shape, wide in cases:
        operation, heads, pixels, channels, lines = shape
        sizes_of = [*map(str, shape), *(["wide"] if wide else [])]
        result = subprocess.run([str(program), *sizes_of], capture_output=True, text=True, check=True)
        counted = json.loads(result.stdout)["cycles"]
        command = VectorCommand(
            operation=VectorOperation(operation), heads=(1, heads), pixels=pixels, channels=channels, group_lines=lines,
            flags=VectorFlags.WIDE if wide else VectorFlags.NONE,
        )  # fmt: skip
        assert abs(vector_cycles(command, sizes, MemoryTiming(1e6, 60, 60)) / counted - 1) < 0.07, sizes_of
