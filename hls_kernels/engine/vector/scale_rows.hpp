// What each row is scaled with: a division, or a division and a square root, for each row that is reduced.
#pragma once
#include "groups.hpp"

namespace engine {

inline void scale_group(row_sums_stream& in, const vector_job_t& job, const rows_t& rows, row_scales_stream& out) {
    const vector_command& c = job.c;
    PIPELINED(scale_rows_row) for (group_rows_t n = 0; n < rows.rows; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = VECTOR_ROWS
        ITERATION(scale_rows_row);
        row_sums_t row = in.read();
        if (is_uncentered(c)) row.sum = 0;
        out.write({scale_of_row(row, c), row.sum});
    }
}

inline void scale_rows(vector_jobs_t& jobs, row_sums_stream& in, row_scales_stream& out) {
    const auto begin = [](const vector_job_t& job) { return reduces(job.c) && begin_command(job); };
    for_each_group(jobs, begin, [&](const vector_job_t& job, const rows_t& rows) { scale_group(in, job, rows, out); });
}

}  // namespace engine
