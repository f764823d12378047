// Windows of pooling along one axis.
#pragma once
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

}  // namespace fpga
