// What the processes of int8 and of floats share: the walk over all groups of a list, and the memory of gamma and beta. Their loops
// over the words of a group stay apart: depths and distances of dependences differ.
#pragma once
#include "streams.hpp"

namespace engine {

#if ENGINE_HAS_VECTOR

// Names the command that a process begins to the simulator. True, as the result of a `begin` below.
inline bool begin_command(const vector_job_t& job) {
#pragma HLS inline
    sim::command(job.position);
    return true;
}

// Goes through the groups of each command, head after head.
// \tparam BEGIN Function of a job, called before its groups; false if the process has no part in them.
// \tparam GROUP Function of a job and the rows of a group.
template <class BEGIN, class GROUP>
void for_each_group(vector_jobs_t& jobs, const BEGIN& begin, const GROUP& group) {
#pragma HLS inline
vector_commands:
    for (vector_job_t job = jobs.read(); job.position >= 0; job = jobs.read()) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        if (!begin(job)) continue;
        for (number<SMALL_BITS> head = 0; head < job.p.heads; head++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        vector_groups:
            for (plane_line_t first = 0; first < job.p.plane; first += job.p.group_lines) {
#pragma HLS loop_tripcount min = 1 max = MOST_PLANE_LINES
                const rows_t rows = rows_of(job, first);
                CYCLES(vector_group);
                group(job, rows);
            }
        }
    }
}

// Numbers of a part of a block's channels: float32, or int32.
struct part_numbers_t {
    param_t of[VECTOR_LANES];
};
struct norm_params_t {
    part_numbers_t gamma[VECTOR_BLOCKS * VECTOR_PARTS];
    part_numbers_t beta[VECTOR_BLOCKS * VECTOR_PARTS];
};

inline void take_norm(short_stream& in, number<bits_for(VECTOR_BLOCKS + 1)> blocks, norm_params_t& to) {
#pragma HLS inline
    line_t line;
    typedef number<bits_for(2 * VECTOR_BLOCKS * VECTOR_PARTS + 1)> parts_t;
    parts_t at = 0;
    ap_uint<bits_for(VECTOR_PARTS + 1)> part = 0;
    const parts_t parts = blocks * (2 * VECTOR_PARTS);
    bool beta = false;
    PIPELINED(norm_parts) for (parts_t n = 0; n < parts; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = (2 * VECTOR_PARTS) max = (2 * VECTOR_BLOCKS * VECTOR_PARTS)
        ITERATION(norm_parts);
        if (part == 0) line = in.read();
        part_numbers_t numbers;
        for (int l = 0; l < VECTOR_LANES; l++) {
#pragma HLS unroll
            numbers.of[l] = param_of_bits(bits32_of(line, static_cast<int>(part) * VECTOR_LANES + l));
        }
        if (beta)
            to.beta[at + part] = numbers;
        else
            to.gamma[at + part] = numbers;
        const bool last = part == VECTOR_PARTS - 1;
        part = last ? 0 : static_cast<int>(part) + 1;
        if (last && beta) at += VECTOR_PARTS;
        if (last) beta = !beta;
    }
}

#endif

}  // namespace engine
