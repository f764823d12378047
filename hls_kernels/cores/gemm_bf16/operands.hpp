// Operands of gemm_bf16 on their way to the products: floats or bfloat16, in either orientation, become pairs of bfloat16. Of a
// the pairs along k follow each other, row by row; of b the columns of a pair of k, as packed weights have them.
#pragma once
#include "command.hpp"
#include "lib/dot/block.hpp"
#include "lib/vector_bf16.hpp"

namespace fpga {

constexpr int PAIRS_OF_STEP = 16;  // a beat; depths are rounded up to it with zeros

FPGA_INLINE int32_t pairs_of(int32_t depth) { return round_up(ceil_div(depth, 2), PAIRS_OF_STEP); }

// A matrix in the arena, seen from index i (a row of a, a column of b) and k; one of the strides is 1.
struct bf16_source {
    int64_t first;
    int32_t count, depth;
    int32_t stride, k_stride;
    int32_t format;
};

// Neighbours in memory from element `at` on, as numbers: the first `lanes` of them, zeros behind.
FPGA_INLINE vec16 numbers(const vec16* arena, int64_t at, int32_t format, int32_t lanes) {
    if (lanes <= 0) return vec16(0.0f);
    if (format == FORMAT_BF16) return from_bf16(load_halves(arena, at, lanes));
    return load_some(arena, at, lanes);
}

// 16 pairs along k of index i, k contiguous. i has no bound: `at` is its place.
FPGA_INLINE ivec16 pairs_along(const bf16_source& x, const vec16* arena, int64_t at, int32_t k) {
    const int32_t left = x.depth - k;
    if (x.format == FORMAT_BF16 && left >= 2 * VEC) return load_pairs(arena, at + k);
    return neighbours(numbers(arena, at + k, x.format, left), numbers(arena, at + k + VEC, x.format, left - VEC));
}

// The pair at k of 16 indices, which are contiguous from `at` on; `lanes` of them exist.
FPGA_INLINE ivec16 pairs_across(const bf16_source& x, const vec16* arena, int64_t at, int32_t k, int32_t lanes) {
    const int64_t from = at + static_cast<int64_t>(k) * x.k_stride;
    const int32_t even = k < x.depth ? lanes : 0, odd = k + 1 < x.depth ? lanes : 0;
    if (x.format == FORMAT_BF16 && odd >= VEC)
        return load_halves(arena, from, VEC) | (load_halves(arena, from + x.k_stride, VEC) << ivec16(16));
    return side_by_side(numbers(arena, from, x.format, even), numbers(arena, from + x.k_stride, x.format, odd));
}

FPGA_INLINE void store_beat_of_pairs(uint8_t* to, int64_t at, const ivec16& pairs) {
#ifdef __SYNTHESIS__
each_lane:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        for (int b = 0; b < 4; b++) to[at + 4 * i + b] = static_cast<uint8_t>(pairs[i] >> (8 * b));
    }
#else
    std::memcpy(to + at, &pairs, sizeof pairs);
#endif
}

constexpr int32_t ROWS_ACROSS = 64;  // that are turned side by side: lines of the cache are read whole

// 16 pairs, from pair p on, of `rows` neighbouring rows that are contiguous from `at` on.
inline void turn_rows(uint8_t* slab, const bf16_source& a, const vec16* arena, int64_t at, int32_t p, int32_t rows,
                      int64_t to, int32_t pitch) {
    vec16 square[VEC];
read_pairs:
    for (int32_t q = 0; q < VEC; q++) {
#pragma HLS pipeline
        square[q] = from_bits(pairs_across(a, arena, at, 2 * (p + q), rows));
    }
    transpose(square);
write_rows:
    for (int32_t j = 0; j < rows; j++) {
#pragma HLS loop_tripcount min = 1 max = 16
        store_beat_of_pairs(slab, to + static_cast<int64_t>(j) * pitch + 4 * p, bits_of(square[j]));
    }
}

// Rows of a block, whose sources from the first element of a are block.source, to the slab, `pitch` bytes apart.
inline void fill_bf16_slab(uint8_t* slab, pixel_block& block, const bf16_source& a, int32_t pairs, int32_t pitch,
                           const vec16* arena) {
    if (a.k_stride == 1) {
    each_row:
        for (int32_t i = 0; i < block.count; i++) {
#pragma HLS loop_tripcount min = 1 max = 1022
            const int64_t at = a.first + block.source[i], to = static_cast<int64_t>(i) * pitch;
        along:
            for (int32_t p = 0; p < pairs; p += VEC) {
#pragma HLS loop_tripcount min = 1 max = 128
                store_beat_of_pairs(slab, to + 4 * p, pairs_along(a, arena, at, 2 * p));
            }
        }
    } else {
    each_group:
        for (int32_t i = 0; i < block.count; i += ROWS_ACROSS) {
#pragma HLS loop_tripcount min = 1 max = 16
            const int32_t end = minimum(i + ROWS_ACROSS, block.count);
        across:
            for (int32_t p = 0; p < pairs; p += VEC) {
#pragma HLS loop_tripcount min = 1 max = 128
                // Rows that are neighbours, up to 16 of them: others go on in another matrix of the batch, perhaps.
                int32_t rows;
            neighbours:
                for (int32_t j = i; j < end; j += rows) {
#pragma HLS loop_tripcount min = 1 max = 4
                    rows = 1;
                    while (rows < VEC && j + rows < end && block.source[j + rows] == block.source[j] + rows) rows++;
                    turn_rows(slab, a, arena, a.first + block.source[j], p, rows, static_cast<int64_t>(j) * pitch,
                              pitch);
                }
            }
        }
    }
places:
    for (int32_t i = 0; i < block.count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 1022
        block.source[i] = offset_of(i, pitch);
    }
    block.pitch = pitch;
}

// What is packed soon is brought near: of 16 columns or 32 rows side by side few processors see by themselves what comes next.
// On the card there is nothing to do: it reads each of them in bursts.
#ifndef __SYNTHESIS__
constexpr int32_t ELEMENTS_AHEAD = 128, PAIRS_AHEAD = 8;

FPGA_INLINE void fetch(const bf16_source& x, const vec16* arena, int64_t at, int64_t elements) {
    const char* from = reinterpret_cast<const char*>(arena) + at * bytes_of(x.format);
    for (int64_t i = 0; i < elements * bytes_of(x.format); i += 4 * VEC) __builtin_prefetch(from + i);
}
#endif

FPGA_INLINE void fetch_along(const bf16_source& x, const vec16* arena, int64_t at) {
#ifndef __SYNTHESIS__
    fetch(x, arena, at + ELEMENTS_AHEAD, 2 * VEC);
#endif
}

// `columns` of the pair of rows that is met PAIRS_AHEAD after the one at k.
FPGA_INLINE void fetch_across(const bf16_source& x, const vec16* arena, int64_t at, int32_t k, int32_t columns) {
#ifndef __SYNTHESIS__
    const int32_t soon = k + 2 * PAIRS_AHEAD;
    for (int32_t row = soon; row < minimum(soon + 2, x.depth); row++)
        fetch(x, arena, at + static_cast<int64_t>(row) * x.k_stride, columns);
#endif
}

// Panels of `vectors` vectors of b from `column` on: [panel][pair][16 * pitch], zeros for k and columns that do not exist.
// All panels of a row are read together.
inline void pack_bf16_b(vec16* to, const bf16_source& b, const vec16* arena, int32_t column, int32_t panels,
                        int32_t pairs, int32_t vectors, int32_t pitch) {
    const int32_t width = vectors * VEC;
    if (b.stride == 1) {
    across:
        for (int32_t p = 0; p < pairs; p++) {
#pragma HLS loop_tripcount min = 16 max = 2048
            int64_t at = static_cast<int64_t>(p) * pitch;
            int32_t first = column;
            fetch_across(b, arena, b.first + column, 2 * p, minimum(panels * width, b.count - column));
        each_panel:
            for (int32_t panel = 0; panel < panels; panel++, at += static_cast<int64_t>(pairs) * pitch) {
#pragma HLS loop_tripcount min = 1 max = 4
            each_vector:
                for (int32_t j = 0; j < vectors; j++, first += VEC) {
#pragma HLS pipeline
#pragma HLS loop_tripcount min = 1 max = 4
                    to[at + j] = vec16(0.0f);
                    if (first < b.count)
                        to[at + j] = from_bits(pairs_across(b, arena, b.first + first, 2 * p, b.count - first));
                }
            }
        }
        return;
    }
columns:
    for (int32_t i = 0; i < panels * vectors; i++) {
#pragma HLS loop_tripcount min = 1 max = 16
        const int32_t panel = i / vectors, j = i % vectors, first = column + panel * width + j * VEC;
        const int32_t lanes = minimum(b.count - first, VEC);
    along:
        for (int32_t p = 0; p < pairs; p += VEC) {
#pragma HLS loop_tripcount min = 1 max = 128
            vec16 square[VEC];
        read_columns:
            for (int32_t n = 0; n < VEC; n++) {
#pragma HLS pipeline
                square[n] = vec16(0.0f);
                if (n >= lanes) continue;
                const int64_t at = b.first + offset_of(first + n, b.stride);
                fetch_along(b, arena, at + 2 * p);
                square[n] = from_bits(pairs_along(b, arena, at, 2 * p));
            }
            transpose(square);
        write_pairs:
            for (int32_t n = 0; n < VEC; n++) {
#pragma HLS pipeline II = 1
                to[(static_cast<int64_t>(panel) * pairs + p + n) * pitch + j] = square[n];
            }
        }
    }
}

}  // namespace fpga
