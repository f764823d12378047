// First sweep: puts the lines of a group of rows into a memory, and takes each row's greatest key and sums.
#pragma once
#include "groups.hpp"
#include "interleave.hpp"

namespace engine {

inline void collect_group(line_stream& in, short_stream& other_in, const vector_job_t& job, const rows_t& rows,
                          row_group_t& memory, row_sums_stream& sums) {
    const vector_command& c = job.c;
    const bool other = has_other(c), shared = is_shared(c), summed = reduces(c);
    row_sums_t partial[VECTOR_ROWS];
    group_walk at(job, rows);
    line_t line = {}, other_line = {};
    row_sums_t word_sums = {};
    bool goes_on = true;
    PIPELINED(collect_words) while (goes_on) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = (LEAST_ROWS * VECTOR_PARTS) max = (MOST_VECTOR_BLOCKS * LEAST_ROWS * VECTOR_PARTS)
#pragma HLS dependence variable = partial inter distance = 8 true
        ITERATION(collect_words);
        const bool real = at.real(), begins = at.word_begins(), ends = at.word_ends();
        const int turn = at.turn(), row = at.row();
        if (begins && real && turn == 0) line = in.read();
        if (begins && other && (shared ? row == 0 : real && turn == 0)) other_line = other_in.read();
        const word_t x = word_of(line, turn);
        word_t r = word_of(other_line, shared ? 0 : turn);
        if (!other) r = word_t();
        if (real && begins) {
            memory.x[at.address()] = x;
            memory.other[at.address()] = r;
        }
        const ap_uint<5> left = channels_of(job, at.block());
        row_sums_t part = {NO_KEY, 0, 0};
        for (int l = 0; l < VECTOR_LANES; l++) {
#pragma HLS unroll
            const bool exists = ap_uint<5>(at.part() * VECTOR_LANES + l) < left;
            part = add_sums(part, sums_of(lane_of(x, at.part(), l), lane_of(r, at.part(), l) != 0, exists));
        }
        const row_sums_t more = add_sums(word_sums, part);
        word_sums = begins ? part : more;
        if (ends) {
            const row_sums_t before = partial[row], all = add_sums(before, word_sums);
            const row_sums_t now = at.block() == 0 ? word_sums : all;
            partial[row] = now;
            if (summed && real && at.block() + 1 == job.p.blocks) sums.write(now);
        }
        goes_on = !at.last();
        at.advance();
    }
}

inline void collect(vector_jobs_t& jobs, line_stream& in, short_stream& other, row_group_blocks& out,
                    row_sums_stream& sums, short_stream& moved) {
    const auto begin = [&](const vector_job_t& job) {
        begin_command(job);
        if (moves_words(job.c)) move_blocks(in, other, job, moved);
        return !moves_words(job.c);
    };
    for_each_group(jobs, begin, [&](const vector_job_t& job, const rows_t& rows) {
        hls::write_lock<row_group_t> lock(out);
        row_group_t& memory = lock;
        collect_group(in, other, job, rows, memory, sums);
    });
}

}  // namespace engine
