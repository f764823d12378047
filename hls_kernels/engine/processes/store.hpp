// Writes lines to memory in bursts and, when memory has answered, tells the processes that load how far it is.
#pragma once
#include "../vector/move.hpp"
#include "tile_walk.hpp"

namespace engine {

inline void store_pass(line_stream in[BLOCKS], port_t& maps, uint32_t base, const job_t& job, const pass_t& at,
                       const band_pixels& band, answers_t& answers, done_stream& to_input) {
    tile_walk walk(job, at, band, is_raw(job.c), false);
store_bursts:
    for (int32_t k = 0; walk.more(); k++) {
        if (k == TOLD_AFTER) tell(maps, answers, to_input);
        const burst_t b = walk.next();
        CYCLES(store_burst);
        if (b.asked) {
            if (answers.waiting == WRITES_AHEAD) take_answers(maps, answers, WRITES_AHEAD - 1);
            maps.write_request(base + b.at, b.asked);
            answers.waiting++;
            answers.current++;
        }
        PIPELINED(store_lines) for (int32_t n = 0; n < b.lines; n++) {
#pragma HLS pipeline II = 1
            ITERATION(store_lines);
            maps.write(read_block(in, b.block), strobe_of(n == 0 ? b.skip : 0, n == b.lines - 1 ? b.rest : 0));
        }
    }
}

inline void store(job_stream<store_fields>& jobs, uint32_t count, line_stream in[BLOCKS], port_t maps,
                  done_stream& to_input, done_stream& to_residual, peer_stream& to_peers, vector_side& vector) {
    int32_t bad = -1;
store_commands:
    for (uint32_t i = 0; i < count; i++) {
        const job_t job = jobs.read();
        if (job.vector) {
            sim::command(i);
            store_vector(vector, maps, to_input, to_residual);
            tell_peers(to_peers, static_cast<int32_t>(i));
            continue;
        }
        if (!job.runs) {
            if (bad < 0 && !job.idle) bad = static_cast<int32_t>(i);
            if (job.idle) {
                to_input.write({static_cast<int32_t>(i), ALL_PIXELS});
                to_residual.write({static_cast<int32_t>(i), ALL_PIXELS});
            }
            tell_peers(to_peers, static_cast<int32_t>(i));
            continue;
        }
        sim::command(i);
        const mac_command& c = job.c;
        const bool one_image = c.images == 1 && job.p.heads == 1;
        answers_t answers = {0, 0, true, {0, 0}};
        band_pixels band(job);
        uint32_t outer = c.output;
        for (int32_t h0 = 0; h0 < c.heads[0]; h0++) {
            uint32_t base = outer;
            for (int32_t h1 = 0; h1 < c.heads[1]; h1++) {
                pass_t at = {0, 0, 0};
            store_windows:
                for (int32_t w = 0; w < job.p.window_loads; w++) {
                    int32_t pixels = 0;
                    answers.current = 0;
                store_passes:
                    for (int32_t pass = 0; pass < job.p.window_passes; pass++) {
                        CYCLES(store_pass);
                        band.follow(at);
                        const uint32_t image = static_cast<ap_uint<SMALL_BITS>>(at.image) * c.output_image;
                        store_pass(in, maps, base + image, job, at, band, answers, to_input);
                        // Of the last set the rows up to here are complete.
                        if (one_image && at.set + 1 == job.p.sets) pixels = band.end();
                        next_pass(at, job);
                    }
                    tell(maps, answers, to_input);
                    answers.before = {static_cast<int32_t>(i), pixels};
                    answers.told = false;
                }
                base += c.output_head[1];
            }
            outer += c.output_head[0];
        }
        answers.current = 0;
        answers.before.pixels = ALL_PIXELS;
        tell(maps, answers, to_input);
        to_residual.write({static_cast<int32_t>(i), ALL_PIXELS});
        tell_peers(to_peers, static_cast<int32_t>(i));
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
