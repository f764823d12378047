// core: smooth; opcodes: smooth
// Exponential smoothing along time: y[t] = decay * y[t - 1] + (1 - decay) * x[t], y[-1] = 0, for every channel of every
// sequence. Vector lanes run along channels.
#pragma once
#include "command.hpp"
#include "lib/vector.hpp"
#ifndef __SYNTHESIS__
#include "lib/bounds.hpp"
#endif

namespace fpga {

// Input and output: [sequence][step][channel], channels contiguous, every row on a multiple of 16 floats.
struct smooth_command {
    int32_t opcode;
    int32_t slices;
    place_t input;           // arena
    place_t output;          // arena
    int32_t sequences;
    int32_t steps;
    int32_t channels;
    int32_t in_stride[2];    // sequence, step
    int32_t out_stride[2];
    float decay;
};

// Vectors of channels that are in flight at once. A step needs the result of the one before, so the pipeline reaches
// one vector a cycle only if this many vectors cover the latency of a multiplication and an addition.
constexpr int SMOOTH_GROUP = 8;

inline uint32_t smooth(const smooth_command& c, const vec16* commands, vec16* arena, const vec16* weights,
                       uint32_t slice, uint32_t slices) {
    (void)commands;
    (void)weights;
    const vec16 decay(c.decay), rest(1.0f - c.decay);
    const int32_t vectors = ceil_div(c.channels, VEC);
    const int32_t groups = ceil_div(vectors, SMOOTH_GROUP);
    const int64_t tiles = static_cast<int64_t>(c.sequences) * groups;
    const int64_t end = slice_begin(tiles, slice + 1, slices);
smooth_tiles:
    for (int64_t tile = slice_begin(tiles, slice, slices); tile < end; tile++) {
#pragma HLS loop_tripcount min=1 max=64
        const int32_t sequence = static_cast<int32_t>(tile / groups);
        const int32_t first = static_cast<int32_t>(tile % groups) * SMOOTH_GROUP;
        const int32_t width = minimum(SMOOTH_GROUP, vectors - first);
        const int64_t from = static_cast<int64_t>(c.input) + offset_of(sequence, c.in_stride[0]) + VEC * first;
        const int64_t to = static_cast<int64_t>(c.output) + offset_of(sequence, c.out_stride[0]) + VEC * first;
        vec16 state[SMOOTH_GROUP];
#pragma HLS array_partition variable=state complete
    smooth_clear:
        for (int v = 0; v < SMOOTH_GROUP; v++) {
#pragma HLS unroll
            state[v] = vec16(0.0f);
        }
    smooth_steps:
        for (int32_t t = 0; t < c.steps; t++) {
#pragma HLS loop_tripcount min=1 max=1024
        smooth_vectors:
            for (int32_t v = 0; v < width; v++) {
#pragma HLS loop_tripcount min=1 max=8
#pragma HLS pipeline II=1
                const vec16 x = load_aligned(arena, from + offset_of(t, c.in_stride[1]) + VEC * v);
                state[v] = decay * state[v] + rest * x;
                store_aligned(arena, to + offset_of(t, c.out_stride[1]) + VEC * v, state[v]);
            }
        }
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<smooth_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(smooth_command& c, const windows& elsewhere) { elsewhere.redirect(c.input, c.output); }
};

inline void smooth_bounds(const smooth_command& c, bounds& b) {
    b.require(c.sequences > 0 && c.steps > 0 && c.channels > 0, "has no elements");
    b.require(c.input % VEC == 0 && c.in_stride[0] % VEC == 0 && c.in_stride[1] % VEC == 0,
              "has input rows that do not begin on a multiple of 16 floats");
    b.require(c.output % VEC == 0 && c.out_stride[0] % VEC == 0 && c.out_stride[1] % VEC == 0,
              "has output rows that do not begin on a multiple of 16 floats");
    b.require_forward(c.in_stride, c.out_stride);
    const int64_t row = (static_cast<int64_t>(c.channels) + VEC - 1) / VEC * VEC;
    b.read(REGION_ARENA, c.input, extent(row).dim(c.sequences, c.in_stride[0]).dim(c.steps, c.in_stride[1]));
    b.write(REGION_ARENA, c.output, extent(row).dim(c.sequences, c.out_stride[0]).dim(c.steps, c.out_stride[1]));
}
#endif

}  // namespace fpga
