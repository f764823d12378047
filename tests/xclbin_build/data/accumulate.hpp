// core: accumulate; opcodes: accumulate, negate
// A core of a user's: output[i] = a output_scale * a[i] + b[i], and its relative without b.
#pragma once
#include "accumulate_types.hpp"
#include "command.hpp"
#include "vector.hpp"
#ifndef __SYNTHESIS__
#include "bounds.hpp"
#endif

namespace fpga {

// One field of each type, and an array that is longer than a beat, so that a decoder's every case is used.
struct accumulate_command {
    int32_t opcode;
    int32_t slices;
    uint32_t a;
    uint32_t b;          // weights
    uint32_t output;
    int32_t count;       // floats, a multiple of 16
    float factor[20];    // by position modulo 20
    float shift;
};

struct negate_command {
    int32_t opcode;
    int32_t slices;
    place_t input;
    place_t output;
    int32_t count;
};

inline uint32_t accumulate(const accumulate_command& c, const vec16* commands, vec16* arena, const vec16* weights,
                           uint32_t slice, uint32_t slices) {
    (void)commands;
    const int32_t begin = slice_begin(c.count, slice, slices), end = slice_begin(c.count, slice + 1, slices);
accumulate_elements:
    for (int32_t i = begin; i < end; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount min=16 max=4096
        const float a = scalar_at(arena, static_cast<accumulate_index>(c.a) + i);
        const float b = scalar_at(weights, static_cast<accumulate_index>(c.b) + i);
        store_scalar(arena, static_cast<accumulate_index>(c.output) + i, a * c.factor[i % 20] + b + c.shift);
    }
    return STATUS_OK;
}

// Fails with STATUS_INDEX_RANGE on a count of 3, for tests of the status record.
inline uint32_t negate(const negate_command& c, const vec16* commands, vec16* arena, const vec16* weights, uint32_t slice,
                       uint32_t slices) {
    (void)commands;
    (void)weights;
    if (c.count == 3) return STATUS_INDEX_RANGE;
    const int32_t begin = slice_begin(c.count, slice, slices), end = slice_begin(c.count, slice + 1, slices);
negate_elements:
    for (int32_t i = begin; i < end; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount min=16 max=4096
        store_scalar(arena, c.output + i, -scalar_at(arena, c.input + i));
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
inline void accumulate_bounds(const accumulate_command& c, bounds& b) {
    b.require(c.count > 0, "has no elements");
    b.read(REGION_ARENA, c.a, c.count);
    b.read(REGION_WEIGHTS, c.b, c.count);
    b.write(REGION_ARENA, c.output, c.count);
}

template <>
struct redirection<negate_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(negate_command& c, const windows& elsewhere) { elsewhere.redirect(c.input, c.output); }
};

inline void negate_bounds(const negate_command& c, bounds& b) {
    b.read(REGION_ARENA, c.input, c.count);
    b.write(REGION_ARENA, c.output, c.count);
}
#endif

}  // namespace fpga
