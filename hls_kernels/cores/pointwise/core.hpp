// core: pointwise; opcodes: pointwise
//
// Interpreter of element-wise micro-programs. The index space is cut into blocks of up to BLOCK_ELEMENTS: a
// piece of one long row, or several short rows one after the other. Every instruction runs over the whole block.
// Operands are local rows (registers, constants, gathered streams). Under g++ a stream that is contiguous over a block
// is read and written where it lies; Vitis HLS copies it through a local row.
#pragma once
#include "command.hpp"
#include "lib/beats.hpp"
#include "lib/bounds.hpp"
#include "lib/vector.hpp"
#include "local_rows.hpp"
#include "micro_ops.hpp"
#include "tiles.hpp"

namespace fpga {

// The command's dimensions after those of size 1 have gone and neighbours that are contiguous for all streams have
// merged; the last one is innermost and has stride 0 or 1.
struct pointwise_space {
    int32_t size[4];
    int32_t stride[4][POINTWISE_STREAMS];
};

// Elements [column, column + length) of each of `rows` rows from row (i0, i1, i2) on.
struct pointwise_block {
    int64_t row;
    int32_t i0, i1, i2;
    int32_t rows;
    int32_t column;
    int32_t length;
    int32_t elements;  // rows * length
};

// What a stream's local row holds: one row of the stream, repeated; or nothing that can be used again.
struct repeated_row {
    int64_t at;
    int32_t rows;
};

inline pointwise_space merge_dimensions(const pointwise_command& c, int streams) {
    pointwise_space p = {};
    int outermost = 4;  // first dimension of p that is set
dimensions:
    for (int d = 3; d >= 0; d--) {
        if (c.dims[d] == 1) continue;
        bool mergeable = outermost < 4, unit = true;
        int32_t stride[POINTWISE_STREAMS] = {};
        for (int s = 0; s < streams; s++) {
            const int32_t innermost = (c.broadcast >> s) & 1 ? 0 : 1;
            stride[s] = d == 3 ? innermost : d == 2 ? c.stride2[s] : d == 1 ? c.stride1[s] : c.stride0[s];
            unit = unit && (stride[s] == 0 || stride[s] == 1);
            if (outermost < 4)
                mergeable = mergeable && stride[s] == static_cast<int64_t>(p.stride[outermost][s]) * p.size[outermost];
        }
        if (mergeable && static_cast<int64_t>(p.size[outermost]) * c.dims[d] < (1 << 30)) {
            p.size[outermost] *= c.dims[d];
            continue;
        }
        if (outermost == 4 && !unit) {  // rows of one element
            p.size[--outermost] = 1;
            for (int s = 0; s < streams; s++) p.stride[outermost][s] = 1;
        }
        p.size[--outermost] = c.dims[d];
        for (int s = 0; s < streams; s++) p.stride[outermost][s] = stride[s];
    }
    while (outermost > 0) p.size[--outermost] = 1;
    return p;
}

FPGA_INLINE int64_t row_address(const pointwise_command& c, const pointwise_space& p, const pointwise_block& k, int s) {
    return c.stream[s] + static_cast<int64_t>(k.i0) * p.stride[0][s] + static_cast<int64_t>(k.i1) * p.stride[1][s] +
           static_cast<int64_t>(k.i2) * p.stride[2][s] + static_cast<int64_t>(k.column) * p.stride[3][s];
}

FPGA_INLINE void next_row(const pointwise_space& p, pointwise_block& k) {
    if (++k.i2 < p.size[2]) return;
    k.i2 = 0;
    if (++k.i1 < p.size[1]) return;
    k.i1 = 0;
    k.i0++;
}

// Whether all rows of the block are `step` floats apart.
FPGA_INLINE bool rows_apart(const pointwise_space& p, const pointwise_block& k, int s, int32_t step) {
    return k.rows == 1 || (p.stride[2][s] == step && k.i2 + k.rows <= p.size[2]);
}

inline void gather_stream(local_element* local, const operand_region& region, const pointwise_command& c,
                          const pointwise_space& p, const pointwise_block& block, int s) {
    pointwise_block k = block;
    row_filler to(local);
    const bool column = k.length == 1 && rows_apart(p, k, s, p.stride[2][s]);
    if (column) to.column(region, row_address(c, p, k, s), p.stride[2][s], block.rows);
rows:
    for (int32_t r = 0; r < (column ? 0 : block.rows); r++) {
#pragma HLS loop_tripcount min = 1 max = 256
        const int64_t at = row_address(c, p, k, s);
        if (k.length == 1)
            to.one(region.at(at));
        else if (p.stride[3][s] == 0)
            to.repeat(region.at(at), k.length);
        else
            to.row(region, at, k.length);
        next_row(p, k);
    }
    to.end();
}

inline void scatter_stream(vec16* arena, const local_element* local, const pointwise_command& c,
                           const pointwise_space& p, const pointwise_block& block, int s) {
    row_writer out;
    const bool together = rows_apart(p, block, s, block.length);
    pointwise_block k = block;
    if (together) {
        k.rows = 1;
        k.length = block.elements;
    }
rows:
    for (int32_t r = 0; r < k.rows; r++) {
#pragma HLS loop_tripcount min = 1 max = 256
        const int64_t at = row_address(c, p, k, s);
        if (k.length == 1) {
            out.begin(arena, at);
            out.append(arena, vec16(local_at(local, r)), 1);
        } else {
            scatter_row(out, arena, at, local, r * k.length, k.length);
        }
        next_row(p, k);
    }
    out.flush(arena);
}

// Brings the block of input stream s into its local row; true if it can be read where it lies instead.
inline bool bind_input(local_element* local, repeated_row& held, const operand_region& region,
                       const pointwise_command& c, const pointwise_space& p, const pointwise_block& k, int s) {
    const int64_t at = row_address(c, p, k, s);
    const bool broadcast = p.stride[3][s] == 0, together = !broadcast && rows_apart(p, k, s, k.length);
    // A last vector that is not full is read whole only where it cannot pass the end of a buffer.
    if (STREAMS_IN_PLACE && together && (k.elements % VEC == 0 || at % VEC == 0)) return true;
    const bool same = !together && rows_apart(p, k, s, 0);
    // The same row over and over, such as a bias: kept from block to block.
    if (same && held.at == at && held.rows >= k.rows) return false;
    pointwise_block rows = k;
    if (together || (same && broadcast)) {
        rows.rows = 1;
        rows.length = together ? k.elements : BLOCK_ELEMENTS;
    }
    gather_stream(local, region, c, p, rows, s);
    held.at = at;
    held.rows = !same ? 0 : broadcast ? BLOCK_ELEMENTS : k.rows;
    return false;
}

// False if the program holds an unknown operation or operand.
inline bool decode_program(const pointwise_command& c, const vec16* commands,
                           micro_instruction program[tile::POINTWISE_PROGRAM]) {
    const int streams = c.inputs + c.outputs;
    bool valid = true;
decode:
    for (int i = 0; i < c.instructions; i++) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 64
        const uint32_t word = int_at(commands, static_cast<int64_t>(c.program) + 2 * i);
        micro_instruction m;
        m.op = word & 0xff;
        m.to = (word >> 8) & 0xff;
        m.a = (word >> 16) & 0xff;
        m.b = word >> 24;
        m.c = int_at(commands, static_cast<int64_t>(c.program) + 2 * i + 1);
        const int32_t from[3] = {m.a, m.b, m.c};
        for (int j = 0; j < 3; j++)
            valid = valid && ((from[j] >= 0 && from[j] < POINTWISE_REGISTERS) ||
                              (from[j] >= FIRST_STREAM && from[j] < FIRST_STREAM + streams) ||
                              (from[j] >= FIRST_CONSTANT && from[j] < FIRST_CONSTANT + c.constant_count));
        const bool to_register = m.to < POINTWISE_REGISTERS;
        const bool to_output = m.to >= FIRST_STREAM + c.inputs && m.to < FIRST_STREAM + streams;
        valid = valid && micro_op_is_known(m.op) && (to_register || to_output);
        program[i] = m;
    }
    return valid;
}

inline int32_t greatest_common_divisor(int32_t a, int32_t b) {
steps:
    while (b != 0) {
        const int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// A program that names an unknown operation or operand gives STATUS_BAD_OPCODE and does nothing.
inline uint32_t pointwise(const pointwise_command& c, const vec16* commands, vec16* arena, const vec16* weights,
                          uint32_t slice, uint32_t slices) {
    micro_instruction program[tile::POINTWISE_PROGRAM];
    alignas(64) local_element local[POINTWISE_OPERANDS][LOCAL_ROW];
#pragma HLS bind_storage variable = local type = ram_1wnr
    repeated_row held[POINTWISE_STREAMS];
    const int streams = c.inputs + c.outputs;
    if (!decode_program(c, commands, program)) return STATUS_BAD_OPCODE;
constants:
    for (int i = 0; i < c.constant_count; i++) {
#pragma HLS loop_tripcount min = 0 max = 32
        const float value = scalar_at(commands, static_cast<int64_t>(c.constants) + i);
    constant:
        for (int j = 0; j < BLOCK_ELEMENTS / VEC; j++) {
#pragma HLS pipeline II = 1
            put_constant(local[FIRST_CONSTANT + i], j, value);
        }
    }
    for (int s = 0; s < POINTWISE_STREAMS; s++) held[s].rows = 0;
#ifndef __SYNTHESIS__
    micro_operands operand;
    for (int i = 0; i < POINTWISE_OPERANDS; i++) operand[i] = local[i];
#endif

    const pointwise_space p = merge_dimensions(c, streams);
    const int64_t all_rows = static_cast<int64_t>(p.size[0]) * p.size[1] * p.size[2];
    // Long rows: pieces of equal length. Short rows: as many as fit, and if possible a whole number of vectors.
    const int32_t pieces = ceil_div(p.size[3], BLOCK_ELEMENTS);
    const int32_t length = pieces == 1 ? p.size[3] : round_up(ceil_div(p.size[3], pieces), VEC);
    int32_t rows = BLOCK_ELEMENTS / length;
    const int32_t whole = VEC / greatest_common_divisor(p.size[3], VEC);
    if (rows > whole) rows -= rows % whole;
    if (pieces > 1) rows = 1;
    const int64_t blocks = (all_rows + rows - 1) / rows * pieces;
    const int64_t end = slice_begin(blocks, slice + 1, slices);
each_block:
    for (int64_t i = slice_begin(blocks, slice, slices); i < end; i++) {
#pragma HLS loop_tripcount min = 1 max = 1024
        pointwise_block k;
        k.row = i / pieces * rows;
        k.rows = static_cast<int32_t>(all_rows - k.row < rows ? all_rows - k.row : rows);
        k.column = static_cast<int32_t>(i % pieces) * length;
        k.length = minimum(length, p.size[3] - k.column);
        if (k.length <= 0) continue;
        k.elements = k.rows * k.length;
        k.i2 = static_cast<int32_t>(k.row % p.size[2]);
        k.i1 = static_cast<int32_t>(k.row / p.size[2] % p.size[1]);
        k.i0 = static_cast<int32_t>(k.row / p.size[2] / p.size[1]);
        bool written_in_place[POINTWISE_STREAMS];
    bind:
        for (int s = 0; s < streams; s++) {
#pragma HLS loop_tripcount min = 2 max = 10
            const bool from_weights = (c.in_weights >> s) & 1;
            local_element* row = local[FIRST_STREAM + s];
            bool in_place;
            if (s >= c.inputs)
                in_place = STREAMS_IN_PLACE && k.elements % VEC == 0 && rows_apart(p, k, s, k.length);
            else
                in_place = bind_input(row, held[s], {arena, weights, from_weights}, c, p, k, s);
            written_in_place[s] = in_place;
#ifndef __SYNTHESIS__
            const vec16* region = from_weights && s < c.inputs ? weights : arena;
            float* place = const_cast<float*>(reinterpret_cast<const float*>(region)) + row_address(c, p, k, s);
            operand[FIRST_STREAM + s] = in_place ? place : row;
#endif
        }
        const int vectors = ceil_div(k.elements, VEC);
    execute:
        for (int j = 0; j < c.instructions; j++) {
#pragma HLS loop_tripcount min = 1 max = 16
            const micro_instruction m = program[j];
#ifdef __SYNTHESIS__
            run_micro(local, m, vectors);
#else
            run_micro(operand, m, vectors);
#endif
        }
    write_back:
        for (int s = c.inputs; s < streams; s++) {
#pragma HLS loop_tripcount min = 1 max = 2
            if (!written_in_place[s]) scatter_stream(arena, local[FIRST_STREAM + s], c, p, k, s);
        }
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<pointwise_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(pointwise_command& c, const windows& elsewhere) {
        for (int s = 0; s < c.inputs + c.outputs; s++)
            if (s >= c.inputs || !((c.in_weights >> s) & 1)) elsewhere.redirect(c.stream[s]);
    }
};

inline void pointwise_bounds(const pointwise_command& c, bounds& b) {
    b.require(c.inputs >= 0 && c.outputs >= 1 && c.inputs + c.outputs <= POINTWISE_STREAMS,
              "needs 1 to 10 streams, at least one of them an output");
    b.require(c.instructions >= 1 && c.instructions <= tile::POINTWISE_PROGRAM,
              "has no instruction, or more than POINTWISE_PROGRAM");
    b.require(c.constant_count >= 0 && c.constant_count <= tile::POINTWISE_CONSTANTS,
              "has more constants than POINTWISE_CONSTANTS");
    b.require(c.dims[0] >= 1 && c.dims[1] >= 1 && c.dims[2] >= 1 && c.dims[3] >= 1, "has a dimension below 1");
    if (!b.ok()) return;
    b.read(REGION_COMMANDS, c.program, 2 * static_cast<int64_t>(c.instructions));
    if (c.constant_count > 0) b.read(REGION_COMMANDS, c.constants, c.constant_count);
    for (int s = 0; s < c.inputs + c.outputs; s++) {
        const bool broadcast = (c.broadcast >> s) & 1, from_weights = (c.in_weights >> s) & 1;
        const extent e = extent(broadcast ? 1 : c.dims[3])
                             .dim(c.dims[0], c.stride0[s])
                             .dim(c.dims[1], c.stride1[s])
                             .dim(c.dims[2], c.stride2[s]);
        if (s < c.inputs) {
            b.read(from_weights ? REGION_WEIGHTS : REGION_ARENA, c.stream[s], e);
            continue;
        }
        b.require(!broadcast || c.dims[3] == 1, "broadcasts an output");
        b.require(!from_weights, "writes to the weights");
        b.require((c.dims[0] == 1 || c.stride0[s] != 0) && (c.dims[1] == 1 || c.stride1[s] != 0) &&
                      (c.dims[2] == 1 || c.stride2[s] != 0),
                  "writes an output more than once");
        b.write(REGION_ARENA, c.stream[s], e);
    }
}
#endif

}  // namespace fpga
