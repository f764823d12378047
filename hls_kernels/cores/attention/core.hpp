// core: attention; opcodes: attention
//
// Attention of many heads: a block of rows of scores stays on chip from the product with the keys, through the softmax,
// to the product with the values. Both run on the MAC array of lib/mac/tile.hpp. The keys and values of a head are packed
// once for all of a slice's blocks of that head, if the array for them holds them.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/mac/b_source.hpp"
#include "lib/mac/tile.hpp"
#include "softmax.hpp"

namespace fpga {

constexpr int SCORE_FLOATS = tile::OUT_FLOATS;
// Rows of a block: their scores stay in a cache, and the panels are used for as many.
constexpr int SCORE_ROWS = 48;
constexpr int MOST_KEYS = SCORE_FLOATS / VEC;
static_assert(tile::SLAB_FLOATS >= SCORE_FLOATS, "SLAB_FLOATS must hold the weights of a block of scores");
static_assert(tile::SLAB_FLOATS >= SCORE_ROWS * tile::K_BLOCK, "SLAB_FLOATS must hold a block of queries");
static_assert(BLOCK_MAX >= SCORE_ROWS, "OUT_FLOATS must hold the partial sums of a block of scores");

// The keys or the values of a head as panels of columns.
struct operand_panels {
    int32_t vectors;  // of a panel
    int32_t count;
    int32_t pitch;  // vectors from one k to the next
    int32_t first;  // vector of the packed array where the first panel lies, of a head that is held
    int32_t size;   // vectors from one panel to the next
};

// How a command is cut into blocks, the same for all of its slices.
struct attention_plan {
    int32_t pitch;  // floats from one row of scores to the next
    int32_t block_rows;
    bool held;  // the packed array holds all keys and values of a head
    operand_panels keys;
    operand_panels values;
};

inline operand_panels plan_panels(int32_t columns, int32_t depth, int32_t first) {
    operand_panels p;
    p.vectors = minimum(ceil_div(columns, VEC), tile::MAX_VECTORS);
    p.count = ceil_div(columns, p.vectors * VEC);
#ifdef __SYNTHESIS__
    p.pitch = tile::MAX_VECTORS;
#else
    p.pitch = p.vectors;
#endif
    p.first = first;
    p.size = depth * p.pitch;
    return p;
}

inline attention_plan plan_attention(const attention_command& c) {
    attention_plan p;
    p.pitch = round_up(c.keys, VEC);
    p.block_rows = minimum(SCORE_FLOATS / p.pitch, SCORE_ROWS);
    p.keys = plan_panels(c.keys, c.width, 0);
    p.values = plan_panels(c.value_width, c.keys, p.keys.count * p.keys.size);
    const int64_t key_vectors = static_cast<int64_t>(p.keys.count) * p.keys.size;
    const int64_t value_vectors = static_cast<int64_t>(p.values.count) * p.values.size;
    p.held = key_vectors + value_vectors <= B_BLOCK_VECTORS;
    return p;
}

// Rows [first, first + count) of one head.
struct head_rows {
    int32_t outer, inner;  // place in the batch
    int32_t first;
    int32_t count;
};

FPGA_INLINE place_t place_of_head(place_t base, const head_rows& rows, const int32_t* stride) {
    return base + offset_of(rows.outer, stride[0]) + offset_of(rows.inner, stride[1]);
}

FPGA_INLINE place_t place_of_rows(place_t base, const head_rows& rows, const int32_t* stride) {
    return place_of_head(base, rows, stride) + offset_of(rows.first, stride[2]);
}

// All panels of an operand, each whole.
inline void pack_panels(vec16 packed[B_BLOCK_VECTORS], const b_source& b, const operand_panels& p, const vec16* arena) {
each_panel:
    for (int32_t panel = 0; panel < p.count; panel++) {
#pragma HLS loop_tripcount min = 1 max = 16
        const int32_t column = panel * p.vectors * VEC;
        const int32_t vectors = minimum(p.vectors, ceil_div(b.columns - column, VEC));
        pack_b(packed + (p.first + panel * p.size), b, arena, 0, column, b.depth, vectors, p.pitch);
    }
}

FPGA_INLINE const mac_weight* weights_at(const vec16* packed) {
#ifdef __SYNTHESIS__
    return packed;
#else
    return floats(packed);
#endif
}

// What the products of a block share.
struct attention_arrays {
    block_table table;
    uint32_t k_offset[tile::KOFF];  // of the hardware
    alignas(64) vec16 packed[B_BLOCK_VECTORS];
    alignas(64) vec16 partial[PARTIAL_VECTORS];
};

// to[first + row + column] = alpha * sum_k source[row + k] b[k][column], the rows as the table places them. `alone`: a
// head has one row only.
inline void multiply(attention_arrays& arrays, const memory_float* source, int32_t rows, bool alone, const b_source& b,
                     const operand_panels& p, bool held, float alpha, const vec16* arena, vec16* to, place_t first) {
    const mac_epilogue e = {ABSENT, ABSENT, first, alpha, ACT_NONE, 0.0f, 0.0f};
    mac_step step;
    step.first_pixel = 0;
    step.pixels = rows;
    step.summed = MOST_SUMMED;
    step.alone = alone;
    step.k_stride = 1;
    step.lanes = VEC;
    step.pitch = p.pitch * VEC;
    step.bias_column = 0;
    const int32_t k_block = held ? b.depth : tile::K_BLOCK;
each_panel:
    for (int32_t panel = 0; panel < p.count; panel++) {
#pragma HLS loop_tripcount min = 1 max = 16
        const int32_t column = panel * p.vectors * VEC;
        step.column = column;
        step.vectors = minimum(p.vectors, ceil_div(b.columns - column, VEC));
    each_k_block:
        for (int32_t k = 0; k < b.depth; k += k_block) {
#pragma HLS loop_tripcount min = 1 max = 2
            step.depth = minimum(k_block, b.depth - k);
            step.first = k == 0;
            step.last = k + step.depth == b.depth;
            const vec16* weight = arrays.packed + (held ? p.first + panel * p.size : 0);
            if (!held) pack_b(arrays.packed, b, arena, k, column, step.depth, step.vectors, p.pitch);
            mac_block(source + k, true, arrays.k_offset, weights_at(weight), step, weights_ahead(), e, arrays.table,
                      arrays.partial, to, nullptr);
        }
    }
}

// The queries of a block where they lie (software), or brought on chip; the table says where each one is.
inline const memory_float* find_queries(float slab[tile::SLAB_FLOATS], block_table& table, const attention_command& c,
                                        const vec16* arena, const head_rows& rows, int32_t pitch) {
    const place_t first = place_of_rows(c.query, rows, c.query_stride);
#ifdef __SYNTHESIS__
each_query:
    for (int32_t i = 0; i < rows.count; i++) {
#pragma HLS loop_tripcount min = 1 max = 48
        copy_in(slab, i * c.width, arena, first + offset_of(i, c.query_stride[2]), c.width);
    }
    fill_entries(table, 0, rows.count, {0, 0, 0}, {static_cast<uint32_t>(c.width), static_cast<uint32_t>(pitch), 0});
    const memory_float* source = slab;
#else
    (void)slab;
    fill_entries(table, 0, rows.count, {0, 0, 0}, {offset_of(1, c.query_stride[2]), static_cast<uint32_t>(pitch), 0});
    const memory_float* source = floats(arena) + first;
    // Another lane may have written them: all are asked for at once.
    for (int32_t i = 0; i < rows.count; i++)
        for (int32_t k = 0; k < c.width; k += VEC) prefetch(source, offset_of(i, c.query_stride[2]) + k);
#endif
    repeat_last_pixel(table, rows.count);
    return source;
}

inline void attend(const attention_command& c, const attention_plan& p, const head_rows& rows, const b_source& keys,
                   const b_source& values, attention_arrays& arrays, vec16 scores[SCORE_FLOATS / VEC],
                   float slab[tile::SLAB_FLOATS], vec16* arena, const vec16* weights) {
    const memory_float* queries = find_queries(slab, arrays.table, c, arena, rows, p.pitch);
    multiply(arrays, queries, rows.count, c.rows == 1, keys, p.keys, p.held, c.scale, arena, scores, 0);
    const score_block block = {rows.count, c.keys, p.pitch};
    if (c.mask != ABSENT)
        add_mask(scores, block, c.mask_in_weights ? weights : arena, place_of_rows(c.mask, rows, c.mask_stride),
                 c.mask_stride[2], c.mask_stride[3]);
    softmax_block(scores, slab, block, c.masked_to_zero != 0);
    fill_entries(arrays.table, 0, rows.count, {0, 0, 0},
                 {static_cast<uint32_t>(p.pitch), offset_of(1, c.out_stride[2]), 0});
    repeat_last_pixel(arrays.table, rows.count);
    multiply(arrays, slab, rows.count, c.rows == 1, values, p.values, p.held, 1.0f, arena, arena,
             place_of_rows(c.output, rows, c.out_stride));
}

inline uint32_t attention(const attention_command& c, const vec16* commands, vec16* arena, const vec16* weights,
                          uint32_t slice, uint32_t slices) {
    (void)commands;
    alignas(64) vec16 scores[SCORE_FLOATS / VEC];
    alignas(64) float slab[tile::SLAB_FLOATS];
#pragma HLS bind_storage variable = slab type = ram_1wnr
#pragma HLS array_partition variable = slab cyclic factor = 4
    attention_arrays arrays;
#pragma HLS array_partition variable = arrays.packed cyclic factor = 4
#ifdef __SYNTHESIS__
    fill_linear_offsets(arrays.k_offset, 1);
#endif
    const attention_plan p = plan_attention(c);
    const int64_t all_rows = static_cast<int64_t>(c.batch[0]) * c.batch[1] * c.rows;
    const int64_t end = slice_begin(all_rows, slice + 1, slices);
    int64_t packed_head = -1;
each_block:
    for (int64_t at = slice_begin(all_rows, slice, slices); at < end;) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int64_t head = at / c.rows;
        head_rows rows;
        rows.outer = static_cast<int32_t>(head / c.batch[1]);
        rows.inner = static_cast<int32_t>(head % c.batch[1]);
        rows.first = static_cast<int32_t>(at % c.rows);
        rows.count = static_cast<int32_t>(minimum(minimum(p.block_rows, c.rows - rows.first), end - at));
        const b_source keys = {place_of_head(c.key, rows, c.key_stride), c.width, c.keys, c.key_stride[2],
                               c.key_stride[3]};
        const b_source values = {place_of_head(c.value, rows, c.value_stride), c.keys, c.value_width, c.value_stride[2],
                                 c.value_stride[3]};
        if (p.held && head != packed_head) {
            pack_panels(arrays.packed, keys, p.keys, arena);
            pack_panels(arrays.packed, values, p.values, arena);
            packed_head = head;
        }
        attend(c, p, rows, keys, values, arrays, scores, slab, arena, weights);
        at += rows.count;
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<attention_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(attention_command& c, const windows& elsewhere) {
        elsewhere.redirect(c.query, c.key, c.value, c.output);
        if (!c.mask_in_weights) elsewhere.redirect(c.mask);
    }
};

// A batch of matrices from `base` on, and what their strides are.
inline extent matrices_extent(const int32_t batch[2], int32_t rows, int32_t columns, const int32_t stride[4]) {
    return extent().dim(batch[0], stride[0]).dim(batch[1], stride[1]).dim(rows, stride[2]).dim(columns, stride[3]);
}

inline void attention_bounds(const attention_command& c, bounds& b) {
    b.require(c.batch[0] > 0 && c.batch[1] > 0 && c.rows > 0 && c.keys > 0 && c.width > 0 && c.value_width > 0,
              "has an empty operand");
    b.require(static_cast<double>(c.batch[0]) * c.batch[1] <= 1 << 30 && c.rows <= 1 << 30 && c.value_width <= 1 << 30,
              "is larger than 32-bit arithmetic can count");
    b.require_forward(c.query_stride, c.key_stride, c.value_stride, c.mask_stride, c.out_stride);
    b.require(c.keys <= MOST_KEYS, "has more keys than a row of scores on chip");
    b.require(c.width <= tile::K_BLOCK, "has keys that are wider than a packed panel is long");
    b.require(c.key_stride[2] == 1 || c.key_stride[3] == 1,
              "has keys of which neither rows nor columns are contiguous");
    b.require(c.value_stride[2] == 1 || c.value_stride[3] == 1,
              "has values of which neither rows nor columns are contiguous");
    b.require(c.mask == ABSENT || c.mask_stride[3] == 0 || c.mask_stride[3] == 1,
              "has a mask whose rows are not contiguous");
    if (!b.ok()) return;

    const int32_t one_float[4] = {c.query_stride[0], c.query_stride[1], c.query_stride[2], 1};
    b.read(REGION_ARENA, c.query, matrices_extent(c.batch, c.rows, c.width, one_float));
    b.read(REGION_ARENA, c.key, matrices_extent(c.batch, c.width, c.keys, c.key_stride));
    b.read(REGION_ARENA, c.value, matrices_extent(c.batch, c.keys, c.value_width, c.value_stride));
    if (c.mask != ABSENT)
        b.read(c.mask_in_weights ? REGION_WEIGHTS : REGION_ARENA, c.mask,
               matrices_extent(c.batch, c.rows, c.keys, c.mask_stride));
    const int64_t stored = round_up(c.value_width, VEC);
    b.write(REGION_ARENA, c.output, pixels_extent(stored, c.batch[0], c.batch[1], c.rows, c.out_stride));
}

#endif

}  // namespace fpga
