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
    number<GATHER_BITS> words;
};

// The words of one block, in lines. input: the first line of its source.
inline void gather_block(input_port_t& maps, uint32_t input, const vector_job_t& job, short_stream& table,
                         line_stream& out) {
    typedef number<GATHER_BITS + 1> runs_t;
    asked_run_t asked[RUNS_AHEAD];
#pragma HLS array_partition variable = asked complete
    word_t filling;
    for (int l = 0; l < CHANNELS; l++) {
#pragma HLS unroll
        filling.lane[l] = static_cast<element_t>(job.c.zero);
    }
    line_t entries = {}, line = {};
    beat_t beat = {};
    ap_uint<bits_for(BEAT)> turn = 0;
    const runs_t runs = job.c.runs;
gather_runs:
    for (runs_t k = 0; k < runs + (RUNS_AHEAD - 1); k++) {
#pragma HLS loop_tripcount min = RUNS_AHEAD max = ((1 << GATHER_BITS) + RUNS_AHEAD - 1)
        for (int i = 1; i < RUNS_AHEAD; i++) {
#pragma HLS unroll
            asked[i - 1] = asked[i];
        }
        CYCLES(gather_run);
        if (k < runs) {
            if ((k & (LINE_RUNS - 1)) == 0) entries = table.read();
            const run_t run = run_of(entries, static_cast<int>(k & (LINE_RUNS - 1)));
            const bool fills = run.source == GATHER_FILL;
            const uint32_t first = static_cast<uint32_t>(run.first) & (PORT_WORDS - 1);
            const uint32_t beats = (first + static_cast<uint32_t>(run.words) + (PORT_WORDS - 1)) / PORT_WORDS;
            if (!fills)
                maps.read_request(input * LINE_BEATS + static_cast<uint32_t>(run.first) / PORT_WORDS,
                                  static_cast<int32_t>(beats));
            asked[RUNS_AHEAD - 1].place = first;
            asked[RUNS_AHEAD - 1].fills = fills;
            asked[RUNS_AHEAD - 1].words = run.words;
        }
        if (k < RUNS_AHEAD - 1) continue;
        const asked_run_t oldest = asked[0];
        ap_uint<bits_for(PORT_WORDS)> place = oldest.place;
        bool begins = true;
        PIPELINED(gather_words) for (number<GATHER_BITS> n = 0; n < oldest.words; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (1 << GATHER_BITS)
            ITERATION(gather_words);
            if (!oldest.fills && (begins || place == 0)) beat = maps.read();
            begins = false;
            add_word(line, oldest.fills ? filling : word_of(beat, static_cast<int>(place)));
            place = (static_cast<int>(place) + 1) & (PORT_WORDS - 1);
            if (turn == BEAT - 1) out.write(line);
            turn = (static_cast<int>(turn) + 1) & (BEAT - 1);
        }
    }
}

// The lines of a block on their way to store.
// \tparam IN Stream of lines.
// \tparam OUT Stream of lines.
template <class IN, class OUT>
void pass_block(IN& in, const vector_job_t& job, OUT& out) {
    PIPELINED(pass_lines) for (number<GATHER_BITS> n = 0; n < job.p.plane; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (1 << GATHER_BITS)
        ITERATION(pass_lines);
        out.write(in.read());
    }
}

#endif

}  // namespace engine
