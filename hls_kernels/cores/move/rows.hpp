// Rows of elements as move and gather write them: copied, filled, spread, or element by element.
#pragma once
#include "lib/beats.hpp"
#include "lib/vector.hpp"

namespace fpga {

#ifdef __SYNTHESIS__
constexpr int ROW_BUFFER = 256;  // beats

// `count` whole vectors of a row into a buffer.
inline void read_vectors(vec16 (&buffer)[ROW_BUFFER], row_reader<operand_region>& in, const vec16* region,
                         int32_t count) {
row_in:
    for (int32_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 256
        buffer[i] = in.next(region);
    }
}

// A port that a loop reads and writes has no bursts: a row is read whole, and then written.
inline void copy_row(row_writer& out, vec16* arena, int64_t to, const operand_region& region, int64_t from,
                     int32_t count) {
    vec16 buffer[ROW_BUFFER];
    row_reader<operand_region> in(region, from);
    const int32_t left = count % VEC;
    out.begin(arena, to);
parts:
    for (int32_t done = 0; done < count / VEC; done += ROW_BUFFER) {
#pragma HLS loop_tripcount min = 1 max = 1
        const int32_t whole = minimum(count / VEC - done, ROW_BUFFER);
        if (region.in_weights)
            read_vectors(buffer, in, region.weights, whole);
        else
            read_vectors(buffer, in, region.arena, whole);
    row_out:
        for (int32_t i = 0; i < whole; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 256
            out.append(arena, buffer[i]);
        }
    }
    if (left > 0) out.append(arena, in.next(left), left);
}
#else
inline void copy_row(row_writer&, vec16* arena, int64_t to, const operand_region& region, int64_t from, int32_t count) {
    const vec16* there = region.region();
    int32_t i = 0;
    for (; i + VEC <= count; i += VEC) store(arena, to + i, load(there, from + i));
    if (i < count) store_lanes(arena, to + i, load_lanes(there, from + i, count - i), count - i);
}
#endif

inline void fill_row(row_writer& out, vec16* arena, int64_t to, float value, int32_t count) {
    out.begin(arena, to);
fill:
    for (int32_t i = 0; i < count / VEC; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 256
        out.append(arena, vec16(value));
    }
    out.append(arena, vec16(value), count % VEC);
}

// `count` elements `from_step` apart to as many `to_step` apart.
inline void move_elements(beat_writer& out, vec16* arena, int64_t to, int64_t to_step, const operand_region& region,
                          int64_t from, int64_t from_step, int32_t count) {
elements:
    for (int32_t e = 0; e < count; e++) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 256
#pragma HLS dependence variable = arena type = inter false
        out.put(arena, to + e * to_step, region.at(from + e * from_step));
    }
}

inline void fill_elements(beat_writer& out, vec16* arena, int64_t to, int64_t to_step, float value, int32_t count) {
fills:
    for (int32_t e = 0; e < count; e++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 256
#pragma HLS dependence variable = arena type = inter false
        out.put(arena, to + e * to_step, value);
    }
}

// A contiguous row to elements `step` apart, as the parts of a channel shuffle.
inline void spread_row(beat_writer& out, vec16* arena, int64_t to, int64_t step, const operand_region& region,
                       int64_t from, int32_t count) {
#ifdef __SYNTHESIS__
    move_elements(out, arena, to, step, region, from, 1, count);  // bound by the arena's port
#else
    for (int32_t i = 0; i < count; i += VEC) {
        const int32_t lanes = minimum(count - i, VEC);
        const vec16 x = load_some(region.region(), from + i, lanes);
        int64_t at = to + i * step;
        UNROLL for (int j = 0; j < VEC; j++, at += step) {
            if (j < lanes) store_scalar(arena, at, x[j]);
        }
    }
#endif
}

}  // namespace fpga
