// Second sweep: softmax's exponentials and their sums. Of the other operations it passes rows and sums on.
#pragma once
#include "groups.hpp"

namespace engine {

inline void weigh_group(const row_group_t& from, row_sums_stream& sums, const exponentials_t& exponentials,
                        const vector_job_t& job, const rows_t& rows, row_group_t& to, row_sums_stream& out) {
    const vector_command& c = job.c;
    const bool softmax = c.operation == VECTOR_SOFTMAX, summed = reduces(c);
    int32_t greatest[VECTOR_ROWS];
    int64_t partial[VECTOR_ROWS];
    group_walk at(job, rows);
    int64_t word_sum = 0;
    word_t distances = {};
    row_sums_t of_row = {};
    bool goes_on = true;
    PIPELINED(weigh_words) while (goes_on) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = (LEAST_ROWS * VECTOR_PARTS) max = (MOST_VECTOR_BLOCKS * LEAST_ROWS * VECTOR_PARTS)
#pragma HLS dependence variable = partial inter distance = 8 true
#pragma HLS dependence variable = greatest inter distance = 8 true
        ITERATION(weigh_words);
        const bool real = at.real(), begins = at.word_begins(), ends = at.word_ends();
        const int row = at.row();
        if (summed && real && begins) {
            of_row.greatest = greatest[row];
            if (at.block() == 0) of_row = sums.read();
            greatest[row] = of_row.greatest;
        }
        const word_t x = from.x[at.address()], other = from.other[at.address()];
        const ap_uint<5> left = channels_of(job, at.block());
        uint32_t sum = 0;  // of 16 numbers of 25 bits at most
        for (int l = 0; l < VECTOR_LANES; l++) {
#pragma HLS unroll
            const uint8_t d = distance(of_row.greatest, lane_of(x, at.part(), l));
            const int32_t entry = static_cast<int32_t>(exponentials.e[l / 2][d] & ((2u << EXPONENT_BITS) - 1));
            const bool weighs = ap_uint<5>(at.part() * VECTOR_LANES + l) < left && lane_of(other, at.part(), l) == 0;
            sum += weighs ? static_cast<uint32_t>(entry) : 0;
            set_lane(distances, at.part(), l, static_cast<int8_t>(d));
        }
        const int64_t more = word_sum + sum;
        word_sum = begins ? int64_t{sum} : more;
        if (ends && real) {
            const int64_t before = partial[row], all = before + word_sum, now = at.block() == 0 ? word_sum : all;
            partial[row] = now;
            to.x[at.address()] = softmax ? distances : x;
            to.other[at.address()] = other;
            // A softmax has its sums with the last block, a norm had them with the first.
            if (softmax) of_row.squares = now;
            if (summed && at.block() + 1 == (softmax ? job.p.blocks : 1)) out.write(of_row);
        }
        goes_on = !at.last();
        at.advance();
    }
}

inline void weigh(vector_jobs_t& jobs, short_stream& params, row_group_blocks& in, row_sums_stream& sums,
                  row_group_blocks& out, row_sums_stream& sums_out) {
    exponentials_t exponentials = {};
#pragma HLS array_partition variable = exponentials.e dim = 1 complete
    const auto begin = [&](const vector_job_t& job) {
        if (moves_words(job.c)) return false;
        begin_command(job);
        if (job.c.operation == VECTOR_SOFTMAX) load_exponentials(params, exponentials);
        return true;
    };
    for_each_group(jobs, begin, [&](const vector_job_t& job, const rows_t& rows) {
        hls::read_lock<row_group_t> from_lock(in);
        const row_group_t& from = from_lock;
        hls::write_lock<row_group_t> to_lock(out);
        row_group_t& to = to_lock;
        weigh_group(from, sums, exponentials, job, rows, to, sums_out);
    });
}

}  // namespace engine
