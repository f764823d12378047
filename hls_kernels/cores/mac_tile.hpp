// The multiply-accumulate array of conv2d and gemm: an output-stationary tile of pixels (or matrix rows) by output
// channels that stays in registers while the reduction runs, one step of k a cycle.
//
//   tile[i][n] = sum_k source[row(i) + offset(k)] * weight[k][n]
//
// A *block* is a list of pixels that are worked on together. A *panel* is 16 * vectors output channels; its weights lie
// as [k][16 * vectors]. A long reduction comes in blocks of k, between which the sums wait in a local array.
#pragma once
#include "../command.hpp"
#include "../epilogue.hpp"
#include "../tiles.hpp"
#include "../vector.hpp"

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
    uint32_t output[BLOCK_MAX];    // in the arena
    uint32_t residual[BLOCK_MAX];  // in the arena
};

FPGA_INLINE void repeat_last_pixel(block_table& table, int32_t pixels) {
repeat:
    for (int32_t i = pixels; i < tile::ROWS; i++) {
#pragma HLS loop_tripcount min=0 max=6
        table.source[i] = table.source[pixels - 1];
        table.output[i] = table.output[pixels - 1];
        table.residual[i] = table.residual[pixels - 1];
    }
}

#ifdef __SYNTHESIS__
// Weights come from a local array.
typedef vec16 mac_weight;
FPGA_INLINE vec16 weight_vector(const mac_weight* weight, int64_t at) { return load_aligned(weight, at); }
#else
// Weights are read where they lie, at any float's address.
typedef memory_float mac_weight;
FPGA_INLINE vec16 weight_vector(const mac_weight* weight, int64_t at) { return load(weight, at); }
#endif

// Weights that will be read next, in floats from the first of these: software fetches them into the cache while it
// works on these. The hardware has no use for it.
struct weights_ahead {
    int64_t begin;
    int64_t count;
};

struct mac_epilogue {
    uint32_t bias;  // in the weights region, or ABSENT
    bool residual;
    float alpha;
    int32_t activation;
    float a;
    float b;
};

// One panel of one block over one block of k.
struct mac_step {
    int32_t first_pixel;  // in the block's table
    int32_t pixels;
    int32_t depth;     // steps of k
    int32_t k_stride;  // offset(k) = k * k_stride where no table gives it
    int32_t vectors;   // output vectors to compute
    int32_t lanes;     // of the last of them, how many are stored: VEC unless another group's channels follow
    int32_t pitch;     // floats from one k of the weights to the next
    uint32_t column;   // of the panel's first channel, from the first of the pixel
    uint32_t bias_column;
    bool first;        // block of k
    bool last;
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

#ifdef __SYNTHESIS__
// Brings a block of k of a panel's weights on chip, as wide as the array.
inline void load_weights(vec16 block[tile::K_BLOCK * tile::MAX_VECTORS], const vec16* weights, int64_t first,
                         mac_step& step) {
weights_of_block:
    for (int32_t k = 0; k < step.depth; k++) {
#pragma HLS loop_tripcount min=1 max=2048
    vectors:
        for (int32_t j = 0; j < step.vectors; j++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount min=1 max=4
            block[k * tile::MAX_VECTORS + j] = weights[first + k * (step.pitch / VEC) + j];
        }
    }
    step.pitch = PANEL_MAX;
}
#endif

#ifdef __SYNTHESIS__
// The hardware reads every offset from the table.
inline void fill_linear_offsets(uint32_t k_offset[tile::KOFF], uint32_t stride) {
each_k:
    for (int32_t k = 0; k < tile::K_BLOCK; k++) {
#pragma HLS pipeline II=1
        k_offset[k] = k * stride;
    }
}
#endif

// First pixel of a tile. The last tile is shifted back to end with the block.
FPGA_INLINE int first_pixel(int tile, int rows, int pixels) {
    return maximum(minimum(tile * rows, pixels - rows), 0);
}

#ifdef __SYNTHESIS__

// An fp32 adder takes several cycles, so one sum could not take a product every cycle: PHASES sums take them in turn.
constexpr int PHASES = 8;

template <int ROWS, int VECTORS, bool TABLE>
inline void accumulate(vec16 (&sum)[ROWS][VECTORS], const memory_float* source, const uint32_t (&row)[ROWS],
                       const uint32_t* k_offset, const mac_weight* weight, const mac_step& step,
                       const weights_ahead&) {
    vec16 phase_sum[PHASES][ROWS][VECTORS];
#pragma HLS array_partition variable=phase_sum complete dim=2
#pragma HLS array_partition variable=phase_sum complete dim=3
clear_phases:
    for (int phase = 0; phase < PHASES; phase++) {
#pragma HLS pipeline II=1
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
#pragma HLS pipeline II=1
#pragma HLS dependence variable=phase_sum inter true distance=8
#pragma HLS loop_tripcount min=1 max=2048
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

// The sums of so many products are added up apart, which keeps the rounding of long reductions as small as the card's,
// with its PHASES sums, and PyTorch's, which works in blocks too.
constexpr int SUM_BLOCK = 256;

// Steps of k that weights are fetched ahead into the nearest cache: the latency of the next one, and more where fewer
// rows make a step shorter.
template <int ROWS>
constexpr int STEPS_AHEAD = ROWS < 7 ? 56 / ROWS : 8;

// Steps [begin, end) of the reduction, each of which fetches ahead[k * ahead_pitch]. Where offsets are linear, the rows
// of the next tile most often follow those of this one: they are fetched too.
template <int ROWS, int VECTORS, bool TABLE>
FPGA_INLINE void accumulate_steps(vec16 (&sum)[ROWS][VECTORS], const memory_float* const (&at)[ROWS],
                                  const uint32_t* k_offset, const mac_weight* weight, const mac_weight* ahead,
                                  int64_t ahead_pitch, const mac_step& step, int64_t begin, int64_t end) {
    const int64_t pitch = step.pitch;
    const int64_t k_stride = step.k_stride;
    const memory_float* next_rows = at[ROWS - 1] + (at[ROWS - 1] - at[ROWS > 1 ? ROWS - 2 : 0]);
reduction:
    for (int64_t k = begin; k < end; k++) {
        const int64_t offset = TABLE ? static_cast<int64_t>(k_offset[k]) : k * k_stride;
        vec16 w[VECTORS];
    weights_of_k:
        UNROLL for (int j = 0; j < VECTORS; j++) {
            prefetch(weight, (k + STEPS_AHEAD<ROWS>) * pitch + j * VEC);
            w[j] = weight_vector(weight, k * pitch + j * VEC);
        }
        prefetch(ahead, k * ahead_pitch);
        if (!TABLE && ROWS > 1) prefetch(next_rows, k * ROWS);
    rows:
        UNROLL for (int i = 0; i < ROWS; i++) {
            const vec16 x(at[i][offset]);
        columns:
            UNROLL for (int j = 0; j < VECTORS; j++) {
                sum[i][j] += x * w[j];
            }
        }
    }
}

template <int ROWS, int VECTORS, bool TABLE>
FPGA_INLINE void accumulate(vec16 (&sum)[ROWS][VECTORS], const memory_float* source, const uint32_t (&row)[ROWS],
                            const uint32_t* k_offset, const mac_weight* weight, const mac_step& step,
                            const weights_ahead& ahead) {
    const mac_weight* next_weights = weight + ahead.begin;
    const int64_t next_pitch = ahead.count / step.depth;
    const memory_float* at[ROWS];
each_row:
    UNROLL for (int i = 0; i < ROWS; i++) {
        at[i] = source + row[i];
    }
    vec16 total[ROWS][VECTORS];
each_sum_block:
    for (int64_t begin = 0;; begin += SUM_BLOCK) {
        const int64_t end = minimum<int64_t>(begin + SUM_BLOCK, step.depth);
    clear_sums:
        UNROLL for (int i = 0; i < ROWS; i++) {
            UNROLL for (int j = 0; j < VECTORS; j++) sum[i][j] = vec16(0.0f);
        }
        accumulate_steps<ROWS, VECTORS, TABLE>(sum, at, k_offset, weight, next_weights, next_pitch, step, begin, end);
        if (end == step.depth && begin == 0) return;
        if (end == step.depth) break;
    set_apart:
        UNROLL for (int i = 0; i < ROWS; i++) {
            UNROLL for (int j = 0; j < VECTORS; j++) total[i][j] = begin == 0 ? sum[i][j] : total[i][j] + sum[i][j];
        }
    }
add_up:
    UNROLL for (int i = 0; i < ROWS; i++) {
        UNROLL for (int j = 0; j < VECTORS; j++) sum[i][j] += total[i][j];
    }
}

#endif

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
    if (e.residual) {
    residual_rows:
        UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            const int64_t at = static_cast<int64_t>(table.residual[first + i]) + step.column;
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
        const int64_t at = static_cast<int64_t>(table.output[first + i]) + step.column;
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
template <int ROWS, int VECTORS, bool TABLE>
FPGA_NOINLINE void mac_panel(const memory_float* source, const uint32_t* k_offset, const mac_weight* weight,
                             const mac_step& step, const weights_ahead& ahead, const mac_epilogue& e,
                             const block_table& table, vec16* partial, vec16* arena, const vec16* weights) {
    const int tiles = ceil_div(step.pixels, ROWS);
    // Weights for a few tiles arrive no faster than they are used: a second stream would only slow them down.
    weights_ahead share = {ahead.begin, tiles < 4 ? 0 : ahead.count / tiles};
each_tile:
    for (int tile = 0; tile < tiles; tile++) {
#pragma HLS loop_tripcount min=1 max=146
        const int first = step.first_pixel + first_pixel(tile, ROWS, step.pixels);
        uint32_t row[ROWS];
    find_rows:
        UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            row[i] = table.source[first + i];
        }
        vec16 sum[ROWS][VECTORS];
#pragma HLS array_partition variable=sum complete dim=0
        accumulate<ROWS, VECTORS, TABLE>(sum, source, row, k_offset, weight, step, share);
        share.begin += share.count;
        const int64_t kept = (static_cast<int64_t>(step.first_pixel) + tile * ROWS) * VECTORS;
        if (!step.first) {
        resume_rows:
            UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
                UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                    sum[i][j] += partial[kept + i * VECTORS + j];
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
                    partial[kept + i * VECTORS + j] = sum[i][j];
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

// Rows of the tile that suits software best: its sums, a step's weights and an input value fill the 32 vector registers.
template <int VECTORS>
constexpr int SOFTWARE_ROWS = VECTORS == 4 ? 6 : VECTORS == 3 ? 8 : VECTORS == 2 ? 12 : 7;

// As many tiles of ROWS pixels as are left of the block.
template <int ROWS, int VECTORS, bool TABLE>
inline void mac_tiles(const memory_float* source, const uint32_t* k_offset, const mac_weight* weight, mac_step& left,
                      weights_ahead& ahead, const mac_epilogue& e, const block_table& table, vec16* partial,
                      vec16* arena, const vec16* weights) {
    if (left.pixels < ROWS) return;
    mac_step step = left;
    step.pixels = left.pixels / ROWS * ROWS;
    const weights_ahead share = {ahead.begin, ahead.count * step.pixels / left.pixels};
    mac_panel<ROWS, VECTORS, TABLE>(source, k_offset, weight, step, share, e, table, partial, arena, weights);
    left.first_pixel += step.pixels;
    left.pixels -= step.pixels;
    ahead = {share.begin + share.count, ahead.count - share.count};
}

// Software has no array that could be idle: what is left of a block takes smaller tiles.
template <int VECTORS, bool TABLE>
inline void mac_vectors(const memory_float* source, const uint32_t* k_offset, const mac_weight* weight, mac_step step,
                        weights_ahead ahead, const mac_epilogue& e, const block_table& table, vec16* partial,
                        vec16* arena, const vec16* weights) {
    mac_tiles<SOFTWARE_ROWS<VECTORS>, VECTORS, TABLE>(source, k_offset, weight, step, ahead, e, table, partial, arena,
                                                      weights);
    mac_tiles<4, VECTORS, TABLE>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
    mac_tiles<2, VECTORS, TABLE>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
    mac_tiles<1, VECTORS, TABLE>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
}

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

// `linear`: offset(k) is k * step.k_stride, else k_offset[k].
inline void mac_block(const memory_float* source, bool linear, const uint32_t* k_offset, const mac_weight* weight,
                      const mac_step& step, const weights_ahead& ahead, const mac_epilogue& e, const block_table& table,
                      vec16* partial, vec16* arena, const vec16* weights) {
    if (linear)
        mac_block_of<false>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
    else
        mac_block_of<true>(source, k_offset, weight, step, ahead, e, table, partial, arena, weights);
}

#endif

}  // namespace fpga
