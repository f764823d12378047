// First sweep: puts the lines of a group of rows into a memory, and takes each row's greatest element and its sum, part by part.
#pragma once
#include "../groups.hpp"

namespace engine {

// The numbers of a word: float32 of a line, or a line's turn of elements; so many are not masked.
inline float_word_t numbers_of(const line_t& line, int turn, const ap_uint<5>& until, const vector_command& c) {
#pragma HLS inline
    const word_t word = word_of(line, turn);
    float_word_t x;
    for (int l = 0; l < CHANNELS; l++) {
#pragma HLS unroll
        const float number = is_wide(c) ? float_of_bits(bits32_of(line, l)) : elements::widen(word.lane[l]);
        x.lane[l] = is_causal(c) && ap_uint<5>(l) >= until ? masked(number) : number;
    }
    return x;
}

inline void collect_group(line_stream& in, const vector_job_t& job, const rows_t& rows, float_group_t& memory,
                          row_parts_stream& out) {
    row_part_t partial[VECTOR_ROWS * VECTOR_PARTS];
    float first[VECTOR_ROWS];
    group_walk at(job, rows);
    line_t line = {};
    float origin = 0;
    bool goes_on = true;
    PIPELINED(collect_floats) while (goes_on) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = (LEAST_ROWS * VECTOR_PARTS) max = (MOST_VECTOR_BLOCKS * LEAST_ROWS * VECTOR_PARTS)
#pragma HLS dependence variable = partial inter distance = 16 true
#pragma HLS dependence variable = first inter distance = 16 true
        ITERATION(collect_floats);
        const bool real = at.real(), begins = at.word_begins();
        const int turn = at.turn(), place = at.row() * VECTOR_PARTS + at.part();
        if (begins && real && (is_wide(job.c) || turn == 0)) line = in.read();
        const float_word_t x = numbers_of(line, turn, channels_until(rows, at.block(), at.row()), job.c);
        if (real && begins) memory.x[at.address()] = x;
        if (FROM_FIRST && begins) {
            origin = first[at.row()];
            if (at.block() == 0) origin = x.lane[0];
            first[at.row()] = origin;
        }
        const ap_uint<5> left = channels_of(job, at.block());
        float terms[VECTOR_LANES];
        int32_t greatest = LEAST_KEY;
        for (int l = 0; l < VECTOR_LANES; l++) {
#pragma HLS unroll
            const bool exists = ap_uint<5>(at.part() * VECTOR_LANES + l) < left;
            const float e = lane_of(x, at.part(), l);
            terms[l] = exists ? term_of(e, origin) : 0.0f;
            greatest = larger(greatest, exists ? key_of(e) : LEAST_KEY);
        }
        const float sum = sum_of<VECTOR_LANES>(terms);
        const row_part_t before = partial[place];
        const row_part_t all = {larger(before.greatest, greatest), before.sum + sum}, own = {greatest, sum};
        const row_part_t now = at.block() == 0 ? own : all;
        partial[place] = now;
        if (real && at.block() + 1 == job.p.blocks) out.write(now);
        goes_on = !at.last();
        at.advance();
    }
}

inline void collect(vector_jobs_t& jobs, line_stream& in, float_group_blocks& out, row_parts_stream& parts) {
    const auto begin = [](const vector_job_t& job) { return begin_command(job); };
    for_each_group(jobs, begin, [&](const vector_job_t& job, const rows_t& rows) {
        hls::write_lock<float_group_t> lock(out);
        float_group_t& memory = lock;
        collect_group(in, job, rows, memory, parts);
    });
}

}  // namespace engine
