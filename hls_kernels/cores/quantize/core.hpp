// core: quantize; opcodes: quantize, dequantize, add_int8, lookup_int8
//
// Element-wise steps between floats and bytes, and of bytes: row by row along the output's innermost dimension, 16 elements
// at a time. Images of up to 4 channels whose planes lie apart are quantised to pixels of 4 bytes, 16 pixels at a time.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/int8/epilogue.hpp"
#include "lib/nest.hpp"

namespace fpga {

// A long row is cut into pieces, so that a tensor of one row can be shared.
constexpr int32_t QUANTIZE_PIECE = 4096;

// 16 elements of a row from its element `at` on, `lanes` of which exist; `step`: from one to the next.
FPGA_INLINE vec16 row_floats(const vec16* region, int64_t from, int64_t step, int32_t at, int32_t lanes) {
    if (step == 1) return load_some(region, from + at, lanes);
    if (step == 0) return vec16(scalar_at(region, from));
    alignas(64) float lane[VEC];
#pragma HLS array_partition variable = lane complete
each_lane:
    for (int i = 0; i < VEC; i++) {
#pragma HLS pipeline II = 1
        lane[i] = i < lanes ? scalar_at(region, from + (at + i) * step) : 0.0f;
    }
    return load(lane, 0);
}
FPGA_INLINE ivec16 row_bytes_at(const vec16* region, int64_t from, int64_t step, int32_t at, int32_t lanes,
                                int32_t format) {
    const bool is_signed = format == FORMAT_I8;
    if (step == 1) return load_bytes(region, from + at, minimum(lanes, VEC), is_signed);
    alignas(64) float lane[VEC];
#pragma HLS array_partition variable = lane complete
each_lane:
    for (int i = 0; i < VEC; i++) {
#pragma HLS pipeline II = 1
        const int64_t element = step == 0 ? from : from + (at + i) * step;
        const int32_t x = i < lanes ? byte_at(region, element) : 0;
        lane[i] = static_cast<float>(is_signed ? static_cast<int8_t>(static_cast<uint8_t>(x)) : x);
    }
    return to_int(load(lane, 0));
}

FPGA_INLINE void store_row_bytes(vec16* arena, int64_t to, int64_t step, int32_t at, const ivec16& x, int32_t lanes) {
    if (step == 1) {
        store_bytes(arena, to + at, x, minimum(lanes, VEC));
        return;
    }
each_lane:
    for (int i = 0; i < minimum(lanes, VEC); i++) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 16
        store_byte(arena, to + (at + i) * step, x[i]);
    }
}

// The zero points of 16 elements of a row.
template <class COMMAND>
FPGA_INLINE ivec16 row_zeros(const COMMAND& c, const vec16* arena, int64_t from, int64_t step, int32_t at,
                             int32_t lanes) {
    return c.zeros == ABSENT ? ivec16(c.zero) : bits_of(row_floats(arena, c.zeros + from, step, at, lanes));
}

// A row of each opcode; `at`: where output and operands begin, `step`: from one element to the next.
inline void element_row(const quantize_command& c, vec16* arena, const vec16*, const int64_t (&at)[NEST_OPERANDS],
                        const int64_t (&step)[NEST_OPERANDS], int32_t count) {
row:
    for (int32_t i = 0; i < count; i += VEC) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 256
        const vec16 x = row_floats(arena, at[1], step[1], i, count - i);
        const ivec16 zero = row_zeros(c, arena, at[2], step[2], i, count - i);
        const vec16 inverse = c.scales == ABSENT
                                  ? vec16(c.inverse_scale)
                                  : vec16(1.0f) / row_floats(arena, c.scales + at[2], step[2], i, count - i);
        store_row_bytes(arena, at[0], step[0], i, quantized(x, inverse, zero, c.low, c.high), count - i);
    }
}

inline void element_row(const dequantize_command& c, vec16* arena, const vec16* weights,
                        const int64_t (&at)[NEST_OPERANDS], const int64_t (&step)[NEST_OPERANDS], int32_t count) {
    const vec16* region = c.from_weights ? weights : arena;
row:
    for (int32_t i = 0; i < count; i += VEC) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 256
        const ivec16 x = row_bytes_at(region, at[1], step[1], i, count - i, c.in_format);
        const vec16 scale = c.scales == ABSENT ? vec16(c.scale)
                                               : row_floats(arena, c.scales + at[2], step[2], i, count - i);
        const vec16 y = to_float(x - row_zeros(c, arena, at[2], step[2], i, count - i)) * scale;
        if (step[0] == 1) {
            store_some(arena, at[0] + i, y, count - i);
            continue;
        }
    each_lane:
        for (int j = 0; j < minimum(count - i, VEC); j++) {
#pragma HLS loop_tripcount min = 1 max = 16
            store_scalar(arena, at[0] + (i + j) * step[0], y[j]);
        }
    }
}

FPGA_INLINE ivec16 int8_sum(const add_int8_command& c, const ivec16& a, const ivec16& b) {
    requantize_tensor t = {};
    t.zero = c.out_zero;
    t.low = c.out_low;
    t.high = c.out_high;
#ifdef __SYNTHESIS__
    ivec16 r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        const requantize_fixed y = {
            requantize_added(a[i], c.a_zero, c.a_factor) + requantize_added(b[i], c.b_zero, c.b_factor), false};
        r[i] = requantize_clamp(requantize_nearest(y, t.zero), t.low, t.high);
    }
    return r;
#else
    const dvec16 x = exact_product(to_double(a - ivec16(c.a_zero)), splat_double(c.a_factor * REQUANTIZE_UNIT));
    const dvec16 y = exact_fma(to_double(b - ivec16(c.b_zero)), splat_double(c.b_factor * REQUANTIZE_UNIT), x);
    return rounded(y, limits_of(t.zero, t.low, t.high));
#endif
}

inline void element_row(const add_int8_command& c, vec16* arena, const vec16* weights,
                        const int64_t (&at)[NEST_OPERANDS], const int64_t (&step)[NEST_OPERANDS], int32_t count) {
    const byte_table table = table_of(weights, c.table, c.out_format);
row:
    for (int32_t i = 0; i < count; i += VEC) {
#pragma HLS pipeline II = 3
#pragma HLS loop_tripcount min = 1 max = 256
        ivec16 r = int8_sum(c, row_bytes_at(arena, at[1], step[1], i, count - i, c.a_format),
                            row_bytes_at(arena, at[2], step[2], i, count - i, c.b_format));
        if (c.table != ABSENT) r = lookup(table, r);
        store_row_bytes(arena, at[0], step[0], i, r, count - i);
    }
}

inline void element_row(const lookup_int8_command& c, vec16* arena, const vec16* weights,
                        const int64_t (&at)[NEST_OPERANDS], const int64_t (&step)[NEST_OPERANDS], int32_t count) {
    const byte_table table = table_of(weights, c.table, c.in_format);
    int32_t i = 0;
#ifndef __SYNTHESIS__
    for (; step[0] == 1 && step[1] == 1 && i < count; i += 4 * VEC) {
        const int32_t lanes = minimum(count - i, 4 * VEC);
        store_beat(arena, at[0] + i, lookup(table, load_beat(arena, at[1] + i, lanes)), lanes);
    }
#endif
row:
    for (; i < count; i += VEC) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 256
        const ivec16 x = row_bytes_at(arena, at[1], step[1], i, count - i, c.in_format);
        store_row_bytes(arena, at[0], step[0], i, lookup(table, x), count - i);
    }
}

// First elements of output and operands.
FPGA_INLINE void first_elements(const add_int8_command& c, int64_t (&at)[NEST_OPERANDS]) {
    at[0] = c.output;
    at[1] = c.a;
    at[2] = c.b;
}
template <class COMMAND>
FPGA_INLINE void first_elements(const COMMAND& c, int64_t (&at)[NEST_OPERANDS]) {
    at[0] = c.output;
    at[1] = c.input;
    at[2] = 0;  // from the first scale and the first zero
}

template <class COMMAND>
inline void each_element_row(const COMMAND& c, const loop_nest& n, vec16* arena, const vec16* weights, uint32_t slice,
                             uint32_t slices) {
    const int outer = n.dims - 1;
    const int32_t length = n.size[outer], pieces = ceil_div(length, QUANTIZE_PIECE);
    const int64_t count = iterations(n, outer) * pieces, end = slice_begin(count, slice + 1, slices);
    int64_t i = slice_begin(count, slice, slices);
    if (i >= end) return;
    nest_position p = position_at(n, outer, i / pieces);
    int32_t piece = static_cast<int32_t>(i % pieces);
    int64_t step[NEST_OPERANDS], begin[NEST_OPERANDS];
    first_elements(c, begin);
steps:
    for (int k = 0; k < NEST_OPERANDS; k++) step[k] = n.stride[outer][k];
rows:
    for (; i < end; i++) {
#pragma HLS loop_tripcount min = 1 max = 1024
        const int32_t first = piece * QUANTIZE_PIECE;
        int64_t at[NEST_OPERANDS];
    begins:
        for (int k = 0; k < NEST_OPERANDS; k++) at[k] = begin[k] + p.offset[k] + first * step[k];
        element_row(c, arena, weights, at, step, minimum(length - first, QUANTIZE_PIECE));
        if (++piece == pieces) {
            piece = 0;
            advance(n, outer, p);
        }
    }
}

// The nest of a command whose output, first and second operand have these strides.
inline loop_nest element_nest(const int32_t (&size)[5], const int32_t (&out)[5], const int32_t (&a)[5],
                              const int32_t (&b)[5]) {
    loop_nest n = {};
    n.dims = 5;
dimensions:
    for (int d = 0; d < 5; d++) {
        n.size[d] = size[d];
        n.stride[d][0] = out[d];
        n.stride[d][1] = a[d];
        n.stride[d][2] = b[d];
    }
    simplify(n);
    return n;
}

// Planes of floats to pixels of which 4 bytes are written: the innermost dimension has up to 4 channels, the one before it
// pixels that lie side by side in their planes.
FPGA_INLINE bool is_planar_quads(const loop_nest& n) {
    const int channel = n.dims - 1, pixel = n.dims - 2;
    return n.dims >= 2 && n.size[channel] <= 4 && n.stride[channel][0] == 1 && n.stride[pixel][0] >= 4 &&
           n.stride[pixel][1] == 1;
}

inline void quantize_planes(const quantize_command& c, const loop_nest& n, vec16* arena, uint32_t slice,
                            uint32_t slices) {
    const int outer = n.dims - 2, channel = n.dims - 1;
    const int32_t pixels = n.size[outer], groups = ceil_div(pixels, VEC);
    const int64_t count = iterations(n, outer) * groups, end = slice_begin(count, slice + 1, slices);
    int64_t i = slice_begin(count, slice, slices);
    if (i >= end) return;
    nest_position p = position_at(n, outer, i / groups);
    int32_t group = static_cast<int32_t>(i % groups);
each_group:
    for (; i < end; i++) {
#pragma HLS loop_tripcount min = 1 max = 1024
        const int32_t first = group * VEC, lanes = minimum(pixels - first, VEC);
        ivec16 quads(0);
    channels:
        for (int32_t k = 0; k < n.size[channel]; k++) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 4
            const vec16 x = load_some(arena, c.input + p.offset[1] + k * n.stride[channel][1] + first, lanes);
            const ivec16 byte = quantized(x, vec16(c.inverse_scale), ivec16(c.zero), c.low, c.high) & ivec16(0xff);
            quads = quads | (byte << ivec16(8 * k));
        }
        const int64_t apart = n.stride[outer][0], to = c.output + p.offset[0] + apart * first;
#ifndef __SYNTHESIS__
        alignas(64) uint8_t bytes[4 * VEC];
        store(reinterpret_cast<float*>(bytes), 0, from_bits(quads));
        uint8_t* const at = bytes_of_region(arena) + to;
        if (apart == 4 && lanes == VEC)
            std::memcpy(at, bytes, sizeof bytes);
        else
            for (int32_t x = 0; x < lanes; x++) std::memcpy(at + apart * x, bytes + 4 * x, 4);
#else
    pixels_of_group:
        for (int32_t x = 0; x < lanes; x++) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 16 max = 16
            ivec16 byte;
            for (int k = 0; k < 4; k++) {
#pragma HLS unroll
                byte[k] = unsigned_byte(quads[x], k);
            }
            store_bytes(arena, to + apart * x, byte, 4);
        }
#endif
        if (++group == groups) {
            group = 0;
            advance(n, outer, p);
        }
    }
}

inline uint32_t quantize(const quantize_command& c, const vec16*, vec16* arena, const vec16* weights, uint32_t slice,
                         uint32_t slices) {
    const loop_nest n = element_nest(c.dims, c.out_stride, c.in_stride, c.scale_stride);
    if (c.scales == ABSENT && c.zeros == ABSENT && is_planar_quads(n)) {
        quantize_planes(c, n, arena, slice, slices);
        return STATUS_OK;
    }
    each_element_row(c, n, arena, weights, slice, slices);
    return STATUS_OK;
}

inline uint32_t dequantize(const dequantize_command& c, const vec16*, vec16* arena, const vec16* weights,
                           uint32_t slice, uint32_t slices) {
    each_element_row(c, element_nest(c.dims, c.out_stride, c.in_stride, c.scale_stride), arena, weights, slice, slices);
    return STATUS_OK;
}

inline uint32_t add_int8(const add_int8_command& c, const vec16*, vec16* arena, const vec16* weights, uint32_t slice,
                         uint32_t slices) {
    each_element_row(c, element_nest(c.dims, c.out_stride, c.a_stride, c.b_stride), arena, weights, slice, slices);
    return STATUS_OK;
}

inline uint32_t lookup_int8(const lookup_int8_command& c, const vec16*, vec16* arena, const vec16* weights,
                            uint32_t slice, uint32_t slices) {
    each_element_row(c, element_nest(c.dims, c.out_stride, c.in_stride, c.in_stride), arena, weights, slice, slices);
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<quantize_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(quantize_command& c, const windows& elsewhere) {
        elsewhere.redirect(c.input, c.scales, c.zeros);
        elsewhere.redirect_elements(1, c.output);
    }
};
template <>
struct redirection<dequantize_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(dequantize_command& c, const windows& elsewhere) {
        if (!c.from_weights) elsewhere.redirect_elements(1, c.input);
        elsewhere.redirect(c.output, c.scales, c.zeros);
    }
};
template <>
struct redirection<add_int8_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(add_int8_command& c, const windows& elsewhere) {
        elsewhere.redirect_elements(1, c.a);
        elsewhere.redirect_elements(1, c.b);
        elsewhere.redirect_elements(1, c.output);
    }
};
template <>
struct redirection<lookup_int8_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(lookup_int8_command& c, const windows& elsewhere) {
        elsewhere.redirect_elements(1, c.input);
        elsewhere.redirect_elements(1, c.output);
    }
};

inline bool is_int8(int32_t format) { return format == FORMAT_U8 || format == FORMAT_I8; }
inline bool is_of(int32_t value, int32_t format) {
    return value >= least_of(format) && value <= least_of(format) + 255;
}

template <class COMMAND>
inline void element_bounds(const COMMAND& c, bounds& b) {
    for (int d = 0; d < 5; d++) {
        b.require(c.dims[d] >= 1, "has a dimension below 1");
        b.require(c.dims[d] == 1 || c.out_stride[d] != 0, "writes its output more than once");
    }
}

template <class COMMAND>
inline void scale_bounds(const COMMAND& c, bounds& b) {
    const extent read = strided_extent<extent>(c.dims, c.scale_stride, 5);
    if (c.scales != ABSENT) b.read(REGION_ARENA, c.scales, read);
    if (c.zeros != ABSENT) b.read(REGION_ARENA, c.zeros, read);
}

inline void quantize_bounds(const quantize_command& c, bounds& b) {
    element_bounds(c, b);
    b.require(is_int8(c.out_format), "has a result of an unknown format");
    b.require(is_of(c.low, c.out_format) && is_of(c.high, c.out_format) && is_of(c.zero, c.out_format) &&
                  c.low <= c.high,
              "has limits or a zero point beyond its result's 8 bits");
    if (!b.ok()) return;
    const loop_nest n = element_nest(c.dims, c.out_stride, c.in_stride, c.scale_stride);
    scale_bounds(c, b);
    b.read(REGION_ARENA, c.input, strided_extent<extent>(c.dims, c.in_stride, 5));
    extent written = strided_extent<extent>(c.dims, c.out_stride, 5);
    if (c.scales == ABSENT && c.zeros == ABSENT && is_planar_quads(n)) written.dim(5 - n.size[n.dims - 1], 1);
    b.write(REGION_ARENA, c.output, written, 1);
}

inline void dequantize_bounds(const dequantize_command& c, bounds& b) {
    element_bounds(c, b);
    b.require(is_int8(c.in_format), "has an input of an unknown format");
    if (!b.ok()) return;
    scale_bounds(c, b);
    b.read(c.from_weights ? REGION_WEIGHTS : REGION_ARENA, c.input, strided_extent<extent>(c.dims, c.in_stride, 5), 1);
    b.write(REGION_ARENA, c.output, strided_extent<extent>(c.dims, c.out_stride, 5));
}

inline void add_int8_bounds(const add_int8_command& c, bounds& b) {
    element_bounds(c, b);
    b.require(is_int8(c.a_format) && is_int8(c.b_format) && is_int8(c.out_format),
              "has an operand of an unknown format");
    b.require(is_of(c.out_low, c.out_format) && is_of(c.out_high, c.out_format) && is_of(c.out_zero, c.out_format) &&
                  c.out_low <= c.out_high && is_of(c.a_zero, c.a_format) && is_of(c.b_zero, c.b_format),
              "has limits or a zero point beyond 8 bits");
    if (!b.ok()) return;
    b.read(REGION_ARENA, c.a, strided_extent<extent>(c.dims, c.a_stride, 5), 1);
    b.read(REGION_ARENA, c.b, strided_extent<extent>(c.dims, c.b_stride, 5), 1);
    if (c.table != ABSENT) b.read(REGION_WEIGHTS, c.table, 256, 1);
    b.write(REGION_ARENA, c.output, strided_extent<extent>(c.dims, c.out_stride, 5), 1);
}

inline void lookup_int8_bounds(const lookup_int8_command& c, bounds& b) {
    element_bounds(c, b);
    b.require(is_int8(c.in_format), "has an input of an unknown format");
    if (!b.ok()) return;
    b.read(REGION_ARENA, c.input, strided_extent<extent>(c.dims, c.in_stride, 5), 1);
    b.read(REGION_WEIGHTS, c.table, 256, 1);
    b.write(REGION_ARENA, c.output, strided_extent<extent>(c.dims, c.out_stride, 5), 1);
}
#endif

}  // namespace fpga
