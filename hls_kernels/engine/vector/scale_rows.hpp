// What each row is scaled with: a division, or a division and a square root, for each row that is reduced.
#pragma once
#include "streams.hpp"

namespace engine {

inline void scale_group(row_sums_stream& in, const vector_job_t& job, const rows_t& rows, row_scales_stream& out) {
    const vector_command& c = job.c;
    PIPELINED(scale_rows_row) for (int32_t n = 0; n < rows.rows; n++) {
#pragma HLS pipeline II = 1
        ITERATION(scale_rows_row);
        const row_sums_t row = in.read();
        const int32_t scale = c.operation == VECTOR_SOFTMAX ? softmax_scale(row.squares, c) : norm_scale(row, c);
        out.write({scale, row.sum});
    }
}

inline void scale_rows(vector_jobs_t& jobs, row_sums_stream& in, row_scales_stream& out) {
scale_commands:
    for (vector_job_t job = jobs.read(); job.position >= 0; job = jobs.read()) {
        if (!reduces(job.c)) continue;
        sim::command(job.position);
        for (int32_t head = 0; head < job.p.heads; head++)
        scale_groups:
            for (int32_t first = 0; first < job.p.plane; first += job.c.group_lines) {
                const rows_t rows = rows_of(job, first);
                CYCLES(vector_group);
                scale_group(in, job, rows, out);
            }
    }
}

}  // namespace engine
