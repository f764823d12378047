// Reads the second operand and the parameters, set after set of tiles, while the array works with the set before.
//
// Packed weights of a set lie one behind the other and are one burst. A map as second operand (attention) comes from
// load_residual, which has the port to the maps; its blocks of 16 x 16 are put into the order of weights here, and its
// column sums are taken, by which the offsets of the channels are corrected for the zero point of the first operand.
#pragma once
#include "../vector/move.hpp"

namespace engine {

constexpr int MAP_LINES = CHANNELS * CHANNELS / LINE_ELEMENTS;  // of 16 x 16 elements of a map
constexpr int LINE_INPUTS = 4 / ELEMENT_BYTES;                  // input channels whose weights lie in a packed line
constexpr int WEIGHT_LINES = CHANNELS / LINE_INPUTS;            // packed lines of 16 x 16 elements
static_assert(MAP_LINES == WEIGHT_LINES, "blocks have as many lines either way");
constexpr int MAP_READS = MAP_LINES - 1;  // lines of a map that are read before the first packed line can be made

typedef number<bits_for(WEIGHT_STEPS + 1)> weight_step_t;
typedef number<TILE_BITS> tile_t;
typedef number<bits_for(BLOCKS + 1)> block_t;
typedef number<5> weight_line_t;

// A line of weights of a step, or a beat of it, of a block of the tile; each goes to banks of its own.
inline void write_line(weights_t& weights, const line_t& line, block_t block, weight_step_t step, weight_line_t at) {
#pragma HLS inline
    for (int k = 0; k < BLOCKS; k++)
        for (int n = 0; n < STEP_BEATS; n++) {
#pragma HLS unroll
            beat_t part;
            for (int b = 0; b < PORT_BYTES; b++) part.byte[b] = line.byte[n % LINE_BEATS * PORT_BYTES + b];
            if (k == block && n / LINE_BEATS == at) weights.part[k][n][step] = part;
        }
}

// Packed weights: [tile][step][block][beat].
inline void load_packed(weight_port_t& port, const job_t& job, tile_t tiles, weights_t& weights) {
#pragma HLS inline
    typedef number<STEP_BITS> step_t;
    const step_t last_step = job.p.steps - 1;
    const tile_t last_tile = tiles - 1;
    const block_t last_block = job.c.tile_blocks - 1;
    weight_step_t address = 0;
    step_t step = 0;
    tile_t tile = 0;
    block_t block = 0;
    weight_line_t n = 0;
    bool more = true;
    PIPELINED(packed_lines) while (more) {
#pragma HLS pipeline II = 1
        ITERATION(packed_lines);
        const beat_t beat = port.read();
        for (int k = 0; k < BLOCKS; k++)
            for (int m = 0; m < STEP_BEATS; m++) {
#pragma HLS unroll
                if (k == block && m == n) weights.part[k][m][address] = beat;
            }
        const bool beats_end = n == STEP_BEATS - 1, blocks_end = beats_end && block == last_block;
        const bool steps_end = blocks_end && step == last_step;
        more = !(steps_end && tile == last_tile);
        n = when<weight_line_t>(beats_end, 0, n + 1);
        block = when<block_t>(blocks_end, 0, block + beats_end);
        address = address + blocks_end;
        step = when<step_t>(steps_end, 0, step + blocks_end);
        tile = tile + steps_end;
    }
}

// A line of diagonal weights: those of output channel o for input channel o, where that is one of the line's.
inline line_t diagonal_line(const word_t& word, weight_line_t at) {
#pragma HLS inline
    line_t line = {};
    for (int o = 0; o < CHANNELS; o++) {
#pragma HLS unroll
        if (o / LINE_INPUTS == at) set_element(line, o * LINE_INPUTS + o % LINE_INPUTS, word.lane[o]);
    }
    return line;
}

// A word of weights for each tap; each becomes a diagonal. Of each tile the taps fill whole lines.
inline void load_diagonal(weight_port_t& port, const job_t& job, tile_t tiles, weights_t& weights) {
#pragma HLS inline
    typedef number<SMALL_BITS + 1> tap_t;
    const tap_t taps = job.p.taps, last_tap = divide_up(job.p.taps, BEAT) * BEAT - 1;
    const tile_t last_tile = tiles - 1;
    beat_t beat;
    tap_t tap = 0;
    tile_t tile = 0;
    weight_step_t address = 0;
    weight_line_t n = 0;
    number<3> j = 0;
    bool more = true;
    PIPELINED(diagonal_taps) while (more) {
#pragma HLS pipeline II = 1
        ITERATION(diagonal_taps);
        if (j == 0 && n == 0) beat = port.read();
        const bool exists = tap < taps, part_ends = n % STEP_LINES == STEP_LINES - 1;
        if (exists)
            write_line(weights, diagonal_line(word_of(beat, static_cast<int>(j)), n), 0, address, n % STEP_LINES);
        const bool lines_end = n == WEIGHT_LINES - 1, taps_end = lines_end && tap == last_tap;
        more = !(taps_end && tile == last_tile);
        address = address + (exists && part_ends);
        n = when<weight_line_t>(lines_end, 0, n + 1);
        j = when<number<3>>(lines_end && j == PORT_WORDS - 1, 0, j + lines_end);
        tap = when<tap_t>(taps_end, 0, tap + lines_end);
        tile = tile + taps_end;
    }
}

// What a maximum is multiplied with.
inline void load_ones(weights_t& weights) {
#pragma HLS inline
    word_t ones;
    for (int o = 0; o < CHANNELS; o++) ones.lane[o] = elements::one();
    PIPELINED(ones_lines) for (weight_line_t n = 0; n < WEIGHT_LINES; n++) {
#pragma HLS pipeline II = 1
        ITERATION(ones_lines);
        write_line(weights, diagonal_line(ones, n), 0, n / STEP_LINES, n % STEP_LINES);
    }
}

// Sums of a map's columns times the first operand's zero point, which padding has too: what the offsets of 16 channels are
// corrected by.
struct corrections_t {
    sum_t channel[CHANNELS];
};

// What a packed line adds to that of channel `o`, and an offset that is corrected.
inline sum_t correction_of(const line_t& line, int o, const mac_command& c) {
#pragma HLS inline
#if ENGINE_ELEMENT == 0
    number<LINE_INPUTS * 3> sum = 0;
    for (int r = 0; r < LINE_INPUTS; r++) sum += element_of(line, o * LINE_INPUTS + r);
    return static_cast<sum_t>(sum * ap_int<8>(c.pad));
#else
    (void)line, (void)o, (void)c;
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

// Of blocks of 16 x 16 elements. K: pixels are output channels, so a packed line has elements of all lines of a block, which
// wait in registers; [depth][tile][block]. V: channels are output channels, so a line becomes a packed one;
// [tile][block][depth].
inline void load_map(line_stream& in, const job_t& job, tile_t tiles, int32_t blocks, weights_t& weights,
                     corrections_t corrections[BLOCKS][SET_TILES]) {
#pragma HLS inline
    typedef number<BLOCK_BITS> depth_t;
    const mac_command& c = job.c;
    const bool transposed = c.weight_kind == WEIGHT_TRANSPOSED;
    const depth_t last_depth = c.tile_depth - 1;
    const tile_t last_tile = tiles - 1;
    const block_t last_block = c.tile_blocks - 1, blocks_of_last = blocks - last_tile * c.tile_blocks - 1;
    const weight_step_t tile_steps = job.p.steps;
    const weight_line_t reads = transposed ? 0 : MAP_READS, last_line = WEIGHT_LINES - 1 + reads;
    line_t held[MAP_LINES];
#pragma HLS array_partition variable = held complete
    corrections_t sums, before;
    weight_step_t tile_begin = 0, depth_begin = 0;
    depth_t depth = 0;
    tile_t tile = 0;
    block_t block = 0;
    weight_line_t n = 0;
    block_t blocks_last = last_tile == 0 ? blocks_of_last : last_block;  // of the tile
    bool more = true;
    PIPELINED(map_lines) while (more) {
#pragma HLS pipeline II = 1
        // A correction is read again five lines after it was written at the earliest.
#pragma HLS dependence variable = corrections type = inter direction = RAW distance = 5 dependent = true
        ITERATION(map_lines);
        if (n < MAP_LINES) {
            const line_t line = in.read();
            for (int m = 0; m < MAP_LINES; m++) {
#pragma HLS unroll
                if (m == n || transposed) held[m] = line;
            }
        }
        const weight_line_t at = n - reads;  // the packed line that is made, if there is one
        line_t packed = {};
        for (int o = 0; o < CHANNELS; o++)
            for (int r = 0; r < LINE_INPUTS; r++) {
#pragma HLS unroll
                element_t x = element_of(held[0], r * CHANNELS + o);
                for (int q = 0; q < WEIGHT_LINES; q++) {
#pragma HLS unroll
                    if (!transposed && q == at)
                        x = element_of(held[o / BEAT], o % BEAT * CHANNELS + q * LINE_INPUTS + r);
                }
                set_element(packed, o * LINE_INPUTS + r, x);
            }
        if (at >= 0) write_line(weights, packed, block, tile_begin + depth_begin + at / STEP_LINES, at % STEP_LINES);
        // V's sums stay in their registers from one block of 16 x 16 to the next.
        const bool begins = at == 0 && (depth == 0 || !transposed), ends = n == last_line;
        if (begins && depth != 0) before = corrections[block][tile];
        for (int o = 0; o < CHANNELS; o++) {
#pragma HLS unroll
            const sum_t carried = !begins ? sums.channel[o] : depth == 0 ? sum_t(0) : before.channel[o];
            if (at >= 0) sums.channel[o] = add_sums(carried, correction_of(packed, o, c));
        }
        if (ends) corrections[block][tile] = sums;

        const bool depth_ends = ends && depth == last_depth;
        const bool block_ends = (transposed ? depth_ends : ends) && block == blocks_last;
        const bool tile_ends = block_ends && tile == last_tile;
        more = !(tile_ends && depth == last_depth);
        n = when<weight_line_t>(ends, 0, n + 1);
        const bool depth_moves = transposed ? ends : tile_ends;
        const bool depth_returns = depth_moves && depth == last_depth;
        depth = when<depth_t>(depth_returns, 0, depth + depth_moves);
        depth_begin = when<weight_step_t>(depth_returns, 0, depth_begin + (depth_moves ? PARTS : 0));
        const bool block_moves = transposed ? depth_ends : ends;
        block = when<block_t>(block_ends, 0, block + block_moves);
        const bool last_comes = tile == last_tile ? last_tile == 0 : tile == last_tile - 1;
        const block_t blocks_next = when<block_t>(last_comes, blocks_of_last, last_block);
        blocks_last = block_ends ? blocks_next : blocks_last;
        tile = when<tile_t>(tile_ends, 0, tile + block_ends);
        const weight_step_t tile_step = when<weight_step_t>(block_ends, tile_steps, 0);
        tile_begin = when<weight_step_t>(tile_ends, 0, tile_begin + tile_step);
    }
}

// Offset, scale and bias of the blocks of a set.
inline void load_params(weight_port_t& port, const job_t& job, int32_t blocks,
                        const corrections_t corrections[BLOCKS][SET_TILES], params_t& params) {
#pragma HLS inline
    typedef number<bits_for(SET_BLOCKS + 1)> set_block_t;
    const bool corrected = second_operand_is_map(job.c);
    const block_t last_block = job.c.tile_blocks - 1;
    const set_block_t last = blocks - 1;
    tile_t tile = 0;
    block_t block = 0;
    set_block_t at = 0;
    number<3> i = 0, beat = 0;
    line_t line = {};
    bool more = true;
    PIPELINED(params_lines) while (more) {
#pragma HLS pipeline II = 1
        ITERATION(params_lines);
        add_beat(line, port.read());
        const corrections_t correction = corrections[block][tile];
        offsets_t offset;
        factors_t factors;
        for (int o = 0; o < CHANNELS; o++) {
#pragma HLS unroll
            const uint32_t bits = bits32_of(line, o);
            const sum_t plain = sum_of_bits(bits);
            offset.of[o] = corrected ? corrected_sum(plain, correction.channel[o]) : plain;
            factors.of[o] = factor_of_bits(bits);
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

// The table goes to the epilogue once a command, ahead of its first set.
inline void load_table(weight_port_t& port, table_stream& table) {
#pragma HLS inline
    line_t line = {};
    PIPELINED(table_lines) for (number<6> n = 0; n < TABLE_LINES * LINE_BEATS; n++) {
#pragma HLS pipeline II = 1
        ITERATION(table_lines);
        add_beat(line, port.read());
        if (n % LINE_BEATS == LINE_BEATS - 1) table.write(line);
    }
}

// Lines of packed weights from one tile to the next.
inline int32_t tile_lines_of(const job_t& job) {
    return job.c.weight_kind == WEIGHT_DIAGONAL ? divide_up(job.p.taps, BEAT)
                                                : job.p.steps * job.c.tile_blocks * STEP_LINES;
}

// Where a set lies in memory, set after set.
struct set_walk {
    int32_t set;
    int32_t weights, params;  // lines
    int32_t blocks_left;

    set_walk() : set(0), weights(0), params(0), blocks_left(0) {}
    void begin(const job_t& job) {
#pragma HLS inline
        set = 0;
        weights = params = 0;
        blocks_left = job.c.out_blocks;
    }
    int32_t blocks(const job_t& job) const { return smaller(job.c.set_tiles * job.c.tile_blocks, blocks_left); }
    // Asks for the packed weights and the params of the set.
    void ask(weight_port_t& port, const job_t& job, int32_t tile_lines) const {
#pragma HLS inline
        const mac_command& c = job.c;
        const bool packed = has_weights(c) && !second_operand_is_map(c);
        if (packed)
            port.read_request((c.weight + weights) * LINE_BEATS, tiles_of_set(job, set) * tile_lines * LINE_BEATS);
        port.read_request((c.params + params) * LINE_BEATS, blocks(job) * PARAMS_LINES * LINE_BEATS);
    }
    void next(const job_t& job, int32_t tile_lines) {
#pragma HLS inline
        if (++set == job.p.sets) return begin(job);
        weights += job.c.set_tiles * tile_lines;
        params += job.c.set_tiles * job.c.tile_blocks * PARAMS_LINES;
        blocks_left -= job.c.set_tiles * job.c.tile_blocks;
    }
};

inline void load_weights(job_stream<weight_fields>& jobs, uint32_t count, weight_port_t port, line_stream& map,
                         weight_blocks& weights, params_blocks& params, table_stream& table, vector_side& vector) {
    corrections_t corrections[BLOCKS][SET_TILES];
#pragma HLS array_partition variable = corrections dim = 1 complete
weight_commands:
    for (uint32_t i = 0; i < count; i++) {
        const job_t job = jobs.read();
        sim::command(i);
        if (job.vector) load_vector_params(vector, port);
        if (!job.runs) continue;
        const mac_command& c = job.c;
        const int32_t tile_lines = tile_lines_of(job), loads = job.p.heads * job.p.set_loads;
        set_walk at, ask;  // the next to be read, and the next to be asked for
        at.begin(job);
        ask.begin(job);
        CYCLES(weight_command);
        if (has_table(c))
            port.read_request((c.params + c.out_blocks * PARAMS_LINES) * LINE_BEATS, TABLE_LINES * LINE_BEATS);
        ask.ask(port, job, tile_lines);
        if (has_table(c)) load_table(port, table);
    weight_sets:
        for (int32_t load = 0; load < loads; load++) {
            const int32_t tiles = tiles_of_set(job, at.set), blocks = at.blocks(job);
            ask.next(job, tile_lines);
            CYCLES(weight_set);
            // The next set is asked for before this one is read, and comes while the array still uses both memories.
            if (load + 1 < loads) ask.ask(port, job, tile_lines);
            {
                hls::write_lock<weights_t> lock(weights);
                weights_t& memory = lock;
#pragma HLS array_partition variable = memory.part dim = 1 complete
#pragma HLS array_partition variable = memory.part dim = 2 complete
                if (!has_weights(c))
                    load_ones(memory);
                else if (second_operand_is_map(c))
                    load_map(map, job, tiles, blocks, memory, corrections);
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
            at.next(job, tile_lines);
        }
    }
}

}  // namespace engine
