// Words in any order, as a table of runs names them: what load_input and collect do for it.
#pragma once
#include "streams.hpp"

namespace engine {

#if ENGINE_HAS_GATHER

constexpr int RUNS_AHEAD = 16;  // requests on their way

// A run that has been asked for: the place of its first word in a beat, and words.
struct asked_run_t {
    ap_uint<bits_for(PORT_WORDS)> place;
    bool fills;
    uint32_t filling;
    number<GATHER_BITS> words;
};

// The words of one block, in lines. input: the first word of its source. table: runs, or of a constant the block itself, which is
// one run then.
inline void gather_block(input_port_t& maps, uint32_t input, const vector_job_t& job, run_stream& table,
                         line_stream& out) {
    typedef number<GATHER_BITS + 1> runs_t;
    asked_run_t asked[RUNS_AHEAD];
#pragma HLS array_partition variable = asked complete
    beat_t entries = {}, beat = {};
    line_t line = {};
    ap_uint<bits_for(BEAT)> turn = 0;
    const bool constant = is_constant(job.c);
    const runs_t runs = constant ? 1 : job.c.runs;
gather_runs:
    for (runs_t k = 0; k < runs + (RUNS_AHEAD - 1); k++) {
#pragma HLS loop_tripcount min = RUNS_AHEAD max = ((1 << GATHER_BITS) + RUNS_AHEAD - 1)
        for (int i = 1; i < RUNS_AHEAD; i++) {
#pragma HLS unroll
            asked[i - 1] = asked[i];
        }
        CYCLES(gather_run);
        if (k < runs) {
            if (!constant && (k & (BEAT_RUNS - 1)) == 0) entries = table.read();
            const run_t run = run_of(entries, static_cast<int>(k & (BEAT_RUNS - 1)));
            const bool fills = run.source == GATHER_FILL;
            const uint32_t word = input + static_cast<uint32_t>(run.first), first = word & (PORT_WORDS - 1);
            const uint32_t beats = (first + static_cast<uint32_t>(run.words) + (PORT_WORDS - 1)) / PORT_WORDS;
            if (!fills && !constant) maps.read_request(word / PORT_WORDS, static_cast<int32_t>(beats));
            asked[RUNS_AHEAD - 1].place = constant ? 0 : first;
            asked[RUNS_AHEAD - 1].fills = fills && !constant;
            asked[RUNS_AHEAD - 1].filling = run.filling;
            asked[RUNS_AHEAD - 1].words = constant ? number<GATHER_BITS>(job.p.plane << LINE_SHIFT) : run.words;
        }
        if (k < RUNS_AHEAD - 1) continue;
        const asked_run_t oldest = asked[0];
        beat_t filling;
        for (int i = 0; i < PORT_BYTES / 4; i++) {
#pragma HLS unroll
            set_bits32(filling, i, oldest.filling);
        }
        ap_uint<bits_for(PORT_WORDS)> place = oldest.place;
        bool begins = true;
        PIPELINED(gather_words) for (number<GATHER_BITS> n = 0; n < oldest.words; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (1 << GATHER_BITS)
            ITERATION(gather_words);
            if (begins || place == 0) beat = oldest.fills ? filling : constant ? table.read() : maps.read();
            begins = false;
            add_word(line, word_of(beat, static_cast<int>(place)));
            place = (static_cast<int>(place) + 1) & (PORT_WORDS - 1);
            if (turn == BEAT - 1) out.write(line);
            turn = (static_cast<int>(turn) + 1) & (BEAT - 1);
        }
    }
}

// The lines of a block on their way to store.
inline void pass_block(line_stream& in, const vector_job_t& job, short_stream& out) {
    PIPELINED(pass_lines) for (number<GATHER_BITS> n = 0; n < job.p.plane; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (1 << GATHER_BITS)
        ITERATION(pass_lines);
        out.write(in.read());
    }
}

#endif

}  // namespace engine
