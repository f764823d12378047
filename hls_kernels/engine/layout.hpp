// How operands lie in memory, for whoever packs them: hosts and benches.
//
// A map: [channels / 16][height * width][16 channels], each block's plane rounded up to a line. Planes are contiguous, so rows
// are long bursts, and a matrix of rows by depth is the map of 1 x rows pixels. Channels that fill the last block may be
// anything finite: their weights are 0.
//
// A folded map, for the first layer of a network: [height * width][pixel_channels], 1, 2, 4 or 8 channels a pixel. The window
// then has words of 16 / pixel_channels neighbouring pixels, and a row of the kernel needs as many words as cover it. With 3
// channels (and a fourth of weight 0) a 7 x 7 kernel needs 14 steps instead of 49.
//
// Packed weights: [tile][step][block of the tile][line], where steps go through the kernel's rows and columns (words, if
// folded), the tile's blocks of input channels and, on arrays that take fewer than 16 channels a step, parts of these. A line
// has 16 output channels of 4 bytes each: 4, 2 or 1 input channels of int8, bfloat16 or float32.
//
// Diagonal weights (depthwise): [block][kernel rows * columns, rounded up to a line][16 channels].
// Params: [block][offset, scale, bias][16], then of int8 the table of 256 bytes, of which entry 128 is that of 0; a bfloat16
// function lies by itself (function.hpp). Of int8, scale and bias are those of lib/requantize.hpp, which makes them out of real
// scales.
#pragma once
#ifndef __VITIS_HLS__
#include <cstddef>
#include <vector>

#include "elements.hpp"
#include "plan.hpp"

namespace engine {

// Lines of a block's plane, and of a map of so many channels.
inline int64_t plane_lines(int64_t pixels) { return (pixels + BEAT - 1) / BEAT; }
inline int64_t map_lines(int64_t pixels, int64_t channels) {
    return plane_lines(pixels) * ((channels + CHANNELS - 1) / CHANNELS);
}

// Where element (pixel, channel) of a map lies, in elements from its first line.
inline int64_t map_index(int64_t pixels, int64_t pixel, int64_t channel) {
    return (channel / CHANNELS * plane_lines(pixels) * BEAT + pixel) * CHANNELS + channel % CHANNELS;
}

inline int64_t packed_lines(const mac_command& c, const plan_t& p) {
    if (!has_weights(c) || second_operand_is_map(c)) return 0;
    if (c.weight_kind == WEIGHT_DIAGONAL) return int64_t{p.tiles} * divide_up(p.taps, BEAT);
    return int64_t{p.tiles} * p.steps * c.tile_blocks * (IC * ELEMENT_BYTES / 4);
}

// Packs the weights of a command. `weight(oc, ky, kx, channel)` answers an element, with the channel counted within its group;
// it is asked for what exists only.
// \tparam WEIGHT Function from output channel, input channel and tap to a weight.
template <class WEIGHT>
std::vector<line_t> pack_weights(const mac_command& c, int32_t out_channels, int32_t in_channels, WEIGHT weight) {
    const plan_t p = plan_of(c);
    std::vector<line_t> lines(static_cast<std::size_t>(packed_lines(c, p)), line_t());
    if (c.weight_kind == WEIGHT_DIAGONAL) {
        for (int32_t oc = 0; oc < out_channels; oc++)
            for (int32_t t = 0; t < p.taps; t++) {
                const int64_t word = int64_t{oc / CHANNELS} * divide_up(p.taps, BEAT) * BEAT + t;
                set_element(lines[static_cast<std::size_t>(word / BEAT)],
                            static_cast<int>(word % BEAT) * CHANNELS + oc % CHANNELS,
                            weight(oc, t / c.kernel[1], t % c.kernel[1], 0));
            }
        return lines;
    }
    constexpr int INPUTS = 4 / ELEMENT_BYTES;
    const int32_t fold = fold_of(c), tile_channels = c.tile_blocks * CHANNELS;
    for (int32_t oc = 0; oc < out_channels; oc++) {
        const int32_t tile = oc / tile_channels, group = oc / c.group_out;
        // The tile's first block: that of the first channel of its first group.
        const int32_t first_channel = tile * tile_channels / c.group_out * c.group_in;
        const int32_t first = p.grouped ? smaller(first_channel / CHANNELS, c.in_blocks - c.tile_depth) : 0;
        for (int32_t t = 0; t < p.taps; t++)
            for (int32_t lane = 0; lane < c.tile_depth * CHANNELS; lane++) {
                const int32_t ky = t / p.columns;
                const int32_t kx = folded(c) ? t % p.columns * fold + lane / c.pixel_channels : t % p.columns;
                const int32_t all = folded(c) ? lane % c.pixel_channels : first * CHANNELS + lane;
                const int32_t channel = all - group * c.group_in;
                if (kx >= c.kernel[1] || all >= in_channels || channel < 0 || channel >= c.group_in) continue;
                const int32_t block = lane / CHANNELS, part = lane % CHANNELS / IC, i = lane % IC;
                const int64_t step = (int64_t{t} * c.tile_depth + block) * PARTS + part;
                const int64_t line =
                    ((tile * int64_t{p.steps} + step) * c.tile_blocks + oc % tile_channels / CHANNELS) * (IC / INPUTS) +
                    i / INPUTS;
                set_element(lines[static_cast<std::size_t>(line)], oc % CHANNELS * INPUTS + i % INPUTS,
                            weight(oc, ky, kx, channel));
            }
    }
    return lines;
}

// Params of so many channels, as in record.hpp; those that fill the last block give the output's zero point.
struct channel_params {
    sum_t offset;
    factor_t scale, bias;
};
inline uint32_t bits_of_factor(factor_t x) {
#if ENGINE_ELEMENT == 0
    return static_cast<uint32_t>(x);
#else
    return bits_of(x);
#endif
}
inline std::vector<line_t> pack_params(const std::vector<channel_params>& channels) {
    const std::size_t blocks = (channels.size() + CHANNELS - 1) / CHANNELS;
    std::vector<line_t> lines(blocks * 3, line_t());
    for (std::size_t oc = 0; oc < channels.size(); oc++) {
        const std::size_t line = oc / CHANNELS * 3;
        const int at = static_cast<int>(oc % CHANNELS);
        set_bits32(lines[line], at, bits_of_sum(channels[oc].offset));
        set_bits32(lines[line + 1], at, bits_of_factor(channels[oc].scale));
        set_bits32(lines[line + 2], at, bits_of_factor(channels[oc].bias));
    }
    return lines;
}

}  // namespace engine
#endif
