// Second sweep: softmax's exponentials and their sums. Of the other operations it passes rows and sums on.
#pragma once
#include "streams.hpp"

namespace engine {

struct exponentials_t {
    uint32_t e[256];
};

inline void load_exponentials(const line_t& line, int32_t n, exponentials_t& to) {
#pragma HLS inline
    for (int k = 0; k < CHANNELS; k++) {
#pragma HLS unroll
        to.e[(n % EXPONENT_LINES) * CHANNELS + k] = bits32_of(line, k);
    }
}

// Keeps the exponentials, and passes all on.
inline void pass_params(line_stream& in, const vector_job_t& job, exponentials_t& exponentials, line_stream& out) {
    const int32_t lines = job.p.params_lines + (job.c.flags & VECTOR_TABLE ? TABLE_LINES : 0);
    PIPELINED(pass_params_lines) for (int32_t n = 0; n < lines; n++) {
#pragma HLS pipeline II = 1
        ITERATION(pass_params_lines);
        const line_t line = in.read();
        if (job.c.operation == VECTOR_SOFTMAX && n < EXPONENT_LINES) load_exponentials(line, n, exponentials);
        out.write(line);
    }
}

// Each lane looks up a copy of the exponentials of its own.
inline void weigh_group(const row_group_t& from, slot_sums_stream& sums, const exponentials_t& exponentials,
                        const vector_job_t& job, const rows_t& rows, row_group_t& to, slot_sums_stream& out) {
    const vector_command& c = job.c;
    const bool softmax = c.operation == VECTOR_SOFTMAX, summed = reduces(c);
    slot_sums_t greatest[VECTOR_SLOTS];
    uint64_t partial[VECTOR_WORDS][VECTOR_SLOTS];
#pragma HLS array_partition variable = partial dim = 1 complete
#pragma HLS dependence variable = partial inter distance = 8 true
    group_walk at;
    PIPELINED(weigh_words) for (int32_t n = 0; n < job.p.blocks * rows.walked; n++) {
#pragma HLS pipeline II = 1
        ITERATION(weigh_words);
        const bool real = at.slot < rows.slots;
        slot_sums_t v;
        if (summed && real) {
            if (at.block == 0)
                greatest[at.slot] = v = sums.read();
            else
                v = greatest[at.slot];
        }
        for (int w = 0; w < VECTOR_WORDS; w++) {
#pragma HLS unroll
            word_t x = real ? from.x[w][at.address] : word_t();
            const word_t other = real ? from.other[w][at.address] : word_t();
            if (softmax && real) {
                uint64_t sum = 0;
                for (int k = 0; k < CHANNELS; k++) {
#pragma HLS unroll
                    const uint8_t d = distance(v.row[w].greatest, x.lane[k]);
                    if (k < at.channels(c) && other.lane[k] == 0) sum += exponentials.e[d];
                    x.lane[k] = static_cast<int8_t>(d);
                }
                partial[w][at.slot] = (at.block == 0 ? 0 : partial[w][at.slot]) + sum;
                v.row[w].squares = partial[w][at.slot];
            }
            if (real) {
                to.x[w][at.address] = x;
                to.other[w][at.address] = other;
            }
        }
        // A softmax has its sums with the last block, a norm had them with the first.
        if (summed && real && at.block + 1 == (softmax ? job.p.blocks : 1)) out.write(v);
        at.advance(rows, rows.walked);
    }
}

inline void weigh(vector_jobs_t& jobs, line_stream& params, row_group_blocks& in, slot_sums_stream& sums,
                  row_group_blocks& out, slot_sums_stream& sums_out, line_stream& params_out) {
    exponentials_t exponentials;
#pragma HLS array_partition variable = exponentials.e cyclic factor = 16
weigh_commands:
    for (vector_job_t job = jobs.read(); job.position >= 0; job = jobs.read()) {
        sim::command(job.position);
        pass_params(params, job, exponentials, params_out);
        for (int32_t head = 0; head < job.p.heads; head++)
        weigh_groups:
            for (int32_t group = 0; group < job.p.groups; group++) {
                const rows_t rows = rows_of(job, group);
                CYCLES(vector_group);
                hls::read_lock<row_group_t> from_lock(in);
                const row_group_t& from = from_lock;
                hls::write_lock<row_group_t> to_lock(out);
                row_group_t& to = to_lock;
                weigh_group(from, sums, exponentials, job, rows, to, sums_out);
            }
    }
}

}  // namespace engine
