// Record of the core pool_int8. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

// Window reduction over an int8 feature map (conv2d_int8/record.hpp), windows as in pool_command.
// POOL_MAX: the largest byte; input and result have the same format, scale and zero point.
// POOL_AVERAGE: requantize(sum - count * in_zero) of lib/requantize.hpp with the scale of the window's divisor. The sum is over
// the `count` pixels of the window that lie in the image. The divisor is that of pool_command. `scales[i]`, in the form of
// requantize_channel, belongs to divisors[i]. A command has no more than 6 divisors (0: no further one).
struct pool_int8_command {
    int32_t opcode;
    int32_t slices;
    int32_t kind;  // pool_kind
    place_t input;
    place_t output;
    int32_t batch;
    int32_t channels;
    int32_t in_height;
    int32_t in_width;
    int32_t out_height;
    int32_t out_width;
    int32_t kernel[2];
    int32_t stride[2];
    int32_t padding[2];
    int32_t dilation[2];
    int32_t adaptive;
    int32_t count_include_pad;
    int32_t divisor;  // 0: the window's size as PyTorch counts it
    int32_t in_stride[3];
    int32_t out_stride[3];
    int32_t in_format;
    int32_t in_zero;
    int32_t out_format;
    int32_t out_zero;
    int32_t out_low;
    int32_t out_high;
    int32_t divisors[6];
    int32_t scales[6];
};

}  // namespace fpga
