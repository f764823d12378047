// Input of an int8 convolution for the products: how a command is cut into blocks of output pixels, and the three sources
// that a block reads:
//   `direct`  the input in place: 1 x 1 windows at equal distances (software only).
//   `slab`    the rows that the block needs, with their halo, are copied into a local array. Rows of a stride are kept
//             apart, by the remainder modulo the stride, so that windows of neighbouring pixels are neighbours.
//   `gather`  the windows themselves are copied, for slabs that do not fit.
#pragma once
#include "command.hpp"
#include "lib/int8/mac.hpp"

namespace fpga {

enum int8_source : int32_t { INT8_DIRECT, INT8_SLAB, INT8_GATHER };

constexpr int64_t SLAB_BYTES = int64_t{4} * tile::SLAB_FLOATS;
#ifdef __SYNTHESIS__
constexpr int64_t SLAB_SLACK = 4;  // the last quad of a kernel row may end behind the last pixel
#else
constexpr int64_t SLAB_SLACK = 1 << 17;  // AMX tiles of 16 pixels may be read beyond the last pixel
#endif
constexpr int MOST_RUNS = 512;

// Quads of k of a kernel row.
template <class COMMAND>
FPGA_INLINE int32_t row_quads(const COMMAND& c) {
    const int32_t values = c.dilation[1] == 1 ? c.kernel[1] * c.in_channels : c.kernel[1] * round_up(c.in_channels, 4);
    return ceil_div(values, 4);
}
// Whether its taps follow each other without gaps.
FPGA_INLINE bool taps_adjoin(const conv2d_int8_command& c) {
    return row_quads(c) < c.kernel[1] * ceil_div(c.in_channels, 4);
}

// How a command is cut into blocks, the same for all of its slices.
struct conv_int8_plan {
    int32_t source;
    bool flipped;    // the sign bits of signed input are flipped on the way to the slab
    int amx_quads;   // of a step of the AMX tiles, or 0
    int32_t panels;  // of one group
    int32_t quads;   // of k
    int32_t pixel;   // bytes from a pixel of the slab, or a window of the gather, to the next
    // slab: [row phase][column phase][row][column][pixel]
    int32_t row_phases, column_phases;
    int32_t reach;     // rows of a phase that a block needs beyond its own
    int32_t columns;   // of a row
    int32_t step;      // bytes from an output pixel's window to the next
    bool quad_pixels;  // 4 bytes of each pixel may be read (software only)
    int32_t block_rows;
    int32_t block_pixels;  // direct, gather
    k_run runs[MOST_RUNS];
    int32_t run_count;
};

FPGA_INLINE int32_t row_bytes(const conv_int8_plan& p) { return p.columns * p.pixel; }
FPGA_INLINE int64_t phase_bytes(const conv_int8_plan& p) {
    return static_cast<int64_t>(p.block_rows + p.reach) * row_bytes(p);
}

// Sizes of the slab; whether it holds the input of a row of output.
inline bool plan_int8_slab(const conv2d_int8_command& c, conv_int8_plan& p, bool column_phases) {
    const bool adjoin = taps_adjoin(c);
    const int32_t channels = adjoin ? c.in_channels : round_up(c.in_channels, 4);
    const bool as_is = !adjoin && c.groups == 1 && c.in_stride[2] >= channels &&
                       c.in_stride[2] <= channels + minimum(channels / 2, 63);
    p.pixel = as_is ? c.in_stride[2] : channels;
    p.quad_pixels = c.groups == 1 && c.in_channels <= 4 && c.in_stride[2] >= 4;
    p.row_phases = c.kernel[0] == 1 ? 1 : c.stride[0];
    p.column_phases = !column_phases || c.kernel[1] == 1 ? 1 : c.stride[1];
    const int32_t apart = column_phases ? c.stride[1] : 1;
    p.reach = (c.kernel[0] - 1) * c.dilation[0] / c.stride[0];
    const int64_t columns = column_phases ? c.out_width + static_cast<int64_t>(c.kernel[1] - 1) * c.dilation[1] / apart
                                          : static_cast<int64_t>(c.out_width - 1) * c.stride[1] +
                                                static_cast<int64_t>(c.kernel[1] - 1) * c.dilation[1] + 1;
    if (columns * p.pixel > SLAB_BYTES || c.kernel[0] * c.kernel[1] > MOST_RUNS || c.out_width > BLOCK_MAX)
        return false;
    p.columns = static_cast<int32_t>(columns);
    p.step = column_phases ? p.pixel : c.stride[1] * p.pixel;
    const int64_t room = SLAB_BYTES / (static_cast<int64_t>(p.row_phases) * p.column_phases * row_bytes(p)) - p.reach;
    if (room < 1) return false;
    const int32_t rows = static_cast<int32_t>(minimum(room, BLOCK_MAX / c.out_width));
    p.block_rows = ceil_div(c.out_height, ceil_div(c.out_height, minimum(rows, c.out_height)));

    const bool joined = p.pixel == channels && c.dilation[1] == 1 && !column_phases;  // a row's taps are one run
    p.run_count = 0;
kernel_rows:
    for (int32_t y = 0; y < c.kernel[0]; y++) {
#pragma HLS loop_tripcount min = 1 max = 7
        const int32_t down = y * c.dilation[0];
        const int64_t row = (static_cast<int64_t>(down % c.stride[0]) * p.column_phases) * phase_bytes(p) +
                            static_cast<int64_t>(down / c.stride[0]) * row_bytes(p);
    kernel_columns:
        for (int32_t x = 0; x < (joined ? 1 : c.kernel[1]); x++) {
#pragma HLS loop_tripcount min = 1 max = 7
            const int32_t right = x * c.dilation[1];
            const int64_t at = row + right % apart * phase_bytes(p) + static_cast<int64_t>(right / apart) * p.pixel;
            p.runs[p.run_count].offset = static_cast<uint32_t>(at);
            p.runs[p.run_count++].quads = joined ? row_quads(c) : channels / 4;
        }
    }
    return true;
}

inline void one_run(conv_int8_plan& p) {
    p.run_count = 1;
    p.runs[0].offset = 0;
    p.runs[0].quads = p.quads;
}

#ifndef __SYNTHESIS__
// 1 x 1 windows of pixels at equal distances, whose bytes are whole quads.
inline bool is_direct(const conv2d_int8_command& c) {
    const bool one = c.kernel[0] == 1 && c.kernel[1] == 1 && c.stride[0] == 1 && c.stride[1] == 1 &&
                     c.padding[0] == 0 && c.padding[1] == 0 && c.out_height == c.in_height && c.out_width == c.in_width;
    return one && c.groups == 1 && c.in_channels % 4 == 0 &&
           (c.out_height == 1 || c.in_stride[1] == c.out_width * c.in_stride[2]) &&
           (c.batch == 1 || c.in_stride[0] == c.out_height * c.out_width * c.in_stride[2]);
}
#endif

inline void plan_sources(const conv2d_int8_command& c, conv_int8_plan& p, bool tiles) {
    const int64_t pixels = static_cast<int64_t>(c.batch) * c.out_height * c.out_width;
    p.amx_quads = 0;
#ifndef __SYNTHESIS__
    if (is_direct(c) && (tiles || c.in_format == FORMAT_U8)) {
        p.source = INT8_DIRECT;
        p.pixel = c.in_stride[2];
        p.block_pixels = equal_part(pixels, BLOCK_MAX);
        one_run(p);
        return;
    }
#endif
    if (plan_int8_slab(c, p, tiles && c.stride[1] > 1 && c.in_channels >= 32 && !taps_adjoin(c))) {
        p.source = INT8_SLAB;
        return;
    }
    p.source = INT8_GATHER;
    p.pixel = 4 * p.quads;
    p.block_pixels = equal_part(pixels, minimum(SLAB_BYTES / p.pixel, BLOCK_MAX));
    one_run(p);
}

inline void plan_conv2d_int8(const conv2d_int8_command& c, conv_int8_plan& p) {
    p.quads = c.kernel[0] * row_quads(c);
    p.panels = ceil_div(c.out_channels, c.vectors * VEC);
#ifndef __SYNTHESIS__
    const int64_t pixels = static_cast<int64_t>(c.batch) * c.out_height * c.out_width;
    if (amx_is_ready() && pixels >= AMX_ROWS / 2) {
        plan_sources(c, p, true);
        p.amx_quads = amx_quads_of(p.runs, p.run_count);
        if (p.amx_quads && int64_t{AMX_ROWS} * (p.source == INT8_SLAB ? p.step : p.pixel) <= SLAB_SLACK) {
            p.flipped = false;
            return;
        }
    }
#endif
    plan_sources(c, p, false);
    p.flipped = c.in_format == FORMAT_I8;
}

// Output pixels in row-major order, from (image, row, column) on.
struct int8_pixels {
    int32_t image, row, column;
    int32_t count;
    int32_t units;  // of the slice's work: rows of output (slab) or pixels
};

inline int8_pixels next_int8_block(const conv2d_int8_command& c, const conv_int8_plan& p, int64_t unit,
                                   int64_t unit_end) {
    int8_pixels run;
    if (p.source == INT8_SLAB) {
        run.image = static_cast<int32_t>(unit / c.out_height);
        run.row = static_cast<int32_t>(unit % c.out_height);
        run.column = 0;
        const int32_t rows = minimum(p.block_rows, c.out_height - run.row);
        run.units = static_cast<int32_t>(minimum(rows, unit_end - unit));
        run.count = run.units * c.out_width;
    } else {
        const int64_t row = unit / c.out_width;
        run.image = static_cast<int32_t>(row / c.out_height);
        run.row = static_cast<int32_t>(row % c.out_height);
        run.column = static_cast<int32_t>(unit % c.out_width);
        run.units = static_cast<int32_t>(minimum(p.block_pixels, unit_end - unit));
        run.count = run.units;
    }
    return run;
}

inline void fill_int8_block(int8_block& block, const int8_pixels& run, const conv2d_int8_command& c,
                            const conv_int8_plan& p) {
    int32_t image = run.image, row = run.row, column = run.column;
    block.count = run.count;
each_row:
    for (int32_t done = 0; done < run.count;) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t columns = minimum(c.out_width - column, run.count - done);
        uint32_t source, step = p.pixel;
        if (p.source == INT8_SLAB) {
            source = offset_of(row - run.row, row_bytes(p));
            step = p.step;
        } else if (p.source == INT8_DIRECT) {
            source = offset_of(image, c.in_stride[0]) + offset_of(row, c.in_stride[1]) +
                     offset_of(column, c.in_stride[2]);
        } else {
            source = offset_of(done, p.pixel);
        }
        const uint32_t output = offset_of(image, c.out_stride[0]) + offset_of(row, c.out_stride[1]);
        const uint32_t residual = offset_of(image, c.residual_stride[0]) + offset_of(row, c.residual_stride[1]);
    pixels:
        for (int32_t i = 0; i < columns; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 224
            block.source[done + i] = source + offset_of(i, step);
            block.output[done + i] = output + offset_of(column + i, c.out_stride[2]);
            block.residual[done + i] = residual + offset_of(column + i, c.residual_stride[2]);
        }
        done += columns;
        column = 0;
        if (++row == c.out_height) {
            row = 0;
            image++;
        }
    }
    block.segments = 1;
    block.segment_bytes = 0;
    block.positions = block.period = block.width = run.count;
    block.pitch = p.pixel;
    block.row_term = block.row_times = nullptr;
    block.row_scale = nullptr;
    if (p.source != INT8_SLAB) return;
    // All rows as one, with the places between them, where that makes fewer tiles.
    block.pitch = p.step;
    block.width = c.out_width;
    const int32_t period = row_bytes(p) / p.step, joined = (run.units - 1) * period + c.out_width;
    const bool join = row_bytes(p) % p.step == 0 && ceil_div(joined, 16) <= run.units * ceil_div(c.out_width, 16);
    block.segments = join ? 1 : run.units;
    block.segment_bytes = row_bytes(p);
    block.positions = join ? joined : c.out_width;
    block.period = join ? period : c.out_width;
}

// Bytes of a region, their sign bits flipped if `flip` is 128.
FPGA_INLINE void copy_flipped(uint8_t* local, int64_t to, const vec16* arena, int64_t at, int64_t count, int32_t flip) {
    copy_bytes_in(local, to, arena, at, count);
    if (flip == 0) return;
flip_bytes:
    for (int64_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
        local[to + i] ^= static_cast<uint8_t>(flip);
    }
}

// `count` pixels that lie `apart` bytes from each other, `channels` bytes of each, to pixels of p.pixel bytes.
inline void copy_pixels(uint8_t* local, int64_t to, const vec16* arena, int64_t at, int64_t apart, int32_t count,
                        int32_t channels, int32_t flip, const conv_int8_plan& p) {
#ifndef __SYNTHESIS__
    // Whole quads: bytes behind the channels meet weights of 0, or the next pixel takes their place.
    if (p.pixel <= 4 && p.quad_pixels) {
        const uint8_t* from = bytes_of_region(arena) + at;
        const uint8_t bits = static_cast<uint8_t>(flip);
        if (apart == 4 && p.pixel == 3) return join_quads<3>(local + to, from, count, bits);
        if (apart == 4 && p.pixel == 2) return join_quads<2>(local + to, from, count, bits);
        if (apart == 4 && p.pixel == 1) return join_quads<1>(local + to, from, count, bits);
        const int32_t flips = flip ? FLIP_BYTES : 0;
        for (int32_t x = 0; x < count; x++) {
            const int32_t quad = quad_at(from, x * apart) ^ flips;
            std::memcpy(local + to + static_cast<int64_t>(x) * p.pixel, &quad, sizeof quad);
        }
        return;
    }
#endif
pixels:
    for (int32_t x = 0; x < count; x++) {
#pragma HLS loop_tripcount min = 1 max = 224
        copy_flipped(local, to + static_cast<int64_t>(x) * p.pixel, arena, at + x * apart, channels, flip);
    }
}

// A row of the slab, of one phase of its columns: `y` is that of the image.
inline void fill_int8_row(uint8_t* slab, int64_t to, const conv2d_int8_command& c, const conv_int8_plan& p,
                          const vec16* arena, place_t image, int32_t y, int32_t phase) {
    const int32_t apart = p.step == p.pixel && c.stride[1] > 1 ? c.stride[1] : 1;
    const int32_t left = phase - c.padding[1], flip = p.flipped ? 128 : 0, pad = (c.pad & 0xff) ^ flip;
    const int32_t before = minimum(left < 0 ? ceil_div(-left, apart) : 0, p.columns);
    const int32_t end = maximum(minimum(c.in_width > left ? ceil_div(c.in_width - left, apart) : 0, p.columns), before);
    if (y < 0 || y >= c.in_height || before == end) {
        fill_bytes(slab, to, row_bytes(p), pad);
        return;
    }
    const int64_t row = image + offset_of(y, c.in_stride[1]) + offset_of(left + before * apart, c.in_stride[2]);
    fill_bytes(slab, to, static_cast<int64_t>(before) * p.pixel, pad);
    if (apart == 1 && c.in_stride[2] == p.pixel) {
        copy_flipped(slab, to + static_cast<int64_t>(before) * p.pixel, arena, row,
                     static_cast<int64_t>(end - before - 1) * p.pixel + c.in_channels, flip);
    } else {
        copy_pixels(slab, to + static_cast<int64_t>(before) * p.pixel, arena, row,
                    static_cast<int64_t>(apart) * c.in_stride[2], end - before, c.in_channels, flip, p);
    }
    fill_bytes(slab, to + static_cast<int64_t>(end) * p.pixel, static_cast<int64_t>(p.columns - end) * p.pixel, pad);
}

inline void fill_int8_slab(uint8_t* slab, const conv2d_int8_command& c, const conv_int8_plan& p, const vec16* arena,
                           int32_t group_channel, const int8_pixels& run) {
    const place_t image = c.input + offset_of(run.image, c.in_stride[0]) + group_channel;
    int64_t phase = 0;
row_phases:
    for (int32_t fy = 0; fy < p.row_phases; fy++) {
#pragma HLS loop_tripcount min = 1 max = 2
    column_phases:
        for (int32_t fx = 0; fx < p.column_phases; fx++, phase++) {
#pragma HLS loop_tripcount min = 1 max = 2
        rows:
            for (int32_t i = 0; i < run.units + p.reach; i++) {
#pragma HLS loop_tripcount min = 1 max = 64
                fill_int8_row(slab, phase * phase_bytes(p) + static_cast<int64_t>(i) * row_bytes(p), c, p, arena, image,
                              (run.row + i) * c.stride[0] - c.padding[0] + fy, fx);
            }
        }
    }
}

inline void gather_int8(uint8_t* slab, const conv2d_int8_command& c, const conv_int8_plan& p, const vec16* arena,
                        int32_t group_channel, const int8_pixels& run) {
    const int32_t flip = p.flipped ? 128 : 0, pad = (c.pad & 0xff) ^ flip, taps_bytes = 4 * row_quads(c);
    const int32_t channels = taps_adjoin(c) ? c.in_channels : round_up(c.in_channels, 4);
    int32_t image = run.image, row = run.row, column = run.column;
each_pixel:
    for (int32_t i = 0; i < run.count; i++) {
#pragma HLS loop_tripcount min = 7 max = 1022
        const place_t from = c.input + offset_of(image, c.in_stride[0]) + group_channel;
    taps:
        for (int32_t tap = 0; tap < c.kernel[0] * c.kernel[1]; tap++) {
#pragma HLS loop_tripcount min = 1 max = 49
            const int64_t to = static_cast<int64_t>(i) * p.pixel + offset_of(tap / c.kernel[1], taps_bytes) +
                               tap % c.kernel[1] * channels;
            const int32_t y = row * c.stride[0] - c.padding[0] + tap / c.kernel[1] * c.dilation[0];
            const int32_t x = column * c.stride[1] - c.padding[1] + tap % c.kernel[1] * c.dilation[1];
            if (y < 0 || y >= c.in_height || x < 0 || x >= c.in_width)
                fill_bytes(slab, to, channels, pad);
            else
                copy_flipped(slab, to, arena, from + offset_of(y, c.in_stride[1]) + offset_of(x, c.in_stride[2]),
                             c.in_channels, flip);
        }
        if (++column < c.out_width) continue;
        column = 0;
        if (++row < c.out_height) continue;
        row = 0;
        image++;
    }
}

}  // namespace fpga
