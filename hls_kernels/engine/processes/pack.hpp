// Words of the epilogue to lines of the output's planes: leaves out what is no pixel.
#pragma once
#include "out_walk.hpp"
#include "tile_walk.hpp"

namespace engine {

struct packer_t {
    word_t held[BEAT + WORDS];
    int32_t have;
};

inline void pack_pass(words_stream& in, const job_t& job, const pass_t& at, line_stream out[BLOCKS]) {
    const lines_t lines = lines_of(job, band_of(job, at.band), false);
    const bool raw = is_raw(job.c);
    out_walk walk(job, at);
    // A block of a tile ends with an iteration more, for the line that is not full.
    const int32_t iterations = walk.iterations() + walk.blocks();
    packer_t blocks[BLOCKS];
#pragma HLS array_partition variable = blocks complete dim = 0
    bool flush = false;
    PIPELINED(pack_words) for (int32_t n = 0; n < iterations; n++) {
#pragma HLS pipeline II = 1
        ITERATION(pack_words);
        const place_t place = walk.here();
        packer_t state = blocks[place.block];
        if (place.begins && !flush) state.have = lines.skip;  // the band before has the line's first words
        line_t line;
        bool full = false;
        if (flush) {
            full = !raw && state.have > 0;
        } else {
            const words_t v = in.read();
            if (raw) {
                full = v.valid[0];
                line = v.line;
            } else {
                for (int e = 0; e < WORDS; e++) {
#pragma HLS unroll
                    if (v.valid[e]) state.held[state.have++] = word_of(v.line, e);
                }
                full = state.have >= BEAT;
            }
        }
        if (full) {
            if (!raw) {
                for (int j = 0; j < BEAT; j++) {
#pragma HLS unroll
                    set_word(line, j, state.held[j]);
                }
                for (int j = 0; j < WORDS; j++) {
#pragma HLS unroll
                    state.held[j] = state.held[BEAT + j];
                }
                state.have -= BEAT;
            }
            write_block(out, place.block, line);
        }
        blocks[place.block] = state;
        if (place.ends && !flush) {
            flush = true;
            continue;
        }
        flush = false;
        walk.advance();
    }
}

inline void pack(jobs_t& jobs, uint32_t count, words_stream& in, line_stream out[BLOCKS]) {
pack_commands:
    for (uint32_t i = 0; i < count; i++) {
        const job_t job = jobs.read();
        if (!job.runs) continue;
        sim::command(i);
        for (int32_t head = 0; head < job.p.heads; head++) {
            pass_t at = {0, 0, 0};
        pack_passes:
            for (int32_t pass = 0; pass < job.p.windows * job.p.sets; pass++) {
                CYCLES(pack_pass);
                pack_pass(in, job, at, out);
                next_pass(at, job);
            }
        }
    }
}

}  // namespace engine
