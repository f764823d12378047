// Reads P pixels of IC channels a cycle out of the window, in the order of the array: of each tile each group of pixels, of
// that each tap, of that each block of channels. Rotates them, since a group may begin in any bank, and puts `pad` in place
// of what lies outside the input. A maximum over the taps is taken here; the array then sees a tap of it only.
#pragma once
#include "../lanes.hpp"
#include "../positions.hpp"
#include "../streams.hpp"

namespace engine {

// Where a tap lies: the row and bank in which a group begins that starts at position 0, and the tap's distance in rows and
// columns of the input.
struct tap_t {
    row_t row;
    number<4> rotation;
    number<SIZE_BITS> y, x;
};
constexpr int TAP_BITS = bits_for(TAPS + 1);
typedef number<SMALL_BITS> phase_t;

inline void find_taps(const job_t& job, tap_t taps[TAPS]) {
    const mac_command& c = job.c;
    const plan_t& p = job.p;
    const number<SMALL_BITS> last_column = p.columns - 1;
    const bool columns_apart = p.planes[1] > 1, rows_apart = p.planes[0] > 1;
    const phase_t stride_y = c.stride[0], stride_x = p.tap_stride;
    number<SIZE_BITS> row = 0, y = 0, x = p.tap_x;
    number<SMALL_BITS + 1> column = p.tap_column, kx = 0;
    phase_t phase_y = 0, phase_x = p.tap_phase;
    PIPELINED(find_taps) for (number<TAP_BITS> t = 0; t < p.taps; t++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = TAPS
        ITERATION(find_taps);
        const phase_t plane_y = when<phase_t>(rows_apart, phase_y, 0),
                      plane_x = when<phase_t>(columns_apart, phase_x, 0);
        const number<SMALL_BITS> planes_of_row = p.planes[1];
        const position_t plane = p.plane, pitch = p.pitch;
        const number<14> planes_before = plane_y * planes_of_row + plane_x, rows_before = row;
        const position_t from = planes_before * plane + rows_before * pitch;
        // Columns may lie before the first; rows wrap around, so a whole window more changes nothing.
        const bank_place_t at = place_of(from + column + BEFORE);
        taps[t].row = at.row;
        taps[t].rotation = at.bank;
        taps[t].y = y;
        taps[t].x = x;

        const bool row_ends = kx == last_column;
        const number<SMALL_BITS + 1> x_phase = phase_x + p.tap_rest[1], y_phase = phase_y + p.tap_rest[0];
        const bool x_wraps = x_phase >= stride_x, y_wraps = y_phase >= stride_y;
        const phase_t next_x = when<phase_t>(x_wraps, x_phase - stride_x, x_phase);
        const phase_t next_y = when<phase_t>(y_wraps, y_phase - stride_y, y_phase);
        const number<SMALL_BITS + 1> next_column = column + p.tap_quotient[1];
        const number<SIZE_BITS> next_row = row + p.tap_quotient[0];
        kx = when<number<SMALL_BITS + 1>>(row_ends, 0, kx + 1);
        x = when<number<SIZE_BITS>>(row_ends, p.tap_x, x + p.tap_step);
        column = when<number<SMALL_BITS + 1>>(row_ends, p.tap_column, next_column + x_wraps);
        phase_x = when<phase_t>(row_ends, p.tap_phase, next_x);
        y = when<number<SIZE_BITS>>(row_ends, y + c.dilation[0], y);
        row = when<number<SIZE_BITS>>(row_ends, next_row + y_wraps, row);
        phase_y = when<phase_t>(row_ends, next_y, phase_y);
    }
}

// Where a tile's input begins: a channel, and how many output channels of its group lie before the tile.
struct group_t {
    number<SIZE_BITS> channel, passed;
};

// The row of the window in which the input of each tile of a set begins, if tiles take some of the channels only; the last
// ones must not reach beyond the input. Answers where the tile behind them begins.
inline group_t find_tiles(const job_t& job, int32_t tiles, group_t at, row_t tile_rows[SET_TILES]) {
#pragma HLS inline
    const mac_command& c = job.c;
    const number<BLOCK_BITS> most = c.in_blocks - c.tile_depth;
    const number<SIZE_BITS> all = c.group_out;
    PIPELINED(find_tiles) for (number<TILE_BITS> t = 0; t < tiles; t++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = SET_TILES
        ITERATION(find_tiles);
        const number<BLOCK_BITS> first = at.channel >> 4;
        const number<BLOCK_BITS> block = when<number<BLOCK_BITS>>(first < most, first, most);
        tile_rows[t] = block * job.p.block_rows;
        const number<SIZE_BITS + 1> passed = at.passed + job.p.group_rest;
        const number<SIZE_BITS + 1> channel = at.channel + job.p.group_skip;
        const bool next_group = passed >= all;
        at.passed = when<number<SIZE_BITS>>(next_group, passed - all, passed);
        at.channel = when<number<SIZE_BITS>>(next_group, channel + c.group_in, channel);
    }
    return at;
}

inline element_t greater_of(element_t a, element_t b) {
#pragma HLS inline
    return elements::widen(a) <= elements::widen(b) ? b : a;  // a NaN in a stays
}

// P words of a group, rotated so that the one of bank `rotation` comes first.
inline void rotate(const word_t read[P], number<4> rotation, word_t turned[P]) {
#pragma HLS inline
    for (int l = 0; l < P; l++) {
#pragma HLS unroll
        turned[l] = read[l];
    }
    for (int s = 1; s < P; s *= 2) {
#pragma HLS unroll
        word_t before[P];
#pragma HLS array_partition variable = before complete
        for (int l = 0; l < P; l++) before[l] = turned[l];
        for (int l = 0; l < P; l++) turned[l] = (rotation & s) != 0 ? before[(l + s) % P] : before[l];
    }
}

// All tiles of a set over one window: a single loop, so that the array does not pause between tiles.
inline void feed_pass(const window_t& window, const job_t& job, const band_t& b, int32_t top, int32_t tiles,
                      const row_t tile_rows[SET_TILES], const tap_t taps[TAPS], const lanes_t& origin,
                      acts_t most[INTERLEAVE][PARTS], acts_stream& out) {
#pragma HLS inline
    typedef number<STEP_BITS> group_index;
    const mac_command& c = job.c;
    const plan_t& p = job.p;
    typedef ap_uint<SIZE_BITS + 3> unsigned_t;
    const unsigned_t width = folded(c) ? p.pitch : c.in_width, height = c.in_height;
    const number<SIZE_BITS> from = top;
    const bool maximum = !has_weights(c), grouped = p.grouped;
    const number<bits_for(INTERLEAVE + 1)> last_turn = INTERLEAVE - 1;
    const number<bits_for(PARTS + 1)> last_part = PARTS - 1;
    const number<BLOCK_BITS> last_block = c.tile_depth - 1;
    const number<TAP_BITS> last_tap = p.taps - 1;
    const group_index last_group = b.groups - INTERLEAVE;
    const number<TILE_BITS> last_tile = tiles - 1;
    lanes_t start = origin, lanes = origin;  // of the first group in turn, and of this one
#pragma HLS array_partition variable = lanes.x complete
#pragma HLS array_partition variable = lanes.y complete
#pragma HLS array_partition variable = start.x complete
#pragma HLS array_partition variable = start.y complete
    number<bits_for(INTERLEAVE + 1)> turn = 0;
    number<bits_for(PARTS + 1)> part = 0;
    number<BLOCK_BITS> block = 0;
    number<TAP_BITS> tap = 0;
    group_index group = 0;
    number<TILE_BITS> tile = 0;
    row_t block_row = 0;  // of the tile's blocks
    bool more = true;
    PIPELINED(feed_steps) while (more) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = INTERLEAVE max = (WINDOW_ROWS * MOST_SET_READS)
#if ENGINE_ELEMENT != 0
// INTERLEAVE turns lie between two taps of a maximum.
#pragma HLS dependence variable = most inter distance = 8 true
#endif
        ITERATION(feed_steps);
        const tap_t t = taps[tap];
        const row_t tile_row = when<row_t>(grouped, tile_rows[tile], 0);
        const ap_uint<ROW_BITS - 1> base = tile_row + block_row + group + turn + t.row;
        const ap_uint<ROW_BITS - 1> next = base + 1;
        word_t read[P], turned[P];
#pragma HLS array_partition variable = read complete
#pragma HLS array_partition variable = turned complete
        for (int k = 0; k < P; k++) {  // bank by bank: the address is base or the one behind it
#pragma HLS unroll
            read[k] = window.bank[k][k < t.rotation ? next : base];
        }
        rotate(read, t.rotation, turned);
        const number<SIZE_BITS + 1> below = t.y + from;
        acts_t v;
        // What is kept from tap to tap is the least of all between groups, and always without a maximum.
        const bool keeps = maximum && tap != last_tap;
        for (int l = 0; l < P; l++) {
#pragma HLS unroll
            // Without a sign, what lies before the first one is large.
            const unsigned_t x = lanes.x[l] + t.x, y = lanes.y[l] + below;
            const bool inside = x < width && y < height;
            for (int i = 0; i < IC; i++) {
                const element_t a = inside ? turned[l].lane[PARTS == 1 ? i : static_cast<int>(part) * IC + i]
                                           : pad_of(c);
                element_t& kept =
                    most[INTERLEAVE == 1 ? 0 : static_cast<int>(turn)][PARTS == 1 ? 0 : static_cast<int>(part)].a[l][i];
                v.a[l][i] = greater_of(a, kept);
                kept = keeps ? v.a[l][i] : elements::least();
            }
        }
        if (!maximum || tap == last_tap) out.write(v);

        const bool turns_end = turn == last_turn, parts_end = turns_end && part == last_part;
        const bool blocks_end = parts_end && block == last_block, taps_end = blocks_end && tap == last_tap;
        const bool groups_end = taps_end && group == last_group;
        more = !(groups_end && tile == last_tile);
        turn = when<number<bits_for(INTERLEAVE + 1)>>(turns_end, 0, turn + 1);
        part = when<number<bits_for(PARTS + 1)>>(parts_end, 0, part + turns_end);
        block = when<number<BLOCK_BITS>>(blocks_end, 0, block + parts_end);
        block_row = when<row_t>(blocks_end, 0, block_row + when<row_t>(parts_end, p.block_rows, 0));
        tap = when<number<TAP_BITS>>(taps_end, 0, tap + blocks_end);
        const group_index step = when<group_index>(taps_end, INTERLEAVE, 0);
        group = when<group_index>(groups_end, 0, group + step);
        tile = tile + groups_end;
        const lanes_t after = next_group(lanes, p, c.stride[0]);
        if (INTERLEAVE == 1) {
            lanes = groups_end ? origin : taps_end ? after : lanes;
        } else {
            start = groups_end ? origin : taps_end ? after : start;
            lanes = turns_end ? start : after;
        }
    }
}

inline void feed(job_stream<feed_fields>& jobs, uint32_t count, window_blocks& windows, acts_stream& out) {
    tap_t taps[TAPS];
    row_t tile_rows[SET_TILES];
    acts_t most[INTERLEAVE][PARTS];
#pragma HLS array_partition variable = most complete dim = 0
    for (int turn = 0; turn < INTERLEAVE; turn++)
        for (int part = 0; part < PARTS; part++)
            for (int l = 0; l < P; l++)
                for (int i = 0; i < IC; i++) {
#pragma HLS unroll
                    most[turn][part].a[l][i] = elements::least();
                }
feed_commands:
    for (command_index_t i = 0; i < commands_of(count); i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        const job_t job = jobs.read();
        if (!job.runs) continue;
        sim::command(i);
        find_taps(job, taps);
        const lanes_t origin = first_group(job.p, job.p.tap_stride, job.c.stride[0]);
        for (number<SMALL_BITS> head = 0; head < job.p.heads; head++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
            pass_t at = {0, 0, 0};
            number<BLOCK_BITS> set = -1;
            number<SIZE_BITS> top = -job.c.padding[0];
            group_t set_end = {0, 0};
        feed_windows:
            for (number<LOAD_BITS> w = 0; w < job.p.window_loads; w++) {
#pragma HLS loop_tripcount min = 1 max = MOST_LOADS
                const band_t b = band_of(job, at.band);
                CYCLES(feed_window);
                hls::read_lock<window_t> lock(windows);
                const window_t& window = lock;
#pragma HLS array_partition variable = window.bank dim = 1 complete
                const bool last_band = at.band + 1 == job.p.bands;
            feed_passes:
                for (number<LOAD_BITS> pass = 0; pass < job.p.window_passes; pass++) {
#pragma HLS loop_tripcount min = 1 max = MOST_LOADS
                    CYCLES(feed_pass);
                    const int32_t tiles = tiles_of_set(job, at.set);
                    // The next set begins behind this one; the same one has the same rows in every window.
                    if (job.p.grouped && at.set != set) {
                        if (at.set == 0) set_end = {0, 0};
                        set_end = find_tiles(job, tiles, set_end, tile_rows);
                    }
                    set = at.set;
                    feed_pass(window, job, b, top, tiles, tile_rows, taps, origin, most, out);
                    next_pass(at, job);
                }
                top = when<number<SIZE_BITS>>(last_band, -job.c.padding[0], top + job.p.band_input_rows);
            }
        }
    }
}

}  // namespace engine
