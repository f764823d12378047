// What is worked out once a row between two sweeps: from the parts of a row its center, or what it is scaled with.
#pragma once
#include "../streams.hpp"

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
void for_each_group(vector_jobs_t& jobs, row_parts_stream& in, row_numbers_stream& out, const OF_JOB& of_job) {
#pragma HLS inline
row_commands:
    for (vector_job_t job = jobs.read(); job.position >= 0; job = jobs.read()) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        sim::command(job.position);
        for (number<SMALL_BITS> head = 0; head < job.p.heads; head++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        row_groups:
            for (plane_line_t first = 0; first < job.p.plane; first += job.p.group_lines) {
#pragma HLS loop_tripcount min = 1 max = MOST_PLANE_LINES
                const rows_t rows = rows_of(job, first);
                CYCLES(vector_group);
                rows_of_parts(in, rows, out,
                              [&](const row_part_t parts[VECTOR_PARTS]) { return of_job(parts, job.c); });
            }
        }
    }
}

inline void center_rows(vector_jobs_t& jobs, row_parts_stream& in, row_numbers_stream& out) {
    for_each_group(jobs, in, out,
                   [](const row_part_t parts[VECTOR_PARTS], const vector_command& c) { return center_of(parts, c); });
}

inline void scale_rows(vector_jobs_t& jobs, row_parts_stream& in, row_numbers_stream& out) {
    for_each_group(jobs, in, out, [](const row_part_t parts[VECTOR_PARTS], const vector_command& c) {
        float sums[VECTOR_PARTS];
        for (int q = 0; q < VECTOR_PARTS; q++) {
#pragma HLS unroll
            sums[q] = parts[q].sum;
        }
        return scale_of_row(sum_of<VECTOR_PARTS>(sums), c);
    });
}

}  // namespace engine
