// Record of the core pool. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

enum pool_kind : int32_t { POOL_MAX = 0, POOL_AVERAGE = 1 };

// Window reduction over an image, vector lanes along channels. adaptive = 1: window i of an axis spans
// [floor(i in / out), ceil((i + 1) in / out)), and kernel, stride, padding, dilation are ignored.
struct pool_command {
    int32_t opcode;
    int32_t slices;
    int32_t kind;
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
    int32_t divisor;       // 0: the window's size as PyTorch counts it
    int32_t in_stride[3];  // image, row, column; the channel's is 1
    int32_t out_stride[3];
    int32_t activation;
    float act_a;
    float act_b;
};

}  // namespace fpga
