// What each row is scaled with: a division, or a division and a square root, for each row that is reduced.
#pragma once
#include "streams.hpp"

namespace engine {

// A row a cycle, so that there is one divider.
inline void scale_group(slot_sums_stream& in, const vector_job_t& job, const rows_t& rows, slot_scales_stream& out) {
    const vector_command& c = job.c;
    slot_sums_t sums;
    slot_scales_t scales;
    int w = 0;
    PIPELINED(scale_rows_row) for (int32_t n = 0; n < rows.slots * VECTOR_WORDS; n++) {
#pragma HLS pipeline II = 1
        ITERATION(scale_rows_row);
        if (w == 0) sums = in.read();
        const row_sums_t row = sums.row[w];
        scales.row[w].scale = c.operation == VECTOR_SOFTMAX ? softmax_scale(row.squares, c) : norm_scale(row, c);
        scales.row[w].center = row.sum;
        if (w + 1 == VECTOR_WORDS) out.write(scales);
        w = w + 1 == VECTOR_WORDS ? 0 : w + 1;
    }
}

inline void scale_rows(vector_jobs_t& jobs, slot_sums_stream& in, slot_scales_stream& out) {
scale_commands:
    for (vector_job_t job = jobs.read(); job.position >= 0; job = jobs.read()) {
        if (!reduces(job.c)) continue;
        sim::command(job.position);
        for (int32_t head = 0; head < job.p.heads; head++)
        scale_groups:
            for (int32_t group = 0; group < job.p.groups; group++) {
                const rows_t rows = rows_of(job, group);
                CYCLES(vector_group);
                scale_group(in, job, rows, out);
            }
    }
}

}  // namespace engine
