// core: pool; opcodes: pool
//
// Max and average pooling of channels-last images, vector lanes along channels. A work item is one output row of up to
// POOL_VECTORS * 16 channels. Three window shapes (2x2 stride 2, 3x3 stride 2, 3x3 stride 1) keep POOL_TILE output
// pixels in registers, away from the left and right border; all else goes pixel by pixel.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/epilogue.hpp"
#include "lib/vector.hpp"
#include "window.hpp"

namespace fpga {

constexpr int POOL_VECTORS = 4;
constexpr int POOL_TILE = 7;

// Windows without a real pixel give 0 as in PyTorch, hence the 1.
inline float pool_divisor(const pool_command& c, const pool_window& rows, const pool_window& columns) {
    if (c.divisor) return static_cast<float>(c.divisor);
    const int64_t count = c.count_include_pad ? static_cast<int64_t>(rows.counted) * columns.counted
                                              : static_cast<int64_t>(rows.taps) * columns.taps;
    return count > 0 ? static_cast<float>(count) : 1.0f;
}

template <int KIND>
FPGA_INLINE vec16 pool_combine(const vec16& a, const vec16& b) {
    return KIND == POOL_MAX ? vmax(a, b) : a + b;
}

template <int KIND>
FPGA_INLINE vec16 pool_start() {
    return vec16(KIND == POOL_MAX ? -FLOAT_INFINITY : 0.0f);
}

// One output pixel of VECTORS * 16 channels; `lanes` of them are stored. Rows are summed apart from each other, which
// bounds the rounding error of large windows.
template <int KIND, int VECTORS>
inline void pool_pixel(const pool_command& c, vec16* arena, int64_t image, int64_t output, const pool_window& rows,
                       const pool_window& columns, int32_t lanes, bool whole_vectors) {
    vec16 total[VECTORS];
#pragma HLS array_partition variable = total complete
    UNROLL for (int v = 0; v < VECTORS; v++) total[v] = pool_start<KIND>();
window_rows:
    for (int32_t y = 0; y < rows.taps; y++) {
#pragma HLS loop_tripcount min = 1 max = 7
        const int64_t row = image + static_cast<int64_t>(rows.begin + y * rows.step) * c.in_stride[1];
        vec16 even[VECTORS], odd[VECTORS];
#pragma HLS array_partition variable = even complete
#pragma HLS array_partition variable = odd complete
        UNROLL for (int v = 0; v < VECTORS; v++) even[v] = odd[v] = pool_start<KIND>();
    window_columns:
        for (int32_t x = 0; x < columns.taps; x += 2) {
#pragma HLS pipeline
#pragma HLS loop_tripcount min = 1 max = 4
            const int64_t at = row + static_cast<int64_t>(columns.begin + x * columns.step) * c.in_stride[2];
            const int64_t next = at + static_cast<int64_t>(columns.step) * c.in_stride[2];
            UNROLL for (int v = 0; v < VECTORS; v++) {
#pragma HLS unroll
                const int32_t left = whole_vectors ? VEC : minimum(lanes - v * VEC, VEC);
                even[v] = pool_combine<KIND>(even[v], load_some(arena, at + v * VEC, left));
                if (x + 1 < columns.taps) odd[v] = pool_combine<KIND>(odd[v], load_some(arena, next + v * VEC, left));
            }
        }
        UNROLL for (int v = 0; v < VECTORS; v++) {
            total[v] = pool_combine<KIND>(total[v], pool_combine<KIND>(even[v], odd[v]));
        }
    }
    const vec16 divisor(KIND == POOL_MAX ? 1.0f : pool_divisor(c, rows, columns));
store_pixel:
    UNROLL for (int v = 0; v < VECTORS; v++) {
        const vec16 mean = KIND == POOL_MAX ? total[v] : total[v] / divisor;
        store_some(arena, output + v * VEC, apply_activation(mean, c.activation, c.act_a, c.act_b), lanes - v * VEC);
    }
}

// POOL_TILE pixels of 16 channels whose windows lie inside the row. Columns are combined from top to bottom first, as
// neighbouring windows share them.
template <int KIND, int KERNEL, int STRIDE>
FPGA_INLINE void pool_tile(const pool_command& c, vec16* arena, int64_t input, int64_t output, int32_t rows,
                           float divisor, int32_t lanes) {
    constexpr int COLUMNS = (POOL_TILE - 1) * STRIDE + KERNEL;
    vec16 column[COLUMNS], result[POOL_TILE];
#pragma HLS array_partition variable = column complete
#pragma HLS array_partition variable = result complete
top_row:
    UNROLL for (int x = 0; x < COLUMNS; x++) column[x] = load(arena, input + static_cast<int64_t>(x) * c.in_stride[2]);
lower_rows:
    for (int32_t y = 1; y < rows; y++) {
#pragma HLS loop_tripcount min = 1 max = 2
        const int64_t row = input + static_cast<int64_t>(y) * c.in_stride[1];
        UNROLL for (int x = 0; x < COLUMNS; x++) {
            column[x] = pool_combine<KIND>(column[x], load(arena, row + static_cast<int64_t>(x) * c.in_stride[2]));
        }
    }
across:
    UNROLL for (int i = 0; i < POOL_TILE; i++) {
        vec16 r = column[i * STRIDE];
        UNROLL for (int x = 1; x < KERNEL; x++) r = pool_combine<KIND>(r, column[i * STRIDE + x]);
        result[i] = KIND == POOL_MAX ? r : r / vec16(divisor);
    }
    if (c.activation != ACT_NONE) apply_activation_all(result, POOL_TILE, c.activation, c.act_a, c.act_b);
store_tile:
    UNROLL for (int i = 0; i < POOL_TILE; i++) {
        store_some(arena, output + static_cast<int64_t>(i) * c.out_stride[2], result[i], lanes);
    }
}

template <int KIND>
inline void pool_pixels(const pool_command& c, vec16* arena, int64_t image, int64_t output, const pool_window& rows,
                        int32_t begin, int32_t end, int32_t lanes, bool whole_vectors) {
row_pixels:
    for (int32_t x = begin; x < end; x++) {
#pragma HLS loop_tripcount min = 1 max = 112
        const pool_window columns = window_of(c, 1, x);
        const int64_t to = output + static_cast<int64_t>(x) * c.out_stride[2];
        switch (ceil_div(lanes, VEC)) {
            case 1: pool_pixel<KIND, 1>(c, arena, image, to, rows, columns, lanes, whole_vectors); break;
            case 2: pool_pixel<KIND, 2>(c, arena, image, to, rows, columns, lanes, whole_vectors); break;
            case 3: pool_pixel<KIND, 3>(c, arena, image, to, rows, columns, lanes, whole_vectors); break;
            default: pool_pixel<KIND, POOL_VECTORS>(c, arena, image, to, rows, columns, lanes, whole_vectors); break;
        }
    }
}

// The pixels [begin, end) of a row, at least POOL_TILE, none of whose windows hangs over the left or right border. The
// last tile moves back over pixels that are done already.
template <int KIND, int KERNEL, int STRIDE>
inline void pool_inner(const pool_command& c, vec16* arena, int64_t image, int64_t output, const pool_window& rows,
                       int32_t begin, int32_t end, int32_t lanes) {
    const float divisor = pool_divisor(c, rows, window_of(c, 1, begin));
    const int64_t top = image + static_cast<int64_t>(rows.begin) * c.in_stride[1];
tiles:
    for (int32_t x = begin; x < end; x += POOL_TILE) {
#pragma HLS loop_tripcount min = 1 max = 16
        const int32_t first = minimum(x, end - POOL_TILE);
        const int64_t from = top + static_cast<int64_t>(first * STRIDE - c.padding[1]) * c.in_stride[2];
    vectors:
        for (int32_t ch = 0; ch < lanes; ch += VEC) {
#pragma HLS pipeline
#pragma HLS loop_tripcount min = 1 max = 4
            pool_tile<KIND, KERNEL, STRIDE>(c, arena, from + ch,
                                            output + static_cast<int64_t>(first) * c.out_stride[2] + ch, rows.taps,
                                            divisor, lanes - ch);
        }
    }
}

template <int KIND>
inline void pool_row(const pool_command& c, vec16* arena, int64_t image, int64_t output, int32_t y, int32_t lanes,
                     bool whole_vectors) {
    const pool_window rows = window_of(c, 0, y);
    const int32_t k = c.kernel[1], s = c.stride[1];
    const int32_t begin = minimum(ceil_div(c.padding[1], s), c.out_width);
    const int32_t reach = c.in_width + c.padding[1] - k;  // the last inner window starts at or before it
    const int32_t end = reach < 0 ? 0 : minimum(reach / s + 1, c.out_width);
    const bool square = c.kernel[0] == k && c.dilation[0] == 1 && c.dilation[1] == 1 && !c.adaptive;
    const bool tiled = square && whole_vectors && rows.taps > 0 && end - begin >= POOL_TILE &&
                       ((k == 2 && s == 2) || (k == 3 && (s == 1 || s == 2)));
    if (!tiled) {
        pool_pixels<KIND>(c, arena, image, output, rows, 0, c.out_width, lanes, whole_vectors);
        return;
    }
    pool_pixels<KIND>(c, arena, image, output, rows, 0, begin, lanes, whole_vectors);
    if (k == 2)
        pool_inner<KIND, 2, 2>(c, arena, image, output, rows, begin, end, lanes);
    else if (s == 2)
        pool_inner<KIND, 3, 2>(c, arena, image, output, rows, begin, end, lanes);
    else
        pool_inner<KIND, 3, 1>(c, arena, image, output, rows, begin, end, lanes);
    pool_pixels<KIND>(c, arena, image, output, rows, end, c.out_width, lanes, whole_vectors);
}

// Whether full vectors may be read up to the end of a pixel: its channels are padded to a multiple of 16.
FPGA_INLINE bool pool_reads_whole_vectors(const pool_command& c) { return c.in_stride[2] >= round_up(c.channels, VEC); }

inline uint32_t pool(const pool_command& c, const vec16*, vec16* arena, const vec16*, uint32_t slice, uint32_t slices) {
    const int32_t width = POOL_VECTORS * VEC, groups = ceil_div(c.channels, width);
    const int64_t count = static_cast<int64_t>(c.batch) * c.out_height * groups;
    const int64_t end = slice_begin(count, slice + 1, slices);
    const bool whole_vectors = pool_reads_whole_vectors(c);
items:
    for (int64_t item = slice_begin(count, slice, slices); item < end; item++) {
#pragma HLS loop_tripcount min = 1 max = 112
        const int32_t channel = static_cast<int32_t>(item % groups) * width;
        const int64_t row = item / groups;
        const int32_t n = static_cast<int32_t>(row / c.out_height), y = static_cast<int32_t>(row % c.out_height);
        const int64_t image = c.input + static_cast<int64_t>(n) * c.in_stride[0] + channel;
        const int64_t output = c.output + static_cast<int64_t>(n) * c.out_stride[0] +
                               static_cast<int64_t>(y) * c.out_stride[1] + channel;
        const int32_t lanes = minimum(c.channels - channel, width);
        if (c.kind == POOL_MAX)
            pool_row<POOL_MAX>(c, arena, image, output, y, lanes, whole_vectors);
        else
            pool_row<POOL_AVERAGE>(c, arena, image, output, y, lanes, whole_vectors);
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<pool_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(pool_command& c, const windows& elsewhere) { elsewhere.redirect(c.input, c.output); }
};

inline void pool_bounds(const pool_command& c, bounds& b) {
    pooling_bounds(c, b);
    b.require(activation_is_known(c.activation), "has an unknown activation");
    const int64_t read = pool_reads_whole_vectors(c) ? round_up(c.channels, VEC) : c.channels;
    b.read(REGION_ARENA, c.input, pixels_extent(read, c.batch, c.in_height, c.in_width, c.in_stride));
    b.write(REGION_ARENA, c.output, pixels_extent(c.channels, c.batch, c.out_height, c.out_width, c.out_stride));
}
#endif

}  // namespace fpga
