// Accuracy of math.hpp against libm's double functions over the whole range of float. Every 997th bit pattern is tested, or
// fewer on request. These include all exponents, denormals, infinities and NaNs of both signs, and the special values in
// every lane position.
#include "math.hpp"

#include <cfloat>

#include "tb/tb.hpp"

using fpga::vec16;

namespace {

constexpr int PATTERNS = (1ll << 32) / 997;
constexpr int POWERS = 100000;
int patterns = PATTERNS;  // that each function is given
int pairs = POWERS;       // that the power is given, 16 at a time

float from_pattern(uint32_t pattern) {
    float x;
    std::memcpy(&x, &pattern, sizeof x);
    return x;
}

// Distance of got from expected in units of the last place of expected; a denormal's unit is 2^-149.
double ulps(float got, double expected) {
    const float rounded = static_cast<float>(expected);
    if (std::isnan(expected)) return std::isnan(got) ? 0 : INFINITY;
    if (std::isinf(rounded) || std::isinf(got)) {
        if (got == rounded) return 0;
        return std::fabs(got) == FLT_MAX || std::fabs(expected) < 0x1.0001p128 ? 1 : INFINITY;
    }
    if (got == 0 && rounded == 0 && std::signbit(got) != std::signbit(rounded)) return INFINITY;
    const int exponent = std::max(expected == 0 ? -126 : std::ilogb(expected), -126);
    return std::fabs(got - expected) / std::ldexp(1.0, exponent - 23);
}

struct worst {
    double error = 0;
    float x = 0, y = 0, got = 0;
    void see(float at, float second, float value, double expected) {
        const double e = ulps(value, expected);
        if (e > error) *this = {e, at, second, value};
    }
};

void judge(tb::report& report, const char* name, const worst& w, double bound) {
    report.begin(name);
    char text[160];
    std::snprintf(text, sizeof text, "%.3f ulp at (%.9g, %.9g) -> %.9g, allowed %.3f", w.error, w.x, w.y, w.got, bound);
    report.check(w.error <= bound, text);
    std::printf("  %-10s %.3f ulp at %.9g\n", name, w.error, w.x);
}

template <class Vector, class Reference>
void sweep(tb::report& report, const char* name, Vector f, Reference reference, double bound) {
    worst w;
    const uint64_t step = ((1ull << 32) / patterns) | 1;  // odd, so that the last bits take all values
    for (uint64_t pattern = 0; pattern < (1ull << 32); pattern += step * fpga::VEC) {
        float lane[fpga::VEC];
        for (int i = 0; i < fpga::VEC; i++) lane[i] = from_pattern(static_cast<uint32_t>(pattern + i * step));
        const vec16 y = f(fpga::load(lane, 0));
        for (int i = 0; i < fpga::VEC; i++) w.see(lane[i], 0, y[i], reference(static_cast<double>(lane[i])));
    }
    const float special[] = {0.0f,         -0.0f,         INFINITY,   -INFINITY,   NAN,       1.0f,     -1.0f,
                             0.5f,         -0.5f,         1.5f,       2.5f,        FLT_MAX,   -FLT_MAX, FLT_MIN,
                             tb::SMALLEST, -tb::SMALLEST, 8388607.5f, 16777216.0f, 88.72284f, -103.98f};
    for (float x : special) {
        const vec16 y = f(vec16(x));
        for (int i = 0; i < fpga::VEC; i++) w.see(x, 0, y[i], reference(static_cast<double>(x)));
    }
    judge(report, name, w, bound);
}

// Values whose pairs meet every rule of pow, then random pairs with results in the range of float.
void powers(tb::report& report, tb::random_source& random) {
    const float base[] = {0.0f,       -0.0f,       1.0f,    -1.0f,   INFINITY,     -INFINITY,     NAN,
                          2.0f,       -2.0f,       0.5f,    -0.5f,   3.7f,         -3.7f,         0.9999999f,
                          1.0000001f, -0.9999999f, FLT_MAX, FLT_MIN, tb::SMALLEST, -tb::SMALLEST, -FLT_MAX};
    const float exponent[] = {0.0f,        -0.0f,       1.0f,       -1.0f,    2.0f,      -2.0f,       3.0f, -3.0f,
                              0.5f,        -0.5f,       2.5f,       INFINITY, -INFINITY, NAN,         1e9f, -1e9f,
                              16777215.0f, 16777216.0f, 8388607.5f, FLT_MAX,  -FLT_MAX,  tb::SMALLEST};
    worst w;
    for (float x : base)
        for (float y : exponent) w.see(x, y, fpga::vpow(vec16(x), vec16(y))[3], std::pow(double(x), double(y)));
    for (int i = 0; i < pairs; i++) {
        float x[fpga::VEC], y[fpga::VEC];
        for (int k = 0; k < fpga::VEC; k++) {
            x[k] = i % 2 ? random.real(0, 4) : from_pattern(static_cast<uint32_t>(random.integer(0, INT32_MAX)));
            if (i % 4 == 3) x[k] = 1 + random.real(-1, 1) * 1e-3f;
            y[k] = i % 8 < 4 ? random.real(-8, 8) : random.real(-150, 150) / std::log2(x[k]);
            if (i % 16 == 15) x[k] = -x[k], y[k] = std::round(y[k]);
        }
        const vec16 z = fpga::vpow(fpga::load(x, 0), fpga::load(y, 0));
        for (int k = 0; k < fpga::VEC; k++) w.see(x[k], y[k], z[k], std::pow(double(x[k]), double(y[k])));
    }
    judge(report, "vpow", w, 4.0);
}

}  // namespace

int main(int argc, char** argv) {
    tb::report report("math");
    patterns = tb::share_of(PATTERNS, argc, argv);
    pairs = tb::share_of(POWERS, argc, argv);
    tb::random_source random(1);
    using namespace fpga;
    sweep(report, "vexp", [](vec16 x) { return vexp(x); }, [](double x) { return std::exp(x); }, 1.5);
    sweep(
        report, "vexp_decay", [](vec16 x) { return vexp_decay(vneg(vabs(x))); },
        [](double x) { return std::fabs(x) > 104 ? 0 : double(DECAY_SCALE) * std::exp(-std::fabs(x)); }, 1.5);
    sweep(report, "vexpm1", [](vec16 x) { return vexpm1(x); }, [](double x) { return std::expm1(x); }, 2.0);
    sweep(report, "vlog", [](vec16 x) { return vlog(x); }, [](double x) { return std::log(x); }, 1.5);
    sweep(report, "vlog1p", [](vec16 x) { return vlog1p(x); }, [](double x) { return std::log1p(x); }, 2.0);
    sweep(report, "vtanh", [](vec16 x) { return vtanh(x); }, [](double x) { return std::tanh(x); }, 3.0);
    sweep(
        report, "vsigmoid", [](vec16 x) { return vsigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }, 3.0);
    sweep(report, "verf", [](vec16 x) { return verf(x); }, [](double x) { return std::erf(x); }, 2.0);
    sweep(
        report, "vnormal_tail", [](vec16 x) { return vec16(1.0f) - vnormal_tail(vabs(x)); },
        [](double x) { return 1 - std::erfc(std::fabs(x) * std::sqrt(0.5)) / 2; }, 2.0);
    sweep(report, "vsin", [](vec16 x) { return vsin(x); }, [](double x) { return std::sin(x); }, 2.0);
    sweep(report, "vcos", [](vec16 x) { return vcos(x); }, [](double x) { return std::cos(x); }, 2.0);
    sweep(report, "vsqrt", [](vec16 x) { return vsqrt(x); }, [](double x) { return std::sqrt(x); }, 0.5);
    sweep(report, "vround", [](vec16 x) { return vround(x); }, [](double x) { return std::nearbyint(x); }, 0);
    sweep(report, "vfloor", [](vec16 x) { return vfloor(x); }, [](double x) { return std::floor(x); }, 0);
    sweep(report, "vceil", [](vec16 x) { return vceil(x); }, [](double x) { return std::ceil(x); }, 0);
    sweep(report, "vtrunc", [](vec16 x) { return vtrunc(x); }, [](double x) { return std::trunc(x); }, 0);
    powers(report, random);
    return report.finish();
}
