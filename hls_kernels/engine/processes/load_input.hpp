// Reads the input, window after window: of each block of channels the rows that a band needs, in one burst each; in a single
// one where these are whole planes.
#pragma once
#include "../vector/move.hpp"

namespace engine {

// Of the map that was made last, the pixels that a window reads; a batch waits for all of it.
inline done_pixels_t pixels_needed(const job_t& job, const input_rows& rows) {
#pragma HLS inline
    const bool one_image = job.c.images == 1 && job.p.heads == 1;
    // All rows of a band may lie above the input: a part of a convolution has few rows of the kernel and all of the padding.
    const done_pixels_t behind = when<done_pixels_t>(rows.any(), rows.element_behind() >> job.p.pixel_shift, 0);
    const done_pixels_t all = ALL_PIXELS;
    return one_image && !rows.reach_end() ? behind : all;
}

// Asks for a window's bursts, some ahead of those that it reads. All in beats.
inline void read_window(input_port_t& maps, uint32_t at, number<PIXEL_BITS + 2> plane, number<BLOCK_BITS> bursts,
                        number<ELEMENT_BITS> length, beat_stream& out) {
#pragma HLS inline
    uint32_t ask = at;
input_bursts:
    for (number<BLOCK_BITS> k = 0; k < bursts + (AHEAD - 1); k++) {
#pragma HLS loop_tripcount min = 0 max = (WINDOW_ROWS + AHEAD - 1)
        if (k < bursts) maps.read_request(ask, static_cast<int32_t>(length));
        ask += static_cast<uint32_t>(plane);
        if (k < AHEAD - 1) continue;
        PIPELINED(input_lines) for (number<ELEMENT_BITS> n = 0; n < length; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = MOST_INPUT_BEATS
            ITERATION(input_lines);
            out.write(maps.read());
        }
    }
}

inline void load_input(job_stream<input_fields>& jobs, uint32_t count, input_argument_t ports, done_stream& done,
                       peer_side& peers, beat_stream& out, vector_side& vector) {
    input_use_t maps(ports);
    progress_t progress;
    peer_progress_t peer_progress;
    turns_t started = 0;  // windows since the list began
input_commands:
    for (command_index_t i = 0; i < commands_of(count); i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        const job_t job = jobs.read();
        sim::command(i);
        if (CUS > 1 && i > PEERS_AHEAD) {
            progress.until(done, i - PEERS_AHEAD, ALL_PIXELS);
            peer_progress.until(peers.input, i - PEERS_AHEAD);
        }
        if (job.vector) load_vector_input(vector, maps, done, progress, peers, peer_progress, started);
        if (job.idle) started = started + 1;  // store says something of it
        if (!job.runs) continue;
        const mac_command& c = job.c;
        uint32_t outer_base = c.input;
        for (number<SMALL_BITS> h0 = 0; h0 < c.heads[0]; h0++, outer_base += c.input_head[0]) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
            uint32_t head_base = outer_base;
            for (number<SMALL_BITS> h1 = 0; h1 < c.heads[1]; h1++, head_base += c.input_head[1]) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
                uint32_t base = head_base;
                number<SMALL_BITS> image = 0;
                input_rows rows(job);
            input_windows:
                for (number<LOAD_BITS> w = 0; w < job.p.window_loads; w++) {
#pragma HLS loop_tripcount min = 1 max = MOST_LOADS
                    const number<ELEMENT_BITS> first = rows.first_beat(), beats = rows.beats();
                    const number<ELEMENT_BITS> plane = job.p.in_plane * LINE_BEATS, all = job.p.in_lines * LINE_BEATS;
                    const bool whole = beats == plane;
                    CYCLES(input_window);
                    progress.at_most_ahead(done, started, WINDOWS_AHEAD);
                    if (c.input_after) {
                        progress.until(done, i - c.input_after, pixels_needed(job, rows));
                        if (c.peers & PEERS_INPUT) peer_progress.until(peers.input, i - c.input_after);
                    }
                    started = started + 1;
                    // Planes that are read whole follow each other.
                    read_window(maps, base * LINE_BEATS + first, plane,
                                whole        ? 1
                                : beats != 0 ? c.in_blocks
                                             : 0,
                                when<number<ELEMENT_BITS>>(whole, all, beats), out);
                    rows.next();
                    if (!rows.at_begin()) continue;
                    base += c.input_image;
                    if (++image < c.images) continue;
                    image = 0;
                    base = head_base;
                }
            }
        }
    }
}

}  // namespace engine
