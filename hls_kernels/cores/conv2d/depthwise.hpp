// Depthwise convolution: one filter a channel, vector lanes along channels. Part of the core conv2d.
//
// A tile of adjacent pixels of an output row stays in registers; on a processor each input vector is read once a tile
// and goes to all its pixels whose windows hold it.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/epilogue.hpp"
#include "lib/slice_grid.hpp"
#include "lib/vector.hpp"
#include "tiles.hpp"

namespace fpga {

// Pixels that share a pass over any window: as many as an fp32 adder takes cycles, so that every sum is ready when its
// turn comes again.
constexpr int STRIP = 8;

// One output row: where it lies, and which kernel rows meet the image.
struct depthwise_row {
    int64_t input;  // of the window row `kernel_begin` at output column 0, channel 0; may lie left of the image
    int64_t output;
    int64_t residual;
    int32_t kernel_begin;
    int32_t kernel_end;
};

// First and last + 1 of the `kernel` taps, `dilation` apart from `origin` on, that fall into [0, size).
FPGA_INLINE int32_t first_tap(int32_t origin, int32_t dilation, int32_t kernel) {
    return origin >= 0 ? 0 : minimum(ceil_div(-origin, dilation), kernel);
}
FPGA_INLINE int32_t end_tap(int32_t origin, int32_t dilation, int32_t kernel, int32_t size) {
    return origin >= size ? 0 : minimum((size - 1 - origin) / dilation + 1, kernel);
}

// Row y of an image of the output.
FPGA_INLINE depthwise_row depthwise_row_at(const depthwise_command& c, int64_t image, int32_t y, int32_t dilation) {
    const int32_t top = y * c.stride[0] - c.padding[0];
    depthwise_row row;
    row.kernel_begin = first_tap(top, dilation, c.kernel[0]);
    row.kernel_end = end_tap(top, dilation, c.kernel[0], c.in_height);
    const int64_t first_row = top + static_cast<int64_t>(row.kernel_begin) * dilation;
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
#pragma HLS loop_tripcount min = 1 max = 7
        const int64_t weight = c.weight + static_cast<int64_t>(y) * c.kernel[1] * channels + channel;
    kernel_columns:
        for (int32_t k = left; k < right; k++) {
#pragma HLS pipeline II = 8
#pragma HLS loop_tripcount min = 1 max = 7
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
// PIXELS pixels from column x on of a square kernel of known size and stride, undilated; their windows leave the image
// by SIZE / 2 columns at most at either side.
template <int SIZE, int STRIDE, int PIXELS>
FPGA_INLINE void depthwise_tile(const depthwise_command& c, const depthwise_row& row, vec16* arena,
                                const vec16* weights, int32_t x, int32_t channel) {
    constexpr int WIDTH = (PIXELS - 1) * STRIDE + SIZE, SIDE = SIZE / 2;
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
        UNROLL for (int p = 0; p < WIDTH; p++, at += pixel) {
            if ((p < SIDE && p < first) || (p >= WIDTH - SIDE && p >= end)) continue;
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

// Part of the output, rows counted through the batch.
struct depthwise_part {
    int64_t row, row_end;
    int32_t x, x_end;
    int32_t channel, channel_end;
};

template <int SIZE, int STRIDE, int PIXELS>
FPGA_NOINLINE void depthwise_tiles(const depthwise_command& command, vec16* arena, const vec16* weights,
                                   const depthwise_part& part) {
    // Copies, as a store to the arena might change the originals for all that g++ knows.
    const depthwise_command c = command;
    const depthwise_part p = part;
    int64_t image = p.row / c.out_height;
    int32_t y = static_cast<int32_t>(p.row - image * c.out_height);
    for (int64_t at = p.row; at < p.row_end; at++) {
        const depthwise_row row = depthwise_row_at(c, image, y, 1);
        for (int32_t x = p.x; x < p.x_end; x += PIXELS)
            for (int32_t channel = p.channel; channel < p.channel_end; channel += VEC)
                depthwise_tile<SIZE, STRIDE, PIXELS>(c, row, arena, weights, x, channel);
        if (++y == c.out_height) {
            y = 0;
            image++;
        }
    }
}

// A column of tiles goes down DEPTHWISE_BAND rows, so that an input row is in the nearest cache when the next output
// row asks for it again: with so many channels that filters and windows are DEPTHWISE_NEAR vectors.
constexpr int64_t DEPTHWISE_BAND = 16;
constexpr int32_t DEPTHWISE_NEAR = 640;

template <int SIZE, int STRIDE>
inline void depthwise_parts(const depthwise_command& c, vec16* arena, const vec16* weights, const slice_grid& grid) {
    constexpr int32_t near = SIZE * SIZE + SIZE * ((tile::ROWS - 1) * STRIDE + SIZE);
    constexpr int32_t block = VEC * (DEPTHWISE_NEAR / near);
    // A last tile that is not full moves back over pixels that are done, unless these may have been stored over their
    // residual.
    const bool moves_back = c.residual == ABSENT && c.out_width >= tile::ROWS;
    const int32_t tiled = moves_back ? c.out_width : c.out_width / tile::ROWS * tile::ROWS;
    const int32_t channel_begin = static_cast<int32_t>(grid.panel_begin) * VEC;
    const int32_t channel_end = static_cast<int32_t>(grid.panel_end) * VEC;
    depthwise_part p;
    for (p.row = grid.unit_begin; p.row < grid.unit_end; p.row = p.row_end) {
        p.row_end = minimum(p.row + DEPTHWISE_BAND, grid.unit_end);
        for (int32_t x = 0; x < tiled; x += tile::ROWS) {
            p.x = minimum(x, tiled - tile::ROWS);
            p.x_end = p.x + tile::ROWS;
            for (p.channel = channel_begin; p.channel < channel_end; p.channel = p.channel_end) {
                p.channel_end = minimum(p.channel + block, channel_end);
                depthwise_tiles<SIZE, STRIDE, tile::ROWS>(c, arena, weights, p);
            }
        }
        if (tiled == c.out_width) continue;
        p.x = tiled;
        p.x_end = c.out_width;
        p.channel = channel_begin;
        p.channel_end = channel_end;
        depthwise_tiles<SIZE, STRIDE, 1>(c, arena, weights, p);
    }
}

// The kernels that networks use most; false: not one of them.
inline bool depthwise_known(const depthwise_command& c, vec16* arena, const vec16* weights, const slice_grid& grid) {
    const int32_t size = c.kernel[1], side = size / 2;
    if (c.kernel[0] != size || c.dilation[0] != 1 || c.dilation[1] != 1 || c.stride[1] > 2) return false;
    const int32_t right_padding = (c.out_width - 1) * c.stride[1] + size - c.padding[1] - c.in_width;
    if (c.padding[1] > side || right_padding > side) return false;
    switch (size * 10 + c.stride[1]) {
        case 31: depthwise_parts<3, 1>(c, arena, weights, grid); return true;
        case 32: depthwise_parts<3, 2>(c, arena, weights, grid); return true;
        case 51: depthwise_parts<5, 1>(c, arena, weights, grid); return true;
        case 52: depthwise_parts<5, 2>(c, arena, weights, grid); return true;
        case 71: depthwise_parts<7, 1>(c, arena, weights, grid); return true;
        default: return false;
    }
}
#endif

// One vector of channels of an output row. The windows of the columns [inner_begin, inner_end) lie between the image's
// sides.
inline void depthwise_output_row(const depthwise_command& c, const depthwise_row& row, vec16* arena,
                                 const vec16* weights, int32_t inner_begin, int32_t inner_end, int32_t channel) {
    int32_t x = 0;
columns:
    while (x < c.out_width) {
#pragma HLS loop_tripcount min = 1 max = 112
        if (x >= inner_begin && x + STRIP <= inner_end) {
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
    const int32_t last = c.in_width - 1 - (c.kernel[1] - 1) * c.dilation[1] + c.padding[1];
    const int32_t inner_end = last < 0 ? 0 : minimum(last / c.stride[1] + 1, c.out_width);
    const int32_t inner_begin = minimum(ceil_div(c.padding[1], c.stride[1]), inner_end);
output_rows:
    for (int64_t at = grid.unit_begin; at < grid.unit_end; at++) {
#pragma HLS loop_tripcount min = 1 max = 112
        const int64_t image = at / c.out_height;
        const int32_t y = static_cast<int32_t>(at - image * c.out_height);
        const depthwise_row row = depthwise_row_at(c, image, y, c.dilation[0]);
    channel_vectors:
        for (int64_t panel = grid.panel_begin; panel < grid.panel_end; panel++) {
#pragma HLS loop_tripcount min = 1 max = 60
            const int32_t channel = static_cast<int32_t>(panel) * VEC;
            depthwise_output_row(c, row, arena, weights, inner_begin, inner_end, channel);
        }
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<depthwise_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(depthwise_command& c, const windows& elsewhere) {
        elsewhere.redirect(c.input, c.residual, c.output);
    }
};

inline void depthwise_bounds(const depthwise_command& c, bounds& b) {
    b.require(c.batch > 0 && c.channels > 0 && c.in_height > 0 && c.in_width > 0, "has an empty input");
    convolution_bounds(c, b);
    b.require(c.weight % VEC == 0, "has weights that are not aligned to 16 floats");
    b.require(activation_is_known(c.activation), "has an unknown activation");
    const double taps = static_cast<double>(c.kernel[0]) * c.kernel[1];
    b.require(c.channels <= 1 << 30 && taps <= 1 << 30, "has more channels than 32-bit arithmetic can count");
    if (!b.ok()) return;

    const int64_t channels = round_up(c.channels, VEC);
    b.read(REGION_ARENA, c.input, pixels_extent(channels, c.batch, c.in_height, c.in_width, c.in_stride));
    b.read(REGION_WEIGHTS, c.weight, channels * c.kernel[0] * c.kernel[1]);
    if (c.bias != ABSENT) b.read(REGION_WEIGHTS, c.bias, channels);
    convolution_results(c, channels, b);
}

#endif

}  // namespace fpga
