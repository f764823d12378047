// What the epilogue of int8 sums (epilogue.hpp) is given: its fields, pixels whose sums wait, and their channels.
#pragma once
#include "command.hpp"
#include "lib/epilogue.hpp"
#include "lib/requantize.hpp"
#include "lib/vector_int8.hpp"
#include "real.hpp"

namespace fpga {

constexpr int PARAMETERS = 3;  // words of a channel: offset, scale, bias

struct int8_epilogue {
    requantize_tensor tensor;
    uint32_t parameters;  // weights, in words
    place_t residual;     // arena, in bytes, or ABSENT
    place_t output;       // arena, in elements of out_format
    uint32_t table, middle_table;
    int32_t residual_format, out_format;
    int32_t activation;
    float a, b, inverse_scale;
};

// \tparam COMMAND Command record with the fields that are read here.
template <class COMMAND>
inline int8_epilogue int8_epilogue_of(const COMMAND& c) {
    int8_epilogue e;
    e.tensor.zero = c.out_zero;
    e.tensor.low = c.out_low;
    e.tensor.high = c.out_high;
    e.tensor.residual_factor = c.residual == ABSENT ? 0 : c.residual_factor;
    e.tensor.residual_zero = c.residual_zero;
    e.tensor.middle_factor = c.middle_factor;
    e.tensor.middle_zero = c.middle_zero;
    e.tensor.middle = c.middle != 0;
    e.parameters = c.parameters;
    e.residual = c.residual;
    e.output = c.output;
    e.table = c.table;
    e.middle_table = c.middle_table;
    e.residual_format = c.residual_format;
    e.out_format = c.out_format;
    e.activation = c.activation;
    e.a = c.act_a;
    e.b = c.act_b;
    e.inverse_scale = c.inverse_scale;
    return e;
}

FPGA_INLINE bool is_wide(int32_t format) { return format == FORMAT_F32 || format == FORMAT_I32; }
FPGA_INLINE bool in_floats(const int8_epilogue& e) { return is_wide(e.out_format) || e.activation != ACT_NONE; }

FPGA_INLINE int32_t out_bytes(int32_t format) { return is_wide(format) ? 4 : 1; }

// Pixels whose sums wait side by side: that of pixel i are at sums[row[i] * pitch + j], its channels at output[i] and
// residual[i] from those operands' first elements.
struct pixel_sums {
    const ivec16* sums;
    int32_t pitch;  // vectors
    int32_t count;
    const int32_t* row;
    const uint32_t* output;
    const uint32_t* residual;
    const int32_t* term;  // what a pixel's sums lack, or null
    // Of results in floats, or null: the scale of a pixel's sums, and how often a channel's offset is added to them.
    const float* scale;
    const int32_t* times;
};

// Where the 16 channels of a vector begin, and how many of them are stored.
struct channel_group {
    uint32_t column;     // from a pixel's first channel
    uint32_t parameter;  // word of the first offset behind e.parameters; a scale is `stride` words further, then a bias
    int32_t stride;
    int32_t lanes;
    ivec16 term;  // what a channel's sums lack
};

FPGA_INLINE ivec16 sum_of(const pixel_sums& from, int32_t i, int32_t j) {
    const ivec16 sum = from.sums[static_cast<int64_t>(from.row[i]) * from.pitch + j];
    return from.term ? sum + ivec16(from.term[i]) : sum;
}

// The table at `at`, of bytes of a format from its least value on; zeros without a table (ABSENT).
FPGA_INLINE byte_table table_of(const vec16* weights, uint32_t at, int32_t format) {
#ifndef __SYNTHESIS__
    alignas(64) static const uint8_t NOTHING[256] = {};
    if (at == ABSENT) return byte_table(reinterpret_cast<const vec16*>(NOTHING), 0, 0);
#endif
    return byte_table(weights, static_cast<int64_t>(at), format == FORMAT_I8 ? 0x80 : 0);
}

FPGA_INLINE ivec16 parameter_at(const vec16* weights, const int8_epilogue& e, const channel_group& to, int which) {
    return bits_of(load(weights, static_cast<int64_t>(e.parameters) + to.parameter + which * to.stride));
}

}  // namespace fpga
