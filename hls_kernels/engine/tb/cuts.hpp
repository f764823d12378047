// Random cuts of a command that an engine can run: tiles, bands, sets, their order, and parts with partial sums in memory.
// A bench needs no fast cut. fpga_dynamo/codegen/engine/choose.py finds those.
#pragma once
#include <algorithm>

#include "../check.hpp"
#include "tensors.hpp"

namespace bench {

using engine::divide_up;
using engine::mac_command;

// A command, or a part of one.
struct part_t {
    mac_command c;
    int32_t first_row;    // of the kernel's rows that it sums
    int32_t first_block;  // of the input's blocks that it sums
    int32_t first_out;    // block of the output: not 0 only where channels are independent
};

// The parts of a command, or none. Then `refusals` say why neither the whole of it nor its smallest part fits.
struct random_parts_t {
    std::vector<part_t> parts;
    std::vector<const char*> refusals;
};

inline bool one_to_one(const mac_command& c) {
    return c.operation == engine::OPERATION_MAXIMUM || c.weight_kind == engine::WEIGHT_DIAGONAL;
}
// Whether each output channel sums all blocks of the input.
inline bool one_group(const mac_command& c) { return c.group_in > (c.in_blocks - 1) * engine::CHANNELS; }

// Draws the width of a tile; its depth is that of the inputs of all of its channels.
inline void draw_tiles(mac_command& c, random_source& random) {
    c.tile_blocks = c.tile_depth = 1;
    if (one_to_one(c)) return;
    const bool wide = one_group(c) || c.group_out % engine::OC == 0;
    if (wide && !random.chance(0.2)) c.tile_blocks = std::min(engine::BLOCKS, c.out_blocks);
    const int32_t channels = c.tile_blocks * engine::CHANNELS;
    for (int32_t begin = 0; begin < c.out_blocks * engine::CHANNELS; begin += channels) {
        const int32_t first = begin / c.group_out * c.group_in;
        const int32_t last = ((begin + channels - 1) / c.group_out + 1) * c.group_in - 1;
        c.tile_depth = std::max(c.tile_depth, last / engine::CHANNELS - first / engine::CHANNELS + 1);
    }
    c.tile_depth = one_group(c) ? c.in_blocks : std::min(c.tile_depth, c.in_blocks);
}

// Draws bands, sets and their order; or returns why not even a row and a tile fit.
inline const char* draw_cut(mac_command& c, random_source& random) {
    c.band_rows = c.set_tiles = 1;
    c.order = random.pick({engine::ORDER_WINDOWS, engine::ORDER_SETS});
    if (const char* why = engine::refusal(c)) return why;
    int32_t rows = c.out_height, tiles = std::min(engine::plan_of(c).tiles, engine::SET_TILES);
    do {
        c.band_rows = random.chance(0.4) ? rows : random.chance(0.3) ? 1 : random.integer(1, rows);
        c.set_tiles = random.chance(0.4) ? tiles : random.integer(1, tiles);
        rows = divide_up(rows, 2);
        tiles = divide_up(tiles, 2);
    } while (engine::refusal(c));
    return nullptr;
}

// A 1 x 1 convolution of stride 1 reads no neighbours: its images can be rows of a line, so that bands have any size.
inline mac_command flattened(mac_command c) {
    if (c.kernel[0] != 1 || c.kernel[1] != 1 || c.stride[0] != 1 || c.stride[1] != 1 || c.padding[0] || c.padding[1] ||
        c.in_height != c.out_height || c.in_width != c.out_width || folded(c) || has_sums(c) || is_raw(c))
        return c;
    c.in_height = c.out_height = static_cast<int32_t>(engine::plane_lines(int64_t{c.in_height} * c.in_width));
    c.in_width = c.out_width = engine::BEAT;
    return c;
}

// So many blocks of channels that are independent, from `first` on.
inline part_t part_of_channels(mac_command c, int32_t first, int32_t blocks) {
    const int32_t out_plane = static_cast<int32_t>(engine::plane_lines(int64_t{c.out_height} * c.out_width));
    c.input += first * static_cast<int32_t>(engine::plane_lines(int64_t{c.in_height} * c.in_width));
    c.output += first * out_plane;
    if (has_residual(c)) c.residual += first * out_plane;
    c.in_blocks = c.out_blocks = std::min(blocks, c.in_blocks - first);
    return {c, 0, first, first};
}

// So many rows of the kernel and blocks of the input, with partial sums at `sums` (out_blocks * pixels lines of an image).
inline part_t part_of_sums(mac_command c, int32_t row, int32_t rows, int32_t first, int32_t blocks, uint32_t sums) {
    const bool ends = row + rows >= c.kernel[0] && first + blocks >= c.in_blocks;
    c.input += first * divide_up(c.in_height * c.in_width * c.pixel_channels, engine::LINE_ELEMENTS);
    c.padding[0] -= row * c.dilation[0];
    c.kernel[0] = std::min(rows, c.kernel[0] - row);
    c.in_blocks = c.tile_depth = std::min(blocks, c.in_blocks - first);
    if (row || first) {
        c.sums = sums;
        c.residual_after = 1;
    }
    if (!ends) {
        c.output = sums;
        c.output_image = c.out_blocks * c.out_height * c.out_width;
        c.flags = engine::MAC_RAW;
        c.residual = engine::NO_OPERAND;
    }
    return {c, row, first, 0};
}

// Draws tiles, bands, sets and order of a command. It becomes several parts if it does not fit, and now and then if it does.
// `sums`: as above; without them the only parts are those of independent channels.
inline random_parts_t draw_parts(mac_command c, random_source& random, uint32_t sums = engine::NO_OPERAND) {
    draw_tiles(c, random);
    const bool cuts_sums = engine::PARTIAL_SUMS && sums != engine::NO_OPERAND && one_group(c) && !one_to_one(c);
    mac_command whole = c;
    if (random.chance(0.5) || draw_cut(whole, random)) whole = flattened(c);
    const char* why = draw_cut(whole, random);
    const bool splits = cuts_sums || one_to_one(c);
    if (!why && !(splits && random.chance(0.2))) return {{{whole, 0, 0, 0}}, {}};
    if (!splits) return {{}, {why}};
    int32_t rows = c.kernel[0], blocks = random.integer(1, c.in_blocks);
    if (cuts_sums) rows = random.chance(0.5) ? 1 : random.integer(1, rows);
    const char* refusal = nullptr;
    for (;;) {
        std::vector<part_t> parts;
        refusal = nullptr;
        for (int32_t row = 0; row < c.kernel[0] && !refusal; row += rows)
            for (int32_t first = 0; first < c.in_blocks && !refusal; first += blocks) {
                parts.push_back(cuts_sums ? part_of_sums(c, row, rows, first, blocks, sums)
                                          : part_of_channels(c, first, blocks));
                refusal = draw_cut(parts.back().c, random);
            }
        if (!refusal) return {parts, {}};
        if (blocks == 1 && (rows == 1 || !cuts_sums)) break;
        blocks = divide_up(blocks, 2);
        if (cuts_sums) rows = divide_up(rows, 2);
    }
    if (!why) return {{{whole, 0, 0, 0}}, {}};  // as rows of a line it fits, and only so
    return {{}, {why, refusal}};
}

}  // namespace bench
