"""Headers of Vitis HLS' libraries, as g++ compiles their replacements: transforms, filters, slices, channels, ports."""

import subprocess
from pathlib import Path

from hls_kernels import ROOT, STAND_INS
from xclbin_build.dataflow import rewritten
from xclbin_build.toolchain.gxx import find_compiler

CHECK = '#define CHECK(x) if (!(x)) { std::printf("line %d: %s\\n", __LINE__, #x); return 1; }\n#include <cstdio>\n'


def run(folder: Path, code: str) -> None:
    """Compiles a program whose regions are rewritten, and runs it."""
    source, program = folder / "main.cpp", folder / "main"
    source.write_text(CHECK + rewritten(code))
    options = [
        "-std=c++17",
        "-O1",
        "-w",
        "-include",
        str(ROOT / "sim/dataflow_calls.hpp"),
        f"-I{ROOT}",
        f"-I{STAND_INS}",
    ]
    command = [*find_compiler().command, *options, str(source), "-o", str(program), "-pthread"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[:3000]
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_fft(tmp_path: Path) -> None:
    """Every way to call it, on data whose transform is known: a cosine has two lines of N / 2."""
    run(
        tmp_path,
        r"""
#include <hls_fft.h>
#include <cmath>
struct natural : hls::ip_fft::params_t {
    static const unsigned max_nfft = 4;
    static const unsigned ordering_opt = hls::ip_fft::natural_order;
};
struct reversed : hls::ip_fft::params_t { static const unsigned max_nfft = 4; };
struct block : natural { static const unsigned scaling_opt = hls::ip_fft::block_floating_point; };
struct wide : hls::ip_fft::ssr_params_t { static const unsigned max_nfft = 4; };
typedef std::complex<ap_fixed<16, 1>> number;
int main() {
    number in[16], out[16];
    for (int i = 0; i < 16; i++) in[i] = number(0.5 * std::cos(2 * 3.14159265358979 * 3 * i / 16), 0);
    hls::ip_fft::config_t<natural> config;
    hls::ip_fft::status_t<natural> status;
    config.setDir(1);
    config.setSch(0b01010101);  // 4 bits in all: divided by 16
    hls::fft<natural>(in, out, &status, &config);
    for (int i = 0; i < 16; i++) {
        const double wanted = i == 3 || i == 13 ? 0.25 : 0;
        CHECK(std::fabs(out[i].real().to_double() - wanted) < 1e-4);
    }
    CHECK(!status.getOvflo());
    config.setSch(0);
    hls::fft<natural>(in, out, &status, &config);
    CHECK(status.getOvflo());
    bool overflow = true;
    hls::fft<reversed>(in, out, ap_uint<1>(1), ap_uint<15>(0b01010101), -1, &overflow);
    CHECK(!overflow && std::fabs(out[12].real().to_double() - 0.25) < 1e-4);  // 3 is 0011, backwards 1100
    hls::ip_fft::config_t<block> any;
    hls::ip_fft::status_t<block> exponent;
    hls::fft<block>(in, out, &exponent, &any);
    CHECK(exponent.getBlkExp() == 2 && std::fabs(out[3].real().to_double() - 1) < 1e-3);
    hls::stream<hls::vector<std::complex<float>, 2>> from, to;
    for (int i = 0; i < 8; i++) from.write({in[2 * i].real().to_float(), in[2 * i + 1].real().to_float()});
    hls::fft<wide>(from, to);
    for (int i = 0; i < 8; i++) {
        const auto two = to.read();
        CHECK(std::fabs(two[1].real() - (i == 1 || i == 6 ? 4.f : 0.f)) < 1e-3);
    }
}
""",
    )


def test_fir(tmp_path: Path) -> None:
    """A filter keeps its state between runs, decimates and interpolates, and has sets of coefficients."""
    run(
        tmp_path,
        r"""
#include <hls_fir.h>
struct shape : hls::ip_fir::params_t {
    static const unsigned num_coeffs = 3, input_length = 4, output_length = 4, coeff_sets = 2;
    static constexpr double coeff_vec[6] = {1, 2, 3, -1, 0, 5};
};
struct halved : shape {
    static const unsigned filter_type = hls::ip_fir::decimation, decim_rate = 2, output_length = 2;
};
struct twice : shape {
    static const unsigned filter_type = hls::ip_fir::interpolation, interp_rate = 2, output_length = 8;
};
typedef ap_fixed<16, 16> in_t;
typedef ap_fixed<24, 24> out_t;
int main() {
    in_t in[4] = {1, 2, 3, 4};
    out_t out[8];
    hls::FIR<shape> f;
    f.run(in, out);
    CHECK(out[0] == 1 && out[1] == 4 && out[2] == 10 && out[3] == 16);
    f.run(in, out);
    CHECK(out[0] == 1 + 8 + 9 && out[1] == 2 + 2 + 12);
    ap_uint<8> set = 1;
    f.run(in, out, &set);
    CHECK(out[0] == -1 + 15 && out[3] == -4 + 10);
    hls::FIR<halved> d;
    d.run(in, out);
    CHECK(out[0] == 4 && out[1] == 16);
    hls::FIR<twice> u;
    u.run(in, out);
    CHECK(out[0] == 1 && out[1] == 2 && out[2] == 2 + 3 && out[3] == 4);
    hls::stream<in_t> from;
    hls::stream<out_t> to;
    for (in_t x : in) from.write(x);
    hls::FIR<shape> s;
    s.run(from, to);
    CHECK(to.read() == 1 && to.read() == 4);
}
""",
    )


def test_numbers_and_slices(tmp_path: Path) -> None:
    run(
        tmp_path,
        r"""
#include <ap_float.h>
#include <hls_dsp_builtins.h>
#include <sstream>
using namespace hls::dsp48e2;
int main() {
    typedef ap_float<16, 5> f16;
    static_assert(sizeof(f16) == 2, "bits alone");
    CHECK(float(f16(1.0f / 3)) == 0.333251953125f && f16(1.5).get_bits() == 0x3e00);
    CHECK(float(f16(70000.f)) > 1e30f && float(f16(1e-6)) == 0 && f16(2) * f16(3) - f16(1) == f16(5));
    CHECK((ap_float<16, 8>(1.00390625).get_bits() == 0x3f80));  // half way: to even
    ap_float_acc<f16, ap_fixed<32, 16>> sum;
    f16 total;
    for (int i = 0; i < 10; i++) total = sum.accumulate(f16(0.25 * i), i == 9);
    CHECK(total == f16(11.25) && sum.accumulate(f16(1), true) == f16(1));

    CHECK(mul_add(A_t(3), B_t(-5), C_t(7), REG_M | REG_P) == -8 && add_mul_sub<REG_AD>(1, 2, 3, 4) == 5);
    acc<REG_P> a;
    CHECK(a.mul_acc(2, 3, true) == 6 && a.mul_acc(4, 5, false) == 26 && a.mul_acc(1, 1, true) == 1);
    cascade<REG_A1 | REG_B1 | REG_P> first;
    cascade<REG_A1 | REG_B1 | REG_B2 | REG_P> second;
    const long x[4] = {1, 10, 100, 1000}, wanted[4] = {2, 23, 230, 2300};
    for (int i = 0; i < 4; i++) {  // 2 x[i] + 3 x[i - 1]
        R_t r = first.mul_add(2, x[i], 0);
        CHECK(second.mul_add(3, r.bcout, r.pcout).pcout == wanted[i]);
    }
    hls::dspcplx::A_t i(0, 1);
    CHECK(hls::dspcplx::mul_add<>(i, i, hls::dspcplx::C_t(5, 0)).real() == 4);
    std::ostringstream text;
    text << std::fixed << std::setprecision(15) << ap_fixed<22, 17>(2.125) << ' ' << 0.5;
    CHECK(text.str() == "2.125 0.500000000000000");
}
""",
    )


def test_channels_and_ports(tmp_path: Path) -> None:
    run(
        tmp_path,
        r"""
#include <ap_axi_sdata.h>
#include <etc/ap_utils.h>
#include <hls_array_partition.h>
#include <hls_burst_maxi.h>
#include <hls_directio.h>
#include <hls_fence.h>
#include <hls_np_channel.h>
#include <hls_task.h>
static void feed(hls::stream<int>& to, int n) { for (int i = 0; i < n; i++) to.write(i); }
static void worker(hls::stream<int>& from, hls::stream<int>& to, int by) { to.write(from.read() * by); }
static void take(hls::stream<int>& from, int* to, int n) { for (int i = 0; i < n; i++) to[i] = from.read(); }
static void round_trip(int* out, int n) {
#pragma HLS dataflow
    hls_thread_local hls::split::round_robin<int, 3> apart;
    hls_thread_local hls::merge::round_robin<int, 3> together;
    feed(apart.in, n);
    hls_thread_local hls::task t[3];
    for (int i = 0; i < 3; i++) {
#pragma HLS unroll
        t[i](worker, apart.out[i], together.in[i], i + 1);
    }
    take(together.out, out, n);
}
static void balanced(int* out, int n) {
#pragma HLS dataflow
    hls_thread_local hls::split::load_balance<int, 2, 1> apart;
    hls_thread_local hls::merge::load_balance<int, 2, 1> together;
    feed(apart.in, n);
    hls_thread_local hls::task t[2];
    t[0](worker, apart.out[0], together.in[0], 2);
    t[1](worker, apart.out[1], together.in[1], 2);
    take(together.out, out, n);
}
static void sum(hls::stream<int>& in, hls::stream<int>& out, hls::ap_none<int>& bias, hls::ap_hs<int>& stop) {
    while (!stop.valid()) out.write(in.read() + bias.read()), stop.write(in.read());
}
struct pixel { char r, g, b; };
static void copy(hls::burst_maxi<ap_uint<64>> in, hls::burst_maxi<ap_uint<64>> out) {
    in.read_request_unaligned<pixel>(3, 4);
    out.write_request_unaligned<pixel>(1, 4);
    for (int i = 0; i < 4; i++) out.write<pixel>(in.read<pixel>());
    out.write_response();
}
int main() {
    int out[9];
    round_trip(out, 9);
    for (int i = 0; i < 9; i++) CHECK(out[i] == i * (i % 3 + 1));
    balanced(out, 9);
    int all = 0;
    for (int x : out) all += x;
    CHECK(all == 72);
    hls::stream<int> in, total;
    hls::ap_none<int> bias;
    hls::ap_hs<int> stop;
    in.write(5), in.write(77), bias.write(100);
    sum(in, total, bias, stop);
    CHECK(total.read() == 105 && stop.read() == 77 && bias.read() == 100);
    char from[24] = "abcdefghijklmnopqrstuvw", to[24] = {};
    copy((ap_uint<64>*)from, (ap_uint<64>*)to);
    CHECK(std::string(to + 1) == "defghijklmno");
    const float numbers[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    CHECK((hls::gather<float, 3>(numbers, {0, 2, 7}).reduce_add() == 133));
    typedef hls::axis_user<13, AXIS_ENABLE_USER | AXIS_ENABLE_LAST> packet;
    packet p;
    p.set_user(5), p.set_last(1);
    CHECK(p.get_user() == 5 && p.get_last() == 1);
    hls::axis_data<ap_uint<32>, AXIS_ENABLE_KEEP> d;
    d.set_data(7), d.keep_all();
    CHECK(d.get_data() == 7 && d.keep == 15);
    ap_axis<16, 1, 1, 1> side;
    side.set_data(-3);
    CHECK(side.get_data() == -3);
    hls::fence(in, out);
    int calls = 0;
    hls::autorestart thrice(3, [&](int by) { calls += by; }, 2);
    CHECK(calls == 6);
    CHECK((sizeof(hls::vector<pixel, 16>) == 48));
}
""",
    )
