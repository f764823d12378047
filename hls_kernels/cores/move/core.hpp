// core: move; opcodes: move, gather, resample, convert, streams
// activations of move: F32, BF16, F16, U8, I8
// activations of gather: F32, BF16, F16, U8, I8
// activations of convert: F32, BF16, F16, U8, I8
// activations of resample: F32, U8, I8

// Strided copies of 32-bit patterns. narrow.hpp copies patterns of fewer bits. Rows that are contiguous on both sides go
// vector by vector. If the innermost dimensions of output and input differ, 16 x 16 blocks are transposed on the way. Rows
// that are contiguous in the input only are read vector by vector. All others go element by element. gather, resample,
// convert and streams have files of their own.
#pragma once
#include "command.hpp"
#include "convert.hpp"
#include "gather.hpp"
#include "lib/beats.hpp"
#include "lib/bounds.hpp"
#include "lib/nest.hpp"
#include "lib/vector.hpp"
#include "narrow.hpp"
#include "resample.hpp"
#include "rows.hpp"
#include "streams.hpp"

namespace fpga {

// A long row is cut into pieces, so that a copy of one row can be shared.
constexpr int32_t MOVE_PIECE = 4096;

// Row by row along the innermost dimension.
inline void move_rows(const move_command& c, const loop_nest& n, vec16* arena, const operand_region& region,
                      uint32_t slice, uint32_t slices) {
    const int outer = n.dims - 1;
    const int32_t length = n.size[outer], pieces = ceil_div(length, MOVE_PIECE);
    const int64_t to_step = n.stride[outer][0], from_step = n.stride[outer][1];
    const int64_t count = iterations(n, outer) * pieces, end = slice_begin(count, slice + 1, slices);
    int64_t i = slice_begin(count, slice, slices);
    if (i >= end) return;
    nest_position p = position_at(n, outer, i / pieces);
    int32_t piece = static_cast<int32_t>(i % pieces);
    row_writer rows_out;
    beat_writer elements_out;
rows:
    for (; i < end; i++) {
#pragma HLS loop_tripcount min = 1 max = 1024
        const int32_t first = piece * MOVE_PIECE, lanes = minimum(length - first, MOVE_PIECE);
        const int64_t to = c.output + p.offset[0] + first * to_step, from = c.input + p.offset[1] + first * from_step;
        if (to_step == 1 && (c.input == ABSENT || from_step == 0)) {
            fill_row(rows_out, arena, to, c.input == ABSENT ? c.fill : region.at(from), lanes);
        } else if (c.input == ABSENT) {
            fill_elements(elements_out, arena, to, to_step, c.fill, lanes);
        } else if (to_step == 1 && from_step == 1) {
            copy_row(rows_out, arena, to, region, from, lanes);
        } else if (from_step == 1) {
            spread_row(elements_out, arena, to, to_step, region, from, lanes);
        } else {
            move_elements(elements_out, arena, to, to_step, region, from, from_step, lanes);
        }
        if (++piece == pieces) {
            piece = 0;
            advance(n, outer, p);
        }
    }
    rows_out.flush(arena);
    elements_out.flush(arena);
}

// Up to 16 rows of `lanes` elements, `step` apart, into vectors; lanes behind them are anything.
inline void read_block(vec16 (&x)[VEC], const operand_region& region, int64_t from, int64_t step, int32_t rows,
                       int32_t lanes) {
#ifdef __SYNTHESIS__
    if (from % VEC == 0 && step % VEC == 0) {
    read:
        for (int j = 0; j < VEC; j++) {
#pragma HLS pipeline II = 1
            if (j < rows) x[j] = region.beat((from + j * step) / VEC);
        }
        return;
    }
read_between:
    for (int j = 0; j < VEC; j++) {
#pragma HLS pipeline II = 2
        if (j < rows) x[j] = load_between(region, from + j * step, lanes);
    }
#else
    for (int j = 0; j < VEC; j++) x[j] = j < rows ? load_between(region, from + j * step, lanes) : vec16(0.0f);
#endif
}

// The first `lanes` elements of `rows` vectors to places `step` apart.
inline void write_block(vec16* arena, const vec16 (&x)[VEC], int64_t to, int64_t step, int32_t rows, int32_t lanes) {
#ifdef __SYNTHESIS__
    if (to % VEC == 0 && step % VEC == 0 && lanes == VEC) {
    write:
        for (int j = 0; j < rows; j++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 16 max = 16
            store_aligned(arena, to + j * step, x[j]);
        }
        return;
    }
    beat_writer out;
write_between:
    for (int j = 0; j < rows; j++) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 16 max = 16
#pragma HLS dependence variable = arena type = inter false
        out.put(arena, to + j * step, x[j], lanes);
    }
    out.flush(arena);
#else
    for (int j = 0; j < rows; j++) store_some(arena, to + j * step, x[j], lanes);
#endif
}

// Blocks of up to 16 elements along the output's contiguous dimension (the innermost) and along the input's (the one
// before it).
inline void move_blocks(const move_command& c, const loop_nest& n, vec16* arena, const operand_region& region,
                        uint32_t slice, uint32_t slices) {
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
        read_block(x, region, from, n.stride[along][1], columns, rows);
        transpose(x);
        write_block(arena, x, to, n.stride[across][0], rows, columns);
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
    const operand_region region = {arena, weights, c.from_weights != 0};
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
        b.require(c.dims[d] == 1 || c.out_stride[d] > 0, "writes its output backwards, or more than once");
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
