// Input of a convolution for the MAC array: how a command is cut into blocks of output pixels. A block reads one of three
// sources:
//   `direct`  the input in place: channels-last, and no pixel of a window outside the image (software only).
//   `slab`    the rows that the block needs, with their halo, are copied into a local array. A table gives each k its
//             place relative to the window's origin.
//   `gather`  the windows themselves are copied, a block of k at a time: for slabs that do not fit.
#pragma once
#include "command.hpp"
#include "lib/mac/tile.hpp"

namespace fpga {

enum conv_source : int32_t { CONV_DIRECT, CONV_SLAB, CONV_GATHER };

// How a command is cut into blocks, the same for all of its slices.
struct conv_plan {
    int32_t source;
    bool planar;    // columns of the input are contiguous, not channels
    int32_t depth;  // kernel rows * kernel columns * input channels
    int32_t k_blocks;
    int32_t k_block;
    int32_t panels;         // of one group
    int32_t column_blocks;  // slab: parts that an output row is cut into
    int32_t block_columns;
    int32_t block_rows;    // slab: output rows of a block
    int32_t block_pixels;  // direct, gather: output pixels of a block
    int32_t slab_width;    // pixels of a slab row
    int32_t slab_row;      // floats of a slab row
};

// Pixels that `outputs` adjacent windows of one axis cover.
FPGA_INLINE int64_t covered(const conv2d_command& c, int axis, int64_t outputs) {
    return (outputs - 1) * c.stride[axis] + static_cast<int64_t>(c.kernel[axis] - 1) * c.dilation[axis] + 1;
}

// Equal parts, multiples of the tile where there are several.
FPGA_INLINE int32_t even_block(int64_t total, int64_t most) {
    if (total <= most) return static_cast<int32_t>(total);
    const int64_t parts = (total + most - 1) / most;
    const int64_t part = (total + parts - 1) / parts;
    const int64_t tiles = (part + tile::ROWS - 1) / tile::ROWS;
    return static_cast<int32_t>(tiles * tile::ROWS <= most ? tiles * tile::ROWS : part);
}

inline bool plan_slab(const conv2d_command& c, conv_plan& p) {
    if (p.depth > tile::KOFF) return false;
    const int64_t halo_rows = covered(c, 0, 1);
narrow:
    for (int32_t parts = ceil_div(c.out_width, BLOCK_MAX); parts <= c.out_width; parts++) {
#pragma HLS loop_tripcount min = 1 max = 4
        p.block_columns = ceil_div(c.out_width, parts);
        p.column_blocks = ceil_div(c.out_width, p.block_columns);
        const int64_t row = covered(c, 1, p.block_columns) * c.in_channels;
        const int64_t room = row > tile::SLAB_FLOATS ? 0 : tile::SLAB_FLOATS / row;
        if (room < halo_rows) {
            if (p.block_columns < 2 * tile::ROWS) return false;  // mostly halo
            continue;
        }
        const int64_t rows = minimum((room - halo_rows) / c.stride[0] + 1, BLOCK_MAX / p.block_columns);
        p.block_rows = ceil_div(c.out_height, ceil_div(c.out_height, minimum(rows, c.out_height)));
        p.slab_width = static_cast<int32_t>(covered(c, 1, p.block_columns));
        p.slab_row = static_cast<int32_t>(row);
        // A window with large gaps: the slab would hold more than the windows themselves.
        const int64_t gathered = static_cast<int64_t>(p.block_rows) * p.block_columns * p.depth;
        return p.planar || covered(c, 0, p.block_rows) * row <= gathered;
    }
    return false;
}

inline conv_plan plan_conv2d(const conv2d_command& c) {
    conv_plan p;
    p.planar = c.in_stride[1] != 1;
    p.depth = c.kernel[0] * c.kernel[1] * c.in_channels;
    p.k_blocks = ceil_div(p.depth, tile::K_BLOCK);
    p.k_block = ceil_div(p.depth, p.k_blocks);
    p.panels = ceil_div(c.out_channels, c.vectors * VEC);
    const bool inside = c.padding[0] == 0 && c.padding[1] == 0 && covered(c, 0, c.out_height) <= c.in_height &&
                        covered(c, 1, c.out_width) <= c.in_width;
    const int64_t pixels = static_cast<int64_t>(c.batch) * c.out_height * c.out_width;
#ifndef __SYNTHESIS__
    if (inside && !p.planar && (p.depth == c.in_channels || p.depth <= tile::KOFF)) {
        p.source = CONV_DIRECT;
        const int32_t cached = maximum(tile::SLAB_FLOATS / c.in_channels, 16 * tile::ROWS);
        p.block_pixels = even_block(pixels, minimum(cached, BLOCK_MAX));
        return p;
    }
#endif
    if (plan_slab(c, p)) {
        p.source = CONV_SLAB;
        return p;
    }
    p.source = CONV_GATHER;
    p.block_pixels = even_block(pixels, minimum(tile::SLAB_FLOATS / p.k_block, BLOCK_MAX));
    return p;
}

// Offset of each k from the first value of a window.
inline void fill_k_offsets(uint32_t k_offset[tile::KOFF], const conv2d_command& c, uint32_t row, uint32_t column,
                           uint32_t channel) {
    int32_t k = 0;
kernel_rows:
    for (int32_t y = 0; y < c.kernel[0]; y++) {
#pragma HLS loop_tripcount min = 1 max = 7
    kernel_columns:
        for (int32_t x = 0; x < c.kernel[1]; x++) {
#pragma HLS loop_tripcount min = 1 max = 7
            const uint32_t corner = y * c.dilation[0] * row + x * c.dilation[1] * column;
        channels:
            for (int32_t i = 0; i < c.in_channels; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 2048
                k_offset[k++] = corner + i * channel;
            }
        }
    }
}

// The window of one output pixel for k in [k_begin, k_begin + depth), k after k.
inline void gather_window(float* local, int64_t to, const conv2d_command& c, const conv_plan& p, const vec16* arena,
                          place_t image, int32_t top, int32_t left, int32_t k_begin, int32_t depth) {
    int32_t tap = k_begin / c.in_channels;
    int32_t channel = k_begin % c.in_channels;
    int32_t done = 0;
taps:
    while (done < depth) {
#pragma HLS loop_tripcount min = 1 max = 49
        const int32_t count = minimum(c.in_channels - channel, depth - done);
        const int32_t y = top + tap / c.kernel[1] * c.dilation[0];
        const int32_t x = left + tap % c.kernel[1] * c.dilation[1];
        const place_t from = image + offset_of(y, c.in_stride[2]) + offset_of(x, c.in_stride[3]) +
                             offset_of(channel, c.in_stride[1]);
        if (y < 0 || y >= c.in_height || x < 0 || x >= c.in_width) {
            fill(local, to + done, count, 0.0f);
        } else if (!p.planar) {
            copy_in(local, to + done, arena, from, count);
        } else {
        strided:
            for (int32_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 2048
                local[to + done + i] = scalar_at(arena, from + offset_of(i, c.in_stride[1]));
            }
        }
        done += count;
        channel = 0;
        tap++;
    }
}

// Output pixels in row-major order within columns [left, right), beginning at (image, row, column).
struct pixel_run {
    int32_t image, row, column;
    int32_t left, right;
    int32_t count;
    int32_t units;  // of the slice's work
};

FPGA_INLINE void next_pixel(pixel_run& at, const conv2d_command& c) {
    if (++at.column < at.right) return;
    at.column = at.left;
    if (++at.row < c.out_height) return;
    at.row = 0;
    at.image++;
}

inline void fill_block_table(block_table& table, const pixel_run& run, const conv2d_command& c, const conv_plan& p) {
    pixel_run at = run;
    table_entry step;
    step.output = offset_of(1, c.out_stride[2]);
    step.residual = offset_of(1, c.residual_stride[2]);
    if (p.source == CONV_DIRECT)
        step.source = offset_of(c.stride[1], c.in_stride[3]);
    else if (p.source == CONV_SLAB)
        step.source = c.stride[1] * (p.planar ? 1 : c.in_channels);
    else
        step.source = p.k_block;
each_row:
    for (int32_t done = 0; done < run.count;) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t columns = minimum(at.right - at.column, run.count - done);
        table_entry entry;
        if (p.source == CONV_DIRECT)
            entry.source = offset_of(at.image, c.in_stride[0]) + offset_of(at.row * c.stride[0], c.in_stride[2]) +
                           at.column * step.source;
        else if (p.source == CONV_SLAB)
            entry.source = (at.row - run.row) * c.stride[0] * p.slab_row + (at.column - run.left) * step.source;
        else
            entry.source = done * step.source;
        entry.output = offset_of(at.image, c.out_stride[0]) + offset_of(at.row, c.out_stride[1]) +
                       at.column * step.output;
        entry.residual = offset_of(at.image, c.residual_stride[0]) + offset_of(at.row, c.residual_stride[1]) +
                         at.column * step.residual;
        fill_entries(table, done, columns, entry, step);
        done += columns;
        at.column += columns - 1;
        next_pixel(at, c);
    }
    repeat_last_pixel(table, run.count);
}

// The next block of the slice from unit `unit`: an output row of a column block (slab), or a pixel.
inline pixel_run next_block(const conv2d_command& c, const conv_plan& p, int64_t unit, int64_t unit_end) {
    pixel_run run;
    if (p.source == CONV_SLAB) {
        const int64_t part = unit / c.out_height;
        run.image = static_cast<int32_t>(part / p.column_blocks);
        run.row = static_cast<int32_t>(unit % c.out_height);
        run.left = static_cast<int32_t>(part % p.column_blocks) * p.block_columns;
        run.right = minimum(run.left + p.block_columns, c.out_width);
        run.column = run.left;
        const int32_t rows = minimum(p.block_rows, c.out_height - run.row);
        run.units = static_cast<int32_t>(minimum(rows, unit_end - unit));
        run.count = run.units * (run.right - run.left);
    } else {
        const int64_t row = unit / c.out_width;
        run.image = static_cast<int32_t>(row / c.out_height);
        run.row = static_cast<int32_t>(row % c.out_height);
        run.column = static_cast<int32_t>(unit % c.out_width);
        run.left = 0;
        run.right = c.out_width;
        run.units = static_cast<int32_t>(minimum(p.block_pixels, unit_end - unit));
        run.count = run.units;
    }
    return run;
}

// Copies the rows and columns that the windows of the block cover, zeros where they leave the image:
// [row][column][channel], or [row][channel][column] if the input is planar.
inline void fill_slab(float slab[tile::SLAB_FLOATS], const conv2d_command& c, const conv_plan& p, const vec16* arena,
                      uint32_t group_channel, const pixel_run& run) {
    const place_t image = c.input + offset_of(run.image, c.in_stride[0]) + group_channel;
    const int32_t top = run.row * c.stride[0] - c.padding[0];
    const int32_t left = run.left * c.stride[1] - c.padding[1];
    const int32_t rows = static_cast<int32_t>(covered(c, 0, run.units));
    const int32_t before = minimum(maximum(-left, 0), p.slab_width);
    const int32_t end = maximum(minimum(c.in_width - left, p.slab_width), before);
    const int32_t inside = end - before;
    const int32_t after = p.slab_width - end;
slab_rows:
    for (int32_t r = 0; r < rows; r++) {
#pragma HLS loop_tripcount min = 3 max = 64
        const int32_t y = top + r;
        const int64_t to = static_cast<int64_t>(r) * p.slab_row;
        if (y < 0 || y >= c.in_height || inside == 0) {
            fill(slab, to, p.slab_row, 0.0f);
            continue;
        }
        const place_t from = image + offset_of(y, c.in_stride[2]) + offset_of(left + before, c.in_stride[3]);
        if (p.planar) {
        planes:
            for (int32_t i = 0; i < c.in_channels; i++) {
#pragma HLS loop_tripcount min = 1 max = 64
                const int64_t plane = to + static_cast<int64_t>(i) * p.slab_width;
                fill(slab, plane, before, 0.0f);
                copy_in(slab, plane + before, arena, from + offset_of(i, c.in_stride[1]), inside);
                fill(slab, plane + end, after, 0.0f);
            }
        } else {
            const int64_t channels = c.in_channels;
            fill(slab, to, before * channels, 0.0f);
            if (c.in_stride[3] == c.in_channels) {
                copy_in(slab, to + before * channels, arena, from, inside * channels);
            } else {
            pixels:
                for (int32_t x = 0; x < inside; x++) {
#pragma HLS loop_tripcount min = 1 max = 224
                    copy_in(slab, to + (before + x) * channels, arena, from + offset_of(x, c.in_stride[3]), channels);
                }
            }
            fill(slab, to + end * channels, after * channels, 0.0f);
        }
    }
}

inline void gather_block(float slab[tile::SLAB_FLOATS], const conv2d_command& c, const conv_plan& p, const vec16* arena,
                         uint32_t group_channel, const pixel_run& run, int32_t k_begin, int32_t depth) {
    pixel_run at = run;
each_pixel:
    for (int32_t i = 0; i < run.count; i++) {
#pragma HLS loop_tripcount min = 7 max = 1022
        const place_t image = c.input + offset_of(at.image, c.in_stride[0]) + group_channel;
        gather_window(slab, static_cast<int64_t>(i) * p.k_block, c, p, arena, image,
                      at.row * c.stride[0] - c.padding[0], at.column * c.stride[1] - c.padding[1], k_begin, depth);
        next_pixel(at, c);
    }
}

}  // namespace fpga
