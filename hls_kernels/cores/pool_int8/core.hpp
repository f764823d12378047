// core: pool_int8; opcodes: pool_int8
//
// Max and average pooling of int8 maps. A work item is one output row of up to 64 channels, a beat: the maximum takes these
// at once, the average 16 of them, whose sums have 32 bits and go through lib/requantize.hpp.
#pragma once
#include "command.hpp"
#include "cores/pool/window.hpp"
#include "lib/bounds.hpp"
#include "lib/int8/epilogue.hpp"

namespace fpga {

constexpr int POOL_BYTES = 4 * VEC;

// As PyTorch counts: 1 for windows without a real pixel.
inline int32_t int8_divisor(const pool_int8_command& c, const pool_window& rows, const pool_window& columns) {
    if (c.divisor) return c.divisor;
    const int32_t count = c.count_include_pad ? rows.counted * columns.counted : rows.taps * columns.taps;
    return count > 0 ? count : 1;
}

// The place of a divisor's scale in the record, or -1.
inline int divisor_place(const pool_int8_command& c, int32_t divisor) {
    int found = -1;
places:
    for (int i = 0; i < 6; i++) {
#pragma HLS unroll
        if (c.divisors[i] == divisor && found < 0) found = i;
    }
    return found;
}

inline void int8_maximum(const pool_int8_command& c, vec16* arena, int64_t image, int64_t output,
                         const pool_window& rows, const pool_window& columns, int32_t lanes) {
    const bool is_signed = c.in_format == FORMAT_I8;
    bvec64 most(static_cast<uint8_t>(least_of(c.in_format)));
window_rows:
    for (int32_t y = 0; y < rows.taps; y++) {
#pragma HLS loop_tripcount min = 1 max = 7
        const int64_t row = image + static_cast<int64_t>(rows.begin + y * rows.step) * c.in_stride[1];
    window_columns:
        for (int32_t x = 0; x < columns.taps; x++) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 7
            const int64_t at = row + static_cast<int64_t>(columns.begin + x * columns.step) * c.in_stride[2];
            most = vmax(most, load_beat(arena, at, lanes), is_signed);
        }
    }
    store_beat(arena, output, most, lanes);
}

// (sum - count * in_zero) * scale, rounded and limited.
FPGA_INLINE ivec16 int8_average_of(const ivec16& sum, int32_t scale, const requantize_tensor& t) {
#ifdef __SYNTHESIS__
    const requantize_channel channel = {0, scale, 0};
    ivec16 r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = requantize(sum[i], channel, 0, t, static_cast<const int8_t*>(nullptr));
    }
    return r;
#else
    const int8_limits limits = limits_of(t.zero, t.low, t.high);
    return rounded(exact_product(to_double(sum), splat_double(scale_of_bits(scale))), limits);
#endif
}

inline void int8_average(const pool_int8_command& c, vec16* arena, int64_t image, int64_t output,
                         const pool_window& rows, const pool_window& columns, int32_t lanes,
                         const requantize_tensor& t) {
    const bool is_signed = c.in_format == FORMAT_I8;
    const int32_t scale = c.scales[maximum(divisor_place(c, int8_divisor(c, rows, columns)), 0)];
quarters:
    for (int32_t channel = 0; channel < lanes; channel += VEC) {
#pragma HLS loop_tripcount min = 1 max = 4
        const int32_t left = minimum(lanes - channel, VEC);
        ivec16 sum(-rows.taps * columns.taps * c.in_zero);
    window_rows:
        for (int32_t y = 0; y < rows.taps; y++) {
#pragma HLS loop_tripcount min = 1 max = 7
            const int64_t row = image + static_cast<int64_t>(rows.begin + y * rows.step) * c.in_stride[1] + channel;
        window_columns:
            for (int32_t x = 0; x < columns.taps; x++) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 7
                const int64_t at = row + static_cast<int64_t>(columns.begin + x * columns.step) * c.in_stride[2];
                sum += load_bytes(arena, at, left, is_signed);
            }
        }
        store_bytes(arena, output + channel, int8_average_of(sum, scale, t), left);
    }
}

inline uint32_t pool_int8(const pool_int8_command& c, const vec16*, vec16* arena, const vec16*, uint32_t slice,
                          uint32_t slices) {
    const int32_t groups = ceil_div(c.channels, POOL_BYTES);
    const int64_t count = static_cast<int64_t>(c.batch) * c.out_height * groups;
    const int64_t end = slice_begin(count, slice + 1, slices);
    requantize_tensor t = {};
    t.zero = c.out_zero;
    t.low = c.out_low;
    t.high = c.out_high;
items:
    for (int64_t item = slice_begin(count, slice, slices); item < end; item++) {
#pragma HLS loop_tripcount min = 1 max = 112
        const int32_t channel = static_cast<int32_t>(item % groups) * POOL_BYTES;
        const int64_t row = item / groups;
        const int32_t n = static_cast<int32_t>(row / c.out_height), y = static_cast<int32_t>(row % c.out_height);
        const int64_t image = c.input + static_cast<int64_t>(n) * c.in_stride[0] + channel;
        const int64_t output = c.output + static_cast<int64_t>(n) * c.out_stride[0] +
                               static_cast<int64_t>(y) * c.out_stride[1] + channel;
        const int32_t lanes = minimum(c.channels - channel, POOL_BYTES);
        const pool_window rows = window_of(c, 0, y);
    row_pixels:
        for (int32_t x = 0; x < c.out_width; x++) {
#pragma HLS loop_tripcount min = 1 max = 112
            const pool_window columns = window_of(c, 1, x);
            const int64_t to = output + static_cast<int64_t>(x) * c.out_stride[2];
            if (c.kind == POOL_MAX)
                int8_maximum(c, arena, image, to, rows, columns, lanes);
            else
                int8_average(c, arena, image, to, rows, columns, lanes, t);
        }
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<pool_int8_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(pool_int8_command& c, const windows& elsewhere) {
        elsewhere.redirect_elements(1, c.input);
        elsewhere.redirect_elements(1, c.output);
    }
};

// Whether every window's divisor has a scale.
inline bool has_scales(const pool_int8_command& c) {
    int32_t last_rows = -1, last_counted = -1;
    for (int32_t y = 0; y < c.out_height; y++) {
        const pool_window rows = window_of(c, 0, y);
        if (rows.taps == last_rows && rows.counted == last_counted) continue;
        last_rows = rows.taps;
        last_counted = rows.counted;
        for (int32_t x = 0; x < c.out_width; x++)
            if (divisor_place(c, int8_divisor(c, rows, window_of(c, 1, x))) < 0) return false;
    }
    return true;
}

inline void pool_int8_bounds(const pool_int8_command& c, bounds& b) {
    const int32_t least = least_of(c.out_format);
    pooling_bounds(c, b);
    b.require((c.in_format == FORMAT_U8 || c.in_format == FORMAT_I8) &&
                  (c.out_format == FORMAT_U8 || c.out_format == FORMAT_I8),
              "has an operand of an unknown format");
    b.require(c.kind != POOL_MAX || c.in_format == c.out_format, "has a maximum of another format than its input");
    b.require(c.kind == POOL_MAX || (c.out_low >= least && c.out_low <= c.out_high && c.out_high <= least + 255 &&
                                     c.out_zero >= least && c.out_zero <= least + 255),
              "has limits or a zero point beyond its result's 8 bits");
    if (!b.ok()) return;
    b.read(REGION_ARENA, c.input, pixels_extent(c.channels, c.batch, c.in_height, c.in_width, c.in_stride), 1);
    b.write(REGION_ARENA, c.output, pixels_extent(c.channels, c.batch, c.out_height, c.out_width, c.out_stride), 1);
    if (b.ok()) b.require(c.kind == POOL_MAX || has_scales(c), "has a window whose divisor has no scale");
}
#endif

}  // namespace fpga
