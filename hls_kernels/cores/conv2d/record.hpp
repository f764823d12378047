// Records of the core conv2d. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

// Two-dimensional convolution, implicit GEMM over k = (kernel row, kernel column, input channel).
// Weights: [group][panel][k][16 * vectors], zero-padded output channels; bias: [group][panels * 16 * vectors].
// Vector stores cover a single group's channels rounded up to 16; with several groups each stores its own and no more.
struct conv2d_command {
    int32_t opcode;
    int32_t slices;
    place_t input;     // arena
    uint32_t weight;   // weights, in elements of weight_format
    uint32_t bias;     // weights, or ABSENT
    place_t residual;  // arena, added before the activation, or ABSENT
    place_t output;    // arena
    int32_t batch;
    int32_t groups;
    int32_t in_channels;  // of one group
    int32_t in_height;
    int32_t in_width;
    int32_t out_channels;  // of one group
    int32_t out_height;
    int32_t out_width;
    int32_t kernel[2];  // height, width
    int32_t stride[2];
    int32_t padding[2];  // above, left; below and right follow from the output's size
    int32_t dilation[2];
    int32_t in_stride[4];   // image, channel, row, column; either the channel's or the column's is 1
    int32_t out_stride[3];  // image, row, column; the channel's is 1
    int32_t residual_stride[3];
    int32_t vectors;  // width of a panel of output channels / 16, from 1 to 4
    int32_t activation;
    float act_a;
    float act_b;
    int32_t weight_format;  // element_format: FORMAT_F32, FORMAT_BF16 or FORMAT_F16
};

// Depthwise convolution (one input and one output channel a group), vector lanes along channels.
// Weights: [kernel row * kernel column][channels rounded up to 16]; bias: [channels rounded up to 16].
struct depthwise_command {
    int32_t opcode;
    int32_t slices;
    place_t input;
    uint32_t weight;
    uint32_t bias;
    place_t residual;
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
    int32_t in_stride[3];  // image, row, column; the channel's is 1
    int32_t out_stride[3];
    int32_t residual_stride[3];
    int32_t activation;
    float act_a;
    float act_b;
};

}  // namespace fpga
