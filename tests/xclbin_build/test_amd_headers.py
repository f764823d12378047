"""Kernels with AMD's headers, as they are written for Vitis HLS, built and run on the emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import xclbin_build
from fpga_dynamo.runtime.drivers import emulated as pyxrt
from hls_kernels import STAND_INS
from xclbin_build import ToolchainError
from xclbin_build.build import load_design
from xclbin_build.generate import hls_sources

Array = npt.NDArray[np.generic]


def recipe(directory: Path, code: str) -> Path:
    (directory / "k.cpp").write_text(code)
    path = directory / "k.toml"
    path.write_text('name = "headers"\n\n[kernel.k]\nsource = "k.cpp"\ncu = 1\n')
    return path


def run(directory: Path, code: str, *arguments: Array | int) -> tuple[str, str]:
    """State and error of a run; arrays are buffers that the kernel reads and writes."""
    device = pyxrt.device(0)
    uuid = device.load_xclbin(str(xclbin_build.cached(recipe(directory, code))))
    kernel = pyxrt.kernel(device, uuid, "k")
    given: list[pyxrt.bo | int] = []
    for index, argument in enumerate(arguments):
        if isinstance(argument, int):
            given.append(argument)
            continue
        buffer = pyxrt.bo(device, argument.nbytes, pyxrt.bo.flags.normal, kernel.group_id(index))
        buffer.write(argument.tobytes(), 0)
        buffer.sync(pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, argument.nbytes, 0)
        given.append(buffer)
    started = kernel(*given)
    state = started.wait(10000).name
    for argument, place in zip(arguments, given, strict=True):
        if isinstance(argument, np.ndarray) and isinstance(place, pyxrt.bo):
            place.sync(pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE, argument.nbytes, 0)
            argument[...] = np.frombuffer(place.read(argument.nbytes, 0), argument.dtype).reshape(argument.shape)
    return state, started.error


STREAMS = """
#define N 16  // what kernels define is no concern of the headers'
#define T float
#include <hls_stream.h>
#include <hls_vector.h>
typedef hls::vector<float, N> beat;

static void load(const beat* in, hls::stream<beat>& to, int n) {
    for (int i = 0; i < n; i++) {
#pragma HLS pipeline II = 1
        to << in[i];
    }
}
static void add(hls::stream<beat>& a, hls::stream<beat, 4>& b, hls::stream<beat>& sum, int n) {
    for (int i = 0; i < n; i++) sum.write(a.read() + b.read());
}
static void store(hls::stream<beat>& from, beat* out, int n) {
    for (int i = 0; i < n; i++) out[i] = from.read();
}
extern "C" void k(const beat* a, const beat* b, beat* out, int n) {
#pragma HLS interface m_axi port = a bundle = gmem0
#pragma HLS dataflow
    hls::stream<beat> first("first"), sum("sum");
    hls::stream<beat, 4> second("second");
    load(a, first, n);
    load(b, second, n);
    add(first, second, sum, n);
    store(sum, out, n);
}
"""


def test_processes_that_streams_connect(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 100, 16), dtype=np.float32)
    out = np.full_like(a, np.nan)
    assert run(tmp_path, STREAMS, a, b, out, 100) == ("ERT_CMD_STATE_COMPLETED", "")
    np.testing.assert_array_equal(out, a + b)


def test_words_of_512_bits_and_numbers_with_a_fixed_point(tmp_path: Path) -> None:
    code = """
    #include <ap_fixed.h>
    #include <ap_int.h>
    typedef ap_fixed<16, 8, AP_RND, AP_SAT> number;
    extern "C" void k(const ap_uint<512>* in, ap_uint<512>* out, ap_int<24> add, int n) {
        for (int i = 0; i < n; i++) {
            ap_uint<512> word = in[i], result;
            for (int l = 0; l < 32; l++) {
    #pragma HLS unroll
                number x;
                x.range() = word.range(16 * l + 15, 16 * l);
                number y = x * number(1.5) + number(add);
                result.range(16 * l + 15, 16 * l) = y.range();
            }
            out[i] = result;
        }
    }
    """
    x = np.random.default_rng(2).integers(-(1 << 15), 1 << 15, (5, 32), dtype=np.int16)
    out = np.full_like(x, 21845)
    assert run(tmp_path, code, x, out, 3, 5) == ("ERT_CMD_STATE_COMPLETED", "")
    exact = x.astype(np.float64) * 1.5 + 3 * 256
    np.testing.assert_array_equal(out, np.clip(np.floor(exact + 0.5), -(1 << 15), (1 << 15) - 1).astype(np.int16))


def test_math_shift_registers_and_blocks(tmp_path: Path) -> None:
    code = """
    #include <ap_shift_reg.h>
    #include <hls_math.h>
    #include <hls_streamofblocks.h>
    typedef float block[8];
    static void produce(const float* in, hls::stream_of_blocks<block>& to) {
        for (int b = 0; b < 4; b++) {
            hls::write_lock<block> lock(to);
            block& here = lock;
            for (int i = 0; i < 8; i++) here[i] = hls::sqrt(hls::fabs(in[8 * b + i]));
        }
    }
    static void consume(hls::stream_of_blocks<block>& from, float* out) {
        ap_shift_reg<float, 2> before;
        before.shift(0.0f);
        before.shift(0.0f);
        for (int b = 0; b < 4; b++) {
            hls::read_lock<block> lock(from);
            block& here = lock;
            for (int i = 7; i >= 0; i--) out[8 * b + i] = here[i] - before.shift(here[i]);
        }
    }
    extern "C" void k(const float* in, float* out) {
    #pragma HLS dataflow
        hls::stream_of_blocks<block> between;
        produce(in, between);
        consume(between, out);
    }
    """
    x = np.random.default_rng(3).standard_normal(32).astype(np.float32)
    out = np.full_like(x, np.nan)
    assert run(tmp_path, code, x, out) == ("ERT_CMD_STATE_COMPLETED", "")
    roots = np.sqrt(np.abs(x)).reshape(4, 8)[:, ::-1].ravel()
    shifted = np.concatenate([[0, 0], roots[:-2]]).astype(np.float32)
    np.testing.assert_array_equal(out, (roots - shifted).reshape(4, 8)[:, ::-1].ravel())


def test_a_kernel_may_define_what_it_likes_in_front_of_headers(tmp_path: Path) -> None:
    defines = "".join(f"#define {letter} 64\n" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    headers = sorted(path.name for path in STAND_INS.glob("*.h") if path.name != "hls_task.h")
    code = defines + "".join(f"#include <{name}>\n" for name in headers)
    out = np.zeros(1, np.int32)
    assert run(tmp_path, code + 'extern "C" void k(int* out) { *out = N; }\n', out) == ("ERT_CMD_STATE_COMPLETED", "")
    assert out[0] == 64


def test_a_stream_that_is_read_while_it_is_empty(tmp_path: Path) -> None:
    code = """
    #include <hls_stream.h>
    extern "C" void k(int* out) {
        hls::stream<int> s("tokens");
        s.write(1);
        *out = s.read() + s.read();
    }
    """
    state, error = run(tmp_path, code, np.zeros(1, np.int32))
    assert state == "ERT_CMD_STATE_ERROR"
    assert "stream 'tokens' is read while it is empty" in error


def test_what_amds_headers_bring_along(tmp_path: Path) -> None:
    """Text, containers and streams of the C++ library; integer roots; complex numbers; C's integers of any width."""
    code = """#include <ap_cint.h>
#include <hls_math.h>
#include <hls_stream.h>
#include <hls_x_complex.h>
extern "C" void k(const int* in, int* out) {
    std::vector<int> numbers;
    std::string name("four");
    std::stringstream text("7 1.5 -3 seven");
    ap_uint<4> small;
    ap_fixed<16, 8> fixed;
    ap_int<6> negative;
    ap_int<5> no_number;
    text >> small >> fixed >> negative >> no_number;
    hls::x_complex<float> z(1, 2);
    numbers = {hls::sqrt(in[0]), small.to_int(), (int)(fixed * 2), negative.to_int(), text.fail(), (int)(z * z).real()};
    numbers.push_back(strlen(name.c_str()));
    numbers.push_back(hls::sqrt(0xFFFFFFFFFFFFFFFFull) == 0xFFFFFFFFull);
    for (std::size_t i = 0; i < numbers.size(); i++) out[i] = numbers[i];
}
"""
    given, out = np.full(1, 50, np.int32), np.zeros(8, np.int32)
    assert run(tmp_path, code, given, out) == ("ERT_CMD_STATE_COMPLETED", "")
    assert out.tolist() == [7, 7, 3, -3, 1, -3, 4, 1]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "#include <ap_fixed.h>\nstatic ap_fixed<8, 4, AP_TRN, AP_WRAP, 2> x;\n",
            "wrap around keep no bits",
        ),
        ("#include <hls_dds.h>\n", "hls_dds.h"),
    ],
)
def test_what_the_software_card_has_not(tmp_path: Path, code: str, words: str) -> None:
    with pytest.raises(ToolchainError, match=words):
        xclbin_build.cached(recipe(tmp_path, code + 'extern "C" void k(int* out) { *out = 0; }\n'))


def test_streams_of_a_region_that_is_simulated_are_its_own(tmp_path: Path) -> None:
    """Whatever else the kernel includes; they have a depth, so this one waits for ever, and says so."""
    code = """
    #include "sim/dataflow.hpp"
    #include <ap_fixed.h>
    #include <hls_stream.h>
    static void write(hls::stream<int, 2>& to, int n) { for (int i = 0; i < n; i++) to.write(i); }
    static void read(hls::stream<int, 2>& from, int* out, int n) { for (int i = 0; i < n; i++) *out += from.read(); }
    extern "C" void k(int* out, int n) {
        hls::stream<int, 2> numbers("numbers");
        DATAFLOW_BEGIN(k);
        PROCESS(k, write(numbers, n));
        PROCESS(k, read(numbers, out, 5));
    }
    """
    out = np.zeros(1, np.int32)
    assert run(tmp_path, code, out, 5) == ("ERT_CMD_STATE_COMPLETED", "")
    assert out[0] == 10
    state, error = run(tmp_path, code, out, 20)
    assert state == "ERT_CMD_STATE_ERROR" and "deadlock" in error


def test_vitis_gets_its_own_headers(tmp_path: Path) -> None:
    design = load_design(recipe(tmp_path, STREAMS), platform="u250")
    assert not any(name.startswith(STAND_INS.name) for name in hls_sources(design))
