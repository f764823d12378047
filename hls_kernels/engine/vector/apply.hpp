// Third sweep: results, as lines of the output in the order in which they are stored.
#pragma once
#include "weigh.hpp"

namespace engine {

struct vector_params_t {
    exponentials_t exponentials;
    float gamma[VECTOR_BLOCKS][CHANNELS];
    float beta[VECTOR_BLOCKS][CHANNELS];
    int8_t table[256];
};

inline void take_params(line_stream& in, const vector_job_t& job, vector_params_t& to) {
    const int32_t lines = job.p.params_lines + (job.c.flags & VECTOR_TABLE ? TABLE_LINES : 0);
    PIPELINED(take_params_lines) for (int32_t n = 0; n < lines; n++) {
#pragma HLS pipeline II = 1
        ITERATION(take_params_lines);
        const line_t line = in.read();
        if (n >= job.p.params_lines) {
            for (int k = 0; k < LINE_BYTES; k++) {
#pragma HLS unroll
                to.table[(n - job.p.params_lines) * LINE_BYTES + k] = static_cast<int8_t>(line.byte[k]);
            }
        } else if (job.c.operation == VECTOR_SOFTMAX) {
            load_exponentials(line, n, to.exponentials);
        } else {
            for (int k = 0; k < CHANNELS; k++) {
#pragma HLS unroll
                if (n % 2 == 0)
                    to.gamma[n / 2][k] = float_of_bits(bits32_of(line, k));
                else
                    to.beta[n / 2][k] = float_of_bits(bits32_of(line, k));
            }
        }
    }
}

inline void apply_group(const row_group_t& from, slot_scales_stream& scales, const vector_params_t& params,
                        const vector_job_t& job, const rows_t& rows, line_stream& out) {
    const vector_command& c = job.c;
    const bool scaled = reduces(c);
    slot_scales_t kept[VECTOR_SLOTS];
    group_walk at;
    line_t line = {};
    PIPELINED(apply_words) for (int32_t n = 0; n < job.p.blocks * rows.slots; n++) {
#pragma HLS pipeline II = 1
        ITERATION(apply_words);
        const int turn = at.turn();
        slot_scales_t scale = {};
        if (scaled) {
            if (at.block == 0)
                kept[at.slot] = scale = scales.read();
            else
                scale = kept[at.slot];
        }
        const int32_t norm_block = c.operation == VECTOR_NORM ? at.block : 0;
        for (int w = 0; w < VECTOR_WORDS; w++) {
#pragma HLS unroll
            const word_t x = from.x[w][at.address], other = from.other[w][at.address];
            word_t word;
            for (int k = 0; k < CHANNELS; k++) {
#pragma HLS unroll
                const uint32_t e = other.lane[k] == 0 ? params.exponentials.e[static_cast<uint8_t>(x.lane[k])]
                                                      : uint32_t{0};
                word.lane[k] = k < at.channels(c) ? vector_result(x.lane[k], other.lane[k], e, scale.row[w],
                                                                  params.gamma[norm_block][k],
                                                                  params.beta[norm_block][k], c, params.table)
                                                  : vector_filling(c, params.table);
            }
            set_word(line, turn * VECTOR_WORDS + w, word);
        }
        if (turn + 1 == TURNS) out.write(line);
        at.advance(rows, rows.slots);
    }
}

inline void apply(vector_jobs_t& jobs, line_stream& params_in, row_group_blocks& in, slot_scales_stream& scales,
                  line_stream& out) {
    vector_params_t params = {};
#pragma HLS array_partition variable = params.gamma dim = 2 complete
#pragma HLS array_partition variable = params.beta dim = 2 complete
apply_commands:
    for (vector_job_t job = jobs.read(); job.position >= 0; job = jobs.read()) {
        sim::command(job.position);
        take_params(params_in, job, params);
        for (int32_t head = 0; head < job.p.heads; head++)
        apply_groups:
            for (int32_t group = 0; group < job.p.groups; group++) {
                const rows_t rows = rows_of(job, group);
                CYCLES(vector_group);
                hls::read_lock<row_group_t> lock(in);
                const row_group_t& from = lock;
                apply_group(from, scales, params, job, rows, out);
            }
    }
}

}  // namespace engine
