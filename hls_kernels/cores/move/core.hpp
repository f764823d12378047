// core: move; opcodes: move, gather, resample, convert, streams
// activations of move: F32, BF16, F16, U8, I8
// activations of gather: F32, BF16, F16, U8, I8
// activations of convert: F32, BF16, F16, U8, I8
// activations of resample: F32, U8, I8
//
// Strided copies of 32-bit patterns, those of fewer bits are in narrow.hpp. Rows that are contiguous on both sides go vector by vector; where the innermost
// dimension of the output is another than that of the input, 16 x 16 blocks are transposed on the way; rows that are
// contiguous in the input only are read vector by vector; the rest goes element by element. gather, resample, convert
// and streams have files of their own.
#pragma once
#include "command.hpp"
#include "convert.hpp"
#include "gather.hpp"
#include "lib/bounds.hpp"
#include "lib/vector.hpp"
#include "narrow.hpp"
#include "nest.hpp"
#include "resample.hpp"
#include "rows.hpp"
#include "streams.hpp"

namespace fpga {

// A long row is cut into pieces, so that a copy of one row can be shared.
constexpr int32_t MOVE_PIECE = 4096;

// Row by row along the innermost dimension.
inline void move_rows(const move_command& c, const loop_nest& n, vec16* arena, const vec16* region, uint32_t slice,
                      uint32_t slices) {
    const int outer = n.dims - 1;
    const int32_t length = n.size[outer], pieces = ceil_div(length, MOVE_PIECE);
    const int64_t to_step = n.stride[outer][0], from_step = n.stride[outer][1];
    const int64_t count = iterations(n, outer) * pieces, end = slice_begin(count, slice + 1, slices);
    int64_t i = slice_begin(count, slice, slices);
    if (i >= end) return;
    nest_position p = position_at(n, outer, i / pieces);
    int32_t piece = static_cast<int32_t>(i % pieces);
rows:
    for (; i < end; i++) {
#pragma HLS loop_tripcount min = 1 max = 1024
        const int32_t first = piece * MOVE_PIECE, lanes = minimum(length - first, MOVE_PIECE);
        const int64_t to = c.output + p.offset[0] + first * to_step, from = c.input + p.offset[1] + first * from_step;
        if (c.input == ABSENT && to_step == 1) {
            fill_row(arena, to, c.fill, lanes);
        } else if (c.input != ABSENT && to_step == 1 && from_step == 1) {
            copy_row(arena, to, region, from, lanes);
        } else if (c.input != ABSENT && to_step == 1 && from_step == 0) {
            fill_row(arena, to, scalar_at(region, from), lanes);
        } else if (c.input != ABSENT && from_step == 1) {
            spread_row(arena, to, to_step, region, from, lanes);
        } else {
        elements:
            for (int32_t e = 0; e < lanes; e++) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 256
                const float x = c.input == ABSENT ? c.fill : scalar_at(region, from + e * from_step);
                store_scalar(arena, to + e * to_step, x);
            }
        }
        if (++piece == pieces) {
            piece = 0;
            advance(n, outer, p);
        }
    }
}

// Blocks of up to 16 elements along the output's contiguous dimension (the innermost) and along the input's (the one
// before it).
inline void move_blocks(const move_command& c, const loop_nest& n, vec16* arena, const vec16* region, uint32_t slice,
                        uint32_t slices) {
    const int outer = n.dims - 2, across = n.dims - 2, along = n.dims - 1;
    const int32_t blocks_across = ceil_div(n.size[across], VEC), blocks_along = ceil_div(n.size[along], VEC);
    const int64_t blocks = static_cast<int64_t>(blocks_across) * blocks_along;
    const int64_t count = iterations(n, outer) * blocks, end = slice_begin(count, slice + 1, slices);
    vec16 x[VEC];
#pragma HLS array_partition variable = x complete
each_block:
    for (int64_t i = slice_begin(count, slice, slices); i < end; i++) {
#pragma HLS loop_tripcount min = 1 max = 1024
        const nest_position p = position_at(n, outer, i / blocks);
        const int32_t row = static_cast<int32_t>(i % blocks / blocks_along) * VEC;
        const int32_t column = static_cast<int32_t>(i % blocks_along) * VEC;
        const int32_t rows = minimum(n.size[across] - row, VEC), columns = minimum(n.size[along] - column, VEC);
        const int64_t from = c.input + p.offset[1] + row + column * n.stride[along][1];
        const int64_t to = c.output + p.offset[0] + row * n.stride[across][0] + column;
    read:
        for (int j = 0; j < VEC; j++) {
#pragma HLS pipeline II = 1
            const int64_t at = from + j * n.stride[along][1];
            x[j] = vec16(0.0f);
            if (j < columns) x[j] = load_some(region, at, rows);
        }
        transpose(x);
    write:
        for (int j = 0; j < rows; j++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 16 max = 16
            store_some(arena, to + j * n.stride[across][0], x[j], columns);
        }
    }
}

inline uint32_t move(const move_command& c, const vec16*, vec16* arena, const vec16* weights, uint32_t slice,
                     uint32_t slices) {
    loop_nest n = {};
    n.dims = 6;
dimensions:
    for (int d = 0; d < 6; d++) {
        n.size[d] = c.dims[d];
        n.stride[d][0] = c.out_stride[d];
        n.stride[d][1] = c.input == ABSENT ? 0 : c.in_stride[d];
    }
    simplify(n);
    const vec16* region = c.from_weights ? weights : arena;
    if (c.format == FORMAT_BF16 || c.format == FORMAT_F16) {
        move_narrow<2>(c, n, MOVE_PIECE, arena, region, slice, slices);
        return STATUS_OK;
    }
    if (c.format != FORMAT_F32) {
        move_narrow<1>(c, n, MOVE_PIECE, arena, region, slice, slices);
        return STATUS_OK;
    }
    const int last = n.dims - 1;
    int across = -1;
    if (c.input != ABSENT && n.stride[last][0] == 1 && n.stride[last][1] != 1 && n.stride[last][1] != 0) {
    find_contiguous:
        for (int d = 0; d < last; d++)
            if (n.stride[d][1] == 1) across = d;
    }
    if (across < 0) {
        move_rows(c, n, arena, region, slice, slices);
    } else {
        swap_dimensions(n, across, last - 1);
        move_blocks(c, n, arena, region, slice, slices);
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<move_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(move_command& c, const windows& elsewhere) {
        const int32_t bytes = bytes_of(c.format);
        elsewhere.redirect_elements(bytes, c.output);
        if (!c.from_weights) elsewhere.redirect_elements(bytes, c.input);
    }
};

inline void move_bounds(const move_command& c, bounds& b) {
    for (int d = 0; d < 6; d++) {
        b.require(c.dims[d] >= 1, "has a dimension below 1");
        b.require(c.dims[d] == 1 || c.out_stride[d] != 0, "writes its output more than once");
    }
    b.require(c.format >= FORMAT_F32 && c.format <= FORMAT_I8, "has an unknown format");
    if (!b.ok()) return;
    const int32_t bytes = bytes_of(c.format);
    if (c.input != ABSENT)
        b.read(c.from_weights ? REGION_WEIGHTS : REGION_ARENA, c.input, strided_extent<extent>(c.dims, c.in_stride, 6),
               bytes);
    b.write(REGION_ARENA, c.output, strided_extent<extent>(c.dims, c.out_stride, 6), bytes);
}
#endif

}  // namespace fpga
