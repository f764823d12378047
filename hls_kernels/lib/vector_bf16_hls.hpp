// vector_bf16.hpp for synthesis.
#pragma once
#include <cstdint>

namespace fpga {

typedef ivec16 dot_pairs;

FPGA_INLINE vec16 dot2(const vec16& sum, const dot_pairs& x, const dot_pairs& w) {
    const ivec16 high(~0xffff), shift(16);
    return sum + (from_bits(x << shift) * from_bits(w << shift) + from_bits(x & high) * from_bits(w & high));
}

inline ivec16 load_halves(const vec16* region, int64_t at, int32_t lanes) {
    ivec16 r;
each_lane:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = i < lanes ? narrow_at<2>(region, at + i) : 0;
    }
    return r;
}

FPGA_INLINE ivec16 load_pairs(const vec16* region, int64_t at) {
    return join_lanes<16>(load_halves(region, at, VEC), load_halves(region, at + VEC, VEC));
}

FPGA_INLINE ivec16 neighbours(const vec16& low, const vec16& high) {
    return join_lanes<16>(bf16_pattern(low), bf16_pattern(high));
}

FPGA_INLINE ivec16 side_by_side(const vec16& even, const vec16& odd) {
    return bf16_pattern(even) | (bf16_pattern(odd) << ivec16(16));
}

inline void store_bf16(vec16* region, int64_t at, const vec16& x) {
    const ivec16 pattern = bf16_pattern(x);
each_lane:
    for (int i = 0; i < VEC; i++) {
#pragma HLS pipeline
        store_narrow<2>(region, at + i, pattern[i]);
    }
}

}  // namespace fpga
