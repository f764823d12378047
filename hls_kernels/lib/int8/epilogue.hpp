// From 32-bit sums of int8 products to what a command stores.
//
// To 8 bits without an activation: lib/requantize.hpp, whose channels are the parameters (offset, scale, bias). ReLU and
// similar activations are limits. CPUs compute it in doubles, in which all terms are exact, so that the bits are the same.
// With an activation, or to floats, each operation is rounded, and scale and bias are floats:
//   `x = act(float(sum + offset) * scale + bias)`.
// FORMAT_I32 gives sum + offset. With dynamic quantization a pixel (a row of a matrix) has a scale and zero point of its own:
//   `x = act(float(sum + zero * offset) * own scale * scale + bias)`.
//   `result = x`, or `clamp(zero + nearest(x * inverse_scale), low, high)`.
#pragma once
#include "epilogue_parts.hpp"
#include "lib/bounds.hpp"
#ifndef __SYNTHESIS__
#include "nearly_gnu.hpp"
#endif

namespace fpga {

// A pixel's sums, `term` and the offsets of its channels, by its own scale.
FPGA_INLINE vec16 scaled_sum(const pixel_sums& from, int32_t i, int32_t j, const ivec16& term, const ivec16& offset) {
    const ivec16 all = from.times ? offset * ivec16(from.times[i]) : offset;
    const vec16 x = to_float(sum_of(from, i, j) + term + all);
    return from.scale ? opaque(x * vec16(from.scale[i])) : x;
}

// So many pixels at a time: an activation is chosen once for them.
constexpr int32_t FLOATS_AT_ONCE = 16;

inline void finish_in_floats(const pixel_sums& from, int32_t j, const channel_group& to, const int8_epilogue& e,
                             vec16* arena, const vec16* weights) {
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
inline int8_channels int8_channels_of(const vec16*, const int8_epilogue&, const channel_group&) { return {}; }

inline void finish_int8(const pixel_sums& from, int32_t j, const int8_channels&, const channel_group& to,
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

// Vectors [j, j + vectors) of each pixel, one to four; `of`: int8_channels_of their channels.
FPGA_NOINLINE void finish_int8_vectors(const pixel_sums& from, int32_t j, int vectors, const int8_channels* of,
                                       const channel_group* to, const int8_epilogue& e, vec16* arena,
                                       const vec16* weights) {
    if (in_floats(e)) {
        for (int v = 0; v < vectors; v++) finish_in_floats(from, j + v, to[v], e, arena, weights);
    } else if (e.tensor.middle || from.term) {
        for (int v = 0; v < vectors; v++) finish_exactly(from, j + v, of[v], to[v], e, arena, weights);
    } else {
        switch (vectors) {
            case 1: return finish_vectors<1>(from, j, of, to, e, arena, weights);
            case 2: return finish_vectors<2>(from, j, of, to, e, arena, weights);
            case 3: return finish_vectors<3>(from, j, of, to, e, arena, weights);
            default: return finish_vectors<4>(from, j, of, to, e, arena, weights);
        }
    }
}

inline void finish_int8(const pixel_sums& from, int32_t j, const int8_channels& of, const channel_group& to,
                        const int8_epilogue& e, vec16* arena, const vec16* weights) {
    finish_int8_vectors(from, j, 1, &of, &to, e, arena, weights);
}

// How the operands of an int8 convolution follow windows.
// \tparam COMMAND Command record of the core.
template <class COMMAND>
struct convolution_int8_redirection {
    static constexpr bool POSSIBLE = true;
    static void apply(COMMAND& c, const windows& elsewhere) {
        elsewhere.redirect_elements(1, c.input);
        elsewhere.redirect_elements(1, c.residual);
        elsewhere.redirect_elements(out_bytes(c.out_format), c.output);
    }
};

// What a record with an epilogue must satisfy, but for its residual's and output's extents.
// \tparam COMMAND Command record with the fields that are read here.
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
