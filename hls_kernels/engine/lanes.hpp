// Columns and rows that the P pixels of a group lie in, group after group: counters instead of divisions.
#pragma once
#include "plan.hpp"

namespace engine {

// Scaled: by 1 for pixels of the output, by a stride for where they begin in the input.
struct lanes_t {
    number<SIZE_BITS> x[P], y[P];
};

inline lanes_t first_group(const plan_t& p, int32_t scale_x, int32_t scale_y) {
#pragma HLS inline
    lanes_t l;
    number<SIZE_BITS> x = 0, scaled_x = 0, scaled_y = 0;
    for (int k = 0; k < P; k++) {
#pragma HLS unroll
        l.x[k] = scaled_x;
        l.y[k] = scaled_y;
        x = x + 1;
        const bool ends = x == p.pitch;
        x = when<number<SIZE_BITS>>(ends, 0, x);
        scaled_x = when<number<SIZE_BITS>>(ends, 0, scaled_x + scale_x);
        scaled_y = when<number<SIZE_BITS>>(ends, scaled_y + scale_y, scaled_y);
    }
    return l;
}

inline lanes_t next_group(const lanes_t& l, const plan_t& p, int32_t scale_y) {
#pragma HLS inline
    const number<SIZE_BITS> end = p.row_step, step_x = p.group_step[1], step_y = p.group_step[0];
    const number<SIZE_BITS> back = step_x - end, step_more = step_y + scale_y;
    lanes_t r;
    for (int k = 0; k < P; k++) {
#pragma HLS unroll
        const number<SIZE_BITS> over = l.x[k] + back;
        const bool ends = over >= 0;
        r.x[k] = when<number<SIZE_BITS>>(ends, over, l.x[k] + step_x);
        r.y[k] = l.y[k] + when<number<SIZE_BITS>>(ends, step_more, step_y);
    }
    return r;
}

}  // namespace engine
