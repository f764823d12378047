// The vector side's part of the processes that own a port: what load_input, load_residual, load_weights and store do for one of
// its commands. Groups take the place of windows.
#pragma once
#include "gather.hpp"

namespace engine {

#if ENGINE_HAS_VECTOR

// Lines of a group of a map, each block's in one burst; in a single one where these are whole planes, or the block of a map
// that is interleaved or cast, of so many lines.
// \tparam BEATS Beats of a line.
// \tparam PORT Port to feature maps, with read_request and read.
// \tparam STREAM Stream of lines.
template <int BEATS, class PORT, class STREAM>
void read_group(PORT& maps, uint32_t base, const vector_job_t& job, const rows_t& rows, int32_t taken, STREAM& out) {
    typedef number<BLOCK_BITS + 1> bursts_t;
    typedef number<ELEMENT_BITS> beats_t;
    const int wide = is_wide(job.c) ? LINE_SHIFT : 0;  // a pixel takes a line then
    const bool whole = reads_runs(job.c) || rows.lines == job.p.pitch;
    const bursts_t blocks = job.p.blocks, bursts = whole ? bursts_t(1) : blocks;
    const beats_t lines = rows.lines, all = reads_runs(job.c) ? taken : job.p.group_map_lines;
    const beats_t length = ((whole ? all : lines) << wide) * BEATS;
    const uint32_t plane = static_cast<uint32_t>(job.p.pitch) << wide;
    uint32_t ask = (base + (static_cast<uint32_t>(rows.first) << wide)) * BEATS;
    line_t line = {};
    ap_uint<bits_for(BEATS)> beat = 0;
vector_bursts:
    for (bursts_t k = 0; k < bursts + (AHEAD - 1); k++) {
#pragma HLS loop_tripcount min = 1 max = (MOST_VECTOR_BLOCKS + AHEAD - 1)
        if (k < bursts) maps.read_request(ask, static_cast<int32_t>(length));
        ask += plane * BEATS;
        if (k < AHEAD - 1) continue;
        PIPELINED(vector_lines) for (beats_t n = 0; n < length; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (MOST_PLANE_LINES * BEATS)
            ITERATION(vector_lines);
            add_beat(line, maps.read());
            if (BEATS == 1 || beat == BEATS - 1) out.write(line);
            beat = beat + 1;
        }
    }
}

// `started`: windows and groups since the list began.
inline void load_vector_input(vector_side& vector, input_port_t& maps, done_stream& done, progress_t& progress,
                              peer_side& peers, peer_progress_t& peer_progress, turns_t& started) {
    const vector_job_t job = vector.input_jobs.read();
    const vector_command& c = job.c;
    const command_index_t here = job.position;
#if ENGINE_HAS_GATHER
    if (gathers(c) || is_constant(c)) {
        if (c.input_after) {
            progress.until(done, here - c.input_after, ALL_PIXELS);
            if (c.peers & PEERS_INPUT) peer_progress.until(peers.input, here - c.input_after);
        }
        return gather_blocks(maps, job, vector.runs, done, progress, started, vector.input);
    }
#endif
    uint32_t outer = c.input;
    for (number<SMALL_BITS> h0 = 0; h0 < c.heads[0]; h0++, outer += c.input_head[0]) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        uint32_t base = outer;
        for (number<SMALL_BITS> h1 = 0; h1 < c.heads[1]; h1++, base += c.input_head[1]) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        vector_input_groups:
            for (plane_line_t first = 0; first < job.p.plane; first += job.p.group_lines) {
#pragma HLS loop_tripcount min = 1 max = MOST_PLANE_LINES
                // A block of words in turn is read, and told of by store, as one group.
                if (reads_runs(c) && first != 0) break;
                const rows_t rows = rows_of(job, first);
                CYCLES(vector_group);
                progress.at_most_ahead(done, started, WINDOWS_AHEAD);
                if (c.input_after) {
                    progress.until(done, here - c.input_after,
                                   reads_runs(c) ? done_pixels_t(ALL_PIXELS) : pixels_read(job, rows));
                    if (c.peers & PEERS_INPUT) peer_progress.until(peers.input, job.position - c.input_after);
                }
                started = started + 1;
                read_group<LINE_BEATS>(maps, base, job, rows, job.p.taken_lines[0], vector.input);
            }
        }
    }
}

inline void load_vector_other(vector_side& vector, input_port_t& maps, done_stream& done, progress_t& progress,
                              peer_side& peers, peer_progress_t& peer_progress) {
    const vector_job_t job = vector.other_jobs.read();
    const vector_command& c = job.c;
    const command_index_t here = job.position;
    progress.at_most_ahead(done, job.position, COMMANDS_AHEAD);
    if (!has_other(c)) return;
    if (c.other_after) {
        progress.until(done, here - c.other_after, ALL_PIXELS);
        if (c.peers & PEERS_RESIDUAL) peer_progress.until(peers.residual, job.position - c.other_after);
    }
    uint32_t outer = c.other;
    for (number<SMALL_BITS> h0 = 0; h0 < c.heads[0]; h0++, outer += c.other_head[0]) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        uint32_t base = outer;
        for (number<SMALL_BITS> h1 = 0; h1 < c.heads[1]; h1++, base += c.other_head[1]) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        vector_other_groups:
            for (plane_line_t first = 0; first < job.p.plane; first += job.p.group_lines) {
#pragma HLS loop_tripcount min = 1 max = MOST_PLANE_LINES
                if (interleaves(c) && first != 0) break;
                const rows_t rows = rows_of(job, first);
                CYCLES(vector_group);
                if (!is_shared(c)) {
                    read_group<LINE_BEATS>(maps, base, job, rows, job.p.taken_lines[1], vector.other);
                    continue;
                }
                // A line a block.
                typedef number<BLOCK_BITS + 3> beats_t;
                const beats_t beats = job.p.blocks * LINE_BEATS;
                line_t line = {};
                ap_uint<bits_for(LINE_BEATS)> turn = 0;
                maps.read_request(base * LINE_BEATS, static_cast<int32_t>(beats));
                PIPELINED(shared_lines) for (beats_t n = 0; n < beats; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (MOST_VECTOR_BLOCKS * LINE_BEATS)
                    ITERATION(shared_lines);
                    add_beat(line, maps.read());
                    if (LINE_BEATS == 1 || turn == LINE_BEATS - 1) vector.other.write(line);
                    turn = turn + 1;
                }
            }
        }
    }
}

// Tables of runs, or lines of constants, on their way.
constexpr int TABLES_AHEAD = ENGINE_HAS_GATHER ? AHEAD : 1;

inline void load_vector_params(vector_side& vector, weight_port_t& port) {
    const vector_job_t job = vector.params_jobs.read();
    typedef number<(ENGINE_HAS_GATHER ? GATHER_BITS : VECTOR_PARAMS_BITS) + 3> beats_t;
    // A table of runs is read for each head, of a constant the lines of the head.
    const bool constant = is_constant(job.c), moves = gathers(job.c) || constant;
    const beats_t of_runs = constant ? beats_t(job.p.plane * LINE_BEATS) : beats_t(run_beats(job.c));
    const beats_t others = job.p.params_lines + (job.c.flags & VECTOR_TABLE ? TABLE_LINES : 0);
    const beats_t beats = moves ? of_runs : beats_t(others * LINE_BEATS);
    const number<SMALL_BITS> heads = moves ? job.p.heads : 1;
    uint32_t at = job.c.params * LINE_BEATS;
    line_t line = {};
params_of_heads:
    for (number<SMALL_BITS + 1> head = 0; head < heads + (TABLES_AHEAD - 1); head++) {
#pragma HLS loop_tripcount min = 1 max = (MOST_HEADS + TABLES_AHEAD - 1)
        if (beats > 0 && head < heads) port.read_request(at, static_cast<int32_t>(beats));
        if (constant) at += static_cast<uint32_t>(beats);
        if (head < TABLES_AHEAD - 1) continue;
        PIPELINED(vector_params_lines) for (beats_t n = 0; n < beats; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 0 max = ((ENGINE_HAS_GATHER ? 1 << GATHER_BITS : MOST_PARAMS_LINES) * LINE_BEATS)
            ITERATION(vector_params_lines);
            const beat_t beat = port.read();
#if ENGINE_HAS_GATHER
            if (moves) {
                vector.runs.write(beat);
                continue;
            }
#endif
            add_beat(line, beat);
            if ((n & (LINE_BEATS - 1)) != LINE_BEATS - 1) continue;
            // Of floats the second sweep alone looks up exponentials.
            if (!VECTOR_FLOATS || job.c.operation == VECTOR_NORM) vector.params.write(line);
            if (job.c.operation == VECTOR_SOFTMAX && n < EXPONENT_LINES * LINE_BEATS) vector.weigh_params.write(line);
        }
    }
}

inline void store_vector(vector_side& vector, port_t& maps, done_stream& to_input, done_stream& to_residual) {
    const vector_job_t job = vector.store_jobs.read();
    const vector_command& c = job.c;
    const int rest = c.pixels & (BEAT - 1);
    const command_index_t here = job.position;
    pending_writes_t pending = {0, 0, true, {0, 0}};
    uint32_t outer = c.output;
    for (number<SMALL_BITS> h0 = 0; h0 < c.heads[0]; h0++, outer += c.output_head[0]) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        uint32_t base = outer;
        for (number<SMALL_BITS> h1 = 0; h1 < c.heads[1]; h1++, base += c.output_head[1]) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        store_groups:
            for (plane_line_t first = 0; first < job.p.plane; first += job.p.group_lines) {
#pragma HLS loop_tripcount min = 1 max = MOST_PLANE_LINES
                const rows_t rows = rows_of(job, first);
                const bool whole = rows.lines == job.p.pitch, ends = rows.first + rows.lines == job.p.plane;
                uint32_t at = base + static_cast<uint32_t>(rows.first);
                const int32_t asked = whole ? job.p.group_map_lines : static_cast<int32_t>(rows.lines);
                const group_lines_t last_line = rows.lines - 1;
                number<bits_for(REPORT_AFTER + 2)> unreported = REPORT_AFTER + 1;
                if (first == 0 || !moves_words(c)) pending.current = 0;
                CYCLES(store_pass);
            store_blocks:
                for (number<BLOCK_BITS + 1> block = 0; block < job.p.blocks; block++) {
#pragma HLS loop_tripcount min = 1 max = MOST_VECTOR_BLOCKS
                    if (unreported == 1) report_stored(maps, pending, to_input);
                    if (unreported != 0) unreported = unreported - 1;
                    CYCLES(store_burst);
                    if (!whole || block == 0) {
                        if (pending.waiting == WRITES_AHEAD) await_responses(maps, pending, WRITES_AHEAD - 1);
                        maps.write_request(at, asked);
                        pending.waiting++;
                        pending.current++;
                    }
                    at += job.p.pitch;
                    PIPELINED(store_vector_lines) for (group_lines_t n = 0; n < rows.lines; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (VECTOR_ROWS / BEAT)
                        ITERATION(store_vector_lines);
#if ENGINE_ELEMENT == 0
                        const line_t line = moves_words(c) ? vector.moved.read() : vector.output.read();
#else
                        const line_t line = vector.output.read();
#endif
                        maps.write(line, strobe_of(0, ends && n == last_line ? rest : 0));
                    }
                }
                report_stored(maps, pending, to_input);
                if (moves_words(c) && !ends) continue;
                pending.before = {here, pixels_until(job, rows)};
                pending.reported = false;
            }
        }
    }
    pending.current = 0;
    pending.before.pixels = ALL_PIXELS;
    report_stored(maps, pending, to_input);
    to_residual.write({here, ALL_PIXELS});
}

#else
inline void load_vector_input(vector_side&, input_port_t&, done_stream&, progress_t&, peer_side&, peer_progress_t&,
                              turns_t&) {}
inline void load_vector_other(vector_side&, input_port_t&, done_stream&, progress_t&, peer_side&, peer_progress_t&) {}
inline void load_vector_params(vector_side&, weight_port_t&) {}
inline void store_vector(vector_side&, port_t&, done_stream&, done_stream&) {}
#endif

}  // namespace engine
