// core: gemm_bf16; opcodes: gemm_bf16
// weights of gemm_bf16: BF16
// activations of gemm_bf16: F32, BF16

// Batched product of bfloat16 matrices with float32 sums. The second operand is packed weights, or lies in the arena and is
// packed a panel at a time (operands.hpp). lib/dot multiplies, and lib/bf16/epilogue.hpp makes results of the sums.
#pragma once
#include "command.hpp"
#include "lib/bf16/epilogue.hpp"
#include "lib/bounds.hpp"
#include "lib/slice_grid.hpp"
#include "operands.hpp"

namespace fpga {

#ifdef __SYNTHESIS__
constexpr int64_t BF16_SLAB = int64_t{4} * tile::SLAB_FLOATS;  // bytes
#else
constexpr int64_t BF16_SLAB = int64_t{12} * tile::SLAB_FLOATS;
#endif
// Bytes of a that a block reads where they lie, at most: all panels meet them, from a core's second cache.
constexpr int64_t BF16_CACHED = 1 << 20;
constexpr int32_t MOST_BF16_DEPTH = tile::SLAB_FLOATS / 4;

struct gemm_bf16_plan {
    bool shared;  // all of the batch meets the same b: its rows are treated as those of one matrix
    bool direct;  // a is read where it lies (software only), if rows are equally apart
    bool tiles;   // the CPU's AMX unit multiplies
    int32_t matrices;
    int64_t rows;   // of one of them
    int32_t pairs;  // of k
    int32_t pitch;  // bytes of a row in the slab
    int32_t block_rows;
    int32_t panels;
    int32_t packed_pitch;    // vectors from one pair of a packed panel of b to the next: the array's width on the card
    int32_t panels_at_once;  // that b is packed in
};

inline gemm_bf16_plan plan_gemm_bf16(const gemm_bf16_command& c) {
    gemm_bf16_plan p;
    const int32_t batch = c.batch[0] * c.batch[1];
    const bool one_b = (c.batch[0] == 1 || c.b_stride[0] == 0) && (c.batch[1] == 1 || c.b_stride[1] == 0);
    p.shared = c.b_packed != 0 || one_b;
    p.matrices = p.shared ? 1 : batch;
    p.rows = p.shared ? static_cast<int64_t>(batch) * c.rows : c.rows;
    p.panels = ceil_div(c.columns, c.vectors * VEC);
    p.pairs = pairs_of(c.depth);
    p.pitch = 4 * p.pairs;
    p.direct = false;
    p.tiles = false;
    int64_t most = BF16_SLAB / p.pitch;
    p.packed_pitch = tile::MAX_VECTORS;
#ifndef __SYNTHESIS__
    // One row would leave the unit's tiles empty, and waits for its weights anyway.
    p.tiles = amx_is_ready() && p.rows > 1;
    p.direct = c.a_format == FORMAT_BF16 && c.a_stride[3] == 1 && c.depth == 2 * p.pairs;
    p.packed_pitch = c.vectors;
    most = maximum((p.direct ? BF16_CACHED : BF16_SLAB) / p.pitch / AMX_ROWS * AMX_ROWS, AMX_ROWS);
#endif
    p.block_rows = equal_part(p.rows, minimum(most, BLOCK_MAX));
    const int64_t room = int64_t{tile::K_BLOCK} * tile::MAX_VECTORS / (int64_t{p.pairs} * p.packed_pitch);
    p.panels_at_once = static_cast<int32_t>(maximum(minimum(room, int64_t{p.panels}), 1));
    return p;
}

#ifndef __SYNTHESIS__
// Whether rows can be read where they lie, in bytes then: for the AMX unit 16 or more of them, at equal distances.
inline bool read_in_place(pixel_block& block, const gemm_bf16_plan& p) {
    const uint32_t apart = block.count > 1 ? block.source[1] - block.source[0] : 0;
    if (!p.direct || (p.tiles && block.count < AMX_ROWS)) return false;
    for (int32_t i = 1; p.tiles && i < block.count; i++)
        if (block.source[i] - block.source[i - 1] != apart) return false;
    for (int32_t i = 0; i < block.count; i++) {
        if (block.source[i] > UINT32_MAX / 2) return false;
    }
    for (int32_t i = 0; i < block.count; i++) block.source[i] *= 2;
    block.pitch = static_cast<int32_t>(2 * apart);
    return true;
}
#endif

inline uint32_t gemm_bf16(const gemm_bf16_command& c, const vec16* commands, vec16* arena, const vec16* weights,
                          uint32_t slice, uint32_t slices) {
    (void)commands;
    alignas(64) uint8_t slab[BF16_SLAB];
    alignas(64) vec16 b_block[tile::K_BLOCK * tile::MAX_VECTORS];
    pixel_block block;
#ifdef __SYNTHESIS__
    ivec16 sums[PARTIAL_VECTORS + tile::ROWS * tile::MAX_VECTORS];
    int32_t in_order[BLOCK_MAX];
#pragma HLS bind_storage variable = slab type = ram_1wnr
#pragma HLS array_partition variable = slab cyclic factor = 4
#pragma HLS array_partition variable = b_block cyclic factor = 4
order:
    for (int32_t i = 0; i < BLOCK_MAX; i++) in_order[i] = i;
#endif
    const gemm_bf16_plan p = plan_gemm_bf16(c);
    const bf16_epilogue e = {c.bias,       c.residual, c.output, c.residual_format, c.out_format, c.alpha,
                             c.activation, c.act_a,    c.act_b};
    const k_run run = {0, p.pairs};
    const slice_grid grid = choose_grid(p.panels, p.matrices * p.rows, 1, c.vectors, slice, slices, c.columns > p.rows,
                                        c.b_packed ? PACKED_COSTS : PACKING_COSTS);
#ifdef FPGA_AMX
    const amx_scope tiles(p.tiles ? AMX_QUADS : 0);
#endif
    int32_t packed_matrix = -1;  // of whose b all panels of this slice lie in b_block
    int64_t packed_begin = 0;    // the first panel that does
each_block:
    for (int64_t unit = grid.unit_begin; unit < grid.unit_end;) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t matrix = static_cast<int32_t>(unit / p.rows);
        const int64_t first = unit % p.rows;
        const int32_t count = static_cast<int32_t>(
            minimum(minimum(p.rows - first, grid.unit_end - unit), static_cast<int64_t>(p.block_rows)));
        fill_rows(block, c, p.shared, matrix, first, count);
        block.pitch = p.pitch;
        const bf16_source a = {static_cast<int64_t>(c.a), count, c.depth, c.a_stride[2], c.a_stride[3], c.a_format};
        const bf16_source b = {static_cast<int64_t>(c.b) + offset_of(matrix / c.batch[1], c.b_stride[0]) +
                                   offset_of(matrix % c.batch[1], c.b_stride[1]),
                               c.columns,
                               c.depth,
                               c.b_stride[3],
                               c.b_stride[2],
                               c.b_format};
#ifdef __SYNTHESIS__
        fill_bf16_slab(slab, block, a, p.pairs, p.pitch, arena);
#else
        const uint8_t* source = slab;
        if (read_in_place(block, p))
            source = bytes_of_region(arena) + 2 * c.a;
        else
            fill_bf16_slab(slab, block, a, p.pairs, p.pitch, arena);
#endif
        int64_t packed_end = grid.panel_begin;
    each_panel:
        for (int64_t at = grid.panel_begin; at < grid.panel_end; at++) {
#pragma HLS loop_tripcount min = 1 max = 64
            if (!c.b_packed && at == packed_end) {
                packed_end = minimum(at + p.panels_at_once, grid.panel_end);
                if (matrix != packed_matrix || packed_end - grid.panel_begin > p.panels_at_once) {
                    pack_bf16_b(b_block, b, arena, static_cast<int32_t>(at) * c.vectors * VEC,
                                static_cast<int32_t>(packed_end - at), p.pairs, c.vectors, p.packed_pitch);
                    packed_begin = at;
                }
                packed_matrix = packed_end == grid.panel_end && packed_begin == grid.panel_begin ? matrix : -1;
            }
            const int32_t column = static_cast<int32_t>(at) * c.vectors * VEC;
            product_panel panel;
            panel.weights.runs = &run;
            panel.weights.run_count = 1;
            panel.weights.pitch = c.vectors;
            panel.quads = p.pairs;
            panel.vectors = minimum(c.vectors, ceil_div(c.columns - column, VEC));
            panel.flipped = false;
            panel.followed = at + 1 < grid.panel_end && c.b_packed;
            const int64_t packed = at * p.pairs * c.vectors;  // vectors of pairs in front of these weights
            const vec16* own = b_block + (at - packed_begin) * p.pairs * p.packed_pitch;
#ifdef __SYNTHESIS__
            if (c.b_packed) {
                multiply_block<bf16_product>(sums, b_block, slab, block, panel, weights, c.b / (2 * VEC) + packed, &run,
                                             1);
            } else {
                panel.weights.pitch = p.packed_pitch;
                panel.weights.weight = own;
                add_products<bf16_product>(sums, slab, block, panel, true);
            }
        finish_vectors:
            for (int j = 0; j < panel.vectors; j++) {
#pragma HLS loop_tripcount min = 1 max = 4
                finish_bf16(sums, tile::MAX_VECTORS, in_order, count, block.output, block.residual, j, column + j * VEC,
                            column + j * VEC, e, arena, weights);
            }
#else
            panel.weights.weight = c.b_packed ? bytes_of_region(weights) + 2 * c.b + packed * 4 * VEC
                                              : reinterpret_cast<const uint8_t*>(own);
            const auto finish = [&](const ready_sums& ready) {
                for (int j = 0; j < ready.vectors; j++) {
                    const uint32_t channel = column + (ready.vector + j) * VEC;
                    finish_bf16(ready.sums, ready.pitch, ready.row, ready.count, block.output + ready.first,
                                block.residual + ready.first, j, channel, channel, e, arena, weights);
                }
            };
#ifdef FPGA_AMX
            if (p.tiles) {
                amx_block(source, AMX_BF16, AMX_QUADS, block, panel, finish);
                continue;
            }
#endif
            dot_block<bf16_product>(source, block, panel, finish);
#endif
        }
        unit += count;
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<gemm_bf16_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(gemm_bf16_command& c, const windows& elsewhere) {
        elsewhere.redirect_elements(bytes_of(c.a_format), c.a);
        if (!c.b_packed) elsewhere.redirect_elements(bytes_of(c.b_format), c.b);
        elsewhere.redirect_elements(bytes_of(c.residual_format), c.residual);
        elsewhere.redirect_elements(bytes_of(c.out_format), c.output);
    }
};

inline bool is_bf16_or_float(int32_t format) { return format == FORMAT_F32 || format == FORMAT_BF16; }

inline void gemm_bf16_bounds(const gemm_bf16_command& c, bounds& b) {
    product_bounds(c, tile::MAX_VECTORS, b);
    b.require(is_bf16_or_float(c.a_format) && is_bf16_or_float(c.b_format) && is_bf16_or_float(c.residual_format) &&
                  is_bf16_or_float(c.out_format),
              "has an operand of an unknown format");
    b.require(c.a_stride[2] == 1 || c.a_stride[3] == 1, "has an a in which neither rows nor columns are contiguous");
    b.require(c.b_packed == 0 || (c.b_format == FORMAT_BF16 && c.b % (2 * VEC) == 0),
              "has weights that are not bfloat16 from a beat on");
    b.require(c.depth <= (c.b_packed ? MOST_BF16_DEPTH : minimum(MOST_BF16_DEPTH, 2 * tile::K_BLOCK)),
              "has a longer sum than the slab holds rows of");
    b.require(activation_is_known(c.activation), "has an unknown activation");
    const double rows = static_cast<double>(c.batch[0]) * c.batch[1] * c.rows;
    b.require(rows <= 1 << 30 && c.columns <= 1 << 28, "has more rows or columns than 32-bit arithmetic can count");
    if (!b.ok()) return;
    const int64_t packed = round_up(c.columns, c.vectors * VEC), stored = round_up(c.columns, VEC);
    b.read(REGION_ARENA, c.a,
           extent()
               .dim(c.batch[0], c.a_stride[0])
               .dim(c.batch[1], c.a_stride[1])
               .dim(c.rows, c.a_stride[2])
               .dim(c.depth, c.a_stride[3]),
           bytes_of(c.a_format));
    if (c.b_packed)
        b.read(REGION_WEIGHTS, c.b, int64_t{2} * pairs_of(c.depth) * packed, 2);
    else
        b.read(REGION_ARENA, c.b, arena_b_extent(c), bytes_of(c.b_format));
    if (c.bias != ABSENT) b.read(REGION_WEIGHTS, c.bias, packed);
    product_results(c, stored, b, bytes_of(c.residual_format), bytes_of(c.out_format));
}
#endif

}  // namespace fpga
