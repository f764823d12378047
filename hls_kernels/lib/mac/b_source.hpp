// The second operand of a matrix product that lies in the arena, packed as weights are: [k][16 * pitch], a panel
// and a block of k at a time. Lanes of columns that do not exist hold anything.
#pragma once
#include "lib/place.hpp"
#include "lib/vector.hpp"
#include "tiles.hpp"

namespace fpga {

constexpr int B_BLOCK_VECTORS = tile::K_BLOCK * tile::MAX_VECTORS;

// A matrix of depth x columns in the arena; one of the strides is 1.
struct b_source {
    place_t first;
    int32_t depth;
    int32_t columns;
    int32_t k_stride;
    int32_t column_stride;
};

// Columns are contiguous: whole vectors, and lane by lane where a vector would reach beyond the operand's last float.
inline void pack_b_rows(vec16 block[B_BLOCK_VECTORS], const b_source& b, const vec16* arena, int32_t k_begin,
                        int32_t column, int32_t depth, int32_t vectors, int32_t pitch) {
each_k:
    for (int32_t k = 0; k < depth; k++) {
#pragma HLS loop_tripcount min = 1 max = 2048
        const int64_t row = static_cast<int64_t>(b.first) + offset_of(k_begin + k, b.k_stride) + column;
        const bool last_row = k_begin + k + 1 == b.depth || b.k_stride < VEC;
    each_vector:
        for (int32_t j = 0; j < vectors; j++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 4
            const int32_t lanes = b.columns - column - j * VEC;
            block[k * pitch + j] = lanes < VEC && last_row ? load_lanes(arena, row + j * VEC, lanes)
                                                           : load(arena, row + j * VEC);
        }
    }
}

// k is contiguous: squares of 16 columns by 16 k are read along k and transposed. A short depth goes lane by lane.
inline void pack_b_columns(vec16 block[B_BLOCK_VECTORS], const b_source& b, const vec16* arena, int32_t k_begin,
                           int32_t column, int32_t depth, int32_t vectors, int32_t pitch) {
each_vector:
    for (int32_t j = 0; j < vectors; j++) {
#pragma HLS loop_tripcount min = 1 max = 4
        const int32_t first = column + j * VEC;
        const int32_t lanes = minimum(b.columns - first, VEC);
    squares:
        for (int32_t k = 0; k < depth; k += VEC) {
#pragma HLS loop_tripcount min = 1 max = 128
            // The last square is shifted back; what it packs again has the same values.
            const int32_t from = maximum(minimum(k, depth - VEC), 0);
            const int32_t steps = minimum(depth, VEC);
            vec16 square[VEC];
        read_columns:
            for (int32_t i = 0; i < VEC; i++) {
#pragma HLS pipeline II = 1
                // Beyond the last column: any column will do.
                const int32_t n = first + minimum(i, lanes - 1);
                const int64_t at = static_cast<int64_t>(b.first) + k_begin + from + offset_of(n, b.column_stride);
                square[i] = load_some(arena, at, steps);
            }
            transpose(square);
        write_steps:
            for (int32_t i = 0; i < steps; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 16
                block[(from + i) * pitch + j] = square[i];
            }
        }
    }
}

inline void pack_b(vec16 block[B_BLOCK_VECTORS], const b_source& b, const vec16* arena, int32_t k_begin, int32_t column,
                   int32_t depth, int32_t vectors, int32_t pitch) {
    if (b.column_stride == 1)
        pack_b_rows(block, b, arena, k_begin, column, depth, vectors, pitch);
    else
        pack_b_columns(block, b, arena, k_begin, column, depth, vectors, pitch);
}

}  // namespace fpga
