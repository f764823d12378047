// requantize.hpp against rational arithmetic in 128 bits, against doubles, and against the float32 reference of quantised
// graphs; `requantize_tb channels` prints random channels for the test of the Python side.
#include "requantize.hpp"

#include <cinttypes>

#include "tb/tb.hpp"

namespace {

using fpga::requantize_channel;
using fpga::requantize_tensor;
typedef __int128 wide;

constexpr int PLACES = fpga::REQUANTIZE_FRACTION + fpga::REQUANTIZE_NIBBLE * (fpga::REQUANTIZE_SHIFTS - 1);

class random_numbers : public tb::random_source {
public:
    explicit random_numbers(uint32_t seed) : tb::random_source(seed) {}
    int32_t any() { return integer(INT32_MIN, INT32_MAX); }
    // Of any size: as many small ones as large ones.
    int32_t sized(int bits) { return any() >> (32 - integer(1, bits)); }
    double log_real(double low, double high) { return std::exp2(static_cast<double>(real(float(low), float(high)))); }
};

// Units of 2^-PLACES to the nearest integer, ties to even.
int64_t nearest(wide units) {
    const wide one = wide{1} << PLACES;
    wide whole = units / one, rest = units % one;
    if (rest < 0) whole--, rest += one;
    if (2 * rest > one || (2 * rest == one && (whole & 1))) whole++;
    return static_cast<int64_t>(whole);
}
int64_t between(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }
int32_t plus(int32_t a, int32_t b) { return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b)); }
int32_t minus(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
}

wide exact_sum(int32_t sum, const requantize_channel& c) {
    const wide product = wide{plus(sum, c.offset)} * (c.scale >> 5);
    return product * (wide{1} << 4 * (fpga::REQUANTIZE_SHIFTS - 1 - (c.scale & 7))) +
           wide{c.bias} * (wide{1} << (PLACES - fpga::REQUANTIZE_FRACTION));
}
int32_t exact(int32_t sum, const requantize_channel& c, int32_t residual, const requantize_tensor& t,
              const int8_t* table) {
    const wide unit = wide{1} << (PLACES - fpga::REQUANTIZE_FRACTION);
    wide y = exact_sum(sum, c);
    if (t.middle) {
        int64_t middle = between(nearest(y) + t.middle_zero, -128, 127);
        if (table) middle = table[middle + 128];
        y = wide{middle - t.middle_zero} * t.middle_factor * unit;
    }
    y += wide{residual - t.residual_zero} * t.residual_factor * unit;
    return static_cast<int32_t>(between(nearest(y) + t.zero, t.low, t.high));
}

// In doubles, as a vector unit would.
int32_t in_doubles(int32_t sum, const requantize_channel& c, int32_t residual, const requantize_tensor& t) {
    const double unit = std::ldexp(1.0, -fpga::REQUANTIZE_FRACTION);
    const double scale = std::ldexp(static_cast<double>(c.scale >> 5), -fpga::REQUANTIZE_FRACTION - 4 * (c.scale & 7));
    double y = static_cast<double>(plus(sum, c.offset)) * scale + c.bias * unit;
    if (t.middle) {
        const double middle = std::fmin(std::fmax(std::nearbyint(y) + t.middle_zero, -128), 127);
        y = (middle - t.middle_zero) * (t.middle_factor * unit);
    }
    y += static_cast<double>(residual - t.residual_zero) * (t.residual_factor * unit);
    return static_cast<int32_t>(std::fmin(std::fmax(std::nearbyint(y) + t.zero, t.low), t.high));
}

requantize_tensor random_tensor(random_numbers& random) {
    requantize_tensor t = {};
    t.zero = random.integer(-128, 127);
    t.low = random.chance(0.5) ? -128 : random.integer(-128, 0);
    t.high = random.chance(0.5) ? 127 : random.integer(t.low, 127);
    if (random.chance(0.5)) {
        t.residual_factor = random.chance(0.1) ? 67108863 : random.sized(27);
        t.residual_zero = random.integer(-128, 127);
    }
    t.middle = random.chance(0.3);
    t.middle_factor = t.middle ? random.sized(27) : 0;
    t.middle_zero = t.middle ? random.integer(-128, 127) : 0;
    return t;
}

// Fields of any value, sums of any value, as long as the product has the bits that make_channel leaves it.
void raw_fields(tb::report& report, random_numbers& random, int cases) {
    int8_t table[256];
    for (int i = 0; i < 256; i++) table[i] = static_cast<int8_t>(random.integer(-128, 127));
    for (int i = 0; i < cases; i++) {
        report.begin("raw fields");
        const requantize_tensor t = random_tensor(random);
        requantize_channel c = {random.sized(32), random.sized(27) * 32 + random.integer(0, 7), random.sized(32)};
        int32_t sum = random.chance(0.1) ? random.pick<int32_t>({INT32_MIN, INT32_MAX, 0, 1, -1}) : random.sized(32);
        constexpr int64_t MOST = int64_t{1} << (fpga::REQUANTIZE_PRODUCT - 1);
        while (std::llabs(int64_t{plus(sum, c.offset)} * (c.scale >> 5)) >= MOST)
            c.scale = (c.scale >> 6) * 32 + (c.scale & 7);
        if (random.chance(0.3)) {  // just at a tie: the bias brings the product there, short of it or beyond
            const int32_t mantissa = c.scale >> 5, shift = c.scale & 7;
            const int64_t product = int64_t{plus(sum, c.offset)} * mantissa >> 4 * shift;
            const int64_t tie = int64_t{random.integer(-150, 150)} * (1 << fpga::REQUANTIZE_FRACTION) +
                                (1 << (fpga::REQUANTIZE_FRACTION - 1)) + random.integer(-1, 1);
            if (std::llabs(tie - product) < INT32_MAX) c.bias = static_cast<int32_t>(tie - product);
        }
        const int32_t residual = random.integer(-128, 127);
        const int8_t* middle_table = random.chance(0.5) ? table : nullptr;
        report.close(static_cast<float>(fpga::requantize(sum, c, residual, t, middle_table)),
                     exact(sum, c, residual, t, middle_table), 0, "");
    }
}

// Channels as hosts make them, on sums up to the greatest: doubles give the same.
void doubles(tb::report& report, random_numbers& random, int cases) {
    int made = 0;
    for (int i = 0; i < cases; i++) {
        report.begin("doubles");
        requantize_tensor t = random_tensor(random);
        const double greatest = random.log_real(0, 31), scale = random.log_real(-34, 4) * (random.chance(0.1) ? -1 : 1);
        const double bias = random.log_real(-10, 11) * (random.chance(0.5) ? -1 : 1);
        const double residual = 255.0 * std::abs(t.residual_factor) / (1 << fpga::REQUANTIZE_FRACTION);
        const int32_t offset = random.sized(31);
        requantize_channel c;
        try {
            c = fpga::make_channel(scale, bias, std::floor(greatest), offset, residual);
        } catch (const fpga::requantize_error&) {
            continue;
        }
        made++;
        const int32_t most = static_cast<int32_t>(greatest * (1 - 1e-9));
        for (int k = 0; k < 8; k++) {
            const int32_t part = random.integer(-most, most);
            const int32_t sum = minus(k < 2 ? most : k < 4 ? -most : part, offset);
            const int32_t x = random.integer(-128, 127);
            report.close(static_cast<float>(fpga::requantize(sum, c, x, t, static_cast<const int8_t*>(nullptr))),
                         in_doubles(sum, c, x, t), 0, "");
        }
    }
    report.begin("most channels can be made");
    report.check(made > cases * 6 / 10, std::to_string(made) + " of " + std::to_string(cases));
}

float kept(float x) {  // rounds here, whatever a compiler would fuse
    volatile float y = x;
    return y;
}

// clamp(nearest((acc * f32(sx * sw) + bias) * f32(1 / so)) + zero), in float32 steps as graphs have it.
int32_t reference(int32_t sum, float combined, float bias, float inverse, int32_t zero) {
    const float product = kept(static_cast<float>(sum) * combined), y = kept(kept(product + bias) * inverse);
    return static_cast<int32_t>(between(static_cast<int64_t>(std::nearbyint(y)) + zero, -128, 127));
}

// Layers of a thousand outputs; how many differ from the reference, and by how much.
void against_reference(tb::report& report, random_numbers& random, int layers, bool powers) {
    int64_t differ = 0, outputs = 0;
    for (int i = 0; i < layers; i++) {
        report.begin(powers ? "power-of-two scales" : "float scales");
        const double deviation = random.log_real(8, 20);  // of the sums
        float in = static_cast<float>(random.log_real(-8, 2)), weight = static_cast<float>(random.log_real(-12, -2));
        float out = static_cast<float>(static_cast<double>(in) * weight * deviation / random.real(20, 60));
        if (powers) {
            in = std::exp2(std::round(std::log2(in)));
            weight = std::exp2(std::round(std::log2(weight)));
            out = std::exp2(std::round(std::log2(out)));
        }
        const float combined = in * weight, inverse = 1 / out;
        float bias = out * random.real(-60, 60);
        if (powers) bias = std::nearbyint(bias / combined) * combined;
        const requantize_channel c = fpga::make_channel(static_cast<double>(combined) / out,
                                                        static_cast<double>(bias) / out, 1 << 24);
        const requantize_tensor t = {random.integer(-128, 127), -128, 127, 0, 0, 0, 0, false};
        std::normal_distribution<double> normal(0, deviation);
        std::mt19937 engine(static_cast<uint32_t>(random.integer(0, INT32_MAX)));
        for (int k = 0; k < 1000; k++) {
            const int32_t sum =
                static_cast<int32_t>(between(static_cast<int64_t>(normal(engine)), -(1 << 23), 1 << 23));
            const int32_t got = fpga::requantize(sum, c, 0, t, static_cast<const int8_t*>(nullptr));
            const int32_t expected = reference(sum, combined, bias, inverse, t.zero);
            report.close(static_cast<float>(got), expected, powers ? 0 : 1, "");
            differ += got != expected;
            outputs++;
        }
    }
    const double ppm = 1e6 * static_cast<double>(differ) / static_cast<double>(outputs);
    std::printf("  %s: %.1f ppm of %" PRId64 " differ from the float32 reference\n",
                powers ? "powers of two" : "floats", ppm, outputs);
    report.begin("share that differs");
    report.check(ppm <= 20, std::to_string(ppm) + " ppm");
}

template <class MAKE>
void refused(tb::report& report, const char* what, MAKE make) {
    report.begin(what);
    try {
        make();
        report.fail("is not refused");
    } catch (const fpga::requantize_error&) {}
}

void refusals(tb::report& report) {
    refused(report, "scale of 16", [] { fpga::make_channel(16, 0, 1); });
    refused(report, "scale that is none", [] { fpga::make_channel(NAN, 0, 1); });
    refused(report, "infinite bias", [] { fpga::make_channel(1, INFINITY, 1); });
    refused(report, "sums beyond 32 bits", [] { fpga::make_channel(1e-3, 0, 4e9); });
    refused(report, "products beyond 53 bits", [] { fpga::make_channel(15, 0, 2e9); });
    refused(report, "bias that sums may cancel", [] { fpga::make_channel(2e-7, 1e5, 2e9); });
    refused(report, "residual factor", [] { fpga::make_factor(16); });
    report.begin("bias that no sum can reach");
    report.check(fpga::make_channel(1e-12, 1e5, 1000).bias == INT32_MAX, "is not saturated");
    report.begin("scale of nothing");
    report.check((fpga::make_channel(0, 3.5, 1e6).scale >> 5) == 0, "has a mantissa");
}

// Arguments and fields of random channels, exactly: for Python to compare with.
int print_channels() {
    random_numbers random(5);
    for (int i = 0; i < 4000; i++) {
        const bool power = random.chance(0.3);
        double scale = random.log_real(-34, 5), bias = random.log_real(-12, 12) * random.pick({-1.0, 1.0, 0.0});
        if (power) scale = std::exp2(std::round(std::log2(scale))), bias = std::nearbyint(bias / scale) * scale;
        const double greatest = std::floor(random.log_real(0, 32)), residual = random.pick({0.0, 12.5, 4000.0});
        const int32_t offset = random.sized(31);
        std::printf("%a %a %a %d %a ", scale, bias, greatest, offset, residual);
        try {
            const requantize_channel c = fpga::make_channel(scale, bias, greatest, offset, residual);
            std::printf("%d %d %d\n", c.offset, c.scale, c.bias);
        } catch (const fpga::requantize_error& error) {
            std::printf("%s\n", error.what());
        }
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::string(argv[1]) == "channels") return print_channels();
    tb::report report("requantize");
    random_numbers random(1);
    raw_fields(report, random, tb::share_of(400000, argc, argv));
    doubles(report, random, tb::share_of(100000, argc, argv));
    against_reference(report, random, tb::share_of(4000, argc, argv), false);
    against_reference(report, random, tb::share_of(300, argc, argv), true);
    refusals(report);
    return report.finish();
}
