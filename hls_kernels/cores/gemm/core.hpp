// core: gemm; opcodes: gemm
// weights of gemm: F32, BF16, F16, I8
//
// Matrix product with packed weights or a second operand from the arena (lib/mac/b_source.hpp), batched, on the MAC array of
// lib/mac/tile.hpp. The rows of a batch that shares its b are one long matrix. A single row streams the weights once.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/mac/b_source.hpp"
#include "lib/mac/tile.hpp"
#include "lib/slice_grid.hpp"

namespace fpga {

// How a command is cut into blocks, the same for all of its slices.
struct gemm_plan {
    bool shared;       // all of the batch meets the same b: its rows are treated as those of one matrix
    bool direct;       // a is read where it lies (software only)
    bool b_direct;     // so is b: its rows are whole vectors, and a packed copy would not pay
    int32_t matrices;  // separate products
    int64_t rows;      // of one of them
    int32_t block_rows;
    int32_t k_block;
    int32_t k_blocks;
    int32_t panels;
    int32_t panels_at_once;  // their sums wait side by side, so that a block of a is brought on chip once for them
};

// Steps of k in a block where the rows of a are contiguous: so few that the slab holds many rows, and what they need of b
// comes from the arena once for all of them.
constexpr int GATHERED_K = minimum(256, tile::K_BLOCK);

inline gemm_plan plan_gemm(const gemm_command& c) {
    gemm_plan p;
    const int32_t batch = c.batch[0] * c.batch[1];
    const bool one_b = (c.batch[0] == 1 || c.b_stride[0] == 0) && (c.batch[1] == 1 || c.b_stride[1] == 0);
    p.shared = c.b_packed != 0 || one_b;
    p.matrices = p.shared ? 1 : batch;
    p.rows = p.shared ? static_cast<int64_t>(batch) * c.rows : c.rows;
    p.panels = ceil_div(c.columns, c.vectors * VEC);
    const bool gathered = c.a_stride[3] != 1 && p.rows > tile::SLAB_FLOATS / tile::K_BLOCK;
    p.k_blocks = ceil_div(c.depth, gathered ? GATHERED_K : tile::K_BLOCK);
    p.k_block = ceil_div(c.depth, p.k_blocks);
    p.direct = false;
    p.b_direct = false;
    p.panels_at_once = 1;
    int64_t cached = tile::SLAB_FLOATS / round_up(p.k_block, VEC) / VEC * VEC;
#ifndef __SYNTHESIS__
    p.direct = c.a_stride[3] == 1 || c.depth == 1;
    if (p.direct) cached = maximum(tile::SLAB_FLOATS / c.depth, 16 * tile::ROWS);
    const bool pays = p.rows > 4 * tile::ROWS && c.b_stride[2] > PANEL_MAX;  // to pack b
    p.b_direct = !c.b_packed && c.b_stride[3] == 1 && c.columns % VEC == 0 && !pays;
    if (p.direct && (c.b_packed || p.b_direct) && p.rows <= tile::ROWS) {
        p.k_blocks = 1;  // no value of b is used twice: no need to keep any in a cache
        p.k_block = c.depth;
    }
#endif
    const int64_t most = minimum(cached, BLOCK_MAX);
    if (p.rows <= most) {
        p.block_rows = static_cast<int32_t>(p.rows);
    } else {
        const int64_t blocks = (p.rows + most - 1) / most;
        const int64_t tiles = (p.rows + blocks * tile::ROWS - 1) / (blocks * tile::ROWS);
        p.block_rows = static_cast<int32_t>(minimum(tiles * tile::ROWS, most));
    }
    if (gathered && p.k_blocks > 1) p.panels_at_once = PARTIAL_VECTORS / sums_of_panel(p.block_rows, c.vectors);
    return p;
}

// Rows [first, first + count) of matrix `matrix`: sources from the first element of a.
inline void fill_row_table(block_table& table, const gemm_command& c, const gemm_plan& p, int32_t matrix, int64_t first,
                           int32_t count) {
    int32_t row = static_cast<int32_t>(first % c.rows);
    const int64_t outer = p.shared ? first / c.rows : matrix;
    int32_t inner = static_cast<int32_t>(outer % c.batch[1]);
    int32_t image = static_cast<int32_t>(outer / c.batch[1]);
    const table_entry step = {offset_of(1, c.a_stride[2]), offset_of(1, c.out_stride[2]),
                              offset_of(1, c.residual_stride[2])};
each_matrix:
    for (int32_t done = 0; done < count;) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t rows = minimum(count - done, c.rows - row);
        const table_entry entry = {
            offset_of(image, c.a_stride[0]) + offset_of(inner, c.a_stride[1]) + row * step.source,
            offset_of(image, c.out_stride[0]) + offset_of(inner, c.out_stride[1]) + row * step.output,
            offset_of(image, c.residual_stride[0]) + offset_of(inner, c.residual_stride[1]) + row * step.residual};
        fill_entries(table, done, rows, entry, step);
        done += rows;
        row = 0;
        if (++inner == c.batch[1]) {
            inner = 0;
            image++;
        }
    }
    repeat_last_pixel(table, count);
}

// Copies a block of a: [row][k] where k is contiguous, else [group of 16 rows][k][row of group], so that a tile of rows
// reads one or two streams. `origin` holds the rows' sources, from the first element of a; `local` becomes their places
// in the slab. Returns the distance from one k to the next.
inline int32_t fill_a_slab(float slab[tile::SLAB_FLOATS], uint32_t local[BLOCK_MAX], const uint32_t origin[BLOCK_MAX],
                           const gemm_command& c, const vec16* arena, int32_t count, int32_t k_begin, int32_t depth) {
    if (c.a_stride[3] == 1) {
    each_row:
        for (int32_t i = 0; i < count; i++) {
#pragma HLS loop_tripcount min = 1 max = 1022
            local[i] = i * depth;
            copy_in(slab, local[i], arena, c.a + origin[i] + k_begin, depth);
        }
        return 1;
    }
    const int32_t pitch = VEC * depth;
each_k:
    for (int32_t k = 0; k < depth; k++) {
#pragma HLS loop_tripcount min = 1 max = 2048
        const place_t from = c.a + offset_of(k_begin + k, c.a_stride[3]);
        int64_t to = static_cast<int64_t>(k) * VEC;
    each_group:
        for (int32_t i = 0; i < count; i += VEC, to += pitch) {
#pragma HLS loop_tripcount min = 1 max = 64
            const int32_t rows = minimum(count - i, VEC);
            // A group may go on in another matrix of the batch.
            if (origin[i + rows - 1] - origin[i] != static_cast<uint32_t>(rows - 1)) {
            each_row_of_group:
                for (int32_t j = 0; j < rows; j++) {
#pragma HLS loop_tripcount min = 1 max = 16
                    copy_in(slab, to + j, arena, from + origin[i + j], 1);
                }
            } else if (rows == VEC) {
                copy_in(slab, to, arena, from + origin[i], VEC);
            } else {
                copy_in(slab, to, arena, from + origin[i], rows);
            }
        }
    }
places:
    for (int32_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 1022
        local[i] = i / VEC * pitch + i % VEC;
    }
    return VEC;
}

inline uint32_t gemm(const gemm_command& c, const vec16* commands, vec16* arena, const vec16* weights, uint32_t slice,
                     uint32_t slices) {
    (void)commands;
    alignas(64) float slab[tile::SLAB_FLOATS];
    alignas(64) vec16 partial[PARTIAL_VECTORS];
    alignas(64) vec16 b_block[tile::K_BLOCK * tile::MAX_VECTORS];
#pragma HLS bind_storage variable = slab type = ram_1wnr
#pragma HLS array_partition variable = slab cyclic factor = 4
#pragma HLS array_partition variable = b_block cyclic factor = 4
    uint32_t k_offset[tile::KOFF];
    uint32_t origin[BLOCK_MAX];
    block_table table;

    const gemm_plan p = plan_gemm(c);
    mac_epilogue e;
    e.bias = c.bias;
    e.residual = c.residual;
    e.output = c.output;
    e.alpha = c.alpha;
    e.activation = c.activation;
    e.a = c.act_a;
    e.b = c.act_b;

    // Units of pixels are rows, of all matrices.
    const slice_grid grid = choose_grid(p.panels, p.matrices * p.rows, 1, c.vectors, slice, slices, c.columns > p.rows,
                                        c.b_packed || p.b_direct ? PACKED_COSTS : PACKING_COSTS);
each_block:
    for (int64_t unit = grid.unit_begin; unit < grid.unit_end;) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t matrix = static_cast<int32_t>(unit / p.rows);
        const int64_t first = unit % p.rows;
        const int32_t count = static_cast<int32_t>(
            minimum(minimum(p.rows - first, grid.unit_end - unit), static_cast<int64_t>(p.block_rows)));
        fill_row_table(table, c, p, matrix, first, count);
    keep_origins:
        for (int32_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 1022
            origin[i] = table.source[i];
        }
        const b_source b = {c.b + offset_of(matrix / c.batch[1], c.b_stride[0]) +
                                offset_of(matrix % c.batch[1], c.b_stride[1]),
                            c.depth, c.columns, c.b_stride[2], c.b_stride[3]};
        mac_step step;
        step.first_pixel = 0;
        step.pixels = count;
        step.summed = MOST_SUMMED;
        step.alone = p.rows == 1;
        step.k_stride = c.a_stride[3];
    each_group:
        for (int64_t group = grid.panel_begin; group < grid.panel_end; group += p.panels_at_once) {
#pragma HLS loop_tripcount min = 1 max = 64
            const int64_t group_end = minimum(group + p.panels_at_once, grid.panel_end);
        each_k_block:
            for (int32_t k = 0; k < c.depth; k += p.k_block) {
#pragma HLS loop_tripcount min = 1 max = 4
                step.depth = minimum(p.k_block, c.depth - k);
                step.first = k == 0;
                step.last = k + step.depth == c.depth;
                if (!p.direct && (p.k_blocks > 1 || group == grid.panel_begin)) {
                    step.k_stride = fill_a_slab(slab, table.source, origin, c, arena, count, k, step.depth);
                    repeat_last_pixel(table, count);
                }
            each_panel:
                for (int64_t panel = group; panel < group_end; panel++) {
#pragma HLS loop_tripcount min = 1 max = 4
                    const int32_t column = static_cast<int32_t>(panel) * c.vectors * VEC;
                    step.vectors = minimum(c.vectors, ceil_div(c.columns - column, VEC));
                    step.lanes = VEC;
                    step.column = column;
                    step.bias_column = column;
                    const int64_t packed = (panel * c.depth + k) * c.vectors;  // vectors in front of these weights
                    step.pitch = c.vectors * VEC;
#ifdef __SYNTHESIS__
                    if (c.b_packed) {
                        load_weights(b_block, weights, words_of(c.b_format, c.b), c.b_format, packed, step);
                    } else {
                        pack_b(b_block, b, arena, k, column, step.depth, step.vectors, tile::MAX_VECTORS);
                        step.pitch = PANEL_MAX;
                    }
                    fill_linear_offsets(k_offset, step.k_stride);
                    const mac_weight* weight = b_block;
                    const weights_ahead ahead;
                    const memory_float* source = slab;
#else
                    packed_weights weight = floats(b_block);
                    weights_ahead ahead = {weight.from, 0};
                    if (c.b_packed) {
                        weight = packed_weights(floats(weights), c.b_format).at(c.b + packed * VEC);
                        // What follows these weights in memory is read next.
                        const int64_t panel_elements = static_cast<int64_t>(step.depth) * step.pitch;
                        ahead = {weight.at(panel_elements).from, words_of(c.b_format, panel_elements)};
                    } else if (p.b_direct) {
                        weight = floats(arena) + (b.first + offset_of(k, b.k_stride) + column);
                        step.pitch = b.k_stride;
                    } else {
                        pack_b(b_block, b, arena, k, column, step.depth, step.vectors, c.vectors);
                    }
                    const memory_float* source = p.direct ? floats(arena) + c.a + k : slab;
#endif
                    vec16* sums = partial + (panel - group) * sums_of_panel(p.block_rows, c.vectors);
                    mac_block(source, true, k_offset, weight, step, ahead, e, table, sums, arena, weights);
                }
            }
        }
        unit += count;
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<gemm_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(gemm_command& c, const windows& elsewhere) {
        elsewhere.redirect(c.a, c.residual, c.output);
        if (!c.b_packed) elsewhere.redirect(c.b);
    }
};

inline void gemm_bounds(const gemm_command& c, bounds& b) {
    product_bounds(c, tile::MAX_VECTORS, b);
    b.require(static_cast<double>(c.batch[0]) * c.batch[1] <= 1 << 30 && c.columns <= 1 << 30 && c.depth <= 1 << 30,
              "is larger than 32-bit arithmetic can count");
    b.require(c.a_stride[2] == 1 || c.a_stride[3] == 1, "has an a in which neither rows nor columns are contiguous");
    b.require(c.b_packed == 0 || words_of(c.b_format, c.b) % VEC == 0, "has weights that do not begin with a beat");
    b.require(c.b_packed == 0 || is_weight_format(c.b_format), "has weights of a format that the core does not read");
    b.require(activation_is_known(c.activation), "has an unknown activation");
    if (!b.ok()) return;

    const int64_t packed = static_cast<int64_t>(ceil_div(c.columns, c.vectors * VEC)) * c.vectors * VEC;
    const int64_t stored = round_up(c.columns, VEC);
    b.read(REGION_ARENA, c.a,
           extent()
               .dim(c.batch[0], c.a_stride[0])
               .dim(c.batch[1], c.a_stride[1])
               .dim(c.rows, c.a_stride[2])
               .dim(c.depth, c.a_stride[3]));
    if (c.b_packed)
        b.read(REGION_WEIGHTS, words_of(c.b_format, c.b), extent(0).dim(words_of(c.b_format, packed) + 1, c.depth));
    else
        b.read(REGION_ARENA, c.b, arena_b_extent(c));
    if (c.bias != ABSENT) b.read(REGION_WEIGHTS, c.bias, packed);
    product_results(c, stored, b);
}

#endif

}  // namespace fpga
