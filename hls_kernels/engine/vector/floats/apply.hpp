// Third sweep: results, as lines of the output in the order in which they are stored.
#pragma once
#include "../streams.hpp"

namespace engine {

// Numbers of a part of a block's channels.
struct part_numbers_t {
    float of[VECTOR_LANES];
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
            numbers.of[l] = float_of_bits(bits32_of(line, static_cast<int>(part) * VECTOR_LANES + l));
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

inline void apply_group(const float_group_t& from, row_numbers_stream& scales, const norm_params_t& params,
                        const vector_job_t& job, const rows_t& rows, line_stream& out) {
    float kept[VECTOR_ROWS];
    group_walk at(job, rows);
    float scale = 0;
    word_t word = {};
    line_t line = {};
    bool goes_on = true;
    PIPELINED(apply_floats) while (goes_on) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = (LEAST_ROWS * VECTOR_PARTS) max = (MOST_VECTOR_BLOCKS * LEAST_ROWS * VECTOR_PARTS)
#pragma HLS dependence variable = kept inter distance = 16 true
        ITERATION(apply_floats);
        const bool real = at.real();
        const int row = at.row();
        if (real && at.word_begins()) {
            scale = kept[row];
            if (at.block() == 0) scale = scales.read();
            kept[row] = scale;
        }
        const ap_uint<5> left = channels_of(job, at.block());
        const int numbers = at.block() < VECTOR_BLOCKS ? at.block() * VECTOR_PARTS + at.part() : 0;
        const part_numbers_t gamma = params.gamma[numbers], beta = params.beta[numbers];
        const float_word_t x = from.x[at.address()];
        for (int l = 0; l < VECTOR_LANES; l++) {
#pragma HLS unroll
            const float value = lane_of(x, at.part(), l);
            const element_t result = vector_result(value, scale, gamma.of[l], beta.of[l], job.c);
            const bool exists = ap_uint<5>(at.part() * VECTOR_LANES + l) < left;
            set_lane(word, at.part(), l, exists ? result : element_t(0));
        }
        for (int j = 0; j < BEAT; j++) {
#pragma HLS unroll
            if (j == at.turn()) set_word(line, j, word);
        }
        if (real && at.word_ends() && at.turn() == BEAT - 1) out.write(line);
        goes_on = !at.last();
        at.advance();
    }
}

inline void apply(vector_jobs_t& jobs, short_stream& params_in, float_group_blocks& in, row_numbers_stream& scales,
                  line_stream& out) {
    norm_params_t params = {};
apply_commands:
    for (vector_job_t job = jobs.read(); job.position >= 0; job = jobs.read()) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        sim::command(job.position);
        if (job.c.operation == VECTOR_NORM) take_norm(params_in, job.p.blocks, params);
        for (number<SMALL_BITS> head = 0; head < job.p.heads; head++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        apply_groups:
            for (plane_line_t first = 0; first < job.p.plane; first += job.p.group_lines) {
#pragma HLS loop_tripcount min = 1 max = MOST_PLANE_LINES
                const rows_t rows = rows_of(job, first);
                CYCLES(vector_group);
                hls::read_lock<float_group_t> lock(in);
                const float_group_t& from = lock;
                apply_group(from, scales, params, job, rows, out);
            }
        }
    }
}

}  // namespace engine
