// Reads what the epilogue adds: the residual and partial sums, in the order in which the output is stored. A map that is the
// second operand comes through this port too, set after set in front of the passes that use it, and goes on to load_weights;
// such a command has no partial sums.
#pragma once
#include "load_weights.hpp"
#include "tile_walk.hpp"

namespace engine {

// Which beat of a line comes next.
typedef ap_uint<bits_for(LINE_BEATS)> beat_turn_t;
inline bool line_ends(beat_turn_t turn) { return LINE_BEATS == 1 || turn == LINE_BEATS - 1; }

// Lines of a set of a map as second operand, in bursts as long as they lie behind each other.
inline void read_map(input_port_t& maps, uint32_t base, const job_t& job, const number<BLOCK_BITS>& set,
                     short_stream& out) {
    const mac_command& c = job.c;
    const bool transposed = c.weight_kind == WEIGHT_TRANSPOSED;
    const number<BLOCK_BITS> blocks = blocks_of_set(job, set), depth = c.tile_depth;
    // K: for each block of steps the output channels of the set. V: for each block of output channels all steps.
    const number<BLOCK_BITS> runs = transposed ? blocks : depth;
    const number<PIXEL_BITS> length = (transposed ? depth : blocks) * (MAP_LINES * LINE_BEATS);
    const uint32_t plane = c.weight_plane;
    uint32_t ask = base * LINE_BEATS;
    line_t line = {};
    beat_turn_t turn = 0;
map_bursts:
    for (number<BLOCK_BITS> k = 0; k < runs + (AHEAD - 1); k++) {
#pragma HLS loop_tripcount min = 1 max = (MOST_MAP_RUN + AHEAD - 1)
        if (k < runs) maps.read_request(ask, static_cast<int32_t>(length));
        ask += plane * LINE_BEATS;
        if (k < AHEAD - 1) continue;
        PIPELINED(operand_lines) for (number<PIXEL_BITS> n = 0; n < length; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (MOST_MAP_RUN * MAP_LINES * LINE_BEATS)
            ITERATION(operand_lines);
            add_beat(line, maps.read());
            if (line_ends(turn)) out.write(line);
            turn = turn + 1;
        }
    }
}

typedef number<PIXEL_BITS + 2> beats_t;

// A burst that has been requested.
struct requested_burst_t {
    count_t lines, pixels;
    ap_uint<1> block;
};

// One set of tiles for one band. Residual and sums of a segment follow each other.
inline void read_tiles(input_port_t& maps, uint32_t residual, uint32_t sums, const job_t& job, const pass_t& at,
                       const places_of_pass& places, line_stream out[BLOCKS], short_stream sums_out[BLOCKS]) {
    const mac_command& c = job.c;
    tile_walk walk(job, at, places, false, has_sums(c));
    requested_burst_t asked[AHEAD];
    ap_uint<bits_for(AHEAD)> last = 0, first = 0;
    number<bits_for(AHEAD + 1)> waiting = 0;
    line_t line = {};
    beat_turn_t turn = 0;
residual_bursts:
    while (walk.more() || waiting > 0) {
#pragma HLS loop_tripcount min = 1 max = (SET_BLOCKS * MOST_SEGMENTS + AHEAD)
        if (walk.more()) {
            const burst_t b = walk.next();
            if (has_residual(c) && b.asked) maps.read_request((residual + b.at) * LINE_BEATS, b.asked * LINE_BEATS);
            if (has_sums(c))
                maps.read_request((sums + b.sums_at) * LINE_BEATS, static_cast<int32_t>(b.pixels) * LINE_BEATS);
            asked[last] = {b.lines, b.pixels, static_cast<ap_uint<1>>(b.block)};
            last = last + 1;
            waiting = waiting + 1;
            if (walk.more() && waiting < AHEAD) continue;
        }
        const requested_burst_t b = asked[first];
        first = first + 1;
        waiting = waiting - 1;
        if (has_residual(c)) {
            const beats_t beats = b.lines * LINE_BEATS;
            PIPELINED(residual_lines) for (beats_t n = 0; n < beats; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = ((MOST_BAND_PIXELS / BEAT + 2) * LINE_BEATS)
                ITERATION(residual_lines);
                add_beat(line, maps.read());
                if (line_ends(turn)) write_block(out, b.block, line);
                turn = turn + 1;
            }
        }
        if (has_sums(c)) {
            const beats_t beats = b.pixels * LINE_BEATS;
            PIPELINED(sums_lines) for (beats_t n = 0; n < beats; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (SEGMENT * LINE_BEATS)
                ITERATION(sums_lines);
                add_beat(line, maps.read());
                if (line_ends(turn)) write_block(sums_out, b.block, line);
                turn = turn + 1;
            }
        }
    }
}

inline void load_residual(job_stream<residual_fields>& jobs, uint32_t count, input_argument_t ports, done_stream& done,
                          peer_side& peers, line_stream out[BLOCKS], short_stream sums_out[BLOCKS], short_stream& map,
                          vector_side& vector) {
    input_use_t maps(ports);
    progress_t progress;
    peer_progress_t peer_progress;
residual_commands:
    for (command_index_t i = 0; i < commands_of(count); i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        const job_t job = jobs.read();
        sim::command(i);
        if (CUS > 1 && i > PEERS_AHEAD) {
            progress.until(done, i - PEERS_AHEAD, ALL_PIXELS);
            peer_progress.until(peers.residual, i - PEERS_AHEAD);
        }
        if (job.vector) load_vector_other(vector, maps, done, progress, peers, peer_progress);
        if (!job.runs) continue;
        const mac_command& c = job.c;
        const bool adds = has_residual(c) || has_sums(c), map_kind = second_operand_is_map(c);
        CYCLES(residual_command);
        progress.at_most_ahead(done, i, COMMANDS_AHEAD);
        if (adds && c.residual_after) {
            progress.until(done, i - c.residual_after, ALL_PIXELS);
            if (c.peers & PEERS_RESIDUAL) peer_progress.until(peers.residual, i - c.residual_after);
        }
        if (map_kind && c.weight_after) {
            progress.until(done, i - c.weight_after, ALL_PIXELS);
            if (c.peers & PEERS_WEIGHT) peer_progress.until(peers.residual, i - c.weight_after);
        }
        places_of_pass places(job, c.residual_image);
        uint32_t outer_weight = c.weight, outer_residual = c.residual, sums = c.sums;
        for (number<SMALL_BITS> h0 = 0; h0 < c.heads[0]; h0++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
            uint32_t weight = outer_weight, residual = outer_residual;
            for (number<SMALL_BITS> h1 = 0; h1 < c.heads[1]; h1++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
                pass_t at = {0, 0, 0};
                number<BLOCK_BITS> set = 0;
                number<LOAD_BITS> loads = map_kind ? job.p.set_loads : 0;
                uint32_t set_weight = weight;
            residual_passes:
                for (number<LOAD_BITS> pass = 0; pass < job.p.passes; pass++) {
#pragma HLS loop_tripcount min = 1 max = MOST_LOADS
                    if (loads > 0) {
                        CYCLES(residual_pass);
                        read_map(maps, set_weight, job, set, map);
                        loads = loads - 1;
                        set = set + 1;
                        set_weight += job.p.weight_set;
                        if (set == job.p.sets) {
                            set = 0;
                            set_weight = weight;
                        }
                    }
                    if (adds) {
                        CYCLES(residual_pass);
                        places.follow(at);
                        read_tiles(maps, residual + places.image(), sums + places.image_sums(), job, at, places, out,
                                   sums_out);
                    }
                    next_pass(at, job);
                }
                weight += c.weight_head[1];
                residual += c.residual_head[1];
                // The last pass was of the last image.
                sums += places.image_sums() + job.p.image_sums;
            }
            outer_weight += c.weight_head[0];
            outer_residual += c.residual_head[0];
        }
    }
}

}  // namespace engine
