// The reduction of one tile of the MAC array (tile.hpp) over one block of k, and what it needs to know.
#pragma once
#include "lib/mac/weights.hpp"
#include "lib/vector.hpp"
#include "tiles.hpp"

namespace fpga {

// Weights that will be read next: software fetches these `count` words into the cache while it works on others.
struct weights_ahead {
#ifndef __SYNTHESIS__
    const memory_float* from;
    int64_t count;
#endif
};

// Products that software adds up apart, at most: that keeps the rounding of long reductions as small as the card's, with
// its PHASES sums, and PyTorch's, which works in blocks too.
constexpr int MOST_SUMMED = 256;

// One panel of one block over one block of k.
struct mac_step {
    int32_t first_pixel;  // in the block's table
    int32_t pixels;
    int32_t depth;          // steps of k
    int32_t k_stride;       // offset(k) = k * k_stride where no table gives it
    int32_t vectors;        // output vectors to compute
    int32_t panel_vectors;  // those of the panel (software only)
    int32_t lanes;          // of the last of them, how many are stored: VEC unless another group's channels follow
    int32_t pitch;          // floats from one k of the weights to the next
    uint32_t column;        // of the panel's first channel, from the first of the pixel
    uint32_t bias_column;
    int32_t summed;  // products that are added up apart, at most (software only)
    bool alone;      // the command has this pixel only, so that no weight is used twice
    bool first;      // block of k
    bool last;
};

#ifdef __SYNTHESIS__

// An fp32 adder takes several cycles, so one sum could not take a product every cycle: PHASES sums take them in turn.
constexpr int PHASES = 8;

// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam TABLE Whether offsets of k come from a table (k_offset), not from strides.
template <int ROWS, int VECTORS, bool TABLE>
inline void accumulate(vec16 (&sum)[ROWS][VECTORS], const memory_float* source, const uint32_t (&row)[ROWS],
                       const uint32_t* k_offset, const mac_weight* weight, const mac_step& step, const weights_ahead&) {
    vec16 phase_sum[PHASES][ROWS][VECTORS];
#pragma HLS array_partition variable = phase_sum complete dim = 2
#pragma HLS array_partition variable = phase_sum complete dim = 3
clear_phases:
    for (int phase = 0; phase < PHASES; phase++) {
#pragma HLS pipeline II = 1
        for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                phase_sum[phase][i][j] = vec16(0.0f);
            }
        }
    }
reduction:
    for (int32_t k = 0; k < step.depth; k++) {
#pragma HLS pipeline II = 1
#pragma HLS dependence variable = phase_sum inter true distance = 8
#pragma HLS loop_tripcount min = 1 max = 2048
        const int phase = k % PHASES;
        const uint32_t offset = k_offset[k];
    rows:
        for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            const vec16 x(source[row[i] + offset]);
        columns:
            for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                phase_sum[phase][i][j] += x * weight_vector(weight, k * step.pitch + j * VEC);
            }
        }
    }
clear_sums:
    for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
        for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
            sum[i][j] = vec16(0.0f);
        }
    }
fold_phases:
    for (int phase = 0; phase < PHASES; phase++) {
#pragma HLS pipeline
        for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                sum[i][j] += phase_sum[phase][i][j];
            }
        }
    }
}

#else

// Steps of k that a tile of few rows fetches its weights ahead: the latency of the next cache. Of a stream from memory the
// core itself fetches most. Most tiles of a block of many pixels find them in the nearest cache.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
template <int ROWS>
constexpr int STEPS_AHEAD = ROWS == 1  ? 4
                            : ROWS < 6 ? 56 / ROWS
                                       : 0;

// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam TABLE Whether offsets of k come from a table (k_offset), not from strides.
// \tparam WEIGHTS Pointer to weights, or their narrow form.
template <int ROWS, int VECTORS, bool TABLE, class WEIGHTS>
FPGA_INLINE void multiply_step(vec16 (&sum)[ROWS][VECTORS], const memory_float* const (&at)[ROWS],
                               const uint32_t* k_offset, WEIGHTS weight, const mac_step& step, int64_t k) {
    const int64_t pitch = step.pitch;
    const int64_t offset = TABLE ? static_cast<int64_t>(k_offset[k]) : k * step.k_stride;
    if (ROWS == 1) {  // a weight meets one value: none has to wait in a register
        const vec16 x(at[0][offset]);
    each_weight:
        UNROLL for (int j = 0; j < VECTORS; j++) {
            prefetch(weight, (k + STEPS_AHEAD<ROWS>)*pitch + j * VEC);
            sum[0][j] += x * weight_vector(weight, k * pitch + j * VEC);
        }
        return;
    }
    vec16 w[VECTORS];
weights_of_k:
    UNROLL for (int j = 0; j < VECTORS; j++) {
        if (STEPS_AHEAD<ROWS> > 0) prefetch(weight, (k + STEPS_AHEAD<ROWS>)*pitch + j * VEC);
        w[j] = weight_vector(weight, k * pitch + j * VEC);
    }
rows:
    UNROLL for (int i = 0; i < ROWS; i++) {
        const vec16 x(at[i][offset]);
    columns:
        UNROLL for (int j = 0; j < VECTORS; j++) { sum[i][j] += x * w[j]; }
    }
}

// Each step of a tile prefetches a piece of the next weights, if that is at least a float a step. Where offsets are
// linear, the rows of the next tile most often follow those of this one: they are fetched too.
//
// The order of a sum follows from the command alone, whatever tile a pixel falls into: so the results are the same for
// any number of slices and for the tiles of any instruction set.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam TABLE Whether offsets of k come from a table (k_offset), not from strides.
// \tparam WEIGHTS Pointer to weights, or their narrow form.
template <int ROWS, int VECTORS, bool TABLE, class WEIGHTS>
FPGA_INLINE void accumulate(vec16 (&sum)[ROWS][VECTORS], const memory_float* source, const uint32_t (&row)[ROWS],
                            const uint32_t* k_offset, WEIGHTS weight, const mac_step& step,
                            const weights_ahead& ahead) {
    const int64_t next_pitch = ahead.count / step.depth;
    const memory_float* at[ROWS];
each_row:
    UNROLL for (int i = 0; i < ROWS; i++) { at[i] = source + row[i]; }
    const memory_float* next_rows = at[ROWS - 1] + (at[ROWS - 1] - at[ROWS > 1 ? ROWS - 2 : 0]);
clear_sums:
    UNROLL for (int i = 0; i < ROWS; i++) { UNROLL for (int j = 0; j < VECTORS; j++) sum[i][j] = vec16(0.0f); }
    int64_t k = 0;
    if (ROWS > 1 && next_pitch > 0) {
    reduction_ahead:
        for (; k < step.depth; k++) {
            prefetch(ahead.from, k * next_pitch);
            if (!TABLE) prefetch(next_rows, k * ROWS);
            multiply_step<ROWS, VECTORS, TABLE>(sum, at, k_offset, weight, step, k);
        }
    }
    // Weights that are used once stream from memory: a core has more fetches of two streams under way than of one.
    if (ROWS == 1 && step.alone) {
        const int64_t half = step.depth / 2;
    reduction_of_streams:
        for (; k < half; k++) {
            multiply_step<ROWS, VECTORS, TABLE>(sum, at, k_offset, weight, step, k);
            multiply_step<ROWS, VECTORS, TABLE>(sum, at, k_offset, weight, step, half + k);
        }
        k = 2 * half;
    }
reduction:
    for (; k < step.depth; k++) {
        multiply_step<ROWS, VECTORS, TABLE>(sum, at, k_offset, weight, step, k);
    }
}

#endif

}  // namespace fpga
