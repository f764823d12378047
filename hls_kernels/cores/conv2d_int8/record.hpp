// Records of the core conv2d_int8. Part of command.hpp, which says how records are written and what their units are.
//
// An *int8 map* has elements of one byte, unsigned (FORMAT_U8) or signed (FORMAT_I8), channels-last: the channel's stride
// is 1, a pixel begins at a multiple of 4 bytes. What a byte stands for, its scale and zero point, a command knows in its
// parameters only.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

// Two-dimensional convolution of an int8 feature map with int8 weights, 32-bit sums, and the epilogue of lib/int8/epilogue.hpp.
//
// k = (kernel row, kernel column, input channel), in quads. A quad has channels of a pixel, rounded up to 4 with weights of
// 0. If columns are not dilated, it has values of a kernel row, where that gives fewer quads (row_quads).
// Weights: int8 [group][panel][k / 4][16 * vectors][4], zeros for output channels that do not exist.
// Parameters: int32 [group][panel][3][16 * vectors]: offset, scale and bias of lib/int8/epilogue.hpp.
// Stores cover a single group's channels rounded up to 16; with several groups each stores its own and no more.
struct conv2d_int8_command {
    int32_t opcode;
    int32_t slices;
    place_t input;        // arena, int8 map
    uint32_t weight;      // weights, in bytes, a multiple of 64
    uint32_t parameters;  // weights, in words, a multiple of 16
    place_t residual;     // arena, int8 map, or ABSENT
    place_t output;       // arena, in elements of out_format
    uint32_t table;       // weights, in bytes, or ABSENT: the result's, 256 entries from the format's least value on
    int32_t batch;
    int32_t groups;
    int32_t in_channels;  // of one group; with several groups a multiple of 4
    int32_t in_height;
    int32_t in_width;
    int32_t out_channels;  // of one group
    int32_t out_height;
    int32_t out_width;
    int32_t kernel[2];  // height, width
    int32_t stride[2];
    int32_t padding[2];  // above, left; below and right follow from the output's size
    int32_t dilation[2];
    int32_t in_stride[3];   // image, row, column
    int32_t out_stride[3];  // in elements of out_format
    int32_t residual_stride[3];
    int32_t vectors;    // width of a panel of output channels / 16, from 1 to 4
    int32_t in_format;  // FORMAT_U8 or FORMAT_I8
    int32_t pad;        // what lies outside of the image: the input's zero point, as in_format has it
    int32_t residual_format;
    int32_t residual_zero;
    int32_t residual_factor;
    int32_t out_format;  // FORMAT_U8, FORMAT_I8, or FORMAT_F32
    int32_t out_zero;
    int32_t out_low;  // limits of the result: activations like ReLU are limits
    int32_t out_high;
    int32_t middle;  // 1: there is one
    int32_t middle_zero;
    int32_t middle_factor;
    uint32_t middle_table;  // weights, in bytes, or ABSENT
    int32_t activation;     // not ACT_NONE: in float32 (FLOAT_EPILOGUE)
    float act_a;
    float act_b;
    float inverse_scale;  // of the result of a float32 activation
};

// Depthwise convolution of an int8 map, vector lanes along channels; epilogue as above.
//
// Weights: int8 [kernel column][kernel row / 4][channels rounded up to 16][4 kernel rows], zeros for rows that do not exist.
// Parameters: int32 [channels / 16][3][16]. Stores cover the channels rounded up to 16.
struct depthwise_int8_command {
    int32_t opcode;
    int32_t slices;
    place_t input;
    uint32_t weight;
    uint32_t parameters;
    place_t residual;
    place_t output;
    uint32_t table;
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
    int32_t in_stride[3];
    int32_t out_stride[3];
    int32_t residual_stride[3];
    int32_t in_format;
    int32_t pad;
    int32_t residual_format;
    int32_t residual_zero;
    int32_t residual_factor;
    int32_t out_format;
    int32_t out_zero;
    int32_t out_low;
    int32_t out_high;
    int32_t middle;
    int32_t middle_zero;
    int32_t middle_factor;
    uint32_t middle_table;
    int32_t activation;
    float act_a;
    float act_b;
    float inverse_scale;
};

}  // namespace fpga
