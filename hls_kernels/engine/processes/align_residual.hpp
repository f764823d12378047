// Puts the words of the residual where the epilogue meets them: in groups of P positions, of which those beyond a row's end are
// no pixels.
#pragma once
#include "out_walk.hpp"
#include "tile_walk.hpp"

namespace engine {

// A plane's words one behind the other, out of its lines.
struct unpacker_t {
    word_t held[BEAT + WORDS];
    int32_t have;
};

inline void align_pass(line_stream in[BLOCKS], const job_t& job, const pass_t& at, words_stream& out) {
    const lines_t lines = lines_of(job, band_of(job, at.band), false);
    out_walk walk(job, at);
    const int32_t iterations = walk.iterations() + walk.blocks();
    unpacker_t blocks[BLOCKS];
#pragma HLS array_partition variable = blocks complete dim = 0
    bool begun = false;
    PIPELINED(align_words) for (int32_t n = 0; n < iterations; n++) {
#pragma HLS pipeline II = 1
        ITERATION(align_words);
        const place_t place = walk.here();
        unpacker_t state = blocks[place.block];
        if (place.begins && !begun) {  // the first line, without the words of the band before
            const line_t line = read_block(in, place.block);
            for (int j = 0; j < BEAT; j++) {
#pragma HLS unroll
                state.held[j] = word_of(line, (j + lines.skip) % BEAT);
            }
            state.have = BEAT - lines.skip;
            blocks[place.block] = state;
            begun = true;
            continue;
        }
        begun = false;
        int32_t needed = 0;
        for (int e = 0; e < WORDS; e++) needed += place.valid[e];
        if (state.have < needed) {
            const line_t line = read_block(in, place.block);
            for (int k = 0; k < WORDS; k++) {
#pragma HLS unroll
                for (int j = 0; j < BEAT; j++)
                    if (k == state.have) state.held[k + j] = word_of(line, j);
            }
            state.have += BEAT;
        }
        words_t v;
        int32_t used = 0;
        for (int e = 0; e < BEAT; e++) {
#pragma HLS unroll
            v.valid[e] = e < WORDS && place.valid[e < WORDS ? e : 0];
            set_word(v.line, e, state.held[used]);
            used += v.valid[e];
        }
        for (int j = 0; j < BEAT; j++) {
#pragma HLS unroll
            state.held[j] = state.held[j + used < BEAT + WORDS ? j + used : 0];
        }
        state.have -= used;
        blocks[place.block] = state;
        out.write(v);
        walk.advance();
    }
}

inline void align_residual(jobs_t& jobs, uint32_t count, line_stream in[BLOCKS], words_stream& out) {
align_commands:
    for (uint32_t i = 0; i < count; i++) {
        const job_t job = jobs.read();
        if (!job.runs || !has_residual(job.c)) continue;
        sim::command(i);
        for (int32_t head = 0; head < job.p.heads; head++) {
            pass_t at = {0, 0, 0};
        align_passes:
            for (int32_t pass = 0; pass < job.p.windows * job.p.sets; pass++) {
                CYCLES(align_pass);
                align_pass(in, job, at, out);
                next_pass(at, job);
            }
        }
    }
}

}  // namespace engine
