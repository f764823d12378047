// What is worked out once a row between two sweeps: from the parts of a row its center, or what it is scaled with.
#pragma once
#include "../groups.hpp"

namespace engine {

// Goes through the parts of a group's rows, of which the last VECTOR_PARTS are at hand; `to` makes a number of those of a row.
// \tparam TO Function from the parts of a row to a number.
template <class TO>
void rows_of_parts(row_parts_stream& in, const rows_t& rows, row_numbers_stream& out, const TO& to) {
#pragma HLS inline
    row_part_t parts[VECTOR_PARTS] = {};
#pragma HLS array_partition variable = parts complete
    ap_uint<bits_for(VECTOR_PARTS)> part = 0;
    const ap_uint<bits_for(VECTOR_ROWS * VECTOR_PARTS + 1)> count = static_cast<int>(rows.rows) * VECTOR_PARTS;
    PIPELINED(row_parts) for (ap_uint<bits_for(VECTOR_ROWS * VECTOR_PARTS + 1)> n = 0; n < count; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = VECTOR_PARTS max = (VECTOR_ROWS * VECTOR_PARTS)
        ITERATION(row_parts);
        for (int q = 0; q + 1 < VECTOR_PARTS; q++) {
#pragma HLS unroll
            parts[q] = parts[q + 1];
        }
        parts[VECTOR_PARTS - 1] = in.read();
        const float number = to(parts);
        if (part == VECTOR_PARTS - 1) out.write(number);
        part = part + 1;
    }
}

// \tparam OF_JOB Function from the parts of a row and a command to a number.
template <class OF_JOB>
void rows_of_groups(vector_jobs_t& jobs, row_parts_stream& in, row_numbers_stream& out, const OF_JOB& of_job) {
#pragma HLS inline
    const auto begin = [](const vector_job_t& job) { return begin_command(job); };
    for_each_group(jobs, begin, [&](const vector_job_t& job, const rows_t& rows) {
        rows_of_parts(in, rows, out, [&](const row_part_t parts[VECTOR_PARTS]) { return of_job(parts, job.c); });
    });
}

inline void center_rows(vector_jobs_t& jobs, row_parts_stream& in, row_numbers_stream& out) {
    rows_of_groups(jobs, in, out,
                   [](const row_part_t parts[VECTOR_PARTS], const vector_command& c) { return center_of(parts, c); });
}

inline void scale_rows(vector_jobs_t& jobs, row_parts_stream& in, row_numbers_stream& out) {
    rows_of_groups(jobs, in, out, [](const row_part_t parts[VECTOR_PARTS], const vector_command& c) {
        float sums[VECTOR_PARTS];
        for (int q = 0; q < VECTOR_PARTS; q++) {
#pragma HLS unroll
            sums[q] = parts[q].sum;
        }
        return scale_of_row(sum_of<VECTOR_PARTS>(sums), c);
    });
}

}  // namespace engine
