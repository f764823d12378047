// How a command is cut for an engine of these sizes: tiles, bands, sets, their order, and where it has to be several commands
// with partial sums in memory. For hosts and benches; the fields that are chosen here stand last in the record.
#pragma once
#ifndef __VITIS_HLS__
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "layout.hpp"

namespace engine {

// Whether each output channel sums all blocks of the input.
inline bool one_group(const mac_command& c) { return c.group_in > (c.in_blocks - 1) * CHANNELS; }

// Tiles of output channels, by the kind of weights and the groups: as wide as the array where a tile's inputs are the same
// for all of its channels.
inline void choose_tiles(mac_command& c) {
    const bool one_to_one = c.operation == OPERATION_MAXIMUM || c.weight_kind == WEIGHT_DIAGONAL;
    if (one_to_one) {
        c.group_in = c.group_out = CHANNELS;
        c.tile_blocks = c.tile_depth = 1;
        return;
    }
    const bool dense = one_group(c);
    c.tile_blocks = dense || c.group_out % OC == 0 ? smaller(BLOCKS, c.out_blocks) : 1;
    c.tile_depth = c.in_blocks;
    if (dense) return;
    const int32_t channels = c.tile_blocks * CHANNELS;
    int32_t most = 1;
    for (int32_t begin = 0; begin < c.out_blocks * CHANNELS; begin += channels) {
        const int32_t first = begin / c.group_out * c.group_in;
        const int32_t last = ((begin + channels - 1) / c.group_out + 1) * c.group_in - 1;
        most = larger(most, last / CHANNELS - first / CHANNELS + 1);
    }
    c.tile_depth = smaller(most, c.in_blocks);
}

// A 1 x 1 convolution of stride 1 looks at no neighbours: its images become rows of a line, so that bands may have any size.
inline void flatten(mac_command& c) {
    if (c.kernel[0] != 1 || c.kernel[1] != 1 || c.stride[0] != 1 || c.stride[1] != 1 || c.padding[0] || c.padding[1] ||
        c.in_height != c.out_height || c.in_width != c.out_width || folded(c) || has_sums(c) || is_raw(c))
        return;
    c.in_height = c.out_height = static_cast<int32_t>(plane_lines(int64_t{c.in_height} * c.in_width));
    c.in_width = c.out_width = BEAT;
}

// Cycles of a process beside its iterations, from the cycle simulator: for a pass of the array, of the epilogue and of
// store, for a window, and for a burst.
constexpr double PASS_ARRAY = 40, PASS_EPILOGUE = 75, PASS_STORE = 30, WINDOW_LOAD = 140, BURST = 7;

// Cycles that a command takes, roughly: pass by pass the longest of what its processes do, over all of it the longest of
// what the ports do, and what cannot overlap. Rests on a line a cycle for each port and four fifths of that for all of them
// together; it is there to compare ways to cut a command.
inline double cycles_of(const mac_command& c) {
    job_t job;
    job.c = c;
    job.p = plan_of(c);
    const plan_t& p = job.p;
    const bool raw = stores_32_bits(c);
    const double images = double(p.heads) * c.images;
    const double epilogue = divide_up(P, pixel_by_pixel(c) ? 1 : WORDS) * c.tile_blocks;
    const double tiles = double(p.tiles) / p.sets;  // of a pass
    double passes = 0, loads = 0, load_lines = 0, first_fill = 0, store_lines = 0;
    input_rows input(job);
    for (int32_t band = 0; band < p.bands; band++, input.next()) {
        const band_t b = band_of(job, band);
        const lines_t l = lines_of(job, b, raw);
        const int32_t rows = larger(0, input.behind() - input.first());
        const bool whole = p.bands == 1;
        const double lines = double(divide_up(rows * p.row_elements, LINE_ELEMENTS)) * c.in_blocks;
        const double words = double(rows) * c.in_blocks * (folded(c) ? p.pitch : c.in_width);
        const bool slow = folded(c) || c.stride[1] > 2;
        const double fill = slow ? words : lines * BEAT / FILL;
        const double segment = c.tile_blocks == 1 ? l.count : SEGMENT;
        const double bursts = whole && segment >= l.count
                                  ? 1
                                  : tiles * c.tile_blocks * divide_up(l.count, int32_t(segment));
        const double array = tiles * b.groups * p.steps + PASS_ARRAY;
        const double finish = tiles * b.groups * epilogue + PASS_EPILOGUE;
        const double store = tiles * c.tile_blocks * l.count + bursts * BURST + PASS_STORE;
        double longest = array;
        for (const double t : {finish, store, store * has_residual(c)}) longest = t > longest ? t : longest;
        passes += longest * p.sets;
        const double port = lines + (whole ? 1 : c.in_blocks) * BURST + WINDOW_LOAD;
        loads += port > fill ? port : fill;
        load_lines += lines;
        store_lines += double(c.out_blocks) * l.count;
        if (band == 0) first_fill = WINDOW_LOAD + port;
    }
    const double repeats = p.sets_outside ? p.sets : 1;
    const double weights = !has_weights(c) ? 0
                                           : double(p.heads) * p.set_loads / p.sets * p.tiles *
                                                 (c.weight_kind == WEIGHT_DIAGONAL
                                                      ? p.taps * PARTS
                                                      : p.steps * c.tile_blocks * double(IC * ELEMENT_BYTES / 4));
    const double lines_in_all = images * (load_lines * repeats + store_lines * (1 + has_residual(c)) +
                                          (has_sums(c) ? c.out_blocks * c.out_height * c.out_width : 0)) +
                                weights;
    // The longest, and of equal ones that beside which others have the least to do.
    double most = 0, sum = 0;
    for (const double t : {passes * images, loads * images * repeats, weights, lines_in_all / 0.8}) {
        most = t > most ? t : most;
        sum += t;
    }
    most += 0.05 * (sum - most);
    // The array waits for the first window, and for what of the first set is not there when the command before has ended.
    const double first_set = weights / (double(p.set_loads) * p.heads);
    return most + first_fill + first_set / 2;
}

// Chooses bands, sets and their order; false if nothing fits.
inline bool choose_cut(mac_command& c) {
    c.band_rows = 1;
    c.set_tiles = 1;
    c.order = ORDER_WINDOWS;
    const plan_t least = plan_of(c);
    const int32_t most_tiles = has_weights(c) ? smaller(SET_TILES, WEIGHT_STEPS / larger(1, least.steps)) : SET_TILES;
    if (most_tiles < 1) return false;
    mac_command best = c;
    double best_cycles = -1;
    int32_t rows_before = 0;
    for (int32_t bands = 1; bands <= c.out_height; bands = bands < 32 ? bands + 1 : bands + bands / 8) {
        const int32_t rows = divide_up(c.out_height, bands);
        if (rows == rows_before) continue;
        rows_before = rows;
        for (int32_t sets = divide_up(least.tiles, most_tiles), i = 0; i < 3; i++, sets *= 2) {
            for (const int32_t order : {ORDER_WINDOWS, ORDER_SETS}) {
                mac_command t = c;
                t.band_rows = rows;
                t.set_tiles = divide_up(least.tiles, smaller(sets, least.tiles));
                t.order = order;
                if (refusal(t)) continue;
                const double cycles = cycles_of(t);
                if (best_cycles >= 0 && cycles >= best_cycles) continue;
                best = t;
                best_cycles = cycles;
            }
        }
    }
    if (best_cycles < 0) return false;
    c = best;
    return true;
}

// A command, or a part of one: rows of the kernel and blocks of channels of the input that it sums, and where it begins in
// input and output, in lines.
struct part_t {
    mac_command c;
    int32_t first_row;    // of the kernel
    int32_t first_block;  // of the input
    int32_t first_out;    // block of the output: not 0 only where channels are independent
};

// Works out a command whose tiles, bands, sets and order are not chosen yet. What does not fit is split: channel by channel
// operations by their channels, others by rows of the kernel and channels of the input, with partial sums at `sums`
// (out_blocks * pixels lines of an image). No parts: one row of the kernel and one block of channels do not fit.
inline std::vector<part_t> choose(mac_command c, uint32_t sums = NO_OPERAND) {
    choose_tiles(c);
    mac_command whole = c;
    flatten(whole);
    if (choose_cut(whole)) return {{whole, 0, 0, 0}};
    std::vector<part_t> parts;
    const int32_t in_plane = divide_up(c.in_height * c.in_width * c.pixel_channels, LINE_ELEMENTS);
    if (c.operation == OPERATION_MAXIMUM || c.weight_kind == WEIGHT_DIAGONAL) {
        for (int32_t pieces = 2; pieces <= 2 * c.in_blocks; pieces *= 2) {
            const int32_t blocks = divide_up(c.in_blocks, pieces);
            parts.clear();
            for (int32_t first = 0; first < c.in_blocks; first += blocks) {
                mac_command part = c;
                part.in_blocks = part.out_blocks = smaller(blocks, c.in_blocks - first);
                part.input += first * in_plane;
                part.output += first * plane_lines(int64_t{c.out_height} * c.out_width);
                if (has_residual(c)) part.residual += first * plane_lines(int64_t{c.out_height} * c.out_width);
                part.params += first * 3;
                if (!choose_cut(part)) break;
                parts.push_back({part, 0, first, first});
            }
            if (!parts.empty() && parts.back().first_block + parts.back().c.in_blocks == c.in_blocks) return parts;
        }
        return {};
    }
    if (sums == NO_OPERAND || !one_group(c) || second_operand_is_map(c) || has_sums(c) || is_raw(c)) return {};
    for (int32_t rows = c.kernel[0]; rows >= 1; rows--)
        for (int32_t blocks = c.in_blocks; blocks >= 1; blocks = blocks > 1 ? blocks / 2 : 0) {
            parts.clear();
            bool fits = true;
            for (int32_t row = 0; fits && row < c.kernel[0]; row += rows)
                for (int32_t first = 0; fits && first < c.in_blocks; first += blocks) {
                    mac_command part = c;
                    const bool begins = row == 0 && first == 0;
                    const bool ends = row + rows >= c.kernel[0] && first + blocks >= c.in_blocks;
                    part.kernel[0] = smaller(rows, c.kernel[0] - row);
                    part.in_blocks = part.tile_depth = smaller(blocks, c.in_blocks - first);
                    part.padding[0] = c.padding[0] - row * c.dilation[0];
                    part.input += first * in_plane;
                    if (!begins) {
                        part.sums = sums;
                        part.residual_after = 1;
                    }
                    if (!ends) {
                        part.output = sums;
                        part.output_image = c.out_blocks * c.out_height * c.out_width;
                        part.flags = MAC_RAW;
                        part.residual = NO_OPERAND;
                    }
                    fits = choose_cut(part);
                    if (fits) parts.push_back({part, row, first, 0});
                }
            if (fits) return parts;
        }
    return {};
}

}  // namespace engine
#endif
