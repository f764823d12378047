// Third sweep: results, as lines of the output in the order in which they are stored.
#pragma once
#include "../groups.hpp"

namespace engine {

inline void apply_group(const float_group_t& from, row_numbers_stream& scales, const norm_params_t& params,
                        const vector_job_t& job, const rows_t& rows, line_stream& out) {
    float kept[VECTOR_ROWS];
    group_walk at(job, rows);
    float scale = 0;
    word_t word = {};
    line_t line = {};
    bool goes_on = true;
    PIPELINED(apply_floats) while (goes_on) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = (LEAST_ROWS * VECTOR_PARTS) max = (MOST_VECTOR_BLOCKS * LEAST_ROWS * VECTOR_PARTS)
#pragma HLS dependence variable = kept inter distance = 16 true
        ITERATION(apply_floats);
        const bool real = at.real();
        const int row = at.row();
        if (real && at.word_begins()) {
            scale = kept[row];
            if (at.block() == 0) scale = scales.read();
            kept[row] = scale;
        }
        const ap_uint<5> left = channels_of(job, at.block());
        const int numbers = at.block() < VECTOR_BLOCKS ? at.block() * VECTOR_PARTS + at.part() : 0;
        const part_numbers_t gamma = params.gamma[numbers], beta = params.beta[numbers];
        const float_word_t x = from.x[at.address()];
        for (int l = 0; l < VECTOR_LANES; l++) {
#pragma HLS unroll
            const float value = lane_of(x, at.part(), l);
            const element_t result = vector_result(value, scale, gamma.of[l], beta.of[l], job.c);
            const bool exists = ap_uint<5>(at.part() * VECTOR_LANES + l) < left;
            set_lane(word, at.part(), l, exists ? result : element_t(0));
        }
        for (int j = 0; j < BEAT; j++) {
#pragma HLS unroll
            if (j == at.turn()) set_word(line, j, word);
        }
        if (real && at.word_ends() && at.turn() == BEAT - 1) out.write(line);
        goes_on = !at.last();
        at.advance();
    }
}

inline void apply(vector_jobs_t& jobs, short_stream& params_in, float_group_blocks& in, row_numbers_stream& scales,
                  line_stream& out) {
    norm_params_t params = {};
    const auto begin = [&](const vector_job_t& job) {
        begin_command(job);
        if (job.c.operation == VECTOR_NORM) take_norm(params_in, job.p.blocks, params);
        return true;
    };
    for_each_group(jobs, begin, [&](const vector_job_t& job, const rows_t& rows) {
        hls::read_lock<float_group_t> lock(in);
        const float_group_t& from = lock;
        apply_group(from, scales, params, job, rows, out);
    });
}

}  // namespace engine
