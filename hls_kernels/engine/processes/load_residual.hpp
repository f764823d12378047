// Reads what the epilogue adds: the residual and partial sums, in the order in which the output is stored. A map that is the
// second operand comes through this port too, and goes on to load_weights; such a command has neither.
#pragma once
#include "load_weights.hpp"
#include "tile_walk.hpp"

namespace engine {

// Lines of a set of a map as second operand, in bursts as long as they lie behind each other.
inline void read_map(port_t& maps, uint32_t base, const job_t& job, int32_t set, line_stream& out) {
    const mac_command& c = job.c;
    const bool transposed = c.weight_kind == WEIGHT_TRANSPOSED;
    const int32_t blocks = blocks_of_set(job, set), first = set * c.set_tiles * c.tile_blocks;
    // K: for each block of steps the output channels of the set. V: for each block of output channels all steps.
    const int32_t runs = transposed ? blocks : c.tile_depth;
    const int32_t length = (transposed ? c.tile_depth : blocks) * MAP_LINES;
    uint32_t ask = base + first * (transposed ? c.weight_plane : MAP_LINES);
map_bursts:
    for (int32_t k = 0; k < runs + AHEAD - 1; k++) {
        if (k < runs) maps.read_request(ask, length);
        ask += c.weight_plane;
        if (k < AHEAD - 1) continue;
        PIPELINED(operand_lines) for (int32_t n = 0; n < length; n++) {
#pragma HLS pipeline II = 1
            ITERATION(operand_lines);
            out.write(maps.read());
        }
    }
}

// One set of tiles for one band. Residual and sums of a segment follow each other.
inline void read_tiles(port_t& maps, uint32_t residual, uint32_t sums, const job_t& job, const pass_t& at,
                       const band_pixels& band, line_stream out[BLOCKS], line_stream sums_out[BLOCKS]) {
    const mac_command& c = job.c;
    tile_walk ask(job, at, band, false, has_sums(c));
    tile_walk take = ask;
residual_bursts:
    for (int32_t k = 0; take.more(); k++) {
        if (ask.more()) {
            const burst_t b = ask.next();
            if (has_residual(c) && b.asked) maps.read_request(residual + b.at, b.asked);
            if (has_sums(c)) maps.read_request(sums + b.sums_at, b.pixels);
        }
        if (k < AHEAD - 1) continue;
        const burst_t b = take.next();
        if (has_residual(c)) {
            PIPELINED(residual_lines) for (int32_t n = 0; n < b.lines; n++) {
#pragma HLS pipeline II = 1
                ITERATION(residual_lines);
                write_block(out, b.block, maps.read());
            }
        }
        if (has_sums(c)) {
            PIPELINED(sums_lines) for (int32_t n = 0; n < b.pixels; n++) {
#pragma HLS pipeline II = 1
                ITERATION(sums_lines);
                write_block(sums_out, b.block, maps.read());
            }
        }
    }
}

inline void load_residual(job_stream<residual_fields>& jobs, uint32_t count, port_t maps, done_stream& done,
                          peer_side& peers, line_stream out[BLOCKS], line_stream sums_out[BLOCKS], line_stream& map,
                          vector_side& vector) {
    progress_t progress;
    heard_t heard;
residual_commands:
    for (uint32_t i = 0; i < count; i++) {
        const job_t job = jobs.read();
        sim::command(i);
        if (CUS > 1 && i > PEERS_AHEAD) {
            progress.until(done, i - PEERS_AHEAD, ALL_PIXELS);
            heard.until(peers.residual, i - PEERS_AHEAD);
        }
        if (job.vector) load_vector_other(vector, maps, done, progress, peers, heard);
        if (!job.runs) continue;
        const mac_command& c = job.c;
        const bool adds = has_residual(c) || has_sums(c), map_kind = second_operand_is_map(c);
        CYCLES(residual_command);
        progress.at_least(done, static_cast<int32_t>(i) - COMMANDS_AHEAD);
        if (adds && c.residual_after) {
            progress.until(done, i - c.residual_after, ALL_PIXELS);
            if (c.peers & PEERS_RESIDUAL) heard.until(peers.residual, i - c.residual_after);
        }
        if (map_kind && c.weight_after) {
            progress.until(done, i - c.weight_after, ALL_PIXELS);
            if (c.peers & PEERS_WEIGHT) heard.until(peers.residual, i - c.weight_after);
        }
        band_pixels band(job);
        const uint32_t image_sums = static_cast<ap_uint<BLOCK_BITS>>(c.out_blocks) * band.all();
        uint32_t outer_weight = c.weight, outer_residual = c.residual, sums = c.sums;
        for (int32_t h0 = 0; h0 < c.heads[0]; h0++) {
            uint32_t weight = outer_weight, residual = outer_residual;
            for (int32_t h1 = 0; h1 < c.heads[1]; h1++) {
                pass_t at = {0, 0, 0};
                int32_t set = 0;
            residual_passes:
                for (int32_t pass = 0; pass < job.p.windows * job.p.sets; pass++) {
                    if (map_kind && pass < job.p.set_loads) {
                        CYCLES(residual_pass);
                        read_map(maps, weight, job, set, map);
                        if (++set == job.p.sets) set = 0;
                    }
                    if (adds) {
                        CYCLES(residual_pass);
                        band.follow(at);
                        const ap_uint<SMALL_BITS> image = at.image;
                        read_tiles(maps, residual + image * c.residual_image, sums + image * image_sums, job, at, band,
                                   out, sums_out);
                    }
                    next_pass(at, job);
                }
                weight += c.weight_head[1];
                residual += c.residual_head[1];
                sums += c.images * image_sums;
            }
            outer_weight += c.weight_head[0];
            outer_residual += c.residual_head[0];
        }
    }
}

}  // namespace engine
