// Depthwise convolution of int8 maps by lines of 64 bytes, for software whose host packs whole registers: 64 channels of a
// pixel, or 32 of two rows of output, or 16 of four. Part of the core conv2d_int8; sums and results are those of depthwise.hpp.
#pragma once
#include "command.hpp"
#include "lib/int8/mac.hpp"
#include "lib/vector_pack_gnu.hpp"

#ifdef FPGA_PACKS

namespace fpga {

constexpr int LINE_BLOCKS = 4;     // of 16 channels, or of rows
constexpr int LINE_COLUMNS = 128;  // quads of a piece of a row: they lie in the nearest cache
constexpr int LINE_TAPS = 16;      // quads of a window

// What of a command a line works on: `blocks` (1, 2 or 4) of 16 channels from `channel` on.
struct line_group {
    int32_t channel;
    int32_t blocks;
};

// Groups of 64 channels, and what is left of them by 32 and by 16.
inline int32_t line_groups(int32_t channels) {
    const int32_t blocks = ceil_div(channels, VEC), left = blocks % LINE_BLOCKS;
    return blocks / LINE_BLOCKS + left / 2 + left % 2;
}
inline line_group line_group_of(int32_t channels, int32_t group) {
    const int32_t blocks = ceil_div(channels, VEC), whole = blocks / LINE_BLOCKS;
    if (group < whole) return {group * LINE_BLOCKS * VEC, LINE_BLOCKS};
    if (group == whole && blocks % LINE_BLOCKS >= 2) return {whole * LINE_BLOCKS * VEC, 2};
    return {(blocks - 1) * VEC, 1};
}

// A group's constants, in line order.
struct line_constants {
    int8_channels exact[LINE_BLOCKS];  // of the blocks, in their own order
    ivec16 weight[2][LINE_TAPS][4];    // of the first row of output of a pair, and of the second
    ivec16 begin[4];
    vec16 scale[4], constant[4];
    ivec16 slack;  // the largest, nearly_gnu.hpp
};

// Rows of output that a line works on: at place i those from row[i] on, or nothing.
struct line_rows {
    int32_t image;
    int32_t places;
    int32_t row[LINE_BLOCKS];
    int32_t count[LINE_BLOCKS];  // of rows: 0, 1 or 2
};

FPGA_INLINE void line_order(vec16 (&x)[4]) {
    ivec16 bits[4];
    UNROLL for (int i = 0; i < 4; i++) bits[i] = bits_of(x[i]);
    line_order(bits);
    UNROLL for (int i = 0; i < 4; i++) x[i] = from_bits(bits[i]);
}

inline void load_line(line_constants& of, const depthwise_int8_command& c, const line_group& group,
                      const int8_epilogue& e, const vec16* weights) {
    const int32_t taps = c.kernel[1] * column_quads(c);
    ivec16 sum[4], slack[4];
    const dot_inputs ones(ivec16(0x01010101));
    UNROLL for (int i = 0; i < 4; i++) sum[i] = ivec16(0);
    for (int32_t t = 0; t < taps; t++) {
        ivec16* w = of.weight[0][t];
        ivec16 natural[4];
        UNROLL for (int i = 0; i < 4; i++) {
            const int64_t channel = group.channel + i % group.blocks * VEC;
            natural[i] =
                bits_of(load(weights, c.weight / 4 + channel + static_cast<int64_t>(t) * round_up(c.channels, VEC)));
        }
        line_order(natural);
        UNROLL for (int i = 0; i < 4; i++) {
            w[i] = natural[i];
            of.weight[1][t][i] = natural[i] << ivec16(8);
            sum[i] = dot4(sum[i], ones, dot_weights(natural[i]));
        }
    }
    for (int i = 0; i < 4; i++) {
        const uint32_t channel = static_cast<uint32_t>(group.channel + i % group.blocks * VEC);
        of.begin[i] = c.in_format == FORMAT_I8 ? sum[i] * ivec16(-128) : ivec16(0);
        if (i < group.blocks)
            of.exact[i] = int8_channels_of(weights, e, {channel, channel * PARAMETERS, VEC, VEC, ivec16(0)});
        const int8_channels& block = of.exact[i % group.blocks];
        of.scale[i] = block.nearly_scale;
        of.constant[i] = block.nearly_constant;
        slack[i] = block.nearly_slack;
    }
    line_order(of.scale);
    line_order(of.constant);
    line_order(slack);
    of.slack = larger(larger(slack[0], slack[1]), larger(slack[2], slack[3]));
}

// A row of the image at each place of a line; outside of the image the padding, at no distance.
struct line_source {
    const uint8_t* from[LINE_BLOCKS];
    int64_t along[LINE_BLOCKS];  // all bits, or none outside of the image
};

template <int BLOCKS>
FPGA_INLINE bvec64 line_at(const line_source& s, int64_t along) {
    if (BLOCKS == 4) return load_beat(s.from[0] + (along & s.along[0]));
    if (BLOCKS == 2) return join_halves(s.from[0] + (along & s.along[0]), s.from[1] + (along & s.along[1]));
    return join_quarters(s.from[0] + (along & s.along[0]), s.from[1] + (along & s.along[1]),
                         s.from[2] + (along & s.along[2]), s.from[3] + (along & s.along[3]));
}

// Columns [first, first + count) of the image, in quads of rows: column[(i * quads + q) * 4 + vector]. `used`: rows that a
// weight meets; those behind them may be any.
template <int BLOCKS>
inline void fill_lines(ivec16* column, const depthwise_int8_command& c, const uint8_t* image, const line_rows& rows,
                       int32_t first, int32_t count, int32_t used, const uint8_t* pad) {
    const int32_t quads = column_quads(c), flip = c.in_format == FORMAT_I8 ? FLIP_BYTES : 0;
    const ivec16 flips(flip), outside(static_cast<int32_t>(pad[0] * 0x01010101u) ^ flip);
    const int32_t begin = minimum(maximum(-first, 0), count), end = maximum(minimum(c.in_width - first, count), begin);
    for (int32_t q = 0; q < quads; q++) {
        line_source source[4];
        for (int32_t i = 0; i < 4; i++)
            for (int32_t p = 0; p < rows.places; p++) {
                const int32_t top = rows.row[p] * c.stride[0] - c.padding[0];
                const int32_t y = top + minimum(4 * q + i, used - 1) * c.dilation[0];
                const bool inside = y >= 0 && y < c.in_height;
                source[i].from[p] = inside ? image + offset_of(y, c.in_stride[1]) : pad;
                source[i].along[p] = inside ? -1 : 0;
            }
        const auto pads = [&](int32_t x) {
            UNROLL for (int k = 0; k < 4; k++) column[(x * quads + q) * 4 + k] = outside;
        };
        for (int32_t x = 0; x < begin; x++) pads(x);
        for (int32_t x = begin; x < end; x++) {
            const int64_t along = static_cast<int64_t>(first + x) * c.in_stride[2];
            ivec16 quad[4];
            quads_of_lines(line_at<BLOCKS>(source[0], along), line_at<BLOCKS>(source[1], along),
                           line_at<BLOCKS>(source[2], along), line_at<BLOCKS>(source[3], along), quad);
            UNROLL for (int k = 0; k < 4; k++) column[(x * quads + q) * 4 + k] = quad[k] ^ flips;
        }
        for (int32_t x = end; x < count; x++) pads(x);
    }
}

// The sums of a pixel of each place.
template <int TAPS>
FPGA_INLINE void add_taps(ivec16 (&sum)[4], const ivec16* column, const int32_t* place, int32_t taps,
                          const ivec16 (*weight)[4], const ivec16* begin) {
    UNROLL for (int k = 0; k < 4; k++) sum[k] = begin[k];
    UNROLL for (int32_t t = 0; t < (TAPS ? TAPS : taps); t++) {
        UNROLL for (int k = 0; k < 4; k++) {
            sum[k] = dot4(sum[k], dot_inputs(column[place[t] + k]), dot_weights(weight[t][k]));
        }
    }
}

// Results of a line's pixels in one row of output at each place.
struct line_results {
    uint8_t* to[LINE_BLOCKS];  // of the first pixel; null: nothing is stored
    int64_t step;
};

template <int BLOCKS>
FPGA_INLINE void store_line(const line_results& results, int32_t x, const bvec64& line) {
    if (BLOCKS == 4) {
        store_part<4>(results.to[0] + x * results.step, line, 0);
        return;
    }
    UNROLL for (int p = 0; p < 4 / BLOCKS; p++) {
        if (results.to[p]) store_part<BLOCKS>(results.to[p] + x * results.step, line, p);
    }
}

// A pixel's sums again, in doubles.
inline void finish_line_exactly(const ivec16 (&sum)[4], const line_group& group, const line_constants& of,
                                const line_results& results, int32_t x, int8_epilogue e, vec16* arena,
                                const vec16* weights) {
    ivec16 natural[4];
    UNROLL for (int k = 0; k < 4; k++) natural[k] = sum[k];
    line_order(natural);
    const int32_t row = 0;
    const uint32_t at = 0;
    for (int32_t i = 0; i < 4; i++) {
        const int32_t place = i / group.blocks, block = i % group.blocks;
        if (!results.to[place]) continue;
        const pixel_sums one = {natural + i, 1, 1, &row, &at, &at, nullptr, nullptr, nullptr};
        const uint32_t channel = static_cast<uint32_t>(group.channel + block * VEC);
        e.output = static_cast<place_t>(results.to[place] - bytes_of_region(arena) + x * results.step - group.channel);
        finish_exactly(one, 0, of.exact[block], {channel, channel * PARAMETERS, VEC, VEC, ivec16(0)}, e, arena,
                       weights);
    }
}

template <int TAPS, int BLOCKS>
inline void line_pixels(const ivec16* column, const depthwise_int8_command& c, int32_t pixels, const line_group& group,
                        const line_constants& of, int shifted, const line_results& results, const int8_epilogue& e,
                        vec16* arena, const vec16* weights) {
    const int32_t quads = column_quads(c), taps = c.kernel[1] * quads, step = c.stride[1] * quads * 4;
    const byte_limits limits = limits_of_bytes(e);
    const line_results to = results;
    const ivec16 slack = of.slack;
    const byte_table table = table_of(weights, e.table, e.out_format);
    const bool has_table = e.table != ABSENT;
    int32_t place[LINE_TAPS], left[LINE_COLUMNS], lefts = 0;
    for (int32_t t = 0; t < taps; t++) place[t] = (t / quads * c.dilation[1] * quads + t % quads) * 4;
    for (int32_t x = 0; x < pixels; x++) {
        ivec16 sum[4], result[4];
        add_taps<TAPS>(sum, column + x * step, place, taps, of.weight[shifted], of.begin);
        ivec16 least(-1);
        UNROLL for (int k = 0; k < 4; k++) {
            result[k] = nearly_rounded(to_float(sum[k]) * of.scale[k] + of.constant[k], least);
        }
        if (__builtin_expect(some_lower_half_within(least, slack), false)) left[lefts++] = x;
        const bvec64 line = packed_line(result, limits);
        store_line<BLOCKS>(to, x, has_table ? lookup(table, line) : line);
    }
    for (int32_t i = 0; i < lefts; i++) {
        ivec16 sum[4];
        add_taps<TAPS>(sum, column + left[i] * step, place, taps, of.weight[shifted], of.begin);
        finish_line_exactly(sum, group, of, results, left[i], e, arena, weights);
    }
}

template <int BLOCKS>
inline void depthwise_line_rows(const depthwise_int8_command& c, vec16* arena, const vec16* weights,
                                const line_rows& rows, int32_t at_once, const line_group& group,
                                const line_constants& of, const int8_epilogue& e) {
    alignas(64) ivec16 column[LINE_COLUMNS * 4];
    alignas(64) uint8_t pad[4 * VEC];
    std::memset(pad, c.pad, sizeof pad);
    const int32_t quads = column_quads(c), taps = c.kernel[1] * quads;
    const uint8_t* image = bytes_of_region(arena) + c.input + offset_of(rows.image, c.in_stride[0]) + group.channel;
    const int32_t most = (LINE_COLUMNS / quads - columns_of(c, 1)) / c.stride[1] + 1;
    for (int32_t first = 0; first < c.out_width; first += most) {
        const int32_t count = minimum(most, c.out_width - first);
        fill_lines<BLOCKS>(column, c, image, rows, first * c.stride[1] - c.padding[1], columns_of(c, count),
                           c.kernel[0] + at_once - 1, pad);
        for (int32_t r = 0; r < at_once; r++) {
            line_results results;
            results.step = c.out_stride[2];
            for (int32_t p = 0; p < LINE_BLOCKS; p++)
                results.to[p] = p >= rows.places || r >= rows.count[p]
                                    ? nullptr
                                    : bytes_of_region(arena) + e.output + offset_of(rows.image, c.out_stride[0]) +
                                          offset_of(rows.row[p] + r, c.out_stride[1]) +
                                          offset_of(first, c.out_stride[2]) + group.channel;
            if (!results.to[0]) continue;
            if (taps == 3 && quads == 1)
                line_pixels<3, BLOCKS>(column, c, count, group, of, r, results, e, arena, weights);
            else if (taps == 10 && quads == 2)
                line_pixels<10, BLOCKS>(column, c, count, group, of, r, results, e, arena, weights);
            else
                line_pixels<0, BLOCKS>(column, c, count, group, of, r, results, e, arena, weights);
        }
    }
}

// Whether lines can do a command.
inline bool goes_in_lines(const depthwise_int8_command& c, const int8_epilogue& e) {
    const bool plain = !in_floats(e) && !e.tensor.middle && e.residual == ABSENT;
    const int32_t quads = column_quads(c);
    return HAS_DOT4 && plain && (reads_whole_blocks(c) || c.channels % VEC == 0) && c.kernel[1] * quads <= LINE_TAPS &&
           columns_of(c, 1) * quads <= LINE_COLUMNS;
}

inline void depthwise_lines(const depthwise_int8_command& c, vec16* arena, const vec16* weights, uint32_t slice,
                            uint32_t slices, const int8_epilogue& e) {
    const int32_t at_once = goes_in_pairs(c) ? 2 : 1;
    depthwise_int8_share share = depthwise_share_of(c, line_groups(c.channels), slice, slices);
    line_constants of;
    while (share.at < share.end) {
        const depthwise_int8_part part = next_part(share);
        for (int32_t index = part.group; index < part.group_end; index++) {
            const line_group group = line_group_of(c.channels, index);
            load_line(of, c, group, e, weights);
            line_rows rows;
            rows.image = part.image;
            rows.places = LINE_BLOCKS / group.blocks;
            for (int32_t band = part.band; band < part.band_end; band += rows.places) {
                const int32_t last = part.band_end - band;
                for (int32_t p = 0; p < rows.places; p++) {
                    rows.row[p] = (band + minimum(p, last - 1)) * at_once;
                    rows.count[p] = p < last ? minimum(at_once, c.out_height - rows.row[p]) : 0;
                }
                if (group.blocks == 4)
                    depthwise_line_rows<4>(c, arena, weights, rows, at_once, group, of, e);
                else if (group.blocks == 2)
                    depthwise_line_rows<2>(c, arena, weights, rows, at_once, group, of, e);
                else
                    depthwise_line_rows<1>(c, arena, weights, rows, at_once, group, of, e);
            }
        }
    }
}

}  // namespace fpga

#endif
