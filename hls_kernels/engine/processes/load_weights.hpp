// Reads the second operand and the parameters, set after set of tiles, while the array works with the set before.
//
// Packed weights of a set lie one behind the other and are one burst. A feature map as second operand (attention) comes from
// load_residual, which has the port to the maps. Its blocks of 16 x 16 are put into the order of weights here. Its column
// sums correct the offsets of the channels for the zero point of the first operand.
#pragma once
#include "../vector/move.hpp"

namespace engine {

constexpr int WEIGHT_LINES = CHANNELS / LINE_INPUTS;  // packed lines of 16 x 16 elements
constexpr int MAP_BEATS = WEIGHT_LINES * LINE_BEATS;  // and their beats
static_assert(MAP_LINES == WEIGHT_LINES, "blocks have as many lines either way");

typedef number<bits_for(WEIGHT_STEPS + 1)> weight_step_t;
typedef number<TILE_BITS> tile_t;
typedef number<bits_for(BLOCKS + 1)> block_t;
typedef number<5> weight_line_t;
// Which bank it is: one bit of as many, which moves on; nothing has to be compared.
typedef ap_uint<STEP_BEATS> bank_bits_t;
inline bank_bits_t next_bank(bank_bits_t at) {
#pragma HLS inline
    return STEP_BEATS == 1 ? at : bank_bits_t(at << 1 | at >> (STEP_BEATS - 1));
}

// A beat of weights to its bank.
inline void write_beat(weights_t& weights, const beat_t& beat, block_t block, weight_step_t step, bank_bits_t at) {
#pragma HLS inline
    const weight_beat_t packed = weight_beat(beat);
    for (int k = 0; k < BLOCKS; k++)
        for (int n = 0; n < STEP_BEATS; n++) {
#pragma HLS unroll
            if (k == block && at[n]) weights.part[k][n][step] = packed;
        }
}

// Packed weights: [tile][step][block][beat].
inline void load_packed(weight_port_t& port, const job_t& job, tile_t tiles, weights_t& weights) {
#pragma HLS inline
    typedef number<STEP_BITS> step_t;
    const step_t last_step = job.p.steps - 1;
    const tile_t last_tile = tiles - 1;
    const block_t last_block = tile_blocks_of(job) - 1;
    weight_step_t address = 0;
    step_t step = 0;
    tile_t tile = 0;
    block_t block = 0;
    bank_bits_t bank = 1;
    bool more = true;
    PIPELINED(packed_lines) while (more) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = STEP_BEATS max = (WEIGHT_STEPS * BLOCKS * STEP_BEATS)
        ITERATION(packed_lines);
        write_beat(weights, port.read(), block, address, bank);
        const bool beats_end = bank[STEP_BEATS - 1], blocks_end = beats_end && block == last_block;
        const bool steps_end = blocks_end && step == last_step;
        more = !(steps_end && tile == last_tile);
        bank = next_bank(bank);
        block = when<block_t>(blocks_end, 0, block + beats_end);
        address = address + blocks_end;
        step = when<step_t>(steps_end, 0, step + blocks_end);
        tile = tile + steps_end;
    }
}

// A step of diagonal weights: those of output channel o for input channel o, where that is one of the step's. Of int8 only the
// bank is variable that has both, and all of them are written at once.
inline void write_diagonal(weights_t& weights, const word_t& word, weight_step_t step, weight_line_t part) {
#pragma HLS inline
    for (int n = 0; n < STEP_BEATS; n++) {
#pragma HLS unroll
        beat_t beat = {};
        for (int e = 0; e < BEAT_CHANNELS * LINE_INPUTS; e++) {
#pragma HLS unroll
            const int o = n % LINE_BEATS * BEAT_CHANNELS + e / LINE_INPUTS;
            const int i = n / LINE_BEATS * LINE_INPUTS + e % LINE_INPUTS;
            if (o % IC == i && (PARTS == 1 || o / IC == part)) set_element(beat, e, word.lane[o]);
        }
        weights.part[0][n][step] = weight_beat(beat);
    }
}

// A word of weights for each tap; each becomes a diagonal. Of each tile the taps fill whole lines.
inline void load_diagonal(weight_port_t& port, const job_t& job, tile_t tiles, weights_t& weights) {
#pragma HLS inline
    typedef number<SMALL_BITS + 1> tap_t;
    const tap_t taps = job.p.taps, last_tap = ((taps + (BEAT - 1)) & ~(BEAT - 1)) - 1;
    const tile_t last_tile = tiles - 1;
    beat_t beat;
    tap_t tap = 0;
    tile_t tile = 0;
    weight_step_t address = 0;
    weight_line_t part = 0;
    number<3> j = 0;
    bool more = true;
    PIPELINED(diagonal_taps) while (more) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = (BEAT * PARTS) max = (WEIGHT_STEPS + SET_TILES * (BEAT - 1) * PARTS)
        ITERATION(diagonal_taps);
        if (j == 0 && part == 0) beat = port.read();
        const bool exists = tap < taps;
        if (exists) write_diagonal(weights, word_of(beat, static_cast<int>(j)), address, part);
        const bool parts_end = part == PARTS - 1, taps_end = parts_end && tap == last_tap;
        more = !(taps_end && tile == last_tile);
        address = address + exists;
        part = when<weight_line_t>(parts_end, 0, part + 1);
        j = when<number<3>>(parts_end && j == PORT_WORDS - 1, 0, j + parts_end);
        tap = when<tap_t>(taps_end, 0, tap + parts_end);
        tile = tile + taps_end;
    }
}

// What a maximum is multiplied with.
inline void load_ones(weights_t& weights) {
#pragma HLS inline
    word_t ones;
    for (int o = 0; o < CHANNELS; o++) ones.lane[o] = elements::one();
    PIPELINED(ones_steps) for (weight_line_t n = 0; n < PARTS; n++) {
#pragma HLS pipeline II = 1
        ITERATION(ones_steps);
        write_diagonal(weights, ones, n, n);
    }
}

// Sums of a map's columns times the first operand's zero point, which padding has too: what the offsets of 16 channels are
// corrected by, a beat at a time.
struct corrections_t {
    sum_t channel[BEAT_CHANNELS];
};
typedef corrections_t correction_memory[BLOCKS][SET_TILES][LINE_BEATS];
// The same of a block of 16 x 16: 16 products of 16 bits.
#if ENGINE_ELEMENT == 0
typedef number<20> block_sum_t;
#else
typedef sum_t block_sum_t;
#endif

// What a beat of weights adds to that of its channel `o`, and an offset that is corrected.
inline sum_t correction_of(const beat_t& beat, int o, const mac_command& c) {
#pragma HLS inline
#if ENGINE_ELEMENT == 0
    number<LINE_INPUTS * 3> sum = 0;
    for (int r = 0; r < LINE_INPUTS; r++) sum += element_of(beat, o * LINE_INPUTS + r);
    return static_cast<sum_t>(sum * ap_int<8>(c.pad));
#else
    (void)beat, (void)o, (void)c;
    return 0;
#endif
}
inline sum_t corrected_sum(sum_t offset, sum_t correction) {
#pragma HLS inline
#if ENGINE_ELEMENT == 0
    return static_cast<sum_t>(static_cast<uint32_t>(offset) - static_cast<uint32_t>(correction));
#else
    (void)correction;
    return offset;
#endif
}

// 16 x 16 elements of a map become beats of weights of a block of the tile. Its pixels wait in a queue of 16. K: they are output
// channels, so a beat has elements of the first ones of the queue, which go to its end, and there wait for their next turn. V:
// channels are output channels, so a line has all that its beats are made of, and they take it from the end of the queue.
// \tparam TRANSPOSED Whether the channels of the map are output channels (V of attention), not its pixels (K).
template <bool TRANSPOSED>
void load_map_block(short_stream& in, const mac_command& c, block_t block, tile_t tile, weight_step_t step, bool begins,
                    weights_t& weights, correction_memory& corrections) {
#pragma HLS inline
    constexpr int AHEAD_LINES = TRANSPOSED ? 0 : MAP_LINES, TAKEN = TRANSPOSED ? BEAT_CHANNELS : LINE_INPUTS;
    word_t queue[CHANNELS];
#pragma HLS array_partition variable = queue complete
    block_sum_t sums[CHANNELS];
#pragma HLS array_partition variable = sums complete
    weight_step_t address = step;
    bank_bits_t bank = 1;
    weight_line_t line = 0, beat_of_line = 0, lines_ahead = AHEAD_LINES;
    bool more = true;
    PIPELINED(map_beats) while (more) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = (AHEAD_LINES + MAP_BEATS) max = (AHEAD_LINES + MAP_BEATS)
#pragma HLS dependence variable = corrections type = inter false
        ITERATION(map_beats);
        const bool fills = !TRANSPOSED && lines_ahead != 0, line_begins = TRANSPOSED && beat_of_line == 0;
        if (fills || line_begins) {
            const line_t next = in.read();
            for (int j = 0; j < CHANNELS; j++) {
#pragma HLS unroll
                queue[j] = j + BEAT < CHANNELS ? queue[(j + BEAT) % CHANNELS] : word_of(next, (j + BEAT) % CHANNELS);
            }
        }
        beat_t beat = {};
        for (int o = 0; o < BEAT_CHANNELS; o++)
            for (int r = 0; r < LINE_INPUTS; r++) {
#pragma HLS unroll
                set_element(beat, o * LINE_INPUTS + r,
                            TRANSPOSED ? queue[CHANNELS - BEAT + r].lane[o] : queue[o].lane[r]);
            }
        const bool beats_end = beat_of_line == LINE_BEATS - 1, last_line = line == WEIGHT_LINES - 1;
        if (!fills) {
            write_beat(weights, beat, block, address, bank);
            block_sum_t now[BEAT_CHANNELS];
#pragma HLS array_partition variable = now complete
            for (int o = 0; o < BEAT_CHANNELS; o++) {
#pragma HLS unroll
                const block_sum_t before = line == 0 ? block_sum_t(0) : sums[o];
                // Floats have no zero points, and compilers keep the addition of a float 0.
                const block_sum_t sum = before + block_sum_t(correction_of(beat, o, c));
                now[o] = ELEMENT == ELEMENT_INT8 ? sum : block_sum_t(0);
            }
            for (int j = 0; j < CHANNELS; j++) {
#pragma HLS unroll
                sums[j] = j + BEAT_CHANNELS < CHANNELS ? sums[(j + BEAT_CHANNELS) % CHANNELS]
                                                       : now[(j + BEAT_CHANNELS) % BEAT_CHANNELS];
            }
            word_t turned[CHANNELS];
#pragma HLS array_partition variable = turned complete
            for (int j = 0; j < CHANNELS; j++) {
#pragma HLS unroll
                for (int i = 0; i < CHANNELS; i++) turned[j].lane[i] = queue[j].lane[(i + TAKEN) % CHANNELS];
            }
            for (int j = 0; j < CHANNELS; j++) {
#pragma HLS unroll
                if (TRANSPOSED)
                    queue[j] = turned[j];
                else
                    queue[j] = j + BEAT_CHANNELS < CHANNELS ? queue[(j + BEAT_CHANNELS) % CHANNELS]
                                                            : turned[(j + BEAT_CHANNELS) % CHANNELS];
            }
            if (last_line) {
                const corrections_t old = corrections[block][tile][beat_of_line];
                corrections_t all;
                for (int o = 0; o < BEAT_CHANNELS; o++) {
#pragma HLS unroll
                    const sum_t earlier = begins ? sum_t(0) : old.channel[o];
                    all.channel[o] = ELEMENT == ELEMENT_INT8 ? add_sums(earlier, static_cast<sum_t>(now[o])) : sum_t(0);
                }
                corrections[block][tile][beat_of_line] = all;
            }
        }
        more = fills || !(last_line && beats_end);
        const bool banks_end = !fills && bank[STEP_BEATS - 1];
        bank = fills ? bank : next_bank(bank);
        address = address + banks_end;
        line = line + (!fills && beats_end);
        beat_of_line = when<weight_line_t>(beats_end, 0, beat_of_line + !fills);
        lines_ahead = lines_ahead - fills;
    }
}

// Of blocks of 16 x 16 elements. K: [depth][tile][block]. V: [tile][block][depth].
inline void load_map(short_stream& in, const job_t& job, const number<BLOCK_BITS>& set, tile_t tiles,
                     weights_t& weights, correction_memory& corrections) {
#pragma HLS inline
    typedef number<BLOCK_BITS> depth_t;
    const mac_command& c = job.c;
    const bool transposed = c.weight_kind == WEIGHT_TRANSPOSED;
    const depth_t last_depth = c.tile_depth - 1;
    const tile_t last_tile = tiles - 1;
    const block_t last_block = tile_blocks_of(job) - 1;
    const bool last_set = set + 1 == job.p.sets;
    const block_t blocks_of_last = last_set ? block_t(blocks_of_last_tile(job) - 1) : last_block;
    const weight_step_t tile_steps = job.p.steps;
    weight_step_t tile_begin = 0, depth_begin = 0;
    depth_t depth = 0;
    tile_t tile = 0;
    block_t block = 0;
    bool more = true;
map_blocks:
    while (more) {
#pragma HLS loop_tripcount min = 1 max = (MOST_DEPTH * BLOCKS)
        CYCLES(map_block);
        const weight_step_t step = tile_begin + depth_begin;
        if (transposed)
            load_map_block<true>(in, c, block, tile, step, depth == 0, weights, corrections);
        else
            load_map_block<false>(in, c, block, tile, step, depth == 0, weights, corrections);
        const bool depth_ends = depth == last_depth;
        const bool block_ends = (!transposed || depth_ends) &&
                                block == when<block_t>(tile == last_tile, blocks_of_last, last_block);
        const bool tile_ends = block_ends && tile == last_tile;
        more = !(tile_ends && depth_ends);
        const bool depth_moves = transposed || tile_ends, depth_returns = depth_moves && depth_ends;
        depth = when<depth_t>(depth_returns, 0, depth + depth_moves);
        depth_begin = when<weight_step_t>(depth_returns, 0, depth_begin + (depth_moves ? PARTS : 0));
        block = when<block_t>(block_ends, 0, block + (!transposed || depth_ends));
        tile = when<tile_t>(tile_ends, 0, tile + block_ends);
        tile_begin = when<weight_step_t>(tile_ends, 0, tile_begin + when<weight_step_t>(block_ends, tile_steps, 0));
    }
}

// Offset, scale and bias of the blocks of a set.
inline void load_params(weight_port_t& port, const job_t& job, set_blocks_t blocks,
                        const correction_memory& corrections, params_t& params) {
#pragma HLS inline
    typedef number<bits_for(SET_BLOCKS + 1)> set_block_t;
    const bool corrected = second_operand_is_map(job.c);
    const block_t last_block = tile_blocks_of(job) - 1;
    const set_block_t last = blocks - 1;
    tile_t tile = 0;
    block_t block = 0;
    set_block_t at = 0;
    number<3> i = 0, beat = 0;
    line_t line = {};
    bool more = true;
    PIPELINED(params_lines) while (more) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = (PARAMS_LINES * LINE_BEATS) max = (SET_BLOCKS * PARAMS_LINES * LINE_BEATS)
        ITERATION(params_lines);
        beat_t plain = port.read();
        const corrections_t correction = corrections[block][tile][beat];
        for (int o = 0; o < BEAT_CHANNELS; o++) {
#pragma HLS unroll
            const sum_t offset = sum_of_bits(bits32_of(plain, o));
            if (corrected && i == 0) set_bits32(plain, o, bits_of_sum(corrected_sum(offset, correction.channel[o])));
        }
        add_beat(line, plain);
        offsets_t offset;
        factors_t factors;
        for (int o = 0; o < CHANNELS; o++) {
#pragma HLS unroll
            offset.of[o] = sum_of_bits(bits32_of(line, o));
            factors.of[o] = factor_of_bits(bits32_of(line, o));
        }
        const bool line_ends = beat == LINE_BEATS - 1;
        if (line_ends && i == 0) params.offset[at] = offset;
        if (line_ends && i == 1) params.scale[at] = factors;
        if (line_ends && i == 2) params.bias[at] = factors;
        const bool ends = line_ends && i == PARAMS_LINES - 1, tile_ends = ends && block == last_block;
        more = !(ends && at == last);
        beat = when<number<3>>(line_ends, 0, beat + 1);
        i = when<number<3>>(ends, 0, i + line_ends);
        block = when<block_t>(tile_ends, 0, block + ends);
        tile = tile + tile_ends;
        at = at + ends;
    }
}

// The table goes to the epilogue, a command's own ahead of its first set. A function has more lines than the stream holds: it
// comes behind the first set, so that this is not held up by the command before, and stays for as long as it is the same.
inline void load_table(weight_port_t& port, table_stream& table) {
#pragma HLS inline
    line_t line = {};
    PIPELINED(table_lines)
    for (number<bits_for(TABLE_LINES * LINE_BEATS + 1)> n = 0; n < TABLE_LINES * LINE_BEATS; n++) {
#pragma HLS pipeline II = 1
        ITERATION(table_lines);
        add_beat(line, port.read());
        if (n % LINE_BEATS == LINE_BEATS - 1) table.write(line);
    }
}

// Where a set lies in memory, set after set.
struct set_walk {
    number<BLOCK_BITS> set = 0;
    uint32_t weights = 0, params = 0;  // lines

    // Asks for the packed weights and the params of the set.
    void ask(weight_port_t& port, const job_t& job) const {
#pragma HLS inline
        const mac_command& c = job.c;
        const int32_t lines = set + 1 == job.p.sets ? job.p.last_weights : job.p.set_weights;
        const set_blocks_t blocks = blocks_of_set(job, set);
        const number<bits_for(SET_BLOCKS + 1) + 5> beats = blocks * (PARAMS_LINES * LINE_BEATS);
        if (lines != 0) port.read_request((c.weight + weights) * LINE_BEATS, lines * LINE_BEATS);
        port.read_request((c.params + params) * LINE_BEATS, static_cast<int32_t>(beats));
    }
    void next(const job_t& job) {
#pragma HLS inline
        const bool last = set + 1 == job.p.sets;
        const set_blocks_t blocks = blocks_of_set(job, set);
        const uint32_t lines = static_cast<uint32_t>(blocks * PARAMS_LINES);
        weights = last ? 0 : weights + job.p.set_weights;
        params = last ? 0 : params + lines;
        set = when<number<BLOCK_BITS>>(last, 0, set + 1);
    }
};

inline void load_weights(job_stream<weight_fields>& jobs, uint32_t count, weight_port_t port, short_stream& map,
                         weight_blocks& weights, params_blocks& params, table_stream& table, vector_side& vector) {
    correction_memory corrections;
#pragma HLS array_partition variable = corrections dim = 1 complete
    uint32_t held = NO_OPERAND;  // the function that the epilogue has
weight_commands:
    for (command_index_t i = 0; i < commands_of(count); i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        const job_t job = jobs.read();
        sim::command(i);
        if (job.vector) load_vector_params(vector, port);
        if (!job.runs) continue;
        const mac_command& c = job.c;
        number<BLOCK_BITS> set = 0;
        set_walk ask;  // the next to be asked for
        CYCLES(weight_command);
        bool function = FUNCTIONS && reads_table(c, held);
        if (!FUNCTIONS && has_table(c))
            port.read_request((c.params + c.out_blocks * PARAMS_LINES) * LINE_BEATS, TABLE_LINES * LINE_BEATS);
        ask.ask(port, job);
        if (function) port.read_request(c.table * LINE_BEATS, TABLE_LINES * LINE_BEATS);
        if (!FUNCTIONS && has_table(c)) load_table(port, table);
        if (function) held = c.table;
        number<SMALL_BITS> head = 0;
        number<LOAD_BITS> load = 0;
        bool more = true;
    weight_sets:
        while (more) {
#pragma HLS loop_tripcount min = 1 max = MOST_LOADS
            const bool head_ends = load + 1 == job.p.set_loads;
            more = !(head_ends && head + 1 == job.p.heads);
            load = when<number<LOAD_BITS>>(head_ends, 0, load + 1);
            head = head + head_ends;
            const tile_t tiles = tiles_of_set(job, set);
            const set_blocks_t blocks = blocks_of_set(job, set);
            ask.next(job);
            CYCLES(weight_set);
            // The next set is asked for before this one is read, and comes while the array still uses both memories.
            if (more) ask.ask(port, job);
            {
                hls::write_lock<weights_t> lock(weights);
                weights_t& memory = lock;
#pragma HLS array_partition variable = memory.part dim = 1 complete
#pragma HLS array_partition variable = memory.part dim = 2 complete
                if (!has_weights(c))
                    load_ones(memory);
                else if (second_operand_is_map(c))
                    load_map(map, job, set, tiles, memory, corrections);
                else if (c.weight_kind == WEIGHT_DIAGONAL)
                    load_diagonal(port, job, tiles, memory);
                else
                    load_packed(port, job, tiles, memory);
            }
            {
                hls::write_lock<params_t> lock(params);
                params_t& memory = lock;
                load_params(port, job, blocks, corrections, memory);
            }
            if (function) load_table(port, table);
            function = false;
            const bool sets_end = set + 1 == job.p.sets;
            set = when<number<BLOCK_BITS>>(sets_end, 0, set + 1);
        }
    }
}

}  // namespace engine
