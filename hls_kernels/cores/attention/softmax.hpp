// The softmax of a block of scores between the two products of attention: rows of scores to rows of weights, both in
// local arrays, `pitch` floats apart. The passes are those of the core reduce, whose steps these are.
#pragma once
#include "command.hpp"
#include "lib/math.hpp"
#include "lib/reduce_steps.hpp"

namespace fpga {

// A block of scores; lanes from `keys` on to the end of a row's last vector count as -inf.
struct score_block {
    int32_t rows;
    int32_t keys;
    int32_t pitch;  // a multiple of 16
};

// Adds the mask's rows; `mask` is the place of the first one.
inline void add_mask(vec16* scores, const score_block& b, const vec16* region, place_t mask, int32_t row_stride,
                     int32_t key_stride) {
each_row:
    for (int32_t row = 0; row < b.rows; row++) {
#pragma HLS loop_tripcount min = 1 max = 48
        const int64_t from = static_cast<int64_t>(mask) + offset_of(row, row_stride);
        const vec16 same(key_stride == 0 ? scalar_at(region, from) : 0.0f);
    each_vector:
        for (int32_t k = 0; k < b.keys; k += VEC) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 256
            const int64_t at = static_cast<int64_t>(row) * b.pitch + k;
            const vec16 added = key_stride == 0 ? same : load_some(region, from + k, b.keys - k);
            store_aligned(scores, at, load_aligned(scores, at) + added);
        }
    }
}

inline void hide_lanes(vec16* scores, const score_block& b) {
    const int32_t last = (b.keys - 1) / VEC * VEC;
    const ivec16 present = vlt(lane_numbers(), ivec16(b.keys - last));
each_row:
    for (int32_t row = 0; row < b.rows; row++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 48
        const int64_t at = static_cast<int64_t>(row) * b.pitch + last;
        store_aligned(scores, at, select(present, load_aligned(scores, at), vec16(-FLOAT_INFINITY)));
    }
}

// ROWS rows from `row` on, side by side. NaN does not count as the largest: it comes back with the sum. What is left of a
// row of nothing but -inf is NaN, or 0 if `masked_to_zero`.
template <int ROWS>
FPGA_INLINE void softmax_rows(const vec16* scores, float* weights, const score_block& b, int32_t row,
                              bool masked_to_zero) {
    const int64_t first = static_cast<int64_t>(row) * b.pitch;
    const vec16 minus_infinity(-FLOAT_INFINITY), zero(0.0f);
    vec16 largest[ROWS], sum[ROWS], factor[ROWS];
#pragma HLS array_partition variable = largest complete
#pragma HLS array_partition variable = sum complete
#pragma HLS array_partition variable = factor complete
clear:
    UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
        largest[i] = minus_infinity;
        sum[i] = zero;
    }
largest_scores:
    for (int32_t k = 0; k < b.keys; k += VEC) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 1 max = 256
        UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            vec16 x = load_aligned(scores, first + i * b.pitch + k);
            take_whole<STEP_LARGEST>(largest[i], x, zero);
        }
    }
across_largest:
    UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
        largest[i] = across_lanes<STEP_LARGEST>(largest[i]);
        factor[i] = vec16(1.0f);
        if (masked_to_zero) {
            const ivec16 masked = veq(largest[i], minus_infinity);
            largest[i] = select(masked, zero, largest[i]);
            factor[i] = select(masked, zero, factor[i]);
        }
    }
exponentials:
    for (int32_t k = 0; k < b.keys; k += VEC) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 1 max = 256
        UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            vec16 x = load_aligned(scores, first + i * b.pitch + k);
            take_whole<STEP_EXP>(sum[i], x, largest[i]);
            store(weights, first + i * b.pitch + k, x);
        }
    }
factors:
    UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
        const vec16 total = across_lanes<STEP_SUM>(sum[i]);
        factor[i] = select(veq(factor[i], zero), zero, factor[i] / total);
    }
scale_rows:
    for (int32_t k = 0; k < b.keys; k += VEC) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 1 max = 256
        UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            const int64_t at = first + i * b.pitch + k;
            store(weights, at, load(weights, at) * factor[i]);
        }
    }
}

inline void softmax_block(vec16* scores, float* weights, const score_block& b, bool masked_to_zero) {
    if (b.keys % VEC != 0) hide_lanes(scores, b);
    int32_t row = 0;
groups:
    for (; row + REDUCE_WAYS <= b.rows; row += REDUCE_WAYS) {
#pragma HLS loop_tripcount min = 0 max = 12
        softmax_rows<REDUCE_WAYS>(scores, weights, b, row, masked_to_zero);
    }
rest:
    for (; row < b.rows; row++) {
#pragma HLS loop_tripcount min = 0 max = 3
        softmax_rows<1>(scores, weights, b, row, masked_to_zero);
    }
}

}  // namespace fpga
