// core: triple; opcodes: triple
// A core of a user's, as small as one can be: output[i] = 3 input[i] + shift.
#pragma once
#include "command.hpp"
#include "lib/vector.hpp"
#ifndef __SYNTHESIS__
#include "lib/bounds.hpp"
#endif

namespace fpga {

struct triple_command {
    int32_t opcode;
    int32_t slices;
    uint32_t input;
    uint32_t output;
    int32_t count;    // floats
    float shift;
};

inline uint32_t triple(const triple_command& c, const vec16* commands, vec16* arena, const vec16* weights,
                       uint32_t slice, uint32_t slices) {
    (void)commands;
    (void)weights;
    const int32_t begin = static_cast<int32_t>(int64_t(c.count) * slice / slices);
    const int32_t end = static_cast<int32_t>(int64_t(c.count) * (slice + 1) / slices);
triple_elements:
    for (int32_t i = begin; i < end; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount min=16 max=4096
        store_scalar(arena, int64_t(c.output) + i, 3.0f * scalar_at(arena, int64_t(c.input) + i) + c.shift);
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
inline void triple_bounds(const triple_command& c, bounds& b) {
    b.read(REGION_ARENA, c.input, c.count);
    b.write(REGION_ARENA, c.output, c.count);
}
#endif

}  // namespace fpga
