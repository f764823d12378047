// Reads P pixels of IC channels a cycle out of the window, in the order of the array: of each tile each group of pixels, of
// that each tap, of that each block of channels. Rotates them, since a group may begin in any bank, and puts `pad` in place
// of what lies outside the input.
#pragma once
#include "../lanes.hpp"
#include "../streams.hpp"

namespace engine {

// Where a tap lies: the bank and row in which a group begins that starts at position 0, and the tap's distance in rows and
// columns of the input.
struct tap_t {
    int32_t row;
    int32_t rotation;
    int32_t y, x;
};

// `at` moves `quotient` planes' rows (or columns) and `rest` phases on.
inline void next_phase(int32_t& at, int32_t& phase, int32_t quotient, int32_t rest, int32_t stride) {
#pragma HLS inline
    at += quotient;
    phase += rest;
    if (phase >= stride) {
        phase -= stride;
        at++;
    }
}

inline void find_taps(const job_t& job, tap_t taps[TAPS]) {
    const mac_command& c = job.c;
    const plan_t& p = job.p;
    int32_t row = 0, phase_y = 0, y = 0;
    int32_t column = p.tap_column, phase_x = p.tap_phase, x = p.tap_x, kx = 0;
    PIPELINED(find_taps) for (int32_t t = 0; t < p.taps; t++) {
#pragma HLS pipeline II = 1
        ITERATION(find_taps);
        const int32_t plane = (p.planes[0] > 1 ? phase_y * p.planes[1] : 0) + (p.planes[1] > 1 ? phase_x : 0);
        const int32_t position = plane * p.plane + row * p.pitch + column;
        const int32_t at = divide_down(position, P);
        taps[t].row = at;
        taps[t].rotation = position - at * P;
        taps[t].y = y;
        taps[t].x = x;
        if (++kx < p.columns) {
            x += p.tap_step;
            next_phase(column, phase_x, p.tap_quotient[1], p.tap_rest[1], p.tap_stride);
        } else {
            kx = 0;
            x = p.tap_x;
            column = p.tap_column;
            phase_x = p.tap_phase;
            y += c.dilation[0];
            next_phase(row, phase_y, p.tap_quotient[0], p.tap_rest[0], c.stride[0]);
        }
    }
}

// Where a tile's input begins: a channel, and how many output channels of its group lie before the tile.
struct group_t {
    int32_t channel, passed;
};
inline group_t next_tile(const group_t& g, const job_t& job) {
#pragma HLS inline
    group_t r = {g.channel + job.p.group_skip, g.passed + job.p.group_rest};
    if (r.passed >= job.c.group_out) {
        r.passed -= job.c.group_out;
        r.channel += job.c.group_in;
    }
    return r;
}
// The first block of channels; the last tiles must not reach beyond the input.
inline int32_t first_block(const group_t& g, const job_t& job) {
#pragma HLS inline
    return job.p.grouped ? smaller(g.channel / CHANNELS, job.c.in_blocks - job.c.tile_depth) : 0;
}

// All tiles of a set over one window: a single loop, so that the array does not pause between tiles. Answers where the tile
// behind them begins.
inline group_t feed_pass(const window_t& window, const job_t& job, const band_t& b, int32_t tiles, group_t begin,
                         const tap_t taps[TAPS], const lanes_t& origin, acts_stream& out) {
    const mac_command& c = job.c;
    const plan_t& p = job.p;
    const int32_t width = folded(c) ? p.pitch : c.in_width;
    const int32_t iterations = tiles * b.groups * p.steps;
    group_t channels = begin;
    lanes_t start = origin, lanes = origin;  // of the first group in turn, and of this one
#pragma HLS array_partition variable = lanes.x complete
#pragma HLS array_partition variable = lanes.y complete
#pragma HLS array_partition variable = start.x complete
#pragma HLS array_partition variable = start.y complete
    int32_t group = 0, tap = 0, block = 0, part = 0, turn = 0;
    int32_t block_row = first_block(channels, job) * p.block_rows;
    PIPELINED(feed_steps) for (int32_t n = 0; n < iterations; n++) {
#pragma HLS pipeline II = 1
        ITERATION(feed_steps);
        const tap_t t = taps[tap];
        const int32_t base = block_row + group + turn + t.row;
        word_t read[P];
#pragma HLS array_partition variable = read complete
        for (int k = 0; k < P; k++) {  // bank by bank: the address is base or the one behind it
#pragma HLS unroll
            read[k] = window.bank[k][(base + (k < t.rotation)) & (WINDOW_ROWS - 1)];
        }
        acts_t v;
        for (int l = 0; l < P; l++) {
#pragma HLS unroll
            const int32_t x = lanes.x[l] + t.x, y = b.top + lanes.y[l] + t.y;
            const bool inside = x >= 0 && x < width && y >= 0 && y < c.in_height;
            const word_t& word = read[l + t.rotation >= P ? l + t.rotation - P : l + t.rotation];
            for (int i = 0; i < IC; i++) v.a[l][i] = inside ? word.lane[part * IC + i] : pad_of(c);
        }
        out.write(v);

        const lanes_t after = next_group(lanes, p, p.tap_stride, c.stride[0]);
        lanes = after;
        if (++turn < INTERLEAVE) continue;
        turn = 0;
        lanes = start;
        if (++part < PARTS) continue;
        part = 0;
        block_row += p.block_rows;
        if (++block < c.tile_depth) continue;
        block = 0;
        block_row = first_block(channels, job) * p.block_rows;
        if (++tap < p.taps) continue;
        tap = 0;
        lanes = start = after;
        group += INTERLEAVE;
        if (group < b.groups) continue;
        group = 0;
        lanes = start = origin;
        channels = next_tile(channels, job);
        block_row = first_block(channels, job) * p.block_rows;
    }
    return channels;
}

inline void feed(jobs_t& jobs, uint32_t count, window_blocks& windows, acts_stream& out) {
    tap_t taps[TAPS];
feed_commands:
    for (uint32_t i = 0; i < count; i++) {
        const job_t job = jobs.read();
        if (!job.runs) continue;
        sim::command(i);
        find_taps(job, taps);
        const lanes_t origin = first_group(job.p, job.p.tap_stride, job.c.stride[0]);
        for (int32_t head = 0; head < job.p.heads; head++) {
            pass_t at = {0, 0, 0};
            int32_t set = 0;
            group_t set_begin = {0, 0}, set_end = {0, 0};
        feed_windows:
            for (int32_t w = 0; w < job.p.window_loads; w++) {
                const band_t b = band_of(job, at.band);
                CYCLES(feed_window);
                hls::read_lock<window_t> lock(windows);
                const window_t& window = lock;
            feed_passes:
                for (int32_t pass = 0; pass < job.p.window_passes; pass++) {
                    CYCLES(feed_pass);
                    if (at.set != set) set_begin = set_end;  // the next set begins behind this one
                    if (at.set == 0) set_begin = {0, 0};
                    set = at.set;
                    set_end = feed_pass(window, job, b, tiles_of_set(job, set), set_begin, taps, origin, out);
                    next_pass(at, job);
                }
            }
        }
    }
}

}  // namespace engine
