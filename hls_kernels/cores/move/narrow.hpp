// Strided copies of elements of one or two bytes. Part of the core move.
//
// Rows that are contiguous on both sides are copied as such; all others go element by element.
#pragma once
#include "command.hpp"
#include "lib/narrow.hpp"
#include "lib/vector.hpp"
#include "nest.hpp"

namespace fpga {

template <int BYTES>
inline void copy_narrow_row(vec16* arena, int64_t to, const vec16* region, int64_t from, int32_t count) {
#ifdef __SYNTHESIS__
row:
    for (int32_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 256
        store_narrow<BYTES>(arena, to + i, narrow_at<BYTES>(region, from + i));
    }
#else
    std::memcpy(reinterpret_cast<char*>(arena) + to * BYTES, reinterpret_cast<const char*>(region) + from * BYTES,
                static_cast<size_t>(count) * BYTES);
#endif
}

// Row by row along the innermost dimension, which is cut into pieces of at most `piece_length` elements.
template <int BYTES>
inline void move_narrow(const move_command& c, const loop_nest& n, int32_t piece_length, vec16* arena,
                        const vec16* region, uint32_t slice, uint32_t slices) {
    const int outer = n.dims - 1;
    const int32_t length = n.size[outer], pieces = ceil_div(length, piece_length);
    const int64_t to_step = n.stride[outer][0], from_step = n.stride[outer][1];
    const int64_t count = iterations(n, outer) * pieces, end = slice_begin(count, slice + 1, slices);
    const int32_t fill = bits_of(vec16(c.fill))[0];
    int64_t i = slice_begin(count, slice, slices);
    if (i >= end) return;
    nest_position p = position_at(n, outer, i / pieces);
    int32_t piece = static_cast<int32_t>(i % pieces);
rows:
    for (; i < end; i++) {
#pragma HLS loop_tripcount min = 1 max = 1024
        const int32_t first = piece * piece_length, lanes = minimum(length - first, piece_length);
        const int64_t to = c.output + p.offset[0] + first * to_step, from = c.input + p.offset[1] + first * from_step;
        if (c.input != ABSENT && to_step == 1 && from_step == 1) {
            copy_narrow_row<BYTES>(arena, to, region, from, lanes);
        } else {
        elements:
            for (int32_t e = 0; e < lanes; e++) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 256
                const int32_t x = c.input == ABSENT ? fill : narrow_at<BYTES>(region, from + e * from_step);
                store_narrow<BYTES>(arena, to + e * to_step, x);
            }
        }
        if (++piece == pieces) {
            piece = 0;
            advance(n, outer, p);
        }
    }
}

}  // namespace fpga
