// The multiply-accumulate array of conv2d and gemm: an output-stationary tile of pixels (or matrix rows) by output
// channels that stays in registers while the reduction runs, one step of k a cycle.
//
//   `tile[i][n] = sum_k source[row(i) + offset(k)] * weight[k][n]`.
//
// A *block* is a list of pixels that are worked on together. A *panel* is 16 * vectors output channels; its weights lie
// as [k][16 * vectors]. A long reduction comes in blocks of k, between which the sums wait in a local array.
// accumulate.hpp has the reduction of one tile.
#pragma once
#include "accumulate.hpp"
#include "command.hpp"
#include "lib/epilogue.hpp"
#include "lib/vector.hpp"
#include "plan.hpp"
#include "tiles.hpp"

namespace fpga {

constexpr int PANEL_MAX = tile::MAX_VECTORS * VEC;
// Pixels of a block: their partial sums fit the output buffer, and whole tiles fill it.
constexpr int BLOCK_MAX = tile::OUT_FLOATS / PANEL_MAX / tile::ROWS * tile::ROWS;
constexpr int PARTIAL_VECTORS = BLOCK_MAX * tile::MAX_VECTORS;
static_assert(BLOCK_MAX >= tile::ROWS, "OUT_FLOATS must hold at least one tile");
static_assert(tile::KOFF >= tile::K_BLOCK, "KOFF must hold the offsets of a block of k");
static_assert(tile::SLAB_FLOATS >= VEC * tile::K_BLOCK, "SLAB_FLOATS must hold 16 rows of a block of k");

// Where the pixels of a block lie, in floats. A block smaller than a tile repeats its last pixel to fill one: the same
// values are stored twice, and no tail needs an array of its own.
struct block_table {
    uint32_t source[BLOCK_MAX];    // from the start of the source array
    uint32_t output[BLOCK_MAX];    // from the output's first element
    uint32_t residual[BLOCK_MAX];  // from the residual's first element
};

// A pixel's entries in the table, or their distances from one pixel to the next.
struct table_entry {
    uint32_t source, output, residual;
};

// Entries [begin, begin + count) for pixels that lie at equal distances.
FPGA_INLINE void fill_entries(block_table& table, int32_t begin, int32_t count, const table_entry& first,
                              const table_entry& step) {
entries:
    for (int32_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 1022
        table.source[begin + i] = first.source + i * step.source;
        table.output[begin + i] = first.output + i * step.output;
        table.residual[begin + i] = first.residual + i * step.residual;
    }
}

FPGA_INLINE void repeat_last_pixel(block_table& table, int32_t pixels) {
repeat:
    for (int32_t i = pixels; i < tile::ROWS; i++) {
#pragma HLS loop_tripcount min = 0 max = 6
        table.source[i] = table.source[pixels - 1];
        table.output[i] = table.output[pixels - 1];
        table.residual[i] = table.residual[pixels - 1];
    }
}

struct mac_epilogue {
    uint32_t bias;     // in the weights region, or ABSENT
    place_t residual;  // in the arena, or ABSENT
    place_t output;    // in the arena
    float alpha;
    int32_t activation;
    float a;
    float b;
};

// Whether output vector j of a tile exists: in software a tile is never wider than its panel.
FPGA_INLINE bool present(int j, const mac_step& step) {
#ifdef __SYNTHESIS__
    return j < step.vectors;
#else
    (void)j, (void)step;
    return true;
#endif
}

// Vectors that a pixel has among the partial sums: in software a tile may be narrower than its panel.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
template <int VECTORS>
FPGA_INLINE int32_t row_of_sums(const mac_step& step) {
#ifdef __SYNTHESIS__
    return VECTORS;
#else
    return PLAN_PARTS > 1 ? step.panel_vectors : VECTORS;
#endif
}

// Vectors that the partial sums of a block's panel take: in hardware those of whole tiles, as wide as the array.
FPGA_INLINE int32_t sums_of_panel(int32_t pixels, int32_t vectors) {
#ifdef __SYNTHESIS__
    (void)vectors;
    return round_up(pixels, tile::ROWS) * tile::MAX_VECTORS;
#else
    return pixels * vectors;
#endif
}

#ifdef __SYNTHESIS__
// Brings a block of k of a panel's weights on chip, as wide as the array: `first` vectors behind those of `operand`.
inline void load_weights(vec16 block[tile::K_BLOCK * tile::MAX_VECTORS], const vec16* weights, uint32_t operand,
                         int32_t format, int64_t first, mac_step& step) {
    bring_weights(block, weights, operand, format, first, step.depth, step.vectors, step.pitch / VEC);
    step.pitch = PANEL_MAX;
}
#endif

#ifdef __SYNTHESIS__
// The hardware reads every offset from the table.
inline void fill_linear_offsets(uint32_t k_offset[tile::KOFF], uint32_t stride) {
each_k:
    for (int32_t k = 0; k < tile::K_BLOCK; k++) {
#pragma HLS pipeline II = 1
        k_offset[k] = k * stride;
    }
}
#endif

// First pixel of a tile. The last tile is shifted back to end with the block.
FPGA_INLINE int first_pixel(int tile, int rows, int pixels) { return maximum(minimum(tile * rows, pixels - rows), 0); }

// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
template <int ROWS, int VECTORS>
FPGA_INLINE void finish(vec16 (&sum)[ROWS][VECTORS], int first, const mac_step& step, const mac_epilogue& e,
                        const block_table& table, vec16* arena, const vec16* weights) {
    if (e.alpha != 1.0f) {
        const vec16 alpha(e.alpha);
    scale_rows:
        UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                sum[i][j] *= alpha;
            }
        }
    }
    if (e.bias != ABSENT) {
    bias_columns:
        UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
            if (!present(j, step)) continue;
            const vec16 bias = load(weights, static_cast<int64_t>(e.bias) + step.bias_column + j * VEC);
            UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
                sum[i][j] += bias;
            }
        }
    }
    if (e.residual != ABSENT) {
    residual_rows:
        UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            const int64_t at = static_cast<int64_t>(e.residual) + table.residual[first + i] + step.column;
            UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                if (!present(j, step)) continue;
                if (j == step.vectors - 1 && step.lanes < VEC)
                    sum[i][j] += load_lanes(arena, at + j * VEC, step.lanes);
                else
                    sum[i][j] += load(arena, at + j * VEC);
            }
        }
    }
    activate<ROWS, VECTORS>(sum, e.activation, e.a, e.b);
store_rows:
    UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
        const int64_t at = static_cast<int64_t>(e.output) + table.output[first + i] + step.column;
    store_columns:
        UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
            if (!present(j, step)) continue;
            if (j == step.vectors - 1 && step.lanes < VEC)
                store_lanes(arena, at + j * VEC, sum[i][j], step.lanes);
            else
                store(arena, at + j * VEC, sum[i][j]);
        }
    }
}

// Tiles of a panel.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam TABLE Whether offsets of k come from a table (k_offset), not from strides.
// \tparam WEIGHTS Pointer to weights, or their narrow form.
template <int ROWS, int VECTORS, bool TABLE, class WEIGHTS>
FPGA_NOINLINE void mac_panel(const memory_float* source, const uint32_t* k_offset, WEIGHTS weight, const mac_step& step,
                             const weights_ahead& ahead, const mac_epilogue& e, const block_table& table,
                             vec16* partial, vec16* arena, const vec16* weights) {
    const int tiles = ceil_div(step.pixels, ROWS);
#ifdef __SYNTHESIS__
    const weights_ahead share = ahead;
#else
    // Weights for a few tiles arrive no faster than they are used: a second stream would only slow them down.
    weights_ahead share = {ahead.from, tiles < 4 ? 0 : ahead.count / tiles};
#endif
each_tile:
    for (int tile = 0; tile < tiles; tile++) {
#pragma HLS loop_tripcount min = 1 max = 146
        const int first = step.first_pixel + first_pixel(tile, ROWS, step.pixels);
        uint32_t row[ROWS];
    find_rows:
        UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            row[i] = table.source[first + i];
        }
        vec16 sum[ROWS][VECTORS];
#pragma HLS array_partition variable = sum complete dim = 0
        accumulate<ROWS, VECTORS, TABLE>(sum, source, row, k_offset, weight, step, share);
#ifndef __SYNTHESIS__
        share.from += share.count;
#endif
        const int64_t kept = (static_cast<int64_t>(step.first_pixel) + tile * ROWS) * row_of_sums<VECTORS>(step);
        if (!step.first) {
        resume_rows:
            UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
                UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                    sum[i][j] += partial[kept + i * row_of_sums<VECTORS>(step) + j];
                }
            }
        }
        if (step.last) {
            finish<ROWS, VECTORS>(sum, first, step, e, table, arena, weights);
        } else {
        keep_rows:
            UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
                UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                    partial[kept + i * row_of_sums<VECTORS>(step) + j] = sum[i][j];
                }
            }
        }
    }
}

#ifdef __SYNTHESIS__

// One array of the full size in hardware; smaller blocks and panels leave a part of it idle.
inline void mac_block(const memory_float* source, bool, const uint32_t* k_offset, const mac_weight* weight,
                      const mac_step& step, const weights_ahead& ahead, const mac_epilogue& e, const block_table& table,
                      vec16* partial, vec16* arena, const vec16* weights) {
#pragma HLS inline off
    mac_panel<tile::ROWS, tile::MAX_VECTORS, true>(source, k_offset, weight, step, ahead, e, table, partial, arena,
                                                   weights);
}

#else

// As many tiles of ROWS pixels as are left of the block.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam TABLE Whether offsets of k come from a table (k_offset), not from strides.
// \tparam WEIGHTS Pointer to weights, or their narrow form.
template <int ROWS, int VECTORS, bool TABLE, class WEIGHTS>
inline void mac_tiles(const memory_float* source, const uint32_t* k_offset, WEIGHTS weight, mac_step& left,
                      weights_ahead& ahead, const mac_epilogue& e, const block_table& table, vec16* partial,
                      vec16* arena, const vec16* weights) {
    constexpr int WIDTH = tile_vectors<ROWS>(VECTORS), TIMES = VECTORS / WIDTH;
    if (left.pixels < ROWS) return;
    mac_step step = left;
    step.pixels = left.pixels / ROWS * ROWS;
    step.vectors = WIDTH;
    weights_ahead share = {ahead.from, ahead.count * step.pixels / left.pixels / TIMES};
each_width:
    UNROLL for (int i = 0; i < TIMES; i++) {
        const bool last = i == TIMES - 1;
        step.lanes = last ? left.lanes : VEC;
        mac_panel<ROWS, WIDTH, TABLE>(source, k_offset, weight + i * WIDTH * VEC, step, share, e, table,
                                      partial + i * WIDTH, arena, weights);
        step.column += WIDTH * VEC;
        step.bias_column += WIDTH * VEC;
        share.from += share.count;
    }
    left.first_pixel += step.pixels;
    left.pixels -= step.pixels;
    ahead.count -= share.from - ahead.from;
    ahead.from = share.from;
}

// Few pixels wait for their weights, which small tiles fetch further ahead.
FPGA_INLINE bool is_few(int32_t pixels, int32_t vectors) { return pixels < 3 * array_rows(vectors); }

// Few pixels meet narrow weights where they lie: to widen them first would take longer than to use them.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam WEIGHTS Pointer to weights, or their narrow form.
template <int VECTORS, class WEIGHTS>
inline void mac_few(const memory_float* source, WEIGHTS weight, mac_step step, weights_ahead ahead,
                    const mac_epilogue& e, const block_table& table, vec16* partial, vec16* arena,
                    const vec16* weights) {
    mac_tiles<4, VECTORS, false>(source, nullptr, weight, step, ahead, e, table, partial, arena, weights);
    mac_tiles<2, VECTORS, false>(source, nullptr, weight, step, ahead, e, table, partial, arena, weights);
    mac_tiles<1, VECTORS, false>(source, nullptr, weight, step, ahead, e, table, partial, arena, weights);
}

// \tparam WEIGHTS Pointer to weights, or their narrow form.
template <class WEIGHTS>
inline void mac_few_of(const memory_float* source, WEIGHTS weight, const mac_step& step, const weights_ahead& ahead,
                       const mac_epilogue& e, const block_table& table, vec16* partial, vec16* arena,
                       const vec16* weights) {
    switch (step.vectors) {
        case 1: return mac_few<1>(source, weight, step, ahead, e, table, partial, arena, weights);
        case 2: return mac_few<2>(source, weight, step, ahead, e, table, partial, arena, weights);
        case 3: return mac_few<3>(source, weight, step, ahead, e, table, partial, arena, weights);
        default: return mac_few<4>(source, weight, step, ahead, e, table, partial, arena, weights);
    }
}

// Software has no array that could be idle: what is left of a block takes smaller tiles.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam TABLE Whether offsets of k come from a table (k_offset), not from strides.
template <int VECTORS, bool TABLE>
inline void mac_vectors(const memory_float* source, const uint32_t* k_offset, const mac_weight* weight, mac_step step,
                        weights_ahead ahead, const mac_epilogue& e, const block_table& table, vec16* partial,
                        vec16* arena, const vec16* weights) {
    constexpr int ROWS = SOFTWARE_ROWS<VECTORS>;
    if (!is_few(step.pixels, VECTORS))
        mac_tiles<ROWS, VECTORS, TABLE>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
    mac_tiles<4, VECTORS, TABLE>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
    mac_tiles<2, VECTORS, TABLE>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
    mac_tiles<1, VECTORS, TABLE>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
}

// \tparam TABLE Whether offsets of k come from a table (k_offset), not from strides.
template <bool TABLE>
inline void mac_block_of(const memory_float* source, const uint32_t* k_offset, const mac_weight* weight,
                         const mac_step& step, const weights_ahead& ahead, const mac_epilogue& e,
                         const block_table& table, vec16* partial, vec16* arena, const vec16* weights) {
    static_assert(tile::MAX_VECTORS <= 4, "mac_block_of names the widths 1 to 4");
    switch (step.vectors) {
        case 1: return mac_vectors<1, TABLE>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
        case 2: return mac_vectors<2, TABLE>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
        case 3: return mac_vectors<3, TABLE>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
        default: return mac_vectors<4, TABLE>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
    }
}

// Steps of k that all tiles of a block take before the next: 32 KB of weights, which stay in the nearest cache, and no
// more than the core wants added up apart. A single pixel uses no weight again.
FPGA_INLINE int32_t steps_of_part(const mac_step& step) {
    const int32_t most = step.alone ? step.summed : minimum(512 / step.vectors, step.summed);
    return ceil_div(step.depth, ceil_div(step.depth, most));
}

// `linear`: offset(k) is k * step.k_stride, else k_offset[k]. Narrow weights are widened part by part, once for all tiles.
inline void mac_block(const memory_float* source, bool linear, const uint32_t* k_offset, const packed_weights& weight,
                      const mac_step& step, const weights_ahead& ahead, const mac_epilogue& e, const block_table& table,
                      vec16* partial, vec16* arena, const vec16* weights) {
    alignas(64) float widened[MOST_SUMMED * PANEL_MAX];
    const int32_t most = steps_of_part(step);
    mac_step part = step;
    part.panel_vectors = step.vectors;
each_part:
    for (int32_t k = 0; k < step.depth; k += most) {
        part.depth = minimum(most, step.depth - k);
        part.first = step.first && k == 0;
        part.last = step.last && k + part.depth == step.depth;
        const int64_t elements = static_cast<int64_t>(part.depth) * step.pitch;
        const packed_weights stored = weight.at(static_cast<int64_t>(k) * step.pitch);
        // A part fetches the next one, the last part the first of what follows.
        const weights_ahead next = {k + part.depth < step.depth ? stored.at(elements).from : ahead.from,
                                    minimum(words_of(weight.format, elements), ahead.count)};
        const memory_float* from = source + (linear ? static_cast<int64_t>(k) * step.k_stride : 0);
        if (linear && weight.format != FORMAT_F32 && is_few(step.pixels, step.vectors)) {
            if (weight.format == FORMAT_BF16)
                mac_few_of(from, stored.narrow<FORMAT_BF16>(), part, next, e, table, partial, arena, weights);
            else if (weight.format == FORMAT_I8)
                mac_few_of(from, stored.narrow<FORMAT_I8>(), part, next, e, table, partial, arena, weights);
            else
                mac_few_of(from, stored.narrow<FORMAT_F16>(), part, next, e, table, partial, arena, weights);
            continue;
        }
        const mac_weight* read = stored.from;
        if (weight.format != FORMAT_F32) {
            widen(widened, stored, part.depth, step.vectors, step.pitch / VEC);
            part.pitch = step.vectors * VEC;
            read = widened;
        }
        if (linear)
            mac_block_of<false>(from, k_offset, read, part, next, e, table, partial, arena, weights);
        else
            mac_block_of<true>(from, k_offset + k, read, part, next, e, table, partial, arena, weights);
    }
}

#endif

}  // namespace fpga
