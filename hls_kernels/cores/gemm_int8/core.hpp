// core: gemm_int8; opcodes: gemm_int8
// weights of gemm_int8: I8
//
// Product of int8 matrices with 32-bit sums, batched: packed weights, or a second operand from the arena that is packed a
// panel at a time (b_source.hpp). The products and what becomes of their sums are those of conv2d_int8.
#pragma once
#include "b_source.hpp"
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/int8/mac.hpp"
#include "lib/slice_grid.hpp"

namespace fpga {

constexpr int64_t GEMM_SLAB = int64_t{4} * tile::SLAB_FLOATS;
#ifdef __SYNTHESIS__
constexpr int64_t GEMM_SLACK = 0;
#else
constexpr int64_t GEMM_SLACK = 1 << 17;
#endif

struct gemm_int8_plan {
    bool shared;  // all of the batch meets the same b: its rows are treated as those of one matrix
    bool flipped;
    bool direct;  // a is read where it lies (software only)
    int amx_quads;
    int32_t quads;  // of k
    int32_t matrices;
    int64_t rows;  // of one of them
    int32_t block_rows;
    int32_t panels;
    int32_t pitch;  // bytes of a row in the slab
};

inline gemm_int8_plan plan_gemm_int8(const gemm_int8_command& c) {
    gemm_int8_plan p;
    const int32_t batch = c.batch[0] * c.batch[1];
    const bool one_b = (c.batch[0] == 1 || c.b_stride[0] == 0) && (c.batch[1] == 1 || c.b_stride[1] == 0);
    p.shared = c.b_packed != 0 || one_b;
    p.matrices = p.shared ? 1 : batch;
    p.rows = p.shared ? static_cast<int64_t>(batch) * c.rows : c.rows;
    p.panels = ceil_div(c.columns, c.vectors * VEC);
    p.quads = ceil_div(c.depth, 4);
    p.pitch = 4 * p.quads;
    p.amx_quads = 0;
    p.flipped = c.a_format == FORMAT_I8;
    p.direct = false;
#ifndef __SYNTHESIS__
    const k_run run = {0, p.quads};
    if (amx_is_ready() && p.rows >= AMX_ROWS / 2 && int64_t{AMX_ROWS} * maximum(p.pitch, c.a_stride[2]) <= GEMM_SLACK) {
        p.amx_quads = amx_quads_of(&run, 1);
        if (p.amx_quads) p.flipped = false;
    }
    p.direct = c.depth % 4 == 0 && !p.flipped;
#endif
    p.block_rows = equal_part(p.rows, minimum(GEMM_SLAB / p.pitch, BLOCK_MAX));
    return p;
}

// Whether AMX tiles can read the rows in place: 16 of them, at equal distances.
inline bool equally_apart(const int8_block& block) {
    for (int32_t i = 1; i < block.count; i++)
        if (block.source[i] != block.source[0] + offset_of(i, block.pitch)) return false;
    return true;
}

inline void fill_int8_slab_rows(uint8_t* slab, int8_block& block, const gemm_int8_command& c, const gemm_int8_plan& p,
                                const vec16* arena) {
each_row:
    for (int32_t i = 0; i < block.count; i++) {
#pragma HLS loop_tripcount min = 1 max = 1022
        const int64_t to = static_cast<int64_t>(i) * p.pitch;
        copy_bytes_in(slab, to, arena, c.a + block.source[i], c.depth);
    flip_bytes:
        for (int32_t k = 0; p.flipped && k < c.depth; k++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 2048
            slab[to + k] ^= 0x80;
        }
        block.source[i] = static_cast<uint32_t>(to);
    }
    block.pitch = p.pitch;
}

// Vectors from one quad of a packed panel of b to the next: the array's width on the card.
FPGA_INLINE int32_t pitch_of_b(const gemm_int8_command& c) {
#ifdef __SYNTHESIS__
    (void)c;
    return tile::MAX_VECTORS;
#else
    return c.vectors;
#endif
}

// The zero point of b as its packed bytes have it.
FPGA_INLINE int32_t b_zero_of(const gemm_int8_command& c) {
    return c.b_format == FORMAT_U8 ? c.b_zero - 128 : c.b_zero;
}

// What the zero point of b takes off each row's sums: the sum of the row of a, as it is, times that zero point.
inline void sum_rows(int32_t row_term[BLOCK_MAX], const uint8_t* source, const int8_block& block,
                     const gemm_int8_command& c, const gemm_int8_plan& p) {
    const bool is_signed = c.a_format == FORMAT_I8 && !p.flipped;
rows:
    for (int32_t i = 0; i < block.count; i++) {
#pragma HLS loop_tripcount min = 1 max = 1022
        int32_t sum = p.flipped ? -128 * c.depth : 0;
    row:
        for (int32_t k = 0; k < c.depth; k++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 2048
            const uint8_t x = source[block.source[i] + k];
            sum += is_signed ? static_cast<int8_t>(x) : x;
        }
        row_term[i] = -sum * b_zero_of(c);
    }
}

// Scales and zero points of the rows of a block, from its first row `first` of `matrix` on.
inline void fill_row_scales(float row_scale[BLOCK_MAX], int32_t row_zero[BLOCK_MAX], int8_block& block,
                            const gemm_int8_command& c, const gemm_int8_plan& p, int32_t matrix, int64_t first,
                            const vec16* arena) {
    const bool scaled = c.row_scale != ABSENT, has_zero = c.row_zero != ABSENT;
    block.row_scale = scaled ? row_scale : nullptr;
    block.row_times = has_zero ? row_zero : nullptr;
    if (!scaled && !has_zero) return;
each_row:
    for (int32_t i = 0; i < block.count; i++) {
#pragma HLS loop_tripcount min = 1 max = 1022
        const int64_t outer = p.shared ? (first + i) / c.rows : matrix, row = (first + i) % c.rows;
        const int64_t at = offset_of(static_cast<int32_t>(outer / c.batch[1]), c.row_stride[0]) +
                           offset_of(static_cast<int32_t>(outer % c.batch[1]), c.row_stride[1]) +
                           offset_of(static_cast<int32_t>(row), c.row_stride[2]);
        if (scaled) row_scale[i] = scalar_at(arena, c.row_scale + at);
        if (has_zero) row_zero[i] = int_at(arena, c.row_zero + at);
    }
}

inline uint32_t gemm_int8(const gemm_int8_command& c, const vec16* commands, vec16* arena, const vec16* weights,
                          uint32_t slice, uint32_t slices) {
    (void)commands;
    alignas(64) uint8_t slab[GEMM_SLAB + GEMM_SLACK];
    alignas(64) vec16 b_block[tile::K_BLOCK * tile::MAX_VECTORS];
    int8_block block;
    int32_t row_term[BLOCK_MAX], row_zero[BLOCK_MAX];
    float row_scale[BLOCK_MAX];
#ifdef __SYNTHESIS__
    ivec16 sums[PARTIAL_VECTORS + tile::ROWS * tile::MAX_VECTORS];
#pragma HLS bind_storage variable = slab type = ram_1wnr
#pragma HLS array_partition variable = slab cyclic factor = 4
#pragma HLS array_partition variable = b_block cyclic factor = 4
#endif
    const gemm_int8_plan p = plan_gemm_int8(c);
    const int8_epilogue e = int8_epilogue_of(c);
    const k_run run = {0, p.quads};
    const slice_grid grid = choose_grid(p.panels, p.matrices * p.rows, 1, c.vectors, slice, slices, c.columns > p.rows,
                                        c.b_packed ? PACKED_COSTS : PACKING_COSTS);
#ifdef FPGA_AMX
    const amx_scope tiles(p.amx_quads);
#endif
each_block:
    for (int64_t unit = grid.unit_begin; unit < grid.unit_end;) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t matrix = static_cast<int32_t>(unit / p.rows);
        const int64_t first = unit % p.rows;
        const int32_t count = static_cast<int32_t>(
            minimum(minimum(p.rows - first, grid.unit_end - unit), static_cast<int64_t>(p.block_rows)));
        fill_rows(block, c, p.shared, matrix, first, count);
        block.pitch = count > 1 ? static_cast<int32_t>(block.source[1] - block.source[0]) : p.pitch;
        fill_row_scales(row_scale, row_zero, block, c, p, matrix, first, arena);
        const uint8_t* source = slab;
#ifdef __SYNTHESIS__
        fill_int8_slab_rows(slab, block, c, p, arena);
#else
        if (p.direct && (!p.amx_quads || (count >= AMX_ROWS && equally_apart(block))))
            source = bytes_of_region(arena) + c.a;
        else
            fill_int8_slab_rows(slab, block, c, p, arena);
#endif
        const b_int8_source b = b_int8_of(c, matrix);
        block.row_term = nullptr;
        if (!c.b_packed && b_zero_of(c) != 0) {
            sum_rows(row_term, source, block, c, p);
            block.row_term = row_term;
        }
    each_panel:
        for (int64_t at = grid.panel_begin; at < grid.panel_end; at++) {
#pragma HLS loop_tripcount min = 1 max = 64
            int8_panel panel;
            ivec16 column_term[tile::MAX_VECTORS];
            const int32_t column = static_cast<int32_t>(at) * c.vectors * VEC;
            panel.weights.runs = &run;
            panel.weights.run_count = 1;
            panel.weights.pitch = c.b_packed ? c.vectors : pitch_of_b(c);
            panel.quads = p.quads;
            panel.vectors = minimum(c.vectors, ceil_div(c.columns - column, VEC));
            panel.column = column;
            panel.parameter = static_cast<uint32_t>(at) * PARAMETERS * c.vectors * VEC;
            panel.stride = c.vectors * VEC;
            panel.lanes = VEC;
            panel.flipped = p.flipped;
            panel.followed = at + 1 < grid.panel_end && c.b_packed;
            panel.column_term = nullptr;
            if (!c.b_packed) {
                pack_int8_b(b_block, column_term, b, arena, column, p.quads, panel.vectors, pitch_of_b(c));
            zeros:
                for (int j = 0; j < panel.vectors; j++) {
                    const ivec16 both(c.depth * c.a_zero * b_zero_of(c));
                    column_term[j] = both - column_term[j] * ivec16(c.a_zero);
                }
                panel.column_term = column_term;
            }
#ifdef __SYNTHESIS__
            if (c.b_packed)
                multiply_block<bytes_product>(sums, b_block, slab, block, panel, weights,
                                              c.b / (4 * VEC) + at * p.quads * c.vectors, &run, 1);
            else {
                panel.weights.weight = b_block;
                add_products<bytes_product>(sums, slab, block, panel, true);
            }
            finish_int8_block(sums, block, panel, e, arena, weights);
#else
            panel.weights.weight = c.b_packed ? bytes_of_region(weights) + c.b + at * p.quads * c.vectors * 4 * VEC
                                              : reinterpret_cast<const uint8_t*>(b_block);
            mac_int8(source, block, panel, p.amx_quads, c.a_format == FORMAT_I8, e, arena, weights);
#endif
        }
        unit += count;
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<gemm_int8_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(gemm_int8_command& c, const windows& elsewhere) {
        elsewhere.redirect_elements(1, c.a);
        if (!c.b_packed) elsewhere.redirect_elements(1, c.b);
        elsewhere.redirect_elements(1, c.residual);
        elsewhere.redirect_elements(out_bytes(c.out_format), c.output);
        elsewhere.redirect(c.row_scale, c.row_zero);
    }
};

inline void gemm_int8_bounds(const gemm_int8_command& c, bounds& b) {
    product_bounds(c, tile::MAX_VECTORS, b);
    b.require(c.a_format == FORMAT_U8 || c.a_format == FORMAT_I8, "has an a of an unknown format");
    b.require(c.b_packed != 0 || c.b_format == FORMAT_U8 || c.b_format == FORMAT_I8, "has a b of an unknown format");
    b.require(c.b_packed == 0 || c.b % (4 * VEC) == 0, "has weights that do not begin with a beat");
    b.require(c.depth <= GEMM_SLAB - 3, "has rows of more bytes than the slab holds");
    b.require(c.b_packed != 0 || c.depth <= 4 * tile::K_BLOCK, "has a b of more rows than a panel holds");
    const double rows = static_cast<double>(c.batch[0]) * c.batch[1] * c.rows;
    b.require(rows <= 1 << 30 && c.columns <= 1 << 28, "has more rows or columns than 32-bit arithmetic can count");
    b.require((c.row_scale == ABSENT && c.row_zero == ABSENT) || is_wide(c.out_format) || c.activation != ACT_NONE,
              "has scales of rows beside a result that is rounded from sums");
    b.require_forward(c.row_stride);
    if (!b.ok()) return;
    const int64_t packed = round_up(c.columns, c.vectors * VEC), stored = round_up(c.columns, VEC);
    const int64_t quads = ceil_div(c.depth, 4);
    b.read(REGION_ARENA, c.a, pixels_extent(c.depth, c.batch[0], c.batch[1], c.rows, c.a_stride), 1);
    if (c.b_packed)
        b.read(REGION_WEIGHTS, c.b, quads * 4 * packed, 1);
    else
        b.read(REGION_ARENA, c.b, arena_b_extent(c), 1);
    int8_epilogue_bounds(c, packed, b);
    const extent scales = pixels_extent(1, c.batch[0], c.batch[1], c.rows, c.row_stride);
    if (c.row_scale != ABSENT) b.read(REGION_ARENA, c.row_scale, scales);
    if (c.row_zero != ABSENT) b.read(REGION_ARENA, c.row_zero, scales);
    product_results(c, stored, b, 1, out_bytes(c.out_format));
}
#endif

}  // namespace fpga
