// Depthwise convolution: one filter a channel, vector lanes along channels. Part of the core conv2d.
//
// A tile of adjacent pixels of an output row stays in registers; on a processor each input vector is read once a tile
// and goes to all its pixels whose windows hold it.
#pragma once
#include "../bounds.hpp"
#include "../command.hpp"
#include "../epilogue.hpp"
#include "../tiles.hpp"
#include "../vector.hpp"
#include "slice_grid.hpp"

namespace fpga {

// Pixels that share a pass over any window: as many as an fp32 adder takes cycles, so that every sum is ready when its
// turn comes again.
constexpr int STRIP = 8;

// One output row: where it lies, which kernel rows meet the image, and the columns [inner_begin, inner_end) whose
// windows lie between the image's sides.
struct depthwise_row {
    int64_t input;  // of the window row `kernel_begin` at output column 0, channel 0; may lie left of the image
    int64_t output;
    int64_t residual;
    int32_t kernel_begin;
    int32_t kernel_end;
    int32_t inner_begin;
    int32_t inner_end;
};

// First and last + 1 of the `kernel` taps, `dilation` apart from `origin` on, that fall into [0, size).
FPGA_INLINE int32_t first_tap(int32_t origin, int32_t dilation, int32_t kernel) {
    return origin >= 0 ? 0 : minimum(ceil_div(-origin, dilation), kernel);
}
FPGA_INLINE int32_t end_tap(int32_t origin, int32_t dilation, int32_t kernel, int32_t size) {
    return origin >= size ? 0 : minimum((size - 1 - origin) / dilation + 1, kernel);
}

// Row `at` of the output, counted through the batch.
FPGA_INLINE depthwise_row depthwise_row_at(const depthwise_command& c, int64_t at) {
    const int64_t image = at / c.out_height;
    const int32_t y = static_cast<int32_t>(at - image * c.out_height);
    const int32_t top = y * c.stride[0] - c.padding[0];
    const int32_t last = c.in_width - 1 - (c.kernel[1] - 1) * c.dilation[1] + c.padding[1];
    depthwise_row row;
    row.inner_end = last < 0 ? 0 : minimum(last / c.stride[1] + 1, c.out_width);
    row.inner_begin = minimum(ceil_div(c.padding[1], c.stride[1]), row.inner_end);
    row.kernel_begin = first_tap(top, c.dilation[0], c.kernel[0]);
    row.kernel_end = end_tap(top, c.dilation[0], c.kernel[0], c.in_height);
    const int64_t first_row = top + static_cast<int64_t>(row.kernel_begin) * c.dilation[0];
    row.input = c.input + image * c.in_stride[0] + first_row * c.in_stride[1] -
                static_cast<int64_t>(c.padding[1]) * c.in_stride[2];
    row.output = c.output + image * c.out_stride[0] + static_cast<int64_t>(y) * c.out_stride[1];
    row.residual = c.residual + image * c.residual_stride[0] + static_cast<int64_t>(y) * c.residual_stride[1];
    return row;
}

FPGA_INLINE vec16 depthwise_bias(const depthwise_command& c, const vec16* weights, int32_t channel) {
    return c.bias == ABSENT ? vec16(0.0f) : load(weights, static_cast<int64_t>(c.bias) + channel);
}

template <int PIXELS>
FPGA_INLINE void depthwise_finish(vec16 (&sum)[PIXELS][1], const depthwise_command& c, const depthwise_row& row,
                                  vec16* arena, int32_t x, int32_t channel) {
    if (c.residual != ABSENT) {
    residual_pixels:
        UNROLL for (int i = 0; i < PIXELS; i++) {
#pragma HLS unroll
            const int64_t at = row.residual + static_cast<int64_t>(x + i) * c.residual_stride[2] + channel;
            sum[i][0] += load(arena, at);
        }
    }
    activate<PIXELS, 1>(sum, c.activation, c.act_a, c.act_b);
store_pixels:
    UNROLL for (int i = 0; i < PIXELS; i++) {
#pragma HLS unroll
        store(arena, row.output + static_cast<int64_t>(x + i) * c.out_stride[2] + channel, sum[i][0]);
    }
}

// PIXELS pixels from column x on, kernel columns [left, right) of their windows inside the image.
template <int PIXELS>
FPGA_INLINE void depthwise_pixels(const depthwise_command& c, const depthwise_row& row, vec16* arena,
                                  const vec16* weights, int32_t x, int32_t left, int32_t right, int32_t channel) {
    const int64_t channels = round_up(c.channels, VEC);
    const int64_t pixel = c.in_stride[2];
    const int64_t step = pixel * c.stride[1];
    vec16 sum[PIXELS][1];
start_pixels:
    UNROLL for (int i = 0; i < PIXELS; i++) {
#pragma HLS unroll
        sum[i][0] = depthwise_bias(c, weights, channel);
    }
    int64_t input = row.input + x * step + channel;
kernel_rows:
    for (int32_t y = row.kernel_begin; y < row.kernel_end; y++) {
#pragma HLS loop_tripcount min=1 max=7
        const int64_t weight = c.weight + static_cast<int64_t>(y) * c.kernel[1] * channels + channel;
    kernel_columns:
        for (int32_t k = left; k < right; k++) {
#pragma HLS pipeline II=8
#pragma HLS loop_tripcount min=1 max=7
            const vec16 w = load_aligned(weights, weight + k * channels);
            const int64_t at = input + k * c.dilation[1] * pixel;
        pixels:
            UNROLL for (int i = 0; i < PIXELS; i++) {
#pragma HLS unroll
                sum[i][0] += load(arena, at + i * step) * w;
            }
        }
        input += static_cast<int64_t>(c.dilation[0]) * c.in_stride[1];
    }
    depthwise_finish<PIXELS>(sum, c, row, arena, x, channel);
}

#ifndef __SYNTHESIS__
// PIXELS pixels from column x on of a square kernel of known size and stride, undilated. EDGE: windows may leave the
// image at a side.
template <int SIZE, int STRIDE, int PIXELS, bool EDGE>
FPGA_INLINE void depthwise_tile(const depthwise_command& c, const depthwise_row& row, vec16* arena,
                                const vec16* weights, int32_t x, int32_t channel) {
    const int64_t pixel = c.in_stride[2], channels = round_up(c.channels, VEC);
    const int32_t first = c.padding[1] - x * STRIDE, end = first + c.in_width;
    const memory_float* input = floats(arena) + row.input + x * pixel * STRIDE + channel;
    int64_t weight = c.weight + static_cast<int64_t>(row.kernel_begin) * SIZE * channels + channel;
    const vec16 bias = depthwise_bias(c, weights, channel);
    vec16 sum[PIXELS][1];
    UNROLL for (int i = 0; i < PIXELS; i++) sum[i][0] = bias;
    for (int32_t y = row.kernel_begin; y < row.kernel_end; y++) {
        vec16 w[SIZE];
        UNROLL for (int k = 0; k < SIZE; k++) w[k] = in_register(load_aligned(weights, weight + k * channels));
        const memory_float* at = input;
        UNROLL for (int p = 0; p < (PIXELS - 1) * STRIDE + SIZE; p++, at += pixel) {
            if (EDGE && (p < first || p >= end)) continue;
            const vec16 value = in_register(load(at, 0));
            UNROLL for (int i = 0; i < PIXELS; i++) {
                if (p >= i * STRIDE && p < i * STRIDE + SIZE) sum[i][0] += value * w[p - i * STRIDE];
            }
        }
        input += c.in_stride[1];
        weight += SIZE * channels;
    }
    depthwise_finish<PIXELS>(sum, c, row, arena, x, channel);
}

// The tiles of a row from column x to x_end, and of each the channels [channel, end).
template <int SIZE, int STRIDE, int PIXELS, bool EDGE>
FPGA_NOINLINE void depthwise_panels(const depthwise_command& command, const depthwise_row& output_row, vec16* arena,
                                    const vec16* weights, int32_t x, int32_t x_end, int32_t channel, int32_t end) {
    // Copies, as a store to the arena might change the originals for all that g++ knows.
    const depthwise_command c = command;
    const depthwise_row row = output_row;
    for (; x < x_end; x += PIXELS)
        for (int32_t ch = channel; ch < end; ch += VEC)
            depthwise_tile<SIZE, STRIDE, PIXELS, EDGE>(c, row, arena, weights, x, ch);
}

// Wide images go row by row, as prefetchers like it. Of narrower ones a column of tiles goes down the rows, at most
// DEPTHWISE_BLOCK channel vectors at a time, so that an input row is in the nearest cache when the next output row asks
// for it again.
constexpr int32_t DEPTHWISE_WIDE = 40;
constexpr int64_t DEPTHWISE_BLOCK = 8;

// A part of the output. A last tile that is not full moves back over pixels that are done, unless these may have been
// stored over their residual.
template <int SIZE, int STRIDE>
inline void depthwise_tiles(const depthwise_command& c, vec16* arena, const vec16* weights, const slice_grid& grid) {
    const bool wide = c.in_width >= DEPTHWISE_WIDE, moves_back = c.residual == ABSENT && c.out_width >= tile::ROWS;
    const int64_t all_rows = grid.unit_end - grid.unit_begin, all_panels = grid.panel_end - grid.panel_begin;
    const int64_t band = wide ? 1 : all_rows, block = wide ? all_panels : DEPTHWISE_BLOCK;
    for (int64_t top = grid.unit_begin; top < grid.unit_end; top += band) {
        depthwise_row row = depthwise_row_at(c, top);
        for (int32_t x = 0; x < c.out_width;) {
            const bool single = c.out_width - x < tile::ROWS && !moves_back;
            if (!single) x = minimum(x, c.out_width - tile::ROWS);
            const bool inner = !single && x >= row.inner_begin && x + tile::ROWS <= row.inner_end;
            const int32_t tiles = wide && inner ? (row.inner_end - x) / tile::ROWS : 1;
            const int32_t x_end = x + tiles * (single ? 1 : tile::ROWS);
            for (int64_t panel = grid.panel_begin; panel < grid.panel_end; panel += block) {
                const int32_t channel = static_cast<int32_t>(panel) * VEC;
                const int32_t end = static_cast<int32_t>(minimum(panel + block, grid.panel_end)) * VEC;
                for (int64_t at = top; at < top + band; at++) {
                    if (!wide) row = depthwise_row_at(c, at);
                    if (single)
                        depthwise_panels<SIZE, STRIDE, 1, true>(c, row, arena, weights, x, x_end, channel, end);
                    else if (inner)
                        depthwise_panels<SIZE, STRIDE, tile::ROWS, false>(c, row, arena, weights, x, x_end, channel,
                                                                          end);
                    else
                        depthwise_panels<SIZE, STRIDE, tile::ROWS, true>(c, row, arena, weights, x, x_end, channel,
                                                                         end);
                }
            }
            x = x_end;
        }
    }
}

// The kernels that networks use most; false: not one of them.
inline bool depthwise_known(const depthwise_command& c, vec16* arena, const vec16* weights, const slice_grid& grid) {
    if (c.dilation[0] != 1 || c.dilation[1] != 1 || c.kernel[0] != c.kernel[1] || c.stride[1] > 2) return false;
    switch (c.kernel[1] * 10 + c.stride[1]) {
        case 31: depthwise_tiles<3, 1>(c, arena, weights, grid); return true;
        case 32: depthwise_tiles<3, 2>(c, arena, weights, grid); return true;
        case 51: depthwise_tiles<5, 1>(c, arena, weights, grid); return true;
        case 52: depthwise_tiles<5, 2>(c, arena, weights, grid); return true;
        case 71: depthwise_tiles<7, 1>(c, arena, weights, grid); return true;
        default: return false;
    }
}
#endif

// One vector of channels of an output row.
inline void depthwise_output_row(const depthwise_command& c, const depthwise_row& row, vec16* arena,
                                 const vec16* weights, int32_t channel) {
    int32_t x = 0;
columns:
    while (x < c.out_width) {
#pragma HLS loop_tripcount min=1 max=112
        if (x >= row.inner_begin && x + STRIP <= row.inner_end) {
            depthwise_pixels<STRIP>(c, row, arena, weights, x, 0, c.kernel[1], channel);
            x += STRIP;
            continue;
        }
        const int32_t origin = x * c.stride[1] - c.padding[1];
        const int32_t left = first_tap(origin, c.dilation[1], c.kernel[1]);
        const int32_t right = end_tap(origin, c.dilation[1], c.kernel[1], c.in_width);
        depthwise_pixels<1>(c, row, arena, weights, x, left, right, channel);
        x++;
    }
}

inline uint32_t depthwise(const depthwise_command& c, const vec16* commands, vec16* arena, const vec16* weights,
                          uint32_t slice, uint32_t slices) {
    (void)commands;
    const int64_t rows = static_cast<int64_t>(c.batch) * c.out_height;
    const slice_grid grid = choose_grid(ceil_div(c.channels, VEC), rows, c.out_width, 1, slice, slices);
#ifndef __SYNTHESIS__
    if (depthwise_known(c, arena, weights, grid)) return STATUS_OK;
#endif
output_rows:
    for (int64_t at = grid.unit_begin; at < grid.unit_end; at++) {
#pragma HLS loop_tripcount min=1 max=112
        const depthwise_row row = depthwise_row_at(c, at);
    channel_vectors:
        for (int64_t panel = grid.panel_begin; panel < grid.panel_end; panel++) {
#pragma HLS loop_tripcount min=1 max=60
            depthwise_output_row(c, row, arena, weights, static_cast<int32_t>(panel) * VEC);
        }
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__

inline void depthwise_bounds(const depthwise_command& c, bounds& b) {
    b.require(c.batch > 0 && c.channels > 0 && c.in_height > 0 && c.in_width > 0, "has an empty input");
    b.require(c.out_height > 0 && c.out_width > 0, "has an empty output");
    b.require(c.kernel[0] > 0 && c.kernel[1] > 0, "has an empty kernel");
    b.require(c.stride[0] > 0 && c.stride[1] > 0, "has a stride below 1");
    b.require(c.dilation[0] > 0 && c.dilation[1] > 0, "has a dilation below 1");
    b.require(c.padding[0] >= 0 && c.padding[1] >= 0, "has a negative padding");
    b.require(c.weight % VEC == 0, "has weights that are not aligned to 16 floats");
    b.require(activation_is_known(c.activation), "has an unknown activation");
    for (int axis = 0; axis < 2; axis++) {
        const double outputs = axis == 0 ? c.out_height : c.out_width;
        const double reach = outputs * c.stride[axis] + static_cast<double>(c.kernel[axis]) * c.dilation[axis];
        b.require(reach + c.padding[axis] <= 1 << 30, "has windows further away than 32-bit arithmetic can count");
    }
    const double taps = static_cast<double>(c.kernel[0]) * c.kernel[1];
    b.require(c.channels <= 1 << 30 && taps <= 1 << 30, "has more channels than 32-bit arithmetic can count");
    if (!b.ok()) return;

    const int64_t channels = round_up(c.channels, VEC);
    b.read(REGION_ARENA, c.input, pixels_extent(channels, c.batch, c.in_height, c.in_width, c.in_stride));
    b.read(REGION_WEIGHTS, c.weight, channels * c.kernel[0] * c.kernel[1]);
    if (c.bias != ABSENT) b.read(REGION_WEIGHTS, c.bias, channels);
    if (c.residual != ABSENT)
        b.read(REGION_ARENA, c.residual,
               pixels_extent(channels, c.batch, c.out_height, c.out_width, c.residual_stride));
    b.write(REGION_ARENA, c.output, pixels_extent(channels, c.batch, c.out_height, c.out_width, c.out_stride));
}

#endif

}  // namespace fpga
