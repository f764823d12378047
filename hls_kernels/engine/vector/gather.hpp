// Words in any order, as a table of runs names them: what load_weights, load_input and collect do for it.
#pragma once
#include "streams.hpp"

namespace engine {

#if ENGINE_HAS_GATHER

// The table, once for each head; of a constant the lines of the head.
inline void load_runs(const vector_job_t& job, weight_port_t& port, short_stream& runs) {
    typedef number<PIXEL_BITS + 2> beats_t;
    const bool constant = is_constant(job.c);
    const beats_t beats = beats_t(constant ? job.p.plane : run_lines(job.c)) * LINE_BEATS;
    uint32_t at = job.c.params * LINE_BEATS;
    line_t line = {};
    ap_uint<bits_for(LINE_BEATS)> turn = 0;
run_tables:
    for (number<SMALL_BITS> head = 0; head < job.p.heads; head++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        port.read_request(at, static_cast<int32_t>(beats));
        if (constant) at += static_cast<uint32_t>(beats);
        PIPELINED(run_lines) for (beats_t n = 0; n < beats; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = ((1 << PIXEL_BITS) / LINE_RUNS * LINE_BEATS)
            ITERATION(run_lines);
            add_beat(line, port.read());
            if (LINE_BEATS == 1 || turn == LINE_BEATS - 1) runs.write(line);
            turn = turn + 1;
        }
    }
}

constexpr int RUNS_AHEAD = 16;  // requests on their way

// A run that has been asked for: the place of its first word in a beat, and words.
struct asked_run_t {
    ap_uint<bits_for(PORT_WORDS)> place;
    bool fills;
    number<PIXEL_BITS + 1> words;
};

// The words of one block, in lines. input, other: first lines of the block's sources.
inline void gather_block(input_port_t& maps, uint32_t input, uint32_t other, const vector_job_t& job,
                         short_stream& table, line_stream& out) {
    typedef number<PIXEL_BITS + 1> runs_t;
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
#pragma HLS loop_tripcount min = RUNS_AHEAD max = ((1 << PIXEL_BITS) + RUNS_AHEAD - 1)
        for (int i = 1; i < RUNS_AHEAD; i++) {
#pragma HLS unroll
            asked[i - 1] = asked[i];
        }
        CYCLES(gather_run);
        if (k < runs) {
            if ((k & (LINE_RUNS - 1)) == 0) entries = table.read();
            const run_t run = run_of(entries, static_cast<int>(k & (LINE_RUNS - 1)));
            const bool from_other = run.source == GATHER_OTHER;
            const bool fills = run.source == GATHER_FILL;
            const uint32_t first = static_cast<uint32_t>(run.first) & (PORT_WORDS - 1);
            const uint32_t beats = (first + static_cast<uint32_t>(run.words) + (PORT_WORDS - 1)) / PORT_WORDS;
            if (!fills)
                maps.read_request((from_other ? other : input) * LINE_BEATS +
                                      static_cast<uint32_t>(run.first) / PORT_WORDS,
                                  static_cast<int32_t>(beats));
            asked[RUNS_AHEAD - 1].place = first;
            asked[RUNS_AHEAD - 1].fills = fills;
            asked[RUNS_AHEAD - 1].words = run.words;
        }
        if (k < RUNS_AHEAD - 1) continue;
        const asked_run_t oldest = asked[0];
        ap_uint<bits_for(PORT_WORDS)> place = oldest.place;
        bool begins = true;
        PIPELINED(gather_words) for (number<PIXEL_BITS + 1> n = 0; n < oldest.words; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (1 << PIXEL_BITS)
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
    PIPELINED(pass_lines) for (plane_line_t n = 0; n < job.p.plane; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = MOST_PLANE_LINES
        ITERATION(pass_lines);
        out.write(in.read());
    }
}

#endif

}  // namespace engine
