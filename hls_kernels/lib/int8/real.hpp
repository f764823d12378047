// Operands and results of a command that computes in float32: floats, or int8 and uint8 with scale and zero point.
//
// A byte is read as (x - zero) * scale, rounded once, and written as clamp(zero + round_half_even(x * inverse), low, high);
// NaN gives the byte 0. These are the numbers of a dequantize in front of the command and a quantize behind it.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/narrow.hpp"
#include "lib/vector_int8.hpp"

namespace fpga {

// What the least value of a format is: that of a table's first entry.
FPGA_INLINE int32_t least_of(int32_t format) { return format == FORMAT_I8 ? -128 : 0; }

struct real_input {
    int32_t format;  // FORMAT_F32, FORMAT_U8 or FORMAT_I8
    int32_t zero;
    float scale;
};

struct real_output {
    int32_t format;
    int32_t zero;
    int32_t low;
    int32_t high;
    float inverse;
};

// \tparam COMMAND Command record with the fields that are read here.
template <class COMMAND>
FPGA_INLINE real_input real_input_of(const COMMAND& c) {
    return {c.in_format, c.in_zero, c.in_scale};
}
// \tparam COMMAND Command record with the fields that are read here.
template <class COMMAND>
FPGA_INLINE real_output real_output_of(const COMMAND& c) {
    return {c.out_format, c.out_zero, c.out_low, c.out_high, c.out_inverse};
}

// x in float32 to 8 bits: clamp(zero + nearest(x * inverse), low, high); NaN gives 0.
FPGA_INLINE ivec16 quantized(const vec16& x, const vec16& inverse, const ivec16& zero, int32_t low, int32_t high) {
    const vec16 y = opaque(x * inverse);
    const vec16 within = vclamp(y, to_float(ivec16(low) - zero), to_float(ivec16(high) - zero));
    return select(vne(y, y), ivec16(0), to_nearest(within) + zero);
}

// The first `lanes` (at most 16) elements from element `at` on, zeros behind them.
FPGA_INLINE vec16 load_reals(const vec16* region, int64_t at, int32_t lanes, const real_input& in) {
    if (in.format == FORMAT_F32) return load_some(region, at, lanes);
    const ivec16 x = load_bytes(region, at, minimum(lanes, VEC), in.format == FORMAT_I8);
    return opaque(to_float(x - ivec16(in.zero)) * vec16(in.scale));
}

// The first `lanes` (at most 16) lanes of x, from element `at` on.
FPGA_INLINE void store_reals(vec16* region, int64_t at, const vec16& x, int32_t lanes, const real_output& out) {
    if (out.format == FORMAT_F32)
        store_some(region, at, x, lanes);
    else
        store_bytes(region, at, quantized(x, vec16(out.inverse), ivec16(out.zero), out.low, out.high),
                    minimum(lanes, VEC));
}

#ifndef __SYNTHESIS__
inline bool is_real_format(int32_t format) {
    return format == FORMAT_F32 || format == FORMAT_U8 || format == FORMAT_I8;
}

// What the fields of both ends must hold.
// \tparam COMMAND Command record with the fields that are read here.
template <class COMMAND>
inline void real_bounds(const COMMAND& c, bounds& b) {
    b.require(is_real_format(c.in_format) && is_real_format(c.out_format), "has an operand of an unknown format");
    if (!b.ok() || c.out_format == FORMAT_F32) return;
    const int32_t least = least_of(c.out_format);
    const auto inside = [&](int32_t x) { return x >= least && x <= least + 255; };
    b.require(inside(c.out_low) && inside(c.out_high) && inside(c.out_zero) && c.out_low <= c.out_high,
              "has limits or a zero point beyond its result's 8 bits");
}
#endif

}  // namespace fpga
