// Second sweep: distances to each row's center, softmax's exponentials of them, and the sums of these or of their squares.
#pragma once
#include "../groups.hpp"

namespace engine {

inline void weigh_group(const float_group_t& from, row_numbers_stream& centers, const exponentials_t& exponentials,
                        const vector_job_t& job, const rows_t& rows, float_group_t& to, row_parts_stream& out) {
    float partial[VECTOR_ROWS * VECTOR_PARTS], kept[VECTOR_ROWS];
    group_walk at(job, rows);
    float_word_t word = {};
    float center = 0;
    bool goes_on = true;
    PIPELINED(weigh_floats) while (goes_on) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = (LEAST_ROWS * VECTOR_PARTS) max = (MOST_VECTOR_BLOCKS * LEAST_ROWS * VECTOR_PARTS)
#pragma HLS dependence variable = partial inter distance = 16 true
#pragma HLS dependence variable = kept inter distance = 16 true
        ITERATION(weigh_floats);
        const bool real = at.real();
        const int row = at.row(), place = row * VECTOR_PARTS + at.part();
        const float_word_t x = from.x[at.address()];
        if (real && at.word_begins()) {
            center = kept[row];
            if (at.block() == 0) center = centered(centers.read(), x.lane[0], job.c);
            kept[row] = center;
        }
        const ap_uint<5> left = channels_of(job, at.block());
        float weights[VECTOR_LANES];
        for (int l = 0; l < VECTOR_LANES; l++) {
#pragma HLS unroll
            const bool exists = ap_uint<5>(at.part() * VECTOR_LANES + l) < left;
            const weighted_element_t found = weigh_element(lane_of(x, at.part(), l), center, job.c,
                                                           [&](int i) { return exponentials.e[l / 2][i]; });
            weights[l] = exists ? found.weight : 0.0f;
            set_lane(word, at.part(), l, found.value);
        }
        const float sum = sum_of<VECTOR_LANES>(weights);
        const float before = partial[place], all = before + sum, now = at.block() == 0 ? sum : all;
        partial[place] = now;
        if (real && at.word_ends()) to.x[at.address()] = word;
        if (real && at.block() + 1 == job.p.blocks) out.write({0, now});
        goes_on = !at.last();
        at.advance();
    }
}

inline void weigh(vector_jobs_t& jobs, short_stream& params, float_group_blocks& in, row_numbers_stream& centers,
                  float_group_blocks& out, row_parts_stream& parts) {
    exponentials_t exponentials = {};
#pragma HLS array_partition variable = exponentials.e dim = 1 complete
    const auto begin = [&](const vector_job_t& job) {
        begin_command(job);
        if (job.c.operation == VECTOR_SOFTMAX) load_exponentials(params, exponentials);
        return true;
    };
    for_each_group(jobs, begin, [&](const vector_job_t& job, const rows_t& rows) {
        hls::read_lock<float_group_t> from_lock(in);
        const float_group_t& from = from_lock;
        hls::write_lock<float_group_t> to_lock(out);
        float_group_t& to = to_lock;
        weigh_group(from, centers, exponentials, job, rows, to, parts);
    });
}

}  // namespace engine
