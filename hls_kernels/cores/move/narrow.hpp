// Strided copies of elements of one or two bytes. Part of the core move.
//
// A processor copies rows that are contiguous on both sides as such, and takes two to four rows in turns at once, as a shuffle of
// channels does; all others, and on a card all, go element by element.
#pragma once
#include <type_traits>

#include "command.hpp"
#include "lib/beats.hpp"
#include "lib/narrow.hpp"
#include "lib/nest.hpp"
#include "lib/vector.hpp"

namespace fpga {

#ifdef __SYNTHESIS__
// The low bits of x as element `at`.
template <int BYTES>
FPGA_INLINE void put_narrow(beat_writer& out, vec16* arena, int64_t at, int32_t x) {
    constexpr int64_t IN_WORD = 4 / BYTES;
    const int shift = 8 * BYTES * static_cast<int>(at % IN_WORD);
    const uint32_t mask = ((1u << 8 * BYTES) - 1) << shift;
    out.put_bits(arena, at / IN_WORD, static_cast<int32_t>(static_cast<uint32_t>(x) << shift),
                 static_cast<int32_t>(mask));
}
template <int BYTES>
FPGA_INLINE int32_t narrow_at(const operand_region& region, int64_t at) {
    constexpr int64_t IN_WORD = 4 / BYTES;
    const uint32_t word = static_cast<uint32_t>(lane_bits(region.at(at / IN_WORD)));
    return static_cast<int32_t>((word >> (8 * BYTES * (at % IN_WORD))) & ((1u << 8 * BYTES) - 1));
}
#else
template <int BYTES>
FPGA_INLINE void put_narrow(beat_writer&, vec16* arena, int64_t at, int32_t x) {
    store_narrow<BYTES>(arena, at, x);
}
template <int BYTES>
FPGA_INLINE int32_t narrow_at(const operand_region& region, int64_t at) {
    return narrow_at<BYTES>(region.region(), at);
}
#endif

// A run of elements of BYTES bytes.
template <int BYTES>
inline void move_narrow_row(beat_writer& out, vec16* arena, int64_t to, int64_t to_step, const operand_region& region,
                            int64_t from, int64_t from_step, int32_t count) {
#ifndef __SYNTHESIS__
    if (to_step == 1 && from_step == 1) {
        std::memcpy(reinterpret_cast<char*>(arena) + to * BYTES,
                    reinterpret_cast<const char*>(region.region()) + from * BYTES, static_cast<size_t>(count) * BYTES);
        return;
    }
#endif
narrow_elements:
    for (int32_t e = 0; e < count; e++) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 256
#pragma HLS dependence variable = arena type = inter false
        put_narrow<BYTES>(out, arena, to + e * to_step, narrow_at<BYTES>(region, from + e * from_step));
    }
}

#ifndef __SYNTHESIS__
constexpr int32_t MOST_INTERLEAVED = 4, INTERLEAVED_PIECE = 1024;

// Whether the output's innermost dimensions are elements of few rows in turns: number 0 of each, then number 1.
inline bool is_interleaved(const loop_nest& n) {
    const int row = n.dims - 1, element = n.dims - 2;
    return n.dims >= 2 && n.size[row] <= MOST_INTERLEAVED && n.stride[row][0] == 1 &&
           n.stride[element][0] == n.size[row] && n.stride[element][1] == 1;
}

// `count` elements of each of ROWS rows, `apart` from each other.
template <int ROWS, class NUMBER>
inline void interleave_rows(NUMBER* __restrict__ to, const NUMBER* from, int64_t apart, int32_t count) {
    for (int32_t i = 0; i < count; i++) UNROLL for (int r = 0; r < ROWS; r++) to[ROWS * i + r] = from[r * apart + i];
}

template <int BYTES>
inline void move_interleaved(const move_command& c, const loop_nest& n, vec16* arena, const operand_region& region,
                             uint32_t slice, uint32_t slices) {
    typedef std::conditional_t<BYTES == 1, uint8_t, uint16_t> number __attribute__((may_alias));
    const int outer = n.dims - 2, row = n.dims - 1;
    const int32_t length = n.size[outer], pieces = ceil_div(length, INTERLEAVED_PIECE), rows = n.size[row];
    const int64_t all = iterations(n, outer) * pieces, end = slice_begin(all, slice + 1, slices);
    const int64_t apart = n.stride[row][1];
    int64_t i = slice_begin(all, slice, slices);
    if (i >= end) return;
    nest_position p = position_at(n, outer, i / pieces);
    int32_t piece = static_cast<int32_t>(i % pieces);
    for (; i < end; i++) {
        const int32_t first = piece * INTERLEAVED_PIECE;
        const int32_t count = minimum(length - first, INTERLEAVED_PIECE);
        number* const to = reinterpret_cast<number*>(arena) + c.output + p.offset[0] + int64_t{first} * rows;
        const number* const from = reinterpret_cast<const number*>(region.region()) + c.input + p.offset[1] + first;
        switch (rows) {
            case 2: interleave_rows<2>(to, from, apart, count); break;
            case 3: interleave_rows<3>(to, from, apart, count); break;
            default: interleave_rows<4>(to, from, apart, count); break;
        }
        if (++piece == pieces) {
            piece = 0;
            advance(n, outer, p);
        }
    }
}
#endif

// Row by row along the innermost dimension, which is cut into pieces of at most `piece_length` elements.
template <int BYTES>
inline void move_narrow(const move_command& c, const loop_nest& n, int32_t piece_length, vec16* arena,
                        const operand_region& region, uint32_t slice, uint32_t slices) {
#ifndef __SYNTHESIS__
    if (c.input != ABSENT && is_interleaved(n)) {
        move_interleaved<BYTES>(c, n, arena, region, slice, slices);
        return;
    }
#endif
    const int outer = n.dims - 1;
    const int32_t length = n.size[outer], pieces = ceil_div(length, piece_length);
    const int64_t to_step = n.stride[outer][0], from_step = n.stride[outer][1];
    const int64_t count = iterations(n, outer) * pieces, end = slice_begin(count, slice + 1, slices);
    const int32_t fill = bits_of(vec16(c.fill))[0];
    int64_t i = slice_begin(count, slice, slices);
    if (i >= end) return;
    nest_position p = position_at(n, outer, i / pieces);
    int32_t piece = static_cast<int32_t>(i % pieces);
    beat_writer out;
rows:
    for (; i < end; i++) {
#pragma HLS loop_tripcount min = 1 max = 1024
        const int32_t first = piece * piece_length, lanes = minimum(length - first, piece_length);
        const int64_t to = c.output + p.offset[0] + first * to_step, from = c.input + p.offset[1] + first * from_step;
        if (c.input != ABSENT) {
            move_narrow_row<BYTES>(out, arena, to, to_step, region, from, from_step, lanes);
        } else {
        narrow_fills:
            for (int32_t e = 0; e < lanes; e++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 256
#pragma HLS dependence variable = arena type = inter false
                put_narrow<BYTES>(out, arena, to + e * to_step, fill);
            }
        }
        if (++piece == pieces) {
            piece = 0;
            advance(n, outer, p);
        }
    }
    out.flush(arena);
}

}  // namespace fpga
