// From 32-bit sums of int8 products to what a command stores.
//
// To 8 bits without an activation: lib/requantize.hpp, whose channels are the parameters (offset, scale, bias); ReLU and
// its like are limits. CPUs compute it in doubles, in which all terms are exact, so that the bits are the same.
// With an activation, or to floats, each operation rounded for itself:
//   x = act(float(sum + offset) * scale + bias)         scale and bias: floats
// or with FORMAT_I32 sum + offset as it is;
// and where a pixel (a row of a matrix) has a scale and a zero point of its own, known as the command runs only:
//   x = act(float(sum + zero * offset) * own scale * scale + bias)
//   result = x, or clamp(zero + nearest(x * inverse_scale), low, high)
// A table, if any, is applied to a result of 8 bits last.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/epilogue.hpp"
#include "lib/requantize.hpp"
#include "lib/vector_int8.hpp"
#include "real.hpp"

namespace fpga {

constexpr int PARAMETERS = 3;  // words of a channel: offset, scale, bias

struct int8_epilogue {
    requantize_tensor tensor;
    uint32_t parameters;  // weights, in words
    place_t residual;     // arena, in bytes, or ABSENT
    place_t output;       // arena, in elements of out_format
    uint32_t table, middle_table;
    int32_t residual_format, out_format;
    int32_t activation;
    float a, b, inverse_scale;
};

template <class COMMAND>
inline int8_epilogue int8_epilogue_of(const COMMAND& c) {
    int8_epilogue e;
    e.tensor.zero = c.out_zero;
    e.tensor.low = c.out_low;
    e.tensor.high = c.out_high;
    e.tensor.residual_factor = c.residual == ABSENT ? 0 : c.residual_factor;
    e.tensor.residual_zero = c.residual_zero;
    e.tensor.middle_factor = c.middle_factor;
    e.tensor.middle_zero = c.middle_zero;
    e.tensor.middle = c.middle != 0;
    e.parameters = c.parameters;
    e.residual = c.residual;
    e.output = c.output;
    e.table = c.table;
    e.middle_table = c.middle_table;
    e.residual_format = c.residual_format;
    e.out_format = c.out_format;
    e.activation = c.activation;
    e.a = c.act_a;
    e.b = c.act_b;
    e.inverse_scale = c.inverse_scale;
    return e;
}

FPGA_INLINE bool is_wide(int32_t format) { return format == FORMAT_F32 || format == FORMAT_I32; }
FPGA_INLINE bool in_floats(const int8_epilogue& e) { return is_wide(e.out_format) || e.activation != ACT_NONE; }

FPGA_INLINE int32_t out_bytes(int32_t format) { return is_wide(format) ? 4 : 1; }

// Pixels whose sums wait side by side: that of pixel i are at sums[row[i] * pitch + j], its channels at output[i] and
// residual[i] from those operands' first elements.
struct finished_pixels {
    const ivec16* sums;
    int32_t pitch;  // vectors
    int32_t count;
    const int32_t* row;
    const uint32_t* output;
    const uint32_t* residual;
    const int32_t* term;  // what a pixel's sums lack, or null
    // Of results in floats, or null: the scale of a pixel's sums, and how often a channel's offset is added to them.
    const float* scale;
    const int32_t* times;
};

// Where the 16 channels of a vector begin, and how many of them are stored.
struct finished_channels {
    uint32_t column;     // from a pixel's first channel
    uint32_t parameter;  // word of the first offset behind e.parameters; a scale is `stride` words further, then a bias
    int32_t stride;
    int32_t lanes;
    ivec16 term;  // what a channel's sums lack
};

FPGA_INLINE ivec16 sum_of(const finished_pixels& from, int32_t i, int32_t j) {
    const ivec16 sum = from.sums[static_cast<int64_t>(from.row[i]) * from.pitch + j];
    return from.term ? sum + ivec16(from.term[i]) : sum;
}

// The table at `at`, of bytes of a format from its least value on; where there is none (ABSENT), zeros.
FPGA_INLINE byte_table table_of(const vec16* weights, uint32_t at, int32_t format) {
#ifndef __SYNTHESIS__
    alignas(64) static const uint8_t NOTHING[256] = {};
    if (at == ABSENT) return byte_table(reinterpret_cast<const vec16*>(NOTHING), 0, 0);
#endif
    return byte_table(weights, static_cast<int64_t>(at), format == FORMAT_I8 ? 0x80 : 0);
}

FPGA_INLINE ivec16 parameter_at(const vec16* weights, const int8_epilogue& e, const finished_channels& to, int which) {
    return bits_of(load(weights, static_cast<int64_t>(e.parameters) + to.parameter + which * to.stride));
}

// A pixel's sums, `term` and the offsets of its channels, by its own scale.
FPGA_INLINE vec16 scaled_sum(const finished_pixels& from, int32_t i, int32_t j, const ivec16& term,
                             const ivec16& offset) {
    const ivec16 all = from.times ? offset * ivec16(from.times[i]) : offset;
    const vec16 x = to_float(sum_of(from, i, j) + term + all);
    return from.scale ? opaque(x * vec16(from.scale[i])) : x;
}

// So many pixels at a time: an activation is chosen once for them.
constexpr int32_t FLOATS_AT_ONCE = 16;

inline void finish_in_floats(const finished_pixels& from, int32_t j, const finished_channels& to,
                             const int8_epilogue& e, vec16* arena, const vec16* weights) {
    const ivec16 offset = parameter_at(weights, e, to, 0);
    const vec16 scale = from_bits(parameter_at(weights, e, to, 1)), bias = from_bits(parameter_at(weights, e, to, 2));
    const int64_t output = static_cast<int64_t>(e.output) + to.column;
    const byte_table table = table_of(weights, e.table, e.out_format);
    vec16 x[FLOATS_AT_ONCE];
groups:
    for (int32_t first = 0; first < from.count; first += FLOATS_AT_ONCE) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t count = minimum(from.count - first, FLOATS_AT_ONCE);
    scaled:
        for (int32_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 16
            x[i] = opaque(scaled_sum(from, first + i, j, to.term, offset) * scale) + bias;
        }
        apply_activation_all(x, count, e.activation, e.a, e.b);
    stores:
        for (int32_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 16
            const int64_t at = output + from.output[first + i];
            if (e.out_format == FORMAT_F32) {
                store_some(arena, at, x[i], to.lanes);
                continue;
            }
            if (e.out_format == FORMAT_I32) {
                store_some(arena, at, from_bits(sum_of(from, first + i, j) + to.term + offset), to.lanes);
                continue;
            }
            ivec16 r = quantized(x[i], vec16(e.inverse_scale), ivec16(e.tensor.zero), e.tensor.low, e.tensor.high);
            if (e.table != ABSENT) r = lookup(table, r);
            store_bytes(arena, at, r, to.lanes);
        }
    }
}

#ifdef __SYNTHESIS__

// What software keeps of a vector's channels.
struct int8_channels {};
inline int8_channels int8_channels_of(const vec16*, const int8_epilogue&, const finished_channels&) { return {}; }

inline void finish_int8(const finished_pixels& from, int32_t j, const int8_channels&, const finished_channels& to,
                        const int8_epilogue& e, vec16* arena, const vec16* weights) {
    if (in_floats(e)) {
        finish_in_floats(from, j, to, e, arena, weights);
        return;
    }
    const ivec16 offset = parameter_at(weights, e, to, 0) + to.term, scale = parameter_at(weights, e, to, 1),
                 bias = parameter_at(weights, e, to, 2);
    const byte_table table = table_of(weights, e.table, e.out_format);
    int8_t middle_table[256];
copy_table:
    for (int i = 0; i < 256; i++) {
#pragma HLS pipeline II = 1
        middle_table[i] =
            e.middle_table == ABSENT
                ? static_cast<int8_t>(i - 128)
                : static_cast<int8_t>(static_cast<uint8_t>(byte_at(weights, static_cast<int64_t>(e.middle_table) + i)));
    }
pixels:
    for (int32_t i = 0; i < from.count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 1022
        const ivec16 sum = sum_of(from, i, j);
        ivec16 residual(0);
        if (e.residual != ABSENT)
            residual = load_bytes(arena, static_cast<int64_t>(e.residual) + from.residual[i] + to.column, to.lanes,
                                  e.residual_format == FORMAT_I8);
        ivec16 r;
    lanes:
        for (int lane = 0; lane < VEC; lane++) {
#pragma HLS unroll
            const requantize_channel channel = {offset[lane], scale[lane], bias[lane]};
            r[lane] = requantize(sum[lane], channel, residual[lane], e.tensor, middle_table);
        }
        if (e.table != ABSENT) r = lookup(table, r);
        store_bytes(arena, static_cast<int64_t>(e.output) + from.output[i] + to.column, r, to.lanes);
    }
}

#else

constexpr double REQUANTIZE_UNIT = 1.0 / (1 << REQUANTIZE_FRACTION);

// Floats are enough for all but the results that lie about half-way between two integers: what they may be off by is
// known, and where they come closer to a tie than that, doubles decide, in which all terms are exact. So the bits are
// those of requantize.hpp, and most results take half the time.
//
// y + zero = sum * scale + constant + residual * factor, in floats, with roundings of the sum, both coefficients, the
// constant and each operation. Results count where |y + zero| <= 512; beyond that they are limits whatever the errors. So
// with |constant| <= C and |residual * factor| <= R the product is at most 512 + C + R in size, and all roundings together
// are less than 2^-24 (2560 + 4 C + 5 R).
constexpr double NEARLY_UNIT = 0x1p-22;
FPGA_INLINE double nearly_off(double constant, double residual) {
    return NEARLY_UNIT * (1024 + constant + 2 * residual);
}
constexpr double NEARLY_MOST = 0.0625;    // off by more than this, floats decide too seldom to be worth it
constexpr double NEARLY_OFFSET = 0x1p30;  // smaller ones have not wrapped around

// A vector's channels: as doubles, in which all is exact, and as floats.
struct int8_channels {
    ivec16 offset;
    dvec16 scale, bias;
    vec16 nearly_scale, nearly_constant;  // the offset, the bias and all zero points in one
    float nearly_tie;                     // of a distance to the nearest integer: from here on floats do not tell; or 0
};

// The scale of a requantize_channel.
FPGA_INLINE double scale_of_bits(int32_t scale) {
    static const double POWER[REQUANTIZE_SHIFTS] = {0x1p-22, 0x1p-26, 0x1p-30, 0x1p-34,
                                                    0x1p-38, 0x1p-42, 0x1p-46, 0x1p-50};
    return (scale >> 5) * POWER[scale & (REQUANTIZE_SHIFTS - 1)];
}

inline int8_channels int8_channels_of(const vec16* weights, const int8_epilogue& e, const finished_channels& to) {
    alignas(64) double scale[VEC], bias[VEC];
    alignas(64) float nearly_scale[VEC], nearly_constant[VEC];
    const double factor = e.residual == ABSENT ? 0 : e.tensor.residual_factor * REQUANTIZE_UNIT;
    double largest = 0, moved = 0;
    for (int i = 0; i < VEC; i++) {
        const int64_t at = static_cast<int64_t>(e.parameters) + to.parameter + i;
        scale[i] = scale_of_bits(int_at(weights, at + to.stride));
        bias[i] = int_at(weights, at + 2 * to.stride) * REQUANTIZE_UNIT;
        const int32_t offset =
            static_cast<int32_t>(static_cast<uint32_t>(int_at(weights, at)) + static_cast<uint32_t>(to.term[i]));
        const double constant = offset * scale[i] + bias[i] - e.tensor.residual_zero * factor + e.tensor.zero;
        nearly_scale[i] = static_cast<float>(scale[i]);
        nearly_constant[i] = static_cast<float>(constant);
        largest = std::fmax(largest, std::fabs(constant));
        moved = std::fmax(moved, std::fabs(static_cast<double>(offset)));
    }
    const double off = nearly_off(largest, 255 * std::fabs(factor));
    const bool enough = off < NEARLY_MOST && moved < NEARLY_OFFSET;
    return {parameter_at(weights, e, to, 0) + to.term,
            load_doubles(scale),
            load_doubles(bias),
            load(nearly_scale, 0),
            load(nearly_constant, 0),
            static_cast<float>(enough ? 0.5 - off : 0)};
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

// Pixels whose results are looked at together.
constexpr int32_t NEARLY_AT_ONCE = 4;

// WHOLE: all 16 channels are stored. MORE: with a middle, a table, or terms of pixels.
template <bool RESIDUAL, bool MORE, bool WHOLE>
inline void finish_pixels(const finished_pixels& from, int32_t j, const int8_channels& of, const finished_channels& to,
                          const int8_epilogue& e, vec16* arena, const vec16* weights) {
    const requantize_tensor t = e.tensor;
    const int8_channels channel = of;
    const int8_limits limits = limits_of(t.zero, t.low, t.high), middle_limits = limits_of(t.middle_zero, -128, 127);
    const dvec16 residual_factor = splat_double(t.residual_factor * REQUANTIZE_UNIT);
    const dvec16 middle_factor = splat_double(t.middle_factor * REQUANTIZE_UNIT);
    // A signed byte is its bits as an unsigned one, the sign bit flipped, less 128.
    const ivec16 flip(e.residual_format == FORMAT_I8 ? 0x80 : 0), residual_zero = flip + ivec16(t.residual_zero);
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
    int32_t i = 0;
    if ((!MORE || (!t.middle && !from.term)) && channel.nearly_tie > 0) {
        const vec16 low(static_cast<float>(t.low)), high(static_cast<float>(t.high)), tie(channel.nearly_tie);
        const vec16 factor(static_cast<float>(t.residual_factor * REQUANTIZE_UNIT));
        for (; i + NEARLY_AT_ONCE <= count; i += NEARLY_AT_ONCE) {
            ivec16 result[NEARLY_AT_ONCE];
            vec16 off(0.0f);
            UNROLL for (int32_t n = 0; n < NEARLY_AT_ONCE; n++) {
                vec16 y = to_float(sums[rows[i + n] * pitch]) * channel.nearly_scale + channel.nearly_constant;
                if (RESIDUAL) y = to_float(flipped_residual(i + n) - flip) * factor + y;
                y = larger(smaller(y, high), low);
                result[n] = to_nearest(y);
                off = larger_size(off, y - to_float(result[n]));
            }
            if (some_above(off, tie)) {
                for (int32_t n = 0; n < NEARLY_AT_ONCE; n++) finish(i + n);
                continue;
            }
            UNROLL for (int32_t n = 0; n < NEARLY_AT_ONCE; n++) {
                if (MORE && has_table) result[n] = lookup(table, result[n]);
                store_bytes(arena, output + outputs[i + n], result[n], lanes);
            }
        }
    }
    for (; i < count; i++) finish(i);
}

template <bool RESIDUAL, bool MORE>
inline void finish_lanes(const finished_pixels& from, int32_t j, const int8_channels& channel,
                         const finished_channels& to, const int8_epilogue& e, vec16* arena, const vec16* weights) {
    if (to.lanes == VEC)
        finish_pixels<RESIDUAL, MORE, true>(from, j, channel, to, e, arena, weights);
    else
        finish_pixels<RESIDUAL, MORE, false>(from, j, channel, to, e, arena, weights);
}

// `channel`: int8_channels_of the same channels.
FPGA_NOINLINE void finish_int8(const finished_pixels& from, int32_t j, const int8_channels& channel,
                               const finished_channels& to, const int8_epilogue& e, vec16* arena,
                               const vec16* weights) {
    const bool more = e.tensor.middle || e.table != ABSENT || from.term, residual = e.residual != ABSENT;
    if (in_floats(e)) return finish_in_floats(from, j, to, e, arena, weights);
    if (more && residual) return finish_lanes<true, true>(from, j, channel, to, e, arena, weights);
    if (more) return finish_lanes<false, true>(from, j, channel, to, e, arena, weights);
    if (residual) return finish_lanes<true, false>(from, j, channel, to, e, arena, weights);
    finish_lanes<false, false>(from, j, channel, to, e, arena, weights);
}

// What a record with an epilogue must satisfy, but for its residual's and output's extents.
template <class COMMAND>
inline void int8_epilogue_bounds(const COMMAND& c, int64_t channels, bounds& b) {
    const int32_t least = least_of(c.out_format), residual_least = least_of(c.residual_format);
    const auto is_int8 = [](int32_t format) { return format == FORMAT_U8 || format == FORMAT_I8; };
    const bool floats = is_wide(c.out_format) || c.activation != ACT_NONE;
    b.require(is_int8(c.out_format) || is_wide(c.out_format), "has a result of an unknown format");
    b.require(activation_is_known(c.activation), "has an unknown activation");
    b.require(!floats || (c.residual == ABSENT && !c.middle),
              "has a residual or a middle beside an activation or floats");
    b.require(!is_wide(c.out_format) || c.table == ABSENT, "has a table for results of 32 bits");
    b.require(c.parameters % VEC == 0, "has parameters that do not begin with a beat");
    if (is_int8(c.out_format))
        b.require(c.out_low >= least && c.out_low <= c.out_high && c.out_high <= least + 255 && c.out_zero >= least &&
                      c.out_zero <= least + 255,
                  "has limits or a zero point beyond its result's 8 bits");
    if (c.residual != ABSENT)
        b.require(is_int8(c.residual_format) && c.residual_zero >= residual_least &&
                      c.residual_zero <= residual_least + 255,
                  "has a residual of an unknown format, or a zero point beyond its 8 bits");
    b.require(!c.middle || (c.middle_zero >= -128 && c.middle_zero <= 127), "has a middle whose zero is beyond 8 bits");
    b.read(REGION_WEIGHTS, c.parameters, PARAMETERS * channels);
    if (c.table != ABSENT) b.read(REGION_WEIGHTS, c.table, 256, 1);
    if (c.middle_table != ABSENT) b.read(REGION_WEIGHTS, c.middle_table, 256, 1);
}

#endif

}  // namespace fpga
