// Records of the core move. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

// Strided copy; or, with input ABSENT, the value `fill` everywhere. Copies patterns: of `fill` the low bits, if elements
// have fewer than 32.
struct move_command {
    int32_t opcode;
    int32_t slices;
    place_t input;
    place_t output;
    int32_t from_weights;  // 1: the input lies in the weights region
    float fill;
    int32_t dims[6];
    int32_t in_stride[6];  // may be negative or 0
    int32_t out_stride[6];
    int32_t format;  // element_format of input and output
};

// output[d] = table[d . table_stride + index[d . index_stride] * row_stride], index: int32 bits in [0, limit).
// An index outside gives STATUS_INDEX_RANGE.
struct gather_command {
    int32_t opcode;
    int32_t slices;
    place_t table;
    place_t index;  // arena
    place_t output;
    int32_t table_in_weights;
    int32_t limit;
    int32_t row_stride;
    int32_t dims[4];
    int32_t table_stride[4];
    int32_t index_stride[4];
    int32_t out_stride[4];
    int32_t format;  // element_format of table and output
};

enum resample_mode : int32_t { RESAMPLE_NEAREST = 0, RESAMPLE_BILINEAR = 1 };

// Image resize, vector lanes along channels. scale is in/out as PyTorch computes it for the mode:
// nearest: source = min(floor(i * scale), in - 1); bilinear: source = align_corners ? i * scale
// : max((i + 0.5) * scale - 0.5, 0).
struct resample_command {
    int32_t opcode;
    int32_t slices;
    int32_t mode;
    place_t input;
    place_t output;
    int32_t batch;
    int32_t channels;
    int32_t in_height;
    int32_t in_width;
    int32_t out_height;
    int32_t out_width;
    int32_t align_corners;
    float scale[2];        // height, width
    int32_t in_stride[3];  // image, row, column, in elements of in_format; the channel's is 1
    int32_t out_stride[3];
    int32_t in_format;  // FORMAT_F32, or FORMAT_U8 or FORMAT_I8: reads and writes as of lib/int8/real.hpp
    int32_t in_zero;
    float in_scale;
    int32_t out_format;
    int32_t out_zero;
    int32_t out_low;
    int32_t out_high;
    float out_inverse;
};

// Conversion of a dense tensor of `count` elements from narrow elements to words, or (narrow = 1) from words to narrow
// elements. Both tensors begin with a beat; the narrow one ends with a beat, the words with a whole vector.
struct convert_command {
    int32_t opcode;
    int32_t slices;
    place_t input;   // arena
    place_t output;  // arena
    int32_t count;
    int32_t format;  // element_format, not FORMAT_F32
    int32_t narrow;
};

// The commands that follow are `count` streams of `length` commands each, one stream after the other. A stream neither
// reads nor writes what another one writes, so that streams may run side by side, each in its own order and without a
// barrier. Run as a plain list they give the same.
struct streams_command {
    int32_t opcode;
    int32_t slices;      // count
    int32_t count;       // 1 .. MOST_STREAMS
    int32_t length[32];  // 0 from `count` on
};

}  // namespace fpga
