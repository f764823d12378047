// Columns and rows that the P pixels of a group lie in, group after group: counters instead of divisions.
#pragma once
#include "plan.hpp"

namespace engine {

// Scaled: by 1 for pixels of the output, by a stride for where they begin in the input.
struct lanes_t {
    int32_t x[P], y[P];
};

inline lanes_t first_group(const plan_t& p, int32_t scale_x, int32_t scale_y) {
#pragma HLS inline
    lanes_t l;
    int32_t x = 0, y = 0;
    for (int k = 0; k < P; k++) {
#pragma HLS unroll
        l.x[k] = x * scale_x;
        l.y[k] = y * scale_y;
        if (++x == p.pitch) {
            x = 0;
            y++;
        }
    }
    return l;
}

inline lanes_t next_group(const lanes_t& l, const plan_t& p, int32_t scale_x, int32_t scale_y) {
#pragma HLS inline
    const int32_t end = p.pitch * scale_x;
    lanes_t r;
    for (int k = 0; k < P; k++) {
#pragma HLS unroll
        const int32_t x = l.x[k] + p.pitch_rest * scale_x, y = l.y[k] + p.pitch_quotient * scale_y;
        r.x[k] = x >= end ? x - end : x;
        r.y[k] = x >= end ? y + scale_y : y;
    }
    return r;
}

}  // namespace engine
