// Record of the core reduce. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

enum reduce_kind : int32_t {
    REDUCE_SUM = 0,
    REDUCE_MEAN = 1,
    REDUCE_MAX = 2,
    REDUCE_MIN = 3,
    REDUCE_ARGMAX = 4,  // int32 bits: the row-major position among the reduced dimensions, first of equals, NaN wins
    REDUCE_ARGMIN = 5,
    REDUCE_SOFTMAX = 6,  // same size as the input
    REDUCE_LOG_SOFTMAX = 7,
    REDUCE_NORM = 8,      // (x - mean) / sqrt(variance + eps) * scale + shift: layer, group, instance norm
    REDUCE_RMS_NORM = 9,  // x / sqrt(mean(x^2) + eps) * scale
    REDUCE_PROD = 10,
    REDUCE_MOMENTS = 11,    // the mean, and to `second` the mean squared distance from it (the biased variance)
    REDUCE_DEVIATION = 12,  // the mean, and to `second` the square root of the biased variance
};

// Reduction over up to three dimensions, `kept` outside, `reduced` inside; sizes of unused ones are 1.
// Strides: kept 0..2, then reduced 0..2. The last kept or the last reduced dimension of size > 1 has stride 1 in input
// and output (a lone element per row is also fine). Of bytes, an item (plan.hpp) fits into REDUCE_ROW. scale, shift: weights region or ABSENT, indexed by affine_stride.
struct reduce_command {
    int32_t opcode;
    int32_t slices;
    int32_t kind;
    place_t input;
    place_t output;
    uint32_t scale;
    uint32_t shift;
    place_t second;  // arena, laid out as the output; ABSENT for all kinds but REDUCE_MOMENTS and REDUCE_DEVIATION
    int32_t kept[3];
    int32_t reduced[3];
    int32_t in_stride[6];
    int32_t out_stride[6];  // of the reduced dimensions only for kinds that keep the size
    int32_t affine_stride[6];
    float eps;
    int32_t activation;
    float act_a;
    float act_b;
    int32_t in_format;  // FORMAT_F32; of kinds that keep the size, as of lib/int8/real.hpp, FORMAT_U8 or FORMAT_I8
    int32_t in_zero;
    float in_scale;
    int32_t out_format;
    int32_t out_zero;
    int32_t out_low;
    int32_t out_high;
    float out_inverse;
};

}  // namespace fpga
