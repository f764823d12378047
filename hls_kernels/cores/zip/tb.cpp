// Random element-wise arithmetic of complex numbers and floats over random layouts against double precision.
#include "core.hpp"

#include <complex>

#include "tb/tb.hpp"

namespace {

using namespace fpga;
typedef std::complex<double> number;

// Strides of a tensor that lies in the order of its dimensions but for those where it is the same for all, and its floats.
int64_t lay_out(const int32_t (&dims)[5], int32_t unit, double broadcast, tb::random_source& random,
                int32_t (&stride)[5]) {
    int64_t next = unit;
    for (int d = 4; d >= 0; d--) {
        stride[d] = random.chance(broadcast) ? 0 : static_cast<int32_t>(next);
        if (stride[d]) next = next * dims[d] + (d == 4 ? random.pick({0, 0, 6}) : 0);
    }
    return next;
}

int64_t offset_of(const int32_t (&dims)[5], const int32_t (&stride)[5], int64_t element) {
    int64_t at = 0;
    for (int d = 4; d >= 0; d--) {
        at += element % dims[d] * stride[d];
        element /= dims[d];
    }
    return at;
}

number reference(const zip_command& c, number a, number b) {
    if (c.a_conjugated) a = std::conj(a);
    if (c.b_conjugated) b = std::conj(b);
    switch (c.kind) {
        case ZIP_SUM: return a + b;
        case ZIP_DIFFERENCE: return a - b;
        case ZIP_COPY: return a;
        case ZIP_MAGNITUDE: return std::hypot(a.real(), a.imag());
        default: return number(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
    }
}

void run(tb::report& report, tb::random_source& random) {
    zip_command c = {};
    c.kind = random.integer(ZIP_PRODUCT, ZIP_MAGNITUDE);
    for (int d = 0; d < 4; d++) c.dims[d] = random.pick({1, 1, 2, 3});
    c.dims[4] = random.pick({1, 2, 5, 8, 9, 15, 16, 17, 100});
    for (int32_t* flag : {&c.a_real, &c.b_real, &c.a_conjugated, &c.b_conjugated, &c.a_from_weights, &c.b_from_weights})
        *flag = random.chance(0.3);
    c.out_real = random.chance(0.3);
    tb::memory arena, weights;
    const float spread = c.kind == ZIP_MAGNITUDE ? random.pick({1.0f, 1e30f, 3e38f, 1e-30f}) : 1.0f;
    const auto operand = [&](bool in_weights, bool real, int32_t (&stride)[5]) {
        const int64_t floats = lay_out(c.dims, real ? 1 : 2, 0.15, random, stride);
        return (in_weights ? weights : arena).allocate_random(floats, random, -spread / 2, spread / 2);
    };
    c.a = operand(c.a_from_weights, c.a_real, c.a_stride);
    c.b = operand(c.b_from_weights, c.b_real, c.b_stride);
    c.output = arena.allocate(lay_out(c.dims, c.out_real ? 1 : 2, 0, random, c.out_stride));
    const int64_t elements = int64_t(c.dims[0]) * c.dims[1] * c.dims[2] * c.dims[3] * c.dims[4];
    const auto at = [&](bool in_weights, place_t base, const int32_t (&stride)[5], bool real, int64_t i) {
        const tb::memory& where = in_weights ? weights : arena;
        const int64_t from = base + offset_of(c.dims, stride, i);
        return number(where[from], real ? 0 : where[from + 1]);
    };
    std::string name = "kind " + std::to_string(c.kind) + ", sizes";
    for (int32_t n : c.dims) name += " " + std::to_string(n);
    report.begin(name);
#ifndef __SYNTHESIS__
    report.bounded(c, fpga::zip_bounds, arena, weights);
#endif
    const auto each_element = [&](auto visit) {
        for (int64_t i = 0; i < elements; i++) visit(c.output + offset_of(c.dims, c.out_stride, i));
    };
    tb::run_sliced(report, c, zip, arena, weights, c.out_real ? 1 : 2, each_element, [&](const std::string& where) {
        for (int64_t i = 0; i < elements; i++) {
            const number a = at(c.a_from_weights, c.a, c.a_stride, c.a_real, i);
            const number b = at(c.b_from_weights, c.b, c.b_stride, c.b_real, i);
            const number wanted = reference(c, a, b);
            const double size = c.kind == ZIP_PRODUCT     ? std::abs(a) * std::abs(b)
                                : c.kind == ZIP_MAGNITUDE ? std::abs(a)
                                                          : std::abs(a) + std::abs(b);
            const int64_t out = c.output + offset_of(c.dims, c.out_stride, i);
            report.close(arena[out], wanted.real(), (c.kind == ZIP_MAGNITUDE ? 2.4e-7 : 1.3e-7) * size + 1e-45,
                         where + "real part");
            if (!c.out_real)
                report.close(arena[out + 1], wanted.imag(), 1.3e-7 * size + 1e-45, where + "imaginary part");
        }
    });
}

}  // namespace

int main(int argc, char** argv) {
    tb::report report("zip");
    tb::random_source random(16);
    for (int round = 0; round < tb::share_of(600, argc, argv); round++) run(report, random);
    return report.finish();
}
