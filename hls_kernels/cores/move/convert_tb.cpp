// Narrow numbers against double precision: every pattern of 16 bits, floats on and beside every border of rounding, and
// convert commands of all formats in both directions.
#include "convert.hpp"

#include <cfloat>

#include "tb/tb.hpp"

using namespace fpga;

namespace {

// A binary format with a sign, `exponent` bits and `fraction` bits, as IEEE 754 has it.
struct float_format {
    const char* name;
    int exponent, fraction;
    vec16 (*round)(const vec16&);
    ivec16 (*pattern)(const vec16&);
    vec16 (*value)(const ivec16&);

    int bias() const { return (1 << (exponent - 1)) - 1; }
    double largest() const { return std::ldexp(2 - std::ldexp(1.0, -fraction), bias()); }

    double decoded(uint32_t pattern16) const {
        const int e = pattern16 >> fraction & ((1 << exponent) - 1);
        const int f = pattern16 & ((1 << fraction) - 1);
        const double sign = pattern16 >> 15 ? -1 : 1;
        if (e == (1 << exponent) - 1) return f ? NAN : sign * INFINITY;
        if (e == 0) return sign * std::ldexp(f, 1 - bias() - fraction);
        return sign * std::ldexp(f + (1 << fraction), e - bias() - fraction);
    }

    // To the nearest, ties to even.
    double rounded(double x) const {
        if (std::isnan(x) || std::isinf(x) || x == 0) return x;
        const int unit = std::max(std::ilogb(x), 1 - bias()) - fraction;
        const double y = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
        return std::fabs(y) > largest() ? std::copysign(INFINITY, x) : y;
    }
};

const float_format BF16 = {"bf16", 8, 7, round_to_bf16, bf16_pattern, from_bf16};
const float_format F16 = {"f16", 5, 10, round_to_f16, f16_pattern, from_f16};

bool same(float got, double expected) {
    if (std::isnan(expected)) return std::isnan(got);
    return got == expected && std::signbit(got) == std::signbit(expected);
}

void check_rounding(tb::report& report, const float_format& format, float x) {
    const double expected = format.rounded(x);
    char text[120];
    std::snprintf(text, sizeof text, "%.9g rounds to %.9g", x, expected);
    report.check(same(format.round(vec16(x))[5], expected), text);
    const auto pattern = static_cast<uint32_t>(format.pattern(vec16(x))[7]);
    report.check(pattern <= 0xffff && same(static_cast<float>(format.decoded(pattern)), expected), text);
}

void sweep(tb::report& report, const float_format& format) {
    report.begin(format.name);
    for (uint32_t pattern = 0; pattern <= 0xffff; pattern++) {
        const float x = format.value(ivec16(static_cast<int32_t>(pattern)))[3];
        report.check(same(x, format.decoded(pattern)), "pattern " + std::to_string(pattern));
        const float next = static_cast<float>(format.decoded((pattern & 0x7fff) < 0x7fff ? pattern + 1 : pattern));
        const float middle = 0.5f * x + 0.5f * next;
        for (float near : {x, middle, std::nextafterf(middle, 0), std::nextafterf(middle, x < 0 ? -FLT_MAX : FLT_MAX)})
            check_rounding(report, format, near);
    }
    for (float x : {65519.99f, 65520.0f, FLT_MAX, -FLT_MAX, tb::SMALLEST, -tb::SMALLEST, FLT_MIN})
        check_rounding(report, format, x);
}

double reference(int32_t format, uint32_t pattern) {
    return format == FORMAT_BF16 ? BF16.decoded(pattern) : F16.decoded(pattern);
}

void run_convert(tb::report& report, tb::random_source& random) {
    tb::memory arena;
    convert_command c = {};
    c.format = random.integer(FORMAT_BF16, FORMAT_I8);
    c.narrow = random.chance(0.5);
    c.count = random.pick({1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 500, random.integer(1, 3000)});
    const bool bytes = c.format == FORMAT_U8 || c.format == FORMAT_I8;
    const int32_t beats = ceil_div(c.count, vectors_of_beat(c.format) * VEC);
    const uint32_t packed = arena.allocate(beats * VEC), words = arena.allocate(round_up(c.count, VEC));
    const int32_t slices = random.pick({1, 3, 8});
    report.begin("convert " + std::to_string(c.count) + " of format " + std::to_string(c.format) +
                 (c.narrow ? " to narrow" : " to words"));
    std::vector<uint32_t> patterns(c.count);
    for (int32_t i = 0; i < c.count; i++) {
        patterns[i] = static_cast<uint32_t>(random.integer(0, bytes ? 0xff : 0xffff));
        if (!bytes && std::isnan(reference(c.format, patterns[i]))) patterns[i] = 0x8000;
    }
    const auto byte_at = [&](int64_t i) { return reinterpret_cast<uint8_t*>(&arena[packed]) + i; };
    const auto word_of = [&](int32_t i) {
        const auto p = static_cast<int32_t>(patterns[i]);
        if (!bytes) return static_cast<float>(reference(c.format, patterns[i]));
        return from_bits(ivec16(c.format == FORMAT_I8 && p > 127 ? p - 256 : p))[0];
    };
    for (int32_t i = 0; i < c.count; i++) {
        if (c.narrow)
            arena[words + i] = word_of(i);
        else
            std::memcpy(byte_at(bytes ? i : 2 * i), &patterns[i], bytes ? 1 : 2);
    }
    const uint32_t narrow_place = packed * (bytes ? 4 : 2);
    c.input = c.narrow ? words : narrow_place;
    c.output = c.narrow ? narrow_place : words;
#ifndef __SYNTHESIS__
    report.bounded(c, convert_bounds, arena, arena);
#endif
    arena.watch();
    arena.allow(c.narrow ? packed : words, c.narrow ? beats * VEC : round_up(c.count, VEC));
    for (int32_t s = slices - 1; s >= 0; s--)
        report.check(convert(c, nullptr, arena.region(), nullptr, s, slices) == STATUS_OK, "status");
    report.check(arena.stray() < 0, "stray store");
    for (int32_t i = 0; i < c.count; i++) {
        uint32_t got = 0;
        const float word = arena[words + i], expected = word_of(i);
        std::memcpy(&got, byte_at(bytes ? i : 2 * i), bytes ? 1 : 2);
        report.check(std::memcmp(&word, &expected, sizeof word) == 0 && got == patterns[i],
                     "element " + std::to_string(i));
    }
}

}  // namespace

int main(int argc, char** argv) {
    tb::report report("convert");
    tb::random_source random(7);
    sweep(report, BF16);
    sweep(report, F16);
    for (int round = 0; round < tb::share_of(500, argc, argv); round++) run_convert(report, random);
    return report.finish();
}
