// Writes lines to memory in bursts and, when memory has answered, tells the processes that load how far it is.
#pragma once
#include "../vector/move.hpp"
#include "tile_walk.hpp"

namespace engine {

inline void store_pass(line_stream in[BLOCKS], port_t& maps, uint32_t base, const job_t& job, const pass_t& at,
                       const places_of_pass& places, pending_writes_t& pending, done_stream& to_input) {
    tile_walk walk(job, at, places, stores_32_bits(job.c), false);
    number<bits_for(REPORT_AFTER + 2)> unreported = REPORT_AFTER + 1;
store_bursts:
    while (walk.more()) {
#pragma HLS loop_tripcount min = 1 max = (SET_BLOCKS * MOST_SEGMENTS)
        if (unreported == 1) report_stored(maps, pending, to_input);
        if (unreported != 0) unreported = unreported - 1;
        const burst_t b = walk.next();
        CYCLES(store_burst);
        if (b.asked) {
            if (pending.waiting == WRITES_AHEAD) await_responses(maps, pending, WRITES_AHEAD - 1);
            maps.write_request(base + b.at, b.asked);
            pending.waiting++;
            pending.current++;
        }
        const count_t last = b.lines - 1;
        PIPELINED(store_lines) for (count_t n = 0; n < b.lines; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (MOST_BAND_PIXELS + 2)
            ITERATION(store_lines);
            maps.write(read_block(in, b.block), strobe_of(n == 0 ? b.skip : 0, n == last ? b.rest : 0));
        }
    }
}

inline void store(job_stream<store_fields>& jobs, uint32_t count, line_stream in[BLOCKS], port_argument_t ports,
                  done_stream& to_input, done_stream& to_residual, peer_stream& to_peers, vector_side& vector) {
    port_use_t maps(ports);
    int32_t bad = -1;
store_commands:
    for (command_index_t i = 0; i < commands_of(count); i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        const job_t job = jobs.read();
        if (job.vector) {
            sim::command(i);
            store_vector(vector, maps, to_input, to_residual);
            notify_peers(to_peers, static_cast<int32_t>(i));
            continue;
        }
        if (!job.runs) {
            if (bad < 0 && !job.idle) bad = static_cast<int32_t>(i);
            // Of several CUs the processes that load wait for each command, so behind an unknown one, too.
            if (CUS > 1 || job.idle) {
                to_input.write({i, ALL_PIXELS});
                to_residual.write({i, ALL_PIXELS});
            }
            notify_peers(to_peers, static_cast<int32_t>(i));
            continue;
        }
        sim::command(i);
        const mac_command& c = job.c;
        const bool one_image = c.images == 1 && job.p.heads == 1;
        pending_writes_t pending = {0, 0, true, {0, 0}};
        places_of_pass places(job, c.output_image);
        uint32_t outer = c.output;
        for (number<SMALL_BITS> h0 = 0; h0 < c.heads[0]; h0++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
            uint32_t base = outer;
            for (number<SMALL_BITS> h1 = 0; h1 < c.heads[1]; h1++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
                pass_t at = {0, 0, 0};
            store_windows:
                for (number<LOAD_BITS> w = 0; w < job.p.window_loads; w++) {
#pragma HLS loop_tripcount min = 1 max = MOST_LOADS
                    done_pixels_t pixels = 0;
                    pending.current = 0;
                store_passes:
                    for (number<LOAD_BITS> pass = 0; pass < job.p.window_passes; pass++) {
#pragma HLS loop_tripcount min = 1 max = MOST_LOADS
                        CYCLES(store_pass);
                        places.follow(at);
                        store_pass(in, maps, base + places.image(), job, at, places, pending, to_input);
                        // Of the last set the rows up to here are complete.
                        if (one_image && at.set + 1 == job.p.sets) pixels = places.end();
                        next_pass(at, job);
                    }
                    report_stored(maps, pending, to_input);
                    pending.before = {i, pixels};
                    pending.reported = false;
                }
                base += c.output_head[1];
            }
            outer += c.output_head[0];
        }
        pending.current = 0;
        pending.before.pixels = ALL_PIXELS;
        report_stored(maps, pending, to_input);
        to_residual.write({i, ALL_PIXELS});
        notify_peers(to_peers, static_cast<int32_t>(i));
    }
    if (CUS > 1 && bad < 0) return;  // all CUs share the record, which the host has cleared
    line_t status = {};
    set_bits32(status, 0, bad < 0 ? ENGINE_OK : ENGINE_BAD_OPCODE);
    set_bits32(status, 1, bad < 0 ? 0 : static_cast<uint32_t>(bad));
    maps.write_request(0, 1);
    maps.write(status);
    maps.write_response();
}

}  // namespace engine
