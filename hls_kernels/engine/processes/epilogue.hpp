// Sums to elements, WORDS * 16 of them a cycle (../epilogue.hpp has the arithmetic).
#pragma once
#include "../epilogue.hpp"
#include "out_walk.hpp"
#include "tile_walk.hpp"

namespace engine {

// What of the table a lane looks up: a copy for each lane, since each looks up a place of its own.
inline void epilogue_pass(sums_stream& in, words_stream& residual, line_stream sums_in[BLOCKS], const params_t& params,
                          const job_t& job, const pass_t& at, words_stream& out) {
    const mac_command& c = job.c;
    out_walk walk(job, at);
    const int32_t iterations = walk.iterations();
    sums_t sums;
#pragma HLS array_partition variable = sums.v complete dim = 0
    PIPELINED(epilogue_words) for (int32_t n = 0; n < iterations; n++) {
#pragma HLS pipeline II = 1
        ITERATION(epilogue_words);
        const place_t place = walk.here();
        if (place.group_begins) sums = in.read();
        words_t other;
        if (has_residual(c)) other = residual.read();
        line_t partial;
        if (has_sums(c) && place.valid[0]) partial = read_block(sums_in, place.block);
        const channels_t& channels = params.tile[place.tile][place.block];
        words_t v;
        for (int e = 0; e < WORDS; e++) {
#pragma HLS unroll
            const int32_t lane = place.lane + e < P ? place.lane + e : 0;
            word_t word;
            for (int o = 0; o < CHANNELS; o++) {
#pragma HLS unroll
                sum_t sum = add_sums(sums.v[lane][place.block * CHANNELS + o], channels.offset[o]);
#if ENGINE_ELEMENT == 0
                if (second_operand_is_map(c)) sum = add_sums(sum, -c.weight_zero * sums.row[lane]);
#endif
                if (e == 0 && has_sums(c) && place.valid[0]) sum = add_sums(sum, sum_of_bits(bits32_of(partial, o)));
                const element_t r = has_residual(c) ? element_of(other.line, e * CHANNELS + o) : element_t(0);
                word.lane[o] = finish(sum, channels.scale[o], channels.bias[o], r, c, params.table);
                if (e == 0 && is_raw(c)) set_bits32(v.line, o, bits_of_sum(sum));
            }
            if (!is_raw(c)) set_word(v.line, e, word);
            v.valid[e] = place.valid[e];
        }
        for (int e = WORDS; e < BEAT; e++) v.valid[e] = false;
        out.write(v);
        walk.advance();
    }
}

inline void epilogue(jobs_t& jobs, uint32_t count, sums_stream& in, params_blocks& params, words_stream& residual,
                     line_stream sums_in[BLOCKS], words_stream& out) {
epilogue_commands:
    for (uint32_t i = 0; i < count; i++) {
        const job_t job = jobs.read();
        if (!job.runs) continue;
        sim::command(i);
        for (int32_t head = 0; head < job.p.heads; head++) {
            pass_t at = {0, 0, 0};
        epilogue_sets:
            for (int32_t load = 0; load < job.p.set_loads; load++) {
                hls::read_lock<params_t> lock(params);
                const params_t& memory = lock;
            epilogue_passes:
                for (int32_t pass = 0; pass < job.p.set_passes; pass++) {
                    CYCLES(epilogue_pass);
                    epilogue_pass(in, residual, sums_in, memory, job, at, out);
                    next_pass(at, job);
                }
            }
        }
    }
}

}  // namespace engine
