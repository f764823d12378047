// Windows of pooling along one axis.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/vector.hpp"

namespace fpga {

// The pixels of one axis under a window: begin, begin + step, ... (taps of them); `counted` as count_include_pad
// counts.
struct pool_window {
    int32_t begin;
    int32_t taps;
    int32_t step;
    int32_t counted;
};

// A command of pool or pool_int8.
template <class COMMAND>
inline pool_window window_of(const COMMAND& c, int axis, int32_t i) {
    const int32_t in = axis == 0 ? c.in_height : c.in_width;
    pool_window w;
    if (c.adaptive) {
        const int64_t out = axis == 0 ? c.out_height : c.out_width;
        w.begin = static_cast<int32_t>(static_cast<int64_t>(i) * in / out);
        w.taps = static_cast<int32_t>((static_cast<int64_t>(i + 1) * in + out - 1) / out) - w.begin;
        w.step = 1;
        w.counted = w.taps;
        return w;
    }
    const int32_t step = c.dilation[axis], start = i * c.stride[axis] - c.padding[axis];
    const int32_t first = start < 0 ? ceil_div(-start, step) : 0;
    const int32_t last = start < in ? minimum(c.kernel[axis], ceil_div(in - start, step)) : 0;
    const int32_t room = in + c.padding[axis] - start;
    w.begin = start + first * step;
    w.taps = maximum(last - first, 0);
    w.step = step;
    w.counted = room > 0 ? minimum(c.kernel[axis], ceil_div(room, step)) : 0;
    return w;
}

#ifndef __SYNTHESIS__
// What kind and window of a pooling must satisfy.
// \tparam COMMAND Command record with the fields that are read here.
template <class COMMAND>
void pooling_bounds(const COMMAND& c, bounds& b) {
    b.require(c.kind == POOL_MAX || c.kind == POOL_AVERAGE, "has a kind that is neither maximum nor average");
    b.require(c.batch >= 1 && c.channels >= 1 && c.in_height >= 1 && c.in_width >= 1 && c.out_height >= 1 &&
                  c.out_width >= 1,
              "has a dimension below 1");
    b.require(c.adaptive || (c.kernel[0] >= 1 && c.kernel[1] >= 1 && c.stride[0] >= 1 && c.stride[1] >= 1 &&
                             c.dilation[0] >= 1 && c.dilation[1] >= 1 && c.padding[0] >= 0 && c.padding[1] >= 0),
              "has a kernel, stride or dilation below 1, or a negative padding");
    b.require(c.divisor >= 0, "has a negative divisor");
    for (int axis = 0; axis < 2 && !c.adaptive; axis++) {
        const int64_t last = static_cast<int64_t>((axis == 0 ? c.out_height : c.out_width) - 1) * c.stride[axis];
        const int64_t in = axis == 0 ? c.in_height : c.in_width;
        b.require(last + static_cast<int64_t>(c.kernel[axis]) * c.dilation[axis] < (1 << 30) &&
                      in + c.padding[axis] < (1 << 30),
                  "has a window position beyond 2^30");
    }
}
#endif

}  // namespace fpga
