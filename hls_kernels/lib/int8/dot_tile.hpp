// One tile of int8 products in registers: pixels (or matrix rows) by output channels, four products a lane and step.
//
//   tile[i][n] = first[n] + sum_k source[row(i) + offset(k)] * weight[k][n]
//
// k goes through runs of bytes that are contiguous from a pixel's origin. Sums of integers are exact: tiles of any size
// and order give the same.
#pragma once
#include "lib/vector_int8.hpp"
#include "tiles.hpp"

namespace fpga {

// Contiguous bytes of k, in quads of 4, `offset` bytes from a pixel's origin.
struct k_run {
    uint32_t offset;
    int32_t quads;
};

// Weights of a panel, [quad][16 * pitch][4].
struct dot_panel {
    const k_run* runs;
    int32_t run_count;
    int32_t pitch;  // vectors from one quad to the next
#ifdef __SYNTHESIS__
    const vec16* weight;  // on chip
#else
    const uint8_t* weight;
#endif
};

FPGA_INLINE ivec16 panel_vector(const dot_panel& panel, int64_t quad, int j) {
    const int64_t vector = quad * panel.pitch + j;
#ifdef __SYNTHESIS__
    return bits_of(panel.weight[vector]);
#else
    return load_quads(panel.weight, vector * 4 * VEC);
#endif
}

// Adds to `sum`. The weights begin `first` vectors into the panel.
template <int ROWS, int VECTORS>
FPGA_INLINE void dot_tile(ivec16 (&sum)[ROWS][VECTORS], const uint8_t* source, const uint32_t (&row)[ROWS],
                          const dot_panel& panel, int first) {
    int64_t quad = 0;
runs:
    for (int32_t r = 0; r < panel.run_count; r++) {
#pragma HLS loop_tripcount min = 1 max = 9
        const uint32_t origin = panel.runs[r].offset;
    quads:
        for (int32_t q = 0; q < panel.runs[r].quads; q++, quad++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 512
            dot_weights w[VECTORS];
        weights_of_quad:
            UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                w[j] = dot_weights(panel_vector(panel, quad, first + j));
            }
        rows:
            UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
                const dot_inputs x(ivec16(quad_at(source, static_cast<int64_t>(row[i]) + origin + 4 * q)));
            columns:
                UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                    sum[i][j] = dot4(sum[i][j], x, w[j]);
                }
            }
        }
    }
}

#ifndef __SYNTHESIS__

// Vectors that a tile takes at once, and its rows: its sums, a step's weights and an input fill the registers. Without an
// instruction for four products weights and inputs take two registers each.
constexpr int DOT_VECTORS = NATIVE_REGISTERS < 32 || PARTS > 1 ? 1 : HAS_DOT4 ? 4 : 2;
template <int VECTORS>
constexpr int DOT_ROWS = PARTS > 2      ? (NATIVE_REGISTERS < 32 ? 1 : 4)
                         : PARTS == 2   ? (HAS_DOT4 ? 6 : 4)
                         : VECTORS == 4 ? 6
                         : VECTORS == 3 ? 8
                                        : 12;

#endif

}  // namespace fpga
