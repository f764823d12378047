// Records of the core quantize. Part of command.hpp, which says how records are written and what their units are.
//
// Dimensions go from outer to inner; unused ones are 1. Rows that are contiguous in all operands go 16 elements at a time.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

// Floats to bytes: clamp(zero + round_half_even(x * inverse_scale), low, high); NaN gives the byte 0.
//
// With `scales`, floats, these take the place of 1 / inverse_scale, as `zeros`, int32, take that of zero.
struct quantize_command {
    int32_t opcode;
    int32_t slices;
    place_t input;   // arena, floats
    place_t output;  // arena, bytes
    int32_t dims[5];
    int32_t in_stride[5];
    int32_t out_stride[5];
    int32_t out_format;  // FORMAT_U8 or FORMAT_I8
    float inverse_scale;
    int32_t zero;
    int32_t low;
    int32_t high;
    place_t scales;           // arena, or ABSENT
    place_t zeros;            // arena, or ABSENT
    int32_t scale_stride[5];  // of both
};

// Bytes to floats: (x - zero) * scale, rounded once; scales and zeros as of quantize.
struct dequantize_command {
    int32_t opcode;
    int32_t slices;
    place_t input;   // bytes
    place_t output;  // floats
    int32_t from_weights;
    int32_t dims[5];
    int32_t in_stride[5];
    int32_t out_stride[5];
    int32_t in_format;
    int32_t zero;
    float scale;
    place_t scales;           // arena, or ABSENT
    place_t zeros;            // arena, or ABSENT
    int32_t scale_stride[5];  // of both
};

// Sum of two int8 maps: requantize of lib/requantize.hpp, where a is the middle and b the residual, and then the table.
struct add_int8_command {
    int32_t opcode;
    int32_t slices;
    place_t a;
    place_t b;
    place_t output;
    uint32_t table;  // weights, in bytes, or ABSENT
    int32_t dims[5];
    int32_t a_stride[5];
    int32_t b_stride[5];
    int32_t out_stride[5];
    int32_t a_format;
    int32_t a_zero;
    int32_t a_factor;
    int32_t b_format;
    int32_t b_zero;
    int32_t b_factor;
    int32_t out_format;
    int32_t out_zero;
    int32_t out_low;
    int32_t out_high;
};

// Each byte through a table: any function of one int8 tensor. The table lies in the weights region, 256 bytes from the
// format's least value on; what it holds are bytes of any format.
struct lookup_int8_command {
    int32_t opcode;
    int32_t slices;
    place_t input;
    place_t output;
    uint32_t table;  // in bytes
    int32_t in_format;
    int32_t dims[5];
    int32_t in_stride[5];
    int32_t out_stride[5];
};

}  // namespace fpga
