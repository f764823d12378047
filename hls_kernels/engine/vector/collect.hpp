// First sweep: puts the lines of a group of rows into a memory, and takes each row's greatest key or sums.
#pragma once
#include "streams.hpp"

namespace engine {

inline void collect_group(line_stream& in, line_stream& other_in, const vector_job_t& job, const rows_t& rows,
                          row_group_t& memory, slot_sums_stream& sums) {
    const vector_command& c = job.c;
    const bool other = has_other(c), shared = is_shared(c), summed = reduces(c);
    row_sums_t partial[VECTOR_WORDS][VECTOR_SLOTS];
#pragma HLS array_partition variable = partial dim = 1 complete
#pragma HLS dependence variable = partial inter distance = 8 true
    group_walk at;
    line_t line = {}, other_line = {};
    PIPELINED(collect_words) for (int32_t n = 0; n < job.p.blocks * rows.walked; n++) {
#pragma HLS pipeline II = 1
        ITERATION(collect_words);
        const bool real = at.slot < rows.slots;
        const int turn = at.turn();
        if (real && turn == 0) line = in.read();
        if (other && (shared ? at.slot == 0 : real && turn == 0)) other_line = other_in.read();
        slot_sums_t v;
        for (int w = 0; w < VECTOR_WORDS; w++) {
#pragma HLS unroll
            const word_t x = word_of(line, turn * VECTOR_WORDS + w);
            word_t r = word_of(other_line, shared ? 0 : turn * VECTOR_WORDS + w);
            if (!other) r = word_t();
            if (real) {
                memory.x[w][at.address] = x;
                memory.other[w][at.address] = r;
            }
            const int32_t slot = at.slot;
            v.row[w] = partial[w][slot] = add_word(partial[w][slot], at.block == 0, x, r, at.channels(c), c);
        }
        if (summed && real && at.block + 1 == job.p.blocks) sums.write(v);
        at.advance(rows, rows.walked);
    }
}

inline void collect(vector_jobs_t& jobs, line_stream& in, line_stream& other, row_group_blocks& out,
                    slot_sums_stream& sums) {
collect_commands:
    for (vector_job_t job = jobs.read(); job.position >= 0; job = jobs.read()) {
        sim::command(job.position);
        for (int32_t head = 0; head < job.p.heads; head++)
        collect_groups:
            for (int32_t group = 0; group < job.p.groups; group++) {
                const rows_t rows = rows_of(job, group);
                CYCLES(vector_group);
                hls::write_lock<row_group_t> lock(out);
                row_group_t& memory = lock;
                collect_group(in, other, job, rows, memory, sums);
            }
    }
}

}  // namespace engine
