// Rows of elements as move and gather write them: copied, filled, spread.
#pragma once
#include "lib/vector.hpp"

namespace fpga {

inline void copy_row(vec16* arena, int64_t to, const vec16* region, int64_t from, int32_t count) {
row:
    for (int32_t i = 0; i < count; i += VEC) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 256
        store_some(arena, to + i, load_some(region, from + i, count - i), count - i);
    }
}

inline void fill_row(vec16* arena, int64_t to, float value, int32_t count) {
row:
    for (int32_t i = 0; i < count; i += VEC) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 256
        store_some(arena, to + i, vec16(value), count - i);
    }
}

// A contiguous row to elements `step` apart, as the parts of a channel shuffle.
inline void spread_row(vec16* arena, int64_t to, int64_t step, const vec16* region, int64_t from, int32_t count) {
vectors:
    for (int32_t i = 0; i < count; i += VEC) {
#pragma HLS loop_tripcount min = 1 max = 16
        const int32_t lanes = minimum(count - i, VEC);
        const vec16 x = load_some(region, from + i, lanes);
        int64_t at = to + i * step;
    spread:
        UNROLL for (int j = 0; j < VEC; j++, at += step) {
#pragma HLS pipeline II = 1
            if (j < lanes) store_scalar(arena, at, x[j]);
        }
    }
}

}  // namespace fpga
