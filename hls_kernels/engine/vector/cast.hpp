// Float32 as int8 and back, four channels a cycle, past the lanes and memories of the other operations.
#pragma once
#include "cast_numbers.hpp"
#include "streams.hpp"

namespace engine {

#if ENGINE_HAS_CASTS

// What each int8 stands for, by its bits: two lanes share a copy.
struct real_table_t {
    float of[CAST_LANES / 2][256];
};
inline void fill_reals(const vector_command& c, real_table_t& table) {
    PIPELINED(cast_entries) for (number<9> n = 0; n < 256; n++) {
#pragma HLS pipeline II = 1
        ITERATION(cast_entries);
        const float entry = dequantized(ap_int<8>(n), c);
        for (int k = 0; k < CAST_LANES / 2; k++) {
#pragma HLS unroll
            table.of[k][n] = entry;
        }
    }
}

// The words of a head, which are whole lines.
inline void cast_block(line_stream& in, const vector_job_t& job, const real_table_t& table, short_stream& out) {
    typedef number<GATHER_BITS + 2> steps_t;
    const vector_command& c = job.c;
    const bool quantizing = quantizes(c);
    const steps_t lines = quantizing ? job.p.taken_lines[0] : job.p.plane;
    const steps_t steps = lines << LINE_SHIFT;  // words of float32
    ap_uint<4> step = 0;                        // of a line of int8
    line_t line = {}, input_line = {};
    word_t packed = {};
    PIPELINED(cast_words) for (steps_t n = 0; n < steps; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = BEAT max = (WORD_CASTS << GATHER_BITS)
        ITERATION(cast_words);
        const int turn = static_cast<int>(step) & (BEAT - 1), quarter = static_cast<int>(step >> 2);
        const bool begins = quantizing ? turn == 0 : step == 0;
        if (begins) input_line = in.read();
        const word_t x = word_of(input_line, quantizing ? turn : quarter);
        word_t reals = {};
        for (int l = 0; l < CHANNELS - CAST_LANES; l++) {
#pragma HLS unroll
            packed.lane[l] = packed.lane[l + CAST_LANES];
        }
        for (int l = 0; l < CAST_LANES; l++) {
#pragma HLS unroll
            element_t whole = x.lane[l];
            uint32_t bits = 0;
            for (int q = 0; q < WORD_CASTS; q++) {
#pragma HLS unroll
                if (q == turn) whole = x.lane[q * CAST_LANES + l];
                bits |= static_cast<uint32_t>(static_cast<uint8_t>(x.lane[4 * l + q])) << 8 * q;
            }
            packed.lane[CHANNELS - CAST_LANES + l] = quantized(float_of_bits(bits), c);
            const uint32_t real_bits = bits_of(table.of[l / 2][static_cast<uint8_t>(whole)]);
            for (int b = 0; b < 4; b++) {
#pragma HLS unroll
                reals.lane[4 * l + b] = static_cast<element_t>(real_bits >> 8 * b);
            }
        }
        if (!quantizing || turn == BEAT - 1) add_word(line, quantizing ? packed : reals);
        if (quantizing ? step == ap_uint<4>(15) : turn == BEAT - 1) out.write(line);
        step = step + 1;
    }
}

// The heads of a command.
inline void cast_blocks(line_stream& in, const vector_job_t& job, short_stream& out) {
    real_table_t table = {};
#pragma HLS array_partition variable = table.of dim = 1 complete
    if (!quantizes(job.c)) fill_reals(job.c, table);
cast_heads:
    for (number<SMALL_BITS> head = 0; head < job.p.heads; head++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        CYCLES(vector_group);
        cast_block(in, job, table, out);
    }
}

#endif

}  // namespace engine
