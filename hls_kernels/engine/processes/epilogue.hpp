// Sums to lines of the output, WORDS * 16 of them a cycle: residual and partial sums in, the arithmetic of ../epilogue.hpp,
// words to lines. One loop, so that one walk says for all of them which words are pixels.
#pragma once
#include "../epilogue.hpp"
#include "packer.hpp"
#include "unpacker.hpp"

namespace engine {

// Two lanes share a copy of the table, which has two ports to read; of int8 one set of copies for the middle and one for the end.
constexpr int TABLE_COPIES = WORDS * CHANNELS / 2;

#if ENGINE_ELEMENT == 0
// Entry x of an integer of 8 bits lies where these lead without a sign: -128, the first in memory, to 128.
struct table_copies_t {
    element_t middle[TABLE_COPIES][TABLE_ENTRIES];
    element_t last[TABLE_COPIES][TABLE_ENTRIES];
};
struct lane_table {
    const element_t* entry;
    element_t operator()(int32_t x) const {
#pragma HLS inline
        return entry[ap_uint<8>(x)];
    }
};

inline void copy_table(table_stream& in, table_copies_t& tables) {
    line_t line;
    PIPELINED(copy_table_entries) for (number<9> n = 0; n < TABLE_ENTRIES; n++) {
#pragma HLS pipeline II = 1
        ITERATION(copy_table_entries);
        if ((n & (LINE_BYTES - 1)) == 0) line = in.read();
        const element_t entry = static_cast<element_t>(line.byte[0]);
        const ap_uint<8> at = n ^ (TABLE_ENTRIES / 2);
        for (int b = 0; b + 1 < LINE_BYTES; b++) {
#pragma HLS unroll
            line.byte[b] = line.byte[b + 1];
        }
        for (int k = 0; k < TABLE_COPIES; k++) {
#pragma HLS unroll
            tables.middle[k][at] = entry;
            tables.last[k][at] = entry;
        }
    }
}
inline lane_table middle_table(const table_copies_t& tables, int lane) { return {tables.middle[lane / 2]}; }
inline lane_table last_table(const table_copies_t& tables, int lane) { return {tables.last[lane / 2]}; }
#elif ENGINE_FUNCTIONS
// Four entries to a word, so that a copy is two block RAMs, each of which has ports for two lanes, and fills four times as fast.
constexpr int ENTRIES_A_WORD = 4;
struct entries_t {
    element_t of[ENTRIES_A_WORD];
};
struct table_copies_t {
    tails_t tails;
    entries_t last[TABLE_COPIES][FUNCTION_ENTRIES / ENTRIES_A_WORD];
};
struct lane_table {
    const tails_t& tails;
    const entries_t* entry;
    element_t operator()(element_t x) const {
#pragma HLS inline
        return function_of(x, tails, [&](int at) {
            const entries_t entries = entry[at / ENTRIES_A_WORD];
            return entries.of[at % ENTRIES_A_WORD];
        });
    }
};

inline void copy_table(table_stream& in, table_copies_t& tables) {
    tables.tails = tails_of(in.read());
    constexpr int BYTES = ENTRIES_A_WORD * ELEMENT_BYTES, WORDS_A_LINE = LINE_BYTES / BYTES;
    line_t line;
    PIPELINED(copy_function_entries) for (number<11> n = 0; n < FUNCTION_ENTRIES / ENTRIES_A_WORD; n++) {
#pragma HLS pipeline II = 1
        ITERATION(copy_function_entries);
        if ((n & (WORDS_A_LINE - 1)) == 0) line = in.read();
        entries_t entries;
        for (int e = 0; e < ENTRIES_A_WORD; e++) {
#pragma HLS unroll
            entries.of[e] = element_of(line, e);
        }
        for (int b = 0; b + BYTES < LINE_BYTES; b++) {
#pragma HLS unroll
            line.byte[b] = line.byte[b + BYTES];
        }
        for (int k = 0; k < TABLE_COPIES; k++) {
#pragma HLS unroll
            tables.last[k][n] = entries;
        }
    }
}
inline lane_table last_table(const table_copies_t& tables, int lane) { return {tables.tails, tables.last[lane / 2]}; }
inline lane_table middle_table(const table_copies_t& tables, int lane) { return last_table(tables, lane); }
#else
struct table_copies_t {};
struct lane_table {};
inline void copy_table(table_stream&, table_copies_t&) {}
inline lane_table middle_table(const table_copies_t&, int) { return {}; }
inline lane_table last_table(const table_copies_t&, int) { return {}; }
#endif

// What is added to all sums of a pixel, for the zero point of a map as second operand: by the sum of its activations, of as
// many products as a set has steps.
inline sum_t added_to_pixel(const mac_command& c, const sums_t& sums, int lane) {
#pragma HLS inline
#if ENGINE_ELEMENT == 0 && ENGINE_ROW_SUMS
    constexpr int BITS = bits_for(WEIGHT_STEPS) + 12;
    if (second_operand_is_map(c))
        return static_cast<sum_t>(ap_int<9>(-c.weight_zero) * static_cast<ap_int<BITS>>(sums.row[lane]));
#else
    (void)c, (void)sums, (void)lane;
#endif
    return 0;
}

inline void epilogue_pass(sums_stream& in, line_stream residual[BLOCKS], short_stream sums_in[BLOCKS],
                          const params_t& params, const table_copies_t& tables, const job_t& job, const pass_t& at,
                          line_stream out[BLOCKS]) {
    const mac_command& c = job.c;
    out_walk walk(job, at);
    // Words of the line in which the band begins that belong to the band before.
    const int32_t skip = at.band % BEAT * (c.band_rows % BEAT) * (c.out_width % BEAT) % BEAT;
    unpacker unpack(skip);
    packer pack(skip);
    sums_t sums;
#pragma HLS array_partition variable = sums.v complete dim = 0
#if ENGINE_ROW_SUMS
#pragma HLS array_partition variable = sums.row complete dim = 0
#endif
    const pass_places_t iterations = walk.iterations(blocks_of_set(job, at.set));
    PIPELINED(epilogue_words) for (pass_places_t n = 0; n < iterations; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (SET_BLOCKS * (MOST_BAND_PIXELS + 2))
        ITERATION(epilogue_words);
        const place_t place = walk.here();
        walk.advance();
        if (place.group_begins) sums = in.read();
        word_t other[WORDS] = {};
        if (has_residual(c)) unpack.next(residual, place, other);
        line_t partial = {}, line = {};
        if (has_sums(c) && place.valid[0]) partial = read_block(sums_in, place.block);
        const offsets_t offset = params.offset[place.params];
        const factors_t scale = params.scale[place.params], bias = params.bias[place.params];
        word_t words[WORDS];
        for (int e = 0; e < WORDS; e++) {
#pragma HLS unroll
            const int lane = place.lane + e < P ? place.lane + e : 0;
            const sum_t of_pixel = added_to_pixel(c, sums, lane);
            const bool goes_on = e == 0 && has_sums(c);  // with a pixel an iteration; the offset is in the sums
            for (int o = 0; o < CHANNELS; o++) {
#pragma HLS unroll
                const sum_t products = sums.v[lane][place.block * CHANNELS + o];
                const sum_t constant = ELEMENT == ELEMENT_INT8 ? offset.of[o] : sum_t(0);
                const sum_t begin = goes_on ? sum_of_bits(bits32_of(partial, o)) : constant;
                const sum_t own = ELEMENT == ELEMENT_INT8 || PARTIAL_SUMS ? add_sums(products, begin) : products;
                const sum_t sum = ROW_SUMS ? add_sums(own, of_pixel) : own;
                const lane_table middle = middle_table(tables, e * CHANNELS + o);
                const lane_table last = last_table(tables, e * CHANNELS + o);
                const epilogue_result_t y = finish(sum, scale.of[o], bias.of[o], other[e].lane[o], c, middle, last);
                words[e].lane[o] = y.element;
                if (e == 0) set_bits32(line, o, y.bits);
            }
        }
        line_t packed;
        const bool leaves = pack.next(place, words, packed);
        const bool wide = stores_32_bits(c);
        if (wide ? place.valid[0] : leaves) write_block(out, place.block, wide ? line : packed);
    }
}

inline void epilogue(job_stream<epilogue_fields>& jobs, uint32_t count, sums_stream& in, params_blocks& params,
                     table_stream& table, line_stream residual[BLOCKS], short_stream sums_in[BLOCKS],
                     line_stream out[BLOCKS]) {
    table_copies_t tables;
#if ENGINE_ELEMENT == 0
#pragma HLS array_partition variable = tables.middle dim = 1 complete
#pragma HLS array_partition variable = tables.last dim = 1 complete
#if ENGINE_LANES == 16
// The tables of so few lanes take few block RAMs; LUTs are what a small card has least of.
#pragma HLS bind_storage variable = tables.middle type = ram_t2p impl = bram
#pragma HLS bind_storage variable = tables.last type = ram_t2p impl = bram
#endif
#elif ENGINE_FUNCTIONS
#pragma HLS array_partition variable = tables.last dim = 1 complete
#pragma HLS bind_storage variable = tables.last type = ram_t2p impl = bram
#pragma HLS array_partition variable = tables.tails.of complete
#pragma HLS array_partition variable = tables.tails.infinite complete
#endif
    uint32_t held = NO_OPERAND;
epilogue_commands:
    for (command_index_t i = 0; i < commands_of(count); i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        const job_t job = jobs.read();
        if (!job.runs) continue;
        sim::command(i);
        if (reads_table(job.c, held)) {
            copy_table(table, tables);
            if (FUNCTIONS) held = job.c.table;
        }
        for (int32_t head = 0; head < job.p.heads; head++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
            pass_t at = {0, 0, 0};
        epilogue_sets:
            for (int32_t load = 0; load < job.p.set_loads; load++) {
#pragma HLS loop_tripcount min = 1 max = MOST_LOADS
                hls::read_lock<params_t> lock(params);
                const params_t& memory = lock;
            epilogue_passes:
                for (int32_t pass = 0; pass < job.p.set_passes; pass++) {
#pragma HLS loop_tripcount min = 1 max = MOST_LOADS
                    CYCLES(epilogue_pass);
                    epilogue_pass(in, residual, sums_in, memory, tables, job, at, out);
                    next_pass(at, job);
                }
            }
        }
    }
}

}  // namespace engine
