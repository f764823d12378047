// The vector side's part of the processes that own a port: what load_input, load_residual, load_weights and store do for one of
// its commands. Groups take the place of windows.
#pragma once
#include "streams.hpp"

namespace engine {

#if ENGINE_HAS_VECTOR

// Lines of a group of a map, each block's in one burst; in a single one where these are whole planes.
template <int BEATS, class PORT>  // beats of a line
void read_group(PORT& maps, uint32_t base, const vector_job_t& job, const rows_t& rows, line_stream& out) {
    const bool whole = rows.lines == job.p.pitch;
    const int32_t bursts = whole ? 1 : job.p.blocks, length = (whole ? rows.lines * job.p.blocks : rows.lines) * BEATS;
    uint32_t ask = (base + rows.first) * BEATS;
    line_t line = {};
vector_bursts:
    for (int32_t k = 0; k < bursts + AHEAD - 1; k++) {
        if (k < bursts) maps.read_request(ask, length);
        ask += job.p.pitch * BEATS;
        if (k < AHEAD - 1) continue;
        PIPELINED(vector_lines) for (int32_t n = 0; n < length; n++) {
#pragma HLS pipeline II = 1
            ITERATION(vector_lines);
            add_beat(line, maps.read());
            if (n % BEATS == BEATS - 1) out.write(line);
        }
    }
}

// `started`: windows and groups since the list began.
inline void load_vector_input(vector_side& vector, input_port_t& maps, done_stream& done, progress_t& progress,
                              peer_side& peers, heard_t& heard, int32_t& started) {
    const vector_job_t job = vector.input_jobs.read();
    const vector_command& c = job.c;
    uint32_t outer = c.input;
    for (int32_t h0 = 0; h0 < c.heads[0]; h0++, outer += c.input_head[0]) {
        uint32_t base = outer;
        for (int32_t h1 = 0; h1 < c.heads[1]; h1++, base += c.input_head[1])
        vector_input_groups:
            for (int32_t first = 0; first < job.p.plane; first += job.c.group_lines) {
                const rows_t rows = rows_of(job, first);
                CYCLES(vector_group);
                progress.at_least(done, started - WINDOWS_AHEAD);
                if (c.input_after) {
                    progress.until(done, job.position - c.input_after, pixels_read(job, rows));
                    if (c.peers & PEERS_INPUT) heard.until(peers.input, job.position - c.input_after);
                }
                started++;
                read_group<LINE_BEATS>(maps, base, job, rows, vector.input);
            }
    }
}

inline void load_vector_other(vector_side& vector, port_t& maps, done_stream& done, progress_t& progress,
                              peer_side& peers, heard_t& heard) {
    const vector_job_t job = vector.other_jobs.read();
    const vector_command& c = job.c;
    progress.at_least(done, job.position - COMMANDS_AHEAD);
    if (!has_other(c)) return;
    if (c.other_after) {
        progress.until(done, job.position - c.other_after, ALL_PIXELS);
        if (c.peers & PEERS_RESIDUAL) heard.until(peers.residual, job.position - c.other_after);
    }
    uint32_t outer = c.other;
    for (int32_t h0 = 0; h0 < c.heads[0]; h0++, outer += c.other_head[0]) {
        uint32_t base = outer;
        for (int32_t h1 = 0; h1 < c.heads[1]; h1++, base += c.other_head[1])
        vector_other_groups:
            for (int32_t first = 0; first < job.p.plane; first += job.c.group_lines) {
                const rows_t rows = rows_of(job, first);
                CYCLES(vector_group);
                if (!is_shared(c)) {
                    read_group<1>(maps, base, job, rows, vector.other);
                    continue;
                }
                // A line a block.
                maps.read_request(base, job.p.blocks);
                PIPELINED(shared_lines) for (int32_t n = 0; n < job.p.blocks; n++) {
#pragma HLS pipeline II = 1
                    ITERATION(shared_lines);
                    vector.other.write(maps.read());
                }
            }
    }
}

inline void load_vector_params(vector_side& vector, weight_port_t& port) {
    const vector_job_t job = vector.params_jobs.read();
    const int32_t lines = job.p.params_lines + (job.c.flags & VECTOR_TABLE ? TABLE_LINES : 0);
    if (lines) port.read_request(job.c.params * LINE_BEATS, lines * LINE_BEATS);
    line_t line = {};
    PIPELINED(vector_params_lines) for (int32_t n = 0; n < lines * LINE_BEATS; n++) {
#pragma HLS pipeline II = 1
        ITERATION(vector_params_lines);
        add_beat(line, port.read());
        if (n % LINE_BEATS != LINE_BEATS - 1) continue;
        vector.params.write(line);
        if (job.c.operation == VECTOR_SOFTMAX && n < EXPONENT_LINES * LINE_BEATS) vector.weigh_params.write(line);
    }
}

inline void store_vector(vector_side& vector, port_t& maps, done_stream& to_input, done_stream& to_residual) {
    const vector_job_t job = vector.store_jobs.read();
    const vector_command& c = job.c;
    const int32_t rest = c.pixels % BEAT;
    answers_t answers = {0, 0, true, {0, 0}};
    uint32_t outer = c.output;
    for (int32_t h0 = 0; h0 < c.heads[0]; h0++, outer += c.output_head[0]) {
        uint32_t base = outer;
        for (int32_t h1 = 0; h1 < c.heads[1]; h1++, base += c.output_head[1])
        store_groups:
            for (int32_t first = 0; first < job.p.plane; first += job.c.group_lines) {
                const rows_t rows = rows_of(job, first);
                const bool whole = rows.lines == job.p.pitch, ends = rows.first + rows.lines == job.p.plane;
                uint32_t at = base + rows.first;
                answers.current = 0;
                CYCLES(store_pass);
            store_blocks:
                for (int32_t block = 0; block < job.p.blocks; block++) {
                    if (block == TOLD_AFTER) tell(maps, answers, to_input);
                    CYCLES(store_burst);
                    if (!whole || block == 0) {
                        if (answers.waiting == WRITES_AHEAD) take_answers(maps, answers, WRITES_AHEAD - 1);
                        maps.write_request(at, whole ? rows.lines * job.p.blocks : rows.lines);
                        answers.waiting++;
                        answers.current++;
                    }
                    at += job.p.pitch;
                    PIPELINED(store_vector_lines) for (int32_t n = 0; n < rows.lines; n++) {
#pragma HLS pipeline II = 1
                        ITERATION(store_vector_lines);
                        maps.write(vector.output.read(), strobe_of(0, ends && n + 1 == rows.lines ? rest : 0));
                    }
                }
                tell(maps, answers, to_input);
                answers.before = {job.position, pixels_until(job, rows)};
                answers.told = false;
            }
    }
    answers.current = 0;
    answers.before.pixels = ALL_PIXELS;
    tell(maps, answers, to_input);
    to_residual.write({job.position, ALL_PIXELS});
}

#else
inline void load_vector_input(vector_side&, input_port_t&, done_stream&, progress_t&, peer_side&, heard_t&, int32_t&) {}
inline void load_vector_other(vector_side&, port_t&, done_stream&, progress_t&, peer_side&, heard_t&) {}
inline void load_vector_params(vector_side&, weight_port_t&) {}
inline void store_vector(vector_side&, port_t&, done_stream&, done_stream&) {}
#endif

}  // namespace engine
