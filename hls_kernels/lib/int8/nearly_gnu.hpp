// The software path from int8 sums to 8 bits (epilogue.hpp), bit-identical to requantize.hpp.
//
// Floats are enough except for results that lie about half-way between two integers. The largest error of a float is known.
// Where a result is closer to a tie than this error, doubles decide, because all terms are exact in doubles.
//
// With y counted from the least value of the result's format, floats compute
//     `y = sum * scale + constant + residual * factor`.
// Results count where -1/2 <= y <= 255.5. Beyond that they are limits whatever the errors, and less than 2^31, because
// make_channel keeps terms below 2^53 units. The computed number is t, the integer nearest to 2^16 (y + 1/2) + slack, where
// slack is at least as large as all errors in this unit. So t is never too small, and at most 2 slack too large. The upper 16
// bits of t are y rounded unless its lower 16 bits are 2 slack or less. Then doubles decide.
//
// The table has the errors, in 2^-24 of a step, with |constant| <= C and |residual * factor| <= R. The product is then at most
// 256 + C + R in size.
//     `the scale rounded`                                             256 + C + R.
//     `a sum of more than 24 bits rounded`                            256 + C + R, if such a sum can count.
//     `the constant rounded`                                          C.
//     `the result rounded, with an ulp of 2^-16 below 256`            128.
//     `with a residual its factor rounded, and the sum without it`    256 + 2 R.
// C counts the half and the slack, less than a step, too. In the unit of t, to whose integers the result is rounded at last,
// they are 2^-8 of that, and 1/2.
#pragma once
#include <type_traits>

#include "epilogue_parts.hpp"
#include "lib/vector_pack_gnu.hpp"

namespace fpga {

constexpr double REQUANTIZE_UNIT = 1.0 / (1 << REQUANTIZE_FRACTION);

constexpr float NEARLY_MOST = 4096;       // of slack: with more, floats decide too seldom to be worth it
constexpr float NEARLY_OFFSET = 0x1p30f;  // smaller ones have not wrapped around
constexpr float NEARLY_ONE = 0x1p16f;
constexpr int NEARLY_FRACTION = 16;
constexpr float NEARLY_TOP = 32767.5f * NEARLY_ONE;  // of what t may be, and far from a tie
constexpr int32_t ALWAYS_NEAR = 0xffff;

// A vector's channels: as doubles, in which all is exact, and as floats.
struct int8_channels {
    ivec16 offset;
    dvec16 scale, bias;
    vec16 nearly_scale, nearly_constant;  // of t: the offset, the bias and all zero points in one
    ivec16 nearly_slack;                  // twice: up to here the lower half of t does not tell
};

// The scale of a requantize_channel.
FPGA_INLINE double scale_of_bits(int32_t scale) {
    static const double POWER[REQUANTIZE_SHIFTS] = {0x1p-22, 0x1p-26, 0x1p-30, 0x1p-34,
                                                    0x1p-38, 0x1p-42, 0x1p-46, 0x1p-50};
    return (scale >> 5) * POWER[scale & (REQUANTIZE_SHIFTS - 1)];
}

// A signed byte is its bits as an unsigned one, the sign bit flipped, less 128.
FPGA_INLINE int32_t flip_of(int32_t format) { return format == FORMAT_I8 ? 0x80 : 0; }

inline int8_channels int8_channels_of(const vec16* weights, const int8_epilogue& e, const channel_group& to) {
    const double factor = e.residual == ABSENT ? 0 : e.tensor.residual_factor * REQUANTIZE_UNIT;
    const int32_t residual_zero = e.tensor.residual_zero + flip_of(e.residual_format);
    const ivec16 scale = parameter_at(weights, e, to, 1), mantissa = scale >> ivec16(5);
    // 2^-(22 + 4 * shift), of which the exponent's bits are made.
    const ivec16 exponent = ivec16(127 - REQUANTIZE_FRACTION) -
                            (scale & ivec16(REQUANTIZE_SHIFTS - 1)) * ivec16(REQUANTIZE_NIBBLE);
    const vec16 power = from_bits(exponent << ivec16(23));
    int8_channels of;
    of.offset = parameter_at(weights, e, to, 0) + to.term;
    of.scale = exact_product(to_double(mantissa), to_double(power));
    of.bias = exact_product(to_double(parameter_at(weights, e, to, 2)), splat_double(REQUANTIZE_UNIT));
    const ivec16 size(0x7fffffff);
    const double moved = e.tensor.zero - least_of(e.out_format) - residual_zero * factor;
    // A double's rounding of the constant is nothing beside a float's.
    const dvec16 all = exact_fma(to_double(of.offset), of.scale,
                                 exact_fma(of.bias, splat_double(1), splat_double(moved)));
    const vec16 constant = from_bits(bits_of(to_float(all)) & size) + vec16(1.0f);
    const vec16 offset = from_bits(bits_of(to_float(of.offset)) & size);
    const vec16 residual(static_cast<float>(255 * std::fabs(factor)));
    const vec16 product = constant + residual + vec16(256.0f);
    of.nearly_scale = to_float(mantissa) * (power * vec16(NEARLY_ONE));
    // Sums that count are less than 2^24: product <= 2^24 scale.
    const ivec16 exact = vle(product, of.nearly_scale * vec16(0x1p24f / NEARLY_ONE));
    const vec16 sums = select(exact, vec16(0.0f), product);
    const vec16 with_residual = factor == 0 ? vec16(0.0f) : residual + residual + vec16(256.0f);
    const vec16 off = (product + sums + constant + with_residual + vec16(128.0f)) * vec16(0x1p-8f);
    // 1/2 of t's own rounding, 1/2 that this one may take off, and what this sum itself is off by.
    const ivec16 slack = to_nearest(smaller(off, vec16(NEARLY_MOST)) + vec16(1.0f + 1e-2f));
    of.nearly_constant =
        to_float(exact_fma(all, splat_double(NEARLY_ONE), to_double(slack + ivec16(1 << (NEARLY_FRACTION - 1)))));
    const ivec16 enough = vlt(off, vec16(NEARLY_MOST)) & vlt(offset, vec16(NEARLY_OFFSET));
    of.nearly_slack = select(enough, slack + slack, ivec16(ALWAYS_NEAR));
    return of;
}

// Where results are rounded to: limits less the zero point, and the zero point. Copies of these stay in registers.
struct int8_limits {
    dvec16 high;
    ivec16 low, zero;
};

FPGA_INLINE int8_limits limits_of(int32_t zero, int32_t low, int32_t high) {
    return {splat_double(high - zero), ivec16(low - zero), ivec16(zero)};
}

// y, exact, to 8 bits.
FPGA_INLINE ivec16 rounded(const dvec16& y, const int8_limits& t) {
    return larger(to_nearest(vmin(y, t.high)), t.low) + t.zero;
}

// The middle of y, less its zero point.
FPGA_INLINE ivec16 middle_of(const dvec16& y, const int8_limits& t, bool has_table, const byte_table& table) {
    const ivec16 middle = rounded(y, t);
    if (!has_table) return middle - t.zero;
    const ivec16 found = lookup(table, middle);
    return ((found << ivec16(24)) >> ivec16(24)) - t.zero;
}

// WHOLE: all 16 channels are stored. MORE: with a middle, a table, or terms of pixels.
// \tparam RESIDUAL Whether a residual is added.
// \tparam MORE Whether the epilogue has a middle, a table, or terms of pixels.
// \tparam WHOLE Whether all lanes or beats are whole.
template <bool RESIDUAL, bool MORE, bool WHOLE>
inline void finish_exactly_as(const pixel_sums& from, int32_t j, const int8_channels& of, const channel_group& to,
                              const int8_epilogue& e, vec16* arena, const vec16* weights) {
    const requantize_tensor t = e.tensor;
    const int8_channels channel = of;
    const int8_limits limits = limits_of(t.zero, t.low, t.high), middle_limits = limits_of(t.middle_zero, -128, 127);
    const dvec16 residual_factor = splat_double(t.residual_factor * REQUANTIZE_UNIT);
    const dvec16 middle_factor = splat_double(t.middle_factor * REQUANTIZE_UNIT);
    const ivec16 flip(flip_of(e.residual_format)), residual_zero = flip + ivec16(t.residual_zero);
    const int64_t output = e.output + to.column, residual = e.residual + to.column, pitch = from.pitch;
    const byte_table table = table_of(weights, MORE ? e.table : ABSENT, e.out_format);
    const byte_table middle_table = table_of(weights, MORE ? e.middle_table : ABSENT, FORMAT_I8);
    const bool has_table = e.table != ABSENT, has_middle_table = e.middle_table != ABSENT;
    const int32_t lanes = WHOLE ? VEC : to.lanes, count = from.count;
    const ivec16* const sums = from.sums + j;
    const int32_t* const rows = from.row;
    const uint32_t *const outputs = from.output, *const residuals = from.residual;
    const auto flipped_residual = [&](int32_t i) {
        return load_bytes(arena, residual + residuals[i], lanes, false) ^ flip;
    };
    const auto finish = [&](int32_t i) {
        const ivec16 sum = MORE ? sum_of(from, i, j) : sums[rows[i] * pitch];
        dvec16 y = exact_fma(to_double(sum + channel.offset), channel.scale, channel.bias);
        if (MORE && t.middle)
            y = exact_product(to_double(middle_of(y, middle_limits, has_middle_table, middle_table)), middle_factor);
        if (RESIDUAL) y = exact_fma(to_double(flipped_residual(i) - residual_zero), residual_factor, y);
        ivec16 r = rounded(y, limits);
        if (MORE && has_table) r = lookup(table, r);
        store_bytes(arena, output + outputs[i], r, lanes);
    };
    for (int32_t i = 0; i < count; i++) finish(i);
}

// \tparam RESIDUAL Whether a residual is added.
// \tparam MORE Whether the epilogue has a middle, a table, or terms of pixels.
template <bool RESIDUAL, bool MORE>
inline void finish_lanes_exactly(const pixel_sums& from, int32_t j, const int8_channels& channel,
                                 const channel_group& to, const int8_epilogue& e, vec16* arena, const vec16* weights) {
    if (to.lanes == VEC)
        finish_exactly_as<RESIDUAL, MORE, true>(from, j, channel, to, e, arena, weights);
    else
        finish_exactly_as<RESIDUAL, MORE, false>(from, j, channel, to, e, arena, weights);
}

// In doubles.
FPGA_NOINLINE void finish_exactly(const pixel_sums& from, int32_t j, const int8_channels& channel,
                                  const channel_group& to, const int8_epilogue& e, vec16* arena, const vec16* weights) {
    const bool more = e.tensor.middle || e.table != ABSENT || from.term, residual = e.residual != ABSENT;
    if (more && residual) return finish_lanes_exactly<true, true>(from, j, channel, to, e, arena, weights);
    if (more) return finish_lanes_exactly<false, true>(from, j, channel, to, e, arena, weights);
    if (residual) return finish_lanes_exactly<true, false>(from, j, channel, to, e, arena, weights);
    finish_lanes_exactly<false, false>(from, j, channel, to, e, arena, weights);
}

FPGA_INLINE byte_limits limits_of_bytes(const int8_epilogue& e) {
    const int32_t least = least_of(e.out_format);
    return {e.tensor.low - least, e.tensor.high - least, least & 0x80};
}

// The number t of the nearest result. The lower half of `least` becomes the least t.
FPGA_INLINE ivec16 nearly_rounded(const vec16& y, ivec16& least) {
    const ivec16 t = to_nearest(smaller(y, vec16(NEARLY_TOP)));
    least = smaller_halves(least, t);
    return t;
}

// Pixels that are finished at a time.
constexpr int32_t NEARLY_AT_ONCE = 128;

// Pixels of so many vectors that a line of bytes takes.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
template <int VECTORS>
constexpr int NEARLY_TOGETHER = VECTORS == 1   ? 4
                                : VECTORS == 2 ? 2
                                               : 1;

// Vectors [j, j + VECTORS) of each of at most NEARLY_AT_ONCE pixels.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam RESIDUAL Whether a residual is added.
template <int VECTORS, bool RESIDUAL>
inline void finish_nearly(const pixel_sums& from, int32_t j, const int8_channels* of, const channel_group* to,
                          const int8_epilogue& e, vec16* arena, const vec16* weights) {
    vec16 scale[VECTORS], constant[VECTORS];
    ivec16 slack = of[0].nearly_slack;
    UNROLL for (int v = 0; v < VECTORS; v++) {
        scale[v] = of[v].nearly_scale;
        constant[v] = of[v].nearly_constant;
        slack = larger(slack, of[v].nearly_slack);
    }
    const byte_limits limits = limits_of_bytes(e);
    const vec16 factor(static_cast<float>(e.tensor.residual_factor * REQUANTIZE_UNIT) * NEARLY_ONE);
    const ivec16 flip(flip_of(e.residual_format));
    const byte_table table = table_of(weights, e.table, e.out_format);
    const int32_t lanes = to[VECTORS - 1].lanes, count = from.count;
    const ivec16* const sums = from.sums + j;
    const int64_t pitch = from.pitch, residual = e.residual + to[0].column;
    uint8_t* const output = bytes_of_region(arena) + e.output + to[0].column;
    const int32_t* const rows = from.row;
    const uint32_t *const outputs = from.output, *const residuals = from.residual;
    const bool has_table = e.table != ABSENT;
    const auto exactly = [&](int32_t i, int32_t pixels) {
        const pixel_sums some = {from.sums,         from.pitch, pixels,  from.row + i, from.output + i,
                                 from.residual + i, nullptr,    nullptr, nullptr};
        for (int v = 0; v < VECTORS; v++) finish_exactly(some, j + v, of[v], to[v], e, arena, weights);
    };
    // Those that doubles decide come last, so that no call is in the loop. But a residual may lie where its result goes.
    int32_t left[NEARLY_AT_ONCE], lefts = 0;
    const auto finish = [&](int32_t i, auto together) {
        constexpr int PIXELS = decltype(together)::value;
        ivec16 result[PIXELS * VECTORS];
        ivec16 least(-1);
        uint8_t* at[PIXELS];
        UNROLL for (int p = 0; p < PIXELS; p++) {
            const ivec16* sum = sums + rows[i + p] * pitch;
            at[p] = output + outputs[i + p];
            UNROLL for (int v = 0; v < VECTORS; v++) {
                vec16 y = to_float(sum[v]) * scale[v] + constant[v];
                if (RESIDUAL) {
                    const ivec16 x = load_bytes(arena, residual + residuals[i + p] + v * VEC,
                                                v == VECTORS - 1 ? lanes : VEC, false);
                    y = to_float(x ^ flip) * factor + y;
                }
                result[p * VECTORS + v] = nearly_rounded(y, least);
            }
        }
        if (__builtin_expect(some_lower_half_within(least, slack), false)) {
            if (RESIDUAL) return exactly(i, PIXELS);
            left[lefts++] = i;
        }
        if (has_table)
            store_pieces<VECTORS>(at, lookup(table, saturated_line(result, limits)), lanes);
        else
            store_saturated<VECTORS>(at, result, limits, lanes);
    };
    constexpr int TOGETHER = NEARLY_TOGETHER<VECTORS>;
    int32_t i = 0;
    if (lanes == VEC)
        for (; i + TOGETHER <= count; i += TOGETHER) finish(i, std::integral_constant<int, TOGETHER>());
    const int32_t alone = i;
    for (; i < count; i++) finish(i, std::integral_constant<int, 1>());
    for (int32_t k = 0; k < lefts; k++) exactly(left[k], left[k] < alone ? TOGETHER : 1);
}

// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
template <int VECTORS>
inline void finish_vectors(const pixel_sums& from, int32_t j, const int8_channels* of, const channel_group* to,
                           const int8_epilogue& e, vec16* arena, const vec16* weights) {
    const auto finish = [&](const pixel_sums& some) {
        if (e.residual != ABSENT)
            finish_nearly<VECTORS, true>(some, j, of, to, e, arena, weights);
        else
            finish_nearly<VECTORS, false>(some, j, of, to, e, arena, weights);
    };
    // A copy of `from`, just written, would have to wait until all sums in front of it have left the store buffer.
    if (from.count <= NEARLY_AT_ONCE) return finish(from);
    for (int32_t i = 0; i < from.count; i += NEARLY_AT_ONCE)
        finish({from.sums, from.pitch, minimum(from.count - i, NEARLY_AT_ONCE), from.row + i, from.output + i,
                from.residual + i, nullptr, nullptr, nullptr});
}

}  // namespace fpga
