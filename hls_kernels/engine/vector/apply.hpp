// Third sweep: results, as lines of the output in the order in which they are stored.
#pragma once
#include "groups.hpp"

namespace engine {

struct vector_params_t {
    exponentials_t exponentials;
    norm_params_t norm;
    element_t table[VECTOR_COPIES][TABLE_ENTRIES];
};

inline void take_table(short_stream& in, vector_params_t& to) {
#pragma HLS inline
    line_t line;
    PIPELINED(vector_table_entries) for (number<9> n = 0; n < TABLE_ENTRIES; n++) {
#pragma HLS pipeline II = 1
        ITERATION(vector_table_entries);
        if ((n & (LINE_BYTES - 1)) == 0) line = in.read();
        const element_t entry = static_cast<element_t>(line.byte[0]);
        for (int b = 0; b + 1 < LINE_BYTES; b++) {
#pragma HLS unroll
            line.byte[b] = line.byte[b + 1];
        }
        for (int k = 0; k < VECTOR_COPIES; k++) {
#pragma HLS unroll
            to.table[k][n] = entry;
        }
    }
}

inline void apply_group(const row_group_t& from, row_scales_stream& scales, const vector_params_t& params,
                        const vector_job_t& job, const rows_t& rows, line_stream& out) {
    const vector_command& c = job.c;
    const bool scaled = reduces(c), looks_up = (c.flags & VECTOR_TABLE) != 0;
    row_scale_t kept[VECTOR_ROWS];
    group_walk at(job, rows);
    row_scale_t scale = {};
    word_t word = {};
    line_t line = {};
    bool goes_on = true;
    PIPELINED(apply_words) while (goes_on) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = (LEAST_ROWS * VECTOR_PARTS) max = (MOST_VECTOR_BLOCKS * LEAST_ROWS * VECTOR_PARTS)
#pragma HLS dependence variable = kept inter distance = 8 true
        ITERATION(apply_words);
        const bool real = at.real();
        const int row = at.row();
        if (scaled && real && at.word_begins()) {
            scale = kept[row];
            if (at.block() == 0) scale = scales.read();
            kept[row] = scale;
        }
        const ap_uint<5> left = channels_of(job, at.block());
        const int numbers = at.block() < VECTOR_BLOCKS ? at.block() * VECTOR_PARTS + at.part() : 0;
        const part_numbers_t gamma = params.norm.gamma[numbers], beta = params.norm.beta[numbers];
        const word_t x = from.x[at.address()], other = from.other[at.address()];
        for (int l = 0; l < VECTOR_LANES; l++) {
#pragma HLS unroll
            const int8_t key = lane_of(x, at.part(), l), r = lane_of(other, at.part(), l);
            const uint32_t entry = params.exponentials.e[l / 2][static_cast<uint8_t>(key)];
            const int32_t e = r == 0 ? static_cast<int32_t>(entry & ((2u << EXPONENT_BITS) - 1)) : 0;
            const int32_t own = vector_result(key, r, e, scale, gamma.of[l], beta.of[l], c);
            const int32_t result = ap_uint<5>(at.part() * VECTOR_LANES + l) < left ? own : vector_filling(c);
            const ap_uint<8> place = result + 128;
            const int8_t found = params.table[l / 2][place];
            set_lane(word, at.part(), l, looks_up ? found : static_cast<int8_t>(result));
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

inline void apply(vector_jobs_t& jobs, short_stream& params_in, row_group_blocks& in, row_scales_stream& scales,
                  line_stream& out) {
    vector_params_t params = {};
#pragma HLS array_partition variable = params.exponentials.e dim = 1 complete
#pragma HLS array_partition variable = params.table dim = 1 complete
    const auto begin = [&](const vector_job_t& job) {
        if (moves_words(job.c)) return false;
        begin_command(job);
        if (job.c.operation == VECTOR_SOFTMAX) load_exponentials(params_in, params.exponentials);
        if (job.c.operation == VECTOR_NORM) take_norm(params_in, job.p.blocks, params.norm);
        if (job.c.flags & VECTOR_TABLE) take_table(params_in, params);
        return true;
    };
    for_each_group(jobs, begin, [&](const vector_job_t& job, const rows_t& rows) {
        hls::read_lock<row_group_t> lock(in);
        const row_group_t& from = lock;
        apply_group(from, scales, params, job, rows, out);
    });
}

}  // namespace engine
