"""Benches of the engine: sizes that are tried, how they are compiled, and mistakes that they must notice."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hls_kernels import ROOT, STAND_INS
from tests.hls_kernels.bench_kit import SANITIZERS
from xclbin_build import qor
from xclbin_build.toolchain.gxx import find_compiler

ENGINE = ROOT / "engine"
SECONDS = 900

SIZES = {
    "2x16x16": {},
    "6x16x16": {"PIXELS": 6, "LANES": 32, "WINDOW_ROWS": 128},
    "7x16x16": {"PIXELS": 7, "LANES": 16, "WINDOW_ROWS": 64},
    "8x16x16": {"PIXELS": 8, "LANES": 32, "WINDOW_ROWS": 64, "WEIGHT_STEPS": 96},
    "7x16x16-narrow": {"PIXELS": 7, "LANES": 16, "WINDOW_ROWS": 64, "PORT_BYTES": 16},
    "7x16x16-small": {"PIXELS": 7, "LANES": 16, "WINDOW_ROWS": 64, "PORT_BYTES": 16, "ROW_SUMS": 0, "PARTIAL_SUMS": 0},
    "8x32x16": {"PIXELS": 8, "OUT_CHANNELS": 32, "LANES": 64, "WINDOW_ROWS": 64, "WEIGHT_STEPS": 32},
    "bf16-2x16x8": {"ELEMENT": 1, "IN_CHANNELS": 8, "LANES": 32, "WEIGHT_STEPS": 128},
    "bf16-8x16x16": {"ELEMENT": 1, "PIXELS": 8, "LANES": 32, "WEIGHT_STEPS": 128},
    "bf16-3x32x4": {
        "ELEMENT": 1,
        "PIXELS": 3,
        "OUT_CHANNELS": 32,
        "IN_CHANNELS": 4,
        "WEIGHT_STEPS": 256,
        "ACTIVATIONS": 0,
        "PARTIAL_SUMS": 0,
    },
    "fp32-4x16x8": {"ELEMENT": 2, "PIXELS": 4, "IN_CHANNELS": 8, "WEIGHT_STEPS": 128},
    "fp32-2x16x2": {"ELEMENT": 2, "IN_CHANNELS": 2, "WEIGHT_STEPS": 512},
}
"""Arrays of the recipes with windows and weight memories so small that little fits, as the constants of config.hpp."""


@dataclass(frozen=True)
class Mutation:
    """A mistake: `before` becomes `after` in a file of the engine. memory: only a sanitizer notices it. sizes: of the
    engine that has it."""

    file: str
    before: str
    after: str
    memory: bool = False
    sizes: str = "2x16x16"


MUTATIONS = {
    "borrow": Mutation("processes/mac_array.hpp", "(int64_t{BIAS} << FIELD) + BIAS;", "int64_t{BIAS} << FIELD;"),
    "the upper field's borrow": Mutation("processes/mac_array.hpp", "(int64_t{BIAS} << FIELD) + BIAS;", "BIAS;"),
    "field": Mutation("processes/mac_array.hpp", "BIAS = (1 << (FIELD - 1)) - 1;", "BIAS = 1 << (FIELD - 1);"),
    "bias": Mutation("processes/mac_array.hpp", "first ? begin : even", "first ? array_sum_t(0) : even"),
    "bias of odd channels": Mutation("processes/mac_array.hpp", "first ? begin : odd", "first ? array_sum_t(0) : odd"),
    "rotation": Mutation("processes/feed.hpp", "(rotation & s) != 0 ?", "false ?"),
    "mask left": Mutation("processes/feed.hpp", "lanes.x[l] + t.x,",
                          "lanes.x[l] + t.x < 0 ? unsigned_t(0) : unsigned_t(lanes.x[l] + t.x),"),
    "mask right": Mutation("processes/feed.hpp", "x < width && y < height", "(x < width || x < 1000) && y < height"),
    "mask above": Mutation("processes/feed.hpp", "y = lanes.y[l] + below;",
                           "y = lanes.y[l] + below < 0 ? unsigned_t(0) : unsigned_t(lanes.y[l] + below);"),
    "mask below": Mutation("processes/feed.hpp", "x < width && y < height", "x < width && (y < height || y < 1000)"),
    "padding": Mutation("processes/feed.hpp", ": pad_of(c)", ": element_t(0)"),
    "maximum": Mutation("processes/feed.hpp", "greater_of(a, kept);", "a;"),
    "two phases": Mutation("plan.hpp", "PHASES_APART = 3 % P", "PHASES_APART = 0", sizes="6x16x16"),
    "narrow command": Mutation("jobs.hpp", "f(j.c.in_height, bits<SIZE_BITS>());\n        f(j.c.in_width",
                               "f(j.c.in_height, bits<2>());\n        f(j.c.in_width"),
    "padding, folded": Mutation("processes/fill_window.hpp", ": pad_of(c)", ": element_t(0)"),
    "wrap": Mutation("processes/fill_window.hpp", "[to & (WINDOW_ROWS - 1)]", "[to + 1 & (WINDOW_ROWS - 1)]"),
    "groups": Mutation("processes/feed.hpp", "find_tiles(job, tiles, set_end,", "find_tiles(job, tiles, {0, 0},"),
    "phases": Mutation("processes/feed.hpp", "phase_x + p.tap_rest[1], y_phase", "phase_x, y_phase"),
    "first line": Mutation("processes/fill_window.hpp", "(rows.first_element() >> 4) % PORT_WORDS", "0"),
    "ties to even": Mutation("../lib/requantize.hpp", "more || (whole & 1) != 0", "true"),
    "truncation": Mutation("../lib/requantize.hpp", "static_cast<uint32_t>(half) & ",
                           "0u & "),
    "saturation": Mutation("../lib/requantize.hpp", "above = x > most;", "above = false;"),
    "shift": Mutation("../lib/requantize.hpp", "shift & 1 ? by_two >> REQUANTIZE_NIBBLE : by_two",
                      "by_two"),
    "zero point": Mutation("../lib/requantize.hpp", "requantize_nearest(y, t.zero)",
                           "requantize_nearest(y, 0)"),
    "residual's zero point": Mutation("epilogue.hpp", "c.residual_zero, c.middle_factor", "0, c.middle_factor"),
    "middle": Mutation("../lib/requantize.hpp", "x < 0 ? -128 : 127;", "x < 0 ? -128 : 126;"),
    "table": Mutation("processes/epilogue.hpp", "at = n ^ (TABLE_ENTRIES / 2);", "at = n;"),
    "table's copies": Mutation("processes/epilogue.hpp", "if ((n & (LINE_BYTES - 1)) == 0)", "if (n == 0)"),
    "residual's first word": Mutation("processes/epilogue.hpp", "unpacker unpack(skip);", "unpacker unpack(0);"),
    "residual's next line": Mutation("processes/unpacker.hpp", "more = sum >= word", "more = sum > word",
                                     sizes="6x16x16"),
    "output's first word": Mutation("processes/epilogue.hpp", "packer pack(skip);", "packer pack(0);"),
    "output's last line": Mutation("processes/packer.hpp", "return full || (place.ends && have != 0);", "return full;"),
    "output's last line alone": Mutation("processes/packer.hpp", "place.behind && at != 0", "false", sizes="6x16x16"),
    "end of a row": Mutation("processes/out_walk.hpp", "place_number(step_y_ + 1)", "place_number(step_y_)"),
    "second block": Mutation("processes/out_walk.hpp", "to_origin = before || last_block_;", "to_origin = true;",
                             sizes="8x32x16"),
    "strobe, first": Mutation("processes/store.hpp", "n == 0 ? b.skip : 0", "0"),
    "strobe, last": Mutation("processes/store.hpp", "n == last ? b.rest : 0", "0"),
    "partial sums": Mutation("processes/epilogue.hpp", "e == 0 && has_sums(c);", "false;"),
    "offset beside sums": Mutation("processes/epilogue.hpp", "add_sums(products, begin) : products;",
                                   "add_sums(products, begin) + (goes_on ? offset.of[o] : 0) : products;"),
    "column sums": Mutation("processes/load_weights.hpp", "const bool corrected = second_operand_is_map(job.c);",
                            "const bool corrected = false;"),
    "row sums": Mutation("processes/epilogue.hpp", "ap_int<9>(-c.weight_zero)", "ap_int<9>(0)"),
    "waiting for a map": Mutation("processes/load_input.hpp", "if (c.input_after)", "if (false)"),
    "rows above the input": Mutation("processes/load_input.hpp", "(rows.any(), rows", "(true, rows"),
    "waiting for a residual": Mutation("processes/load_residual.hpp", "if (adds && c.residual_after)", "if (false)"),
    "waiting for an operand": Mutation("processes/load_residual.hpp", "if (map_kind && c.weight_after)", "if (false)"),
    "reported too early": Mutation("processes/store.hpp", "{i, pixels};",
                               "{i, ALL_PIXELS};"),
    "half of a float step": Mutation("processes/mac_array.hpp", "t[i] = t[2 * i] + t[2 * i + 1];", "t[i] = t[2 * i];",
                                     sizes="fp32-2x16x2"),
    "bfloat16 cut off": Mutation("elements.hpp", "(bits + 0x7fffu + (bits >> 16 & 1)) >> 16", "bits >> 16",
                                 sizes="bf16-2x16x8"),
    "float32 left": Mutation("epilogue.hpp", "is_wide(c) ? bits_of(y) : bits_of_sum(sum)", "bits_of_sum(sum)",
                             sizes="bf16-2x16x8"),
    "a pixel a line": Mutation("processes/store.hpp", "places, stores_32_bits(job.c)", "places, is_raw(job.c)",
                               sizes="bf16-2x16x8"),
    "function's sign": Mutation("function.hpp", "entry_of(sign << 11 |", "entry_of(",
                                sizes="bf16-2x16x8"),
    "function's end": Mutation("function.hpp", "place >= FUNCTION_EXPONENTS", "place > FUNCTION_EXPONENTS",
                               sizes="bf16-2x16x8"),
    "tail of negative numbers": Mutation("function.hpp", "tails.of[2 * above + sign]", "tails.of[2 * above]",
                                        sizes="bf16-2x16x8"),
    "function of an infinity": Mutation("function.hpp", "tails.infinite[sign]", "beside", sizes="bf16-2x16x8"),
    "another function": Mutation("record.hpp", "c.table != held", "held == NO_OPERAND", sizes="bf16-2x16x8"),
    "function's lines": Mutation("processes/epilogue.hpp", "(n & (WORDS_A_LINE - 1)) == 0", "n == 0",
                                 sizes="bf16-2x16x8"),
    "the CPU's function": Mutation("epilogue.hpp", "weights + c.table + 1", "weights + c.table",
                                   sizes="bf16-2x16x8"),
    "the CPU's sign bit": Mutation("cpu.hpp", "begin_.v[i / 4] -= 128", "begin_.v[i / 4] -= 127"),
}  # fmt: skip
QUICK = ("borrow", "mask right", "ties to even", "reported too early")


_WAITS = "if (c.input_after) {\n                    progress.until(done, here - c.input_after,\n"
READS_A_MAP_TOO_EARLY = Mutation("vector/move.hpp", _WAITS, _WAITS.replace("c.input_after", "false", 1))


def compile_bench(
    directory: Path, sizes: dict[str, int], *, sanitized: bool, counting: bool = False, source: str = "tb.cpp",
    mutation: Mutation | None = None, optimisation: str = "-O1",
) -> Path:  # fmt: skip
    """Compiles a bench of the engine into `directory`, from a copy with the mistake if there is one."""
    root = ROOT
    if mutation:
        root = directory / "hls_kernels"
        shutil.copytree(ENGINE, root / "engine")
        shutil.copytree(ROOT / "lib", root / "lib")
        for shared in (ROOT / "sim", STAND_INS):
            (root / shared.name).symlink_to(shared)
        path = root / "engine" / mutation.file
        text = path.read_text()
        assert text.count(mutation.before) == 1, f"{mutation.file} has changed: {mutation.before}"
        path.write_text(text.replace(mutation.before, mutation.after))
    (directory / qor.HEADER).write_text(qor.header(qor.load(ENGINE / "qor.toml")))
    program = directory / "bench"
    command = [
        *find_compiler().command, "-std=c++17", optimisation, "-ffp-contract=off", "-Wno-unused-label",
        "-Wno-unknown-pragmas", *(SANITIZERS if sanitized else ()), f"-DFPGA_COUNT_CYCLES={int(counting)}",
        f"-I{root}", f"-I{directory}", *(f"-DENGINE_{name}={value}" for name, value in sizes.items()),
        *(() if mutation else ("-Wall", "-Wextra", "-Werror")), str(root / "engine" / source), "-o", str(program),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert result.returncode == 0, result.stderr[-4000:]
    return program


def run_bench(program: Path, programs: int, seed: int = 1) -> subprocess.CompletedProcess[str]:
    """Runs so many random programs of commands, from a seed on."""
    return subprocess.run(
        [str(program), str(programs), str(seed)], capture_output=True, text=True, timeout=SECONDS, errors="replace"
    )


def assert_noticed(result: subprocess.CompletedProcess[str], *, memory: bool = False) -> None:
    """That a bench found a mistake; one that ended before it compared anything did not. memory: a sanitizer did."""
    seen = "AddressSanitizer" in result.stderr if memory else re.search(r", [1-9]\d* failures", result.stdout)
    assert result.returncode and seen, "the bench does not notice it: " + (result.stdout + result.stderr)[-1000:]
