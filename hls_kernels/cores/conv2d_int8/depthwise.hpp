// Depthwise convolution of int8 maps, vector lanes along channels. Four rows of the image under a window are four bytes of a
// lane: a column of the window is one dot4, or one for each four rows. Part of the core conv2d_int8.
#pragma once
#include "command.hpp"
#include "lib/int8/mac.hpp"

namespace fpga {

constexpr int DEPTHWISE_COLUMNS = 512;  // quads of a piece of a row: its columns, times a quarter of the kernel's rows
constexpr int DEPTHWISE_PIXELS = 64;    // of a piece, at most
constexpr int DEPTHWISE_BLOCKS = 4;     // of 16 channels that go along a row together: a line of a cache

// Quads of a window's column.
FPGA_INLINE int32_t column_quads(const depthwise_int8_command& c) { return ceil_div(c.kernel[0], 4); }
FPGA_INLINE int32_t columns_of(const depthwise_int8_command& c, int32_t pixels) {
    return (pixels - 1) * c.stride[1] + (c.kernel[1] - 1) * c.dilation[1] + 1;
}

// Whether two output rows come of the same quads, the kernel's rows shifted by one for the second.
constexpr int PAIRED_TAPS = 16;
FPGA_INLINE bool goes_in_pairs(const depthwise_int8_command& c) {
    return c.stride[0] == 1 && c.dilation[0] == 1 && c.kernel[0] <= 3 && c.kernel[1] <= PAIRED_TAPS;
}

// What a slice does next: bands of output rows, of one or two rows each, of groups of channels of an image.
struct depthwise_int8_part {
    int32_t image;
    int32_t group, group_end;
    int32_t band, band_end;
};

// A slice's share of a command. Slices have bands of all channels, because each lane then finds most of the input in its
// own cache, from the command before. If there are too few bands for equal shares, slices are pairs of a group and a band.
// The same holds if bands are so short that loading the constants of all channels in each lane would cost too much.
struct depthwise_int8_share {
    int32_t bands, groups;
    bool by_bands;
    int64_t at, end;
};

// In pixels of 16 channels: loading a block's constants; and what an input from all lanes' caches costs, in eighths.
constexpr int64_t DEPTHWISE_CONSTANTS = 9;
constexpr int64_t DEPTHWISE_FAR_EIGHTHS = 9;

// By what the busiest lane does, on which two slices run, one behind the other.
FPGA_INLINE bool shares_bands(const depthwise_int8_command& c, int32_t bands, int32_t pixels, int64_t slices) {
    const int64_t blocks = ceil_div(c.channels, VEC), all = static_cast<int64_t>(c.batch) * bands;
    const int64_t of_lane = (2 * all + slices - 1) / slices;
    const int64_t by_bands = of_lane * pixels * blocks + 2 * blocks * DEPTHWISE_CONSTANTS;
    const int64_t by_pairs = 2 * all * pixels * blocks * DEPTHWISE_FAR_EIGHTHS / (8 * slices) +
                             2 * c.batch * blocks * DEPTHWISE_CONSTANTS / slices;
    return by_bands <= by_pairs;
}

FPGA_INLINE depthwise_int8_share depthwise_share_of(const depthwise_int8_command& c, int32_t groups, uint32_t slice,
                                                    uint32_t slices) {
    const int32_t at_once = goes_in_pairs(c) ? 2 : 1;
    depthwise_int8_share s;
    s.bands = ceil_div(c.out_height, at_once);
    s.groups = groups;
    s.by_bands = shares_bands(c, s.bands, at_once * c.out_width, slices);
    const int64_t items = static_cast<int64_t>(c.batch) * s.bands * (s.by_bands ? 1 : groups);
    s.at = slice_begin(items, slice, slices);
    s.end = slice_begin(items, slice + 1, slices);
    return s;
}

// The next part of a share that has not come to its end.
FPGA_INLINE depthwise_int8_part next_part(depthwise_int8_share& s) {
    depthwise_int8_part p;
    const int64_t column = s.at / s.bands;
    p.band = static_cast<int32_t>(s.at % s.bands);
    p.band_end = static_cast<int32_t>(minimum<int64_t>(s.bands, p.band + s.end - s.at));
    p.image = static_cast<int32_t>(s.by_bands ? column : column / s.groups);
    p.group = s.by_bands ? 0 : static_cast<int32_t>(column % s.groups);
    p.group_end = s.by_bands ? s.groups : p.group + 1;
    s.at += p.band_end - p.band;
    return p;
}

// Whether 16 bytes may be read where fewer channels are left: pixels have room for a multiple of 16.
FPGA_INLINE bool reads_whole_blocks(const depthwise_int8_command& c) {
    return c.in_stride[2] >= round_up(c.channels, VEC);
}

// Four rows at a pixel's 16 channels, `lanes` of which exist; rows[i] is a byte offset, or negative outside of the image.
FPGA_INLINE ivec16 column_of(const vec16* arena, const int64_t (&rows)[4], int64_t along, int32_t lanes, bool whole,
                             const uint8_t* pad) {
#ifndef __SYNTHESIS__
    if (whole || lanes == VEC) {
        const uint8_t* from[4];
        for (int i = 0; i < 4; i++) from[i] = rows[i] < 0 ? pad : bytes_of_region(arena) + rows[i] + along;
        return quads_of(from[0], from[1], from[2], from[3]);
    }
#endif
    ivec16 quads(0);
each_row:
    for (int i = 0; i < 4; i++) {
#pragma HLS unroll
        const ivec16 x = rows[i] < 0 ? ivec16(pad[0]) : load_bytes(arena, rows[i] + along, lanes, false);
        quads = quads | (x << ivec16(8 * i));
    }
    return quads;
}

// Columns [first, first + count) of the image, in quads of rows from `top` on: column[i * quads + q]. `used`: rows that
// a weight meets; those behind them may be any.
inline void fill_columns(ivec16* column, const depthwise_int8_command& c, const vec16* arena, place_t image,
                         int32_t top, int32_t first, int32_t count, int32_t used, int32_t lanes, bool whole) {
    const int32_t quads = column_quads(c), flip = c.in_format == FORMAT_I8 ? FLIP_BYTES : 0;
    uint8_t pad[VEC];
#pragma HLS array_partition variable = pad complete
pads:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        pad[i] = static_cast<uint8_t>(c.pad);
    }
    const ivec16 outside(static_cast<int32_t>(pad[0] * 0x01010101u) ^ flip);
    const int32_t begin = minimum(maximum(-first, 0), count), end = maximum(minimum(c.in_width - first, count), begin);
each_quad:
    for (int32_t q = 0; q < quads; q++) {
#pragma HLS loop_tripcount min = 1 max = 2
        int64_t rows[4];
#pragma HLS array_partition variable = rows complete
    each_row:
        for (int32_t i = 0; i < 4; i++) {
#pragma HLS unroll
            const int32_t y = top + minimum(4 * q + i, used - 1) * c.dilation[0];
            rows[i] = y < 0 || y >= c.in_height ? -1 : static_cast<int64_t>(image) + offset_of(y, c.in_stride[1]);
        }
    left:
        for (int32_t x = 0; x < begin; x++) column[x * quads + q] = outside;
    inside:
        for (int32_t x = begin; x < end; x++) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 1 max = 128
            const int64_t along = static_cast<int64_t>(first + x) * c.in_stride[2];
            column[x * quads + q] = column_of(arena, rows, along, lanes, whole, pad) ^ ivec16(flip);
        }
    right:
        for (int32_t x = end; x < count; x++) column[x * quads + q] = outside;
    }
}

// TAPS: columns of the kernel times quads, or 0 for any number.
template <int TAPS>
inline void add_columns(ivec16* sums, const ivec16* column, const depthwise_int8_command& c, int32_t pixels,
                        const ivec16* weight, const ivec16& begin) {
    const int32_t quads = column_quads(c), taps = TAPS ? TAPS : c.kernel[1] * quads;
    dot_weights w[TAPS ? TAPS : 1];
    for (int t = 0; t < TAPS; t++) w[t] = dot_weights(weight[t]);
    int32_t place[DEPTHWISE_COLUMNS];
each_place:
    for (int32_t t = 0; t < taps; t++) {
#pragma HLS loop_tripcount min = 3 max = 14
        place[t] = t / quads * c.dilation[1] * quads + t % quads;
    }
each_pixel:
    for (int32_t x = 0; x < pixels; x++) {
#pragma HLS loop_tripcount min = 1 max = 64
        const ivec16* from = column + x * c.stride[1] * quads;
        ivec16 sum = begin;
    each_tap:
        UNROLL for (int32_t t = 0; t < taps; t++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 3 max = 14
            sum = dot4(sum, dot_inputs(from[place[t]]), TAPS ? w[t] : dot_weights(weight[t]));
        }
        sums[x] = sum;
    }
}

// 16 channels: their weights, also shifted by a row, and what their sums begin with.
struct depthwise_block {
    int32_t channel;  // the first
    ivec16 begin;
    ivec16 weight[DEPTHWISE_COLUMNS];
    ivec16 shifted[PAIRED_TAPS];
    int8_channels constants;
};

FPGA_INLINE channel_group channels_of(const depthwise_block& block) {
    const uint32_t channel = static_cast<uint32_t>(block.channel);
    return {channel, channel * PARAMETERS, VEC, VEC, ivec16(0)};
}

inline void load_block(depthwise_block& block, const depthwise_int8_command& c, int32_t channel, const int8_epilogue& e,
                       const vec16* weights) {
    const int32_t taps = c.kernel[1] * column_quads(c);
    block.channel = channel;
    block.begin = ivec16(0);
load_taps:
    for (int32_t t = 0; t < taps; t++) {
#pragma HLS pipeline
#pragma HLS loop_tripcount min = 3 max = 14
        block.weight[t] =
            bits_of(load(weights, c.weight / 4 + channel + static_cast<int64_t>(t) * round_up(c.channels, VEC)));
        if (t < PAIRED_TAPS) block.shifted[t] = block.weight[t] << ivec16(8);
        if (c.in_format == FORMAT_I8)
            block.begin = dot4(block.begin, dot_inputs(ivec16(0x01010101)), dot_weights(block.weight[t]));
    }
    block.begin = block.begin * ivec16(-128);
    block.constants = int8_channels_of(weights, e, channels_of(block));
}

// Output rows [y, y + rows), one or two of them.
inline void depthwise_int8_rows(const depthwise_int8_command& c, vec16* arena, const vec16* weights, int32_t n,
                                int32_t y, int32_t rows, const depthwise_block& block, const int8_epilogue& e) {
    alignas(64) ivec16 column[DEPTHWISE_COLUMNS];
    alignas(64) ivec16 sums[2 * DEPTHWISE_PIXELS];
    int32_t row[2 * DEPTHWISE_PIXELS];
    uint32_t output[2 * DEPTHWISE_PIXELS], residual[2 * DEPTHWISE_PIXELS];
    const int32_t quads = column_quads(c), taps = c.kernel[1] * quads, lanes = minimum(c.channels - block.channel, VEC);
    const bool whole = reads_whole_blocks(c);
    const place_t image = c.input + offset_of(n, c.in_stride[0]) + block.channel;
    const int32_t room = (DEPTHWISE_COLUMNS / quads - columns_of(c, 1)) / c.stride[1] + 1;
    const int32_t most = minimum(room, DEPTHWISE_PIXELS);
pieces:
    for (int32_t first = 0; first < c.out_width; first += most) {
#pragma HLS loop_tripcount min = 1 max = 2
        const int32_t count = minimum(most, c.out_width - first);
        fill_columns(column, c, arena, image, y * c.stride[0] - c.padding[0], first * c.stride[1] - c.padding[1],
                     columns_of(c, count), c.kernel[0] + rows - 1, lanes, whole);
    each_row:
        for (int32_t r = 0; r < rows; r++) {
#pragma HLS loop_tripcount min = 1 max = 2
            const ivec16* weight = r == 0 ? block.weight : block.shifted;
            if (taps == 3 && quads == 1)
                add_columns<3>(sums + r * count, column, c, count, weight, block.begin);
            else if (taps == 10 && quads == 2)
                add_columns<10>(sums + r * count, column, c, count, weight, block.begin);
            else
                add_columns<0>(sums + r * count, column, c, count, weight, block.begin);
        places:
            for (int32_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 64
                const int32_t to = r * count + i;
                row[to] = to;
                output[to] = offset_of(n, c.out_stride[0]) + offset_of(y + r, c.out_stride[1]) +
                             offset_of(first + i, c.out_stride[2]);
                residual[to] = offset_of(n, c.residual_stride[0]) + offset_of(y + r, c.residual_stride[1]) +
                               offset_of(first + i, c.residual_stride[2]);
            }
        }
        const pixel_sums from = {sums, 1, rows * count, row, output, residual, nullptr, nullptr, nullptr};
        finish_int8(from, 0, block.constants, channels_of(block), e, arena, weights);
    }
}

}  // namespace fpga

#ifndef __SYNTHESIS__
#include "depthwise_lines.hpp"
#endif

namespace fpga {

inline uint32_t depthwise_int8(const depthwise_int8_command& c, const vec16* commands, vec16* arena,
                               const vec16* weights, uint32_t slice, uint32_t slices) {
    (void)commands;
    depthwise_block block[DEPTHWISE_BLOCKS];
    const int8_epilogue e = int8_epilogue_of(c);
#ifdef FPGA_PACKS
    if (goes_in_lines(c, e)) {
        depthwise_lines(c, arena, weights, slice, slices, e);
        return STATUS_OK;
    }
#endif
    const int32_t blocks = ceil_div(c.channels, VEC), at_once = goes_in_pairs(c) ? 2 : 1;
    depthwise_int8_share share = depthwise_share_of(c, ceil_div(blocks, DEPTHWISE_BLOCKS), slice, slices);
parts:
    while (share.at < share.end) {
#pragma HLS loop_tripcount min = 1 max = 8
        const depthwise_int8_part part = next_part(share);
    each_group:
        for (int32_t group = part.group; group < part.group_end; group++) {
#pragma HLS loop_tripcount min = 1 max = 15
            const int32_t first = group * DEPTHWISE_BLOCKS, count = minimum(DEPTHWISE_BLOCKS, blocks - first);
        load_blocks:
            for (int32_t i = 0; i < count; i++) {
#pragma HLS loop_tripcount min = 1 max = 4
                load_block(block[i], c, (first + i) * VEC, e, weights);
            }
        each_band:
            for (int32_t band = part.band; band < part.band_end; band++) {
#pragma HLS loop_tripcount min = 1 max = 112
                const int32_t y = band * at_once, rows = minimum(at_once, c.out_height - y);
            each_block:
                for (int32_t i = 0; i < count; i++) {
#pragma HLS loop_tripcount min = 1 max = 4
                    depthwise_int8_rows(c, arena, weights, part.image, y, rows, block[i], e);
                }
            }
        }
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<depthwise_int8_command> : convolution_int8_redirection<depthwise_int8_command> {};

inline void depthwise_int8_bounds(const depthwise_int8_command& c, bounds& b) {
    b.require(c.batch > 0 && c.channels > 0 && c.in_height > 0 && c.in_width > 0, "has an empty input");
    convolution_bounds(c, b);
    b.require(c.in_format == FORMAT_U8 || c.in_format == FORMAT_I8, "has an input of an unknown format");
    b.require(c.weight % (4 * VEC) == 0, "has weights that do not begin with a beat");
    b.require_forward(c.in_stride, c.out_stride, c.residual_stride);
    const double quads = (static_cast<double>(c.kernel[0]) + 3) / 4;
    b.require(quads * ((static_cast<double>(c.kernel[1]) - 1) * c.dilation[1] + 1) <= DEPTHWISE_COLUMNS,
              "has windows of more columns than the core holds");
    if (!b.ok()) return;
    const int64_t stored = round_up(c.channels, VEC), read = reads_whole_blocks(c) ? stored : c.channels;
    b.read(REGION_ARENA, c.input, pixels_extent(read, c.batch, c.in_height, c.in_width, c.in_stride), 1);
    b.read(REGION_WEIGHTS, c.weight, stored * 4 * c.kernel[1] * column_quads(c), 1);
    int8_epilogue_bounds(c, stored, b);
    convolution_results(c, stored, b, 1, out_bytes(c.out_format));
}
#endif

}  // namespace fpga
