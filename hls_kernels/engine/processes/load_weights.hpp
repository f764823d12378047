// Reads the second operand and the parameters, set after set of tiles, while the array works with the set before.
//
// Packed weights of a set lie one behind the other and are one burst. A map as second operand (attention) comes from
// load_residual, which has the port to the maps; its blocks of 16 x 16 are put into the order of weights here, and its
// column sums are taken, by which the offsets of the channels are corrected for the zero point of the first operand.
#pragma once
#include "../vector/move.hpp"

namespace engine {

constexpr int BLOCK_LINES = IC * ELEMENT_BYTES / 4;             // of 16 x IC packed weights
constexpr int MAP_LINES = CHANNELS * CHANNELS / LINE_ELEMENTS;  // of 16 x 16 elements of a map
constexpr int LINE_INPUTS = 4 / ELEMENT_BYTES;                  // input channels whose weights lie in a packed line
constexpr int PARAMS_LINES = 3;

// Line `i` of 16 x IC packed weights: of each output channel LINE_INPUTS input channels.
inline void unpack_line(const line_t& line, int i, weight_t& weight) {
#pragma HLS inline
    for (int o = 0; o < CHANNELS; o++) {
#pragma HLS unroll
        for (int q = 0; q < IC / LINE_INPUTS; q++)
            if (q == i)
                for (int j = 0; j < LINE_INPUTS; j++)
                    weight.w[o][q * LINE_INPUTS + j] = element_of(line, o * LINE_INPUTS + j);
    }
}

inline void load_packed(port_t& port, const job_t& job, int32_t lines, weights_t& weights) {
    weight_t weight;
#pragma HLS array_partition variable = weight.w complete dim = 0
    int32_t step = 0, block = 0, i = 0;
    PIPELINED(packed_lines) for (int32_t n = 0; n < lines; n++) {
#pragma HLS pipeline II = 1
        ITERATION(packed_lines);
        unpack_line(port.read(), i, weight);
        for (int k = 0; k < BLOCKS; k++) {
#pragma HLS unroll
            if (k == block && i == BLOCK_LINES - 1) weights.step[k][step] = weight;
        }
        if (++i == BLOCK_LINES) {
            i = 0;
            if (++block == job.c.tile_blocks) {
                block = 0;
                step++;
            }
        }
    }
}

// A word of weights for each tap; each becomes a diagonal.
inline void load_diagonal(port_t& port, const job_t& job, int32_t tiles, weights_t& weights) {
    line_t line;
    int32_t tap = 0, j = 0, part = 0;
    PIPELINED(diagonal_taps) for (int32_t n = 0; n < tiles * job.p.taps * PARTS; n++) {
#pragma HLS pipeline II = 1
        ITERATION(diagonal_taps);
        if (j == 0 && part == 0) line = port.read();
        const word_t word = word_of(line, j);
        weight_t weight;
        for (int o = 0; o < CHANNELS; o++)
            for (int i = 0; i < IC; i++) {
#pragma HLS unroll
                weight.w[o][i] = part * IC + i == o ? word.lane[o] : element_t(0);
            }
        weights.step[0][n] = weight;
        if (++part < PARTS) continue;
        part = 0;
        j = j + 1 == BEAT ? 0 : j + 1;
        if (++tap == job.p.taps) {
            tap = 0;
            j = 0;
        }
    }
}

inline void load_map(line_stream& in, const job_t& job, int32_t tiles, int32_t set, weights_t& weights,
                     sum_t column[SET_TILES][OC]) {
    const mac_command& c = job.c;
    const bool transposed = c.weight_kind == WEIGHT_TRANSPOSED;
    const int32_t blocks = blocks_of_set(job, set);
    weight_t weight[PARTS];
#pragma HLS array_partition variable = weight complete dim = 0
    int32_t tile = 0, block = 0, depth = 0, i = 0;
    PIPELINED(map_lines) for (int32_t n = 0; n < blocks * c.tile_depth * (MAP_LINES + PARTS - 1); n++) {
#pragma HLS pipeline II = 1
        ITERATION(map_lines);
        if (i < MAP_LINES) {
            const line_t line = in.read();
            for (int o = 0; o < CHANNELS; o++)
                for (int k = 0; k < CHANNELS; k++) {
#pragma HLS unroll
                    const int pixel = transposed ? k : o, channel = transposed ? o : k;
                    if (pixel / BEAT == i)
                        weight[k / IC].w[o][k % IC] = element_of(line, pixel % BEAT * CHANNELS + channel);
                }
        }
        const int32_t ready = i - (MAP_LINES - 1);  // the part that is written
        if (ready >= 0) {
            for (int k = 0; k < BLOCKS; k++) {
#pragma HLS unroll
                if (k == block) weights.step[k][(tile * c.tile_depth + depth) * PARTS + ready] = weight[ready];
            }
            for (int o = 0; o < CHANNELS; o++) {
#pragma HLS unroll
                sum_t sum = 0;
                for (int k = 0; k < IC; k++) sum = add_sums(sum, elements::widen(weight[ready].w[o][k]));
                const sum_t before = depth == 0 && ready == 0 ? sum_t(0) : column[tile][block * CHANNELS + o];
                column[tile][block * CHANNELS + o] = add_sums(before, sum);
            }
        }
        if (++i < MAP_LINES + PARTS - 1) continue;
        i = 0;
        if (transposed && ++depth < c.tile_depth) continue;
        if (transposed) depth = 0;
        if (++block < blocks_of_tile(job, set * c.set_tiles + tile)) continue;
        block = 0;
        if (++tile < tiles) continue;
        tile = 0;
        depth++;
    }
}

// A map's column sums times the first operand's zero point, which padding has too.
inline sum_t corrected_offset(uint32_t bits, sum_t column, const mac_command& c) {
#pragma HLS inline
#if ENGINE_ELEMENT == 0
    return static_cast<sum_t>(bits - static_cast<uint32_t>(c.pad) * static_cast<uint32_t>(column));
#else
    (void)column, (void)c;
    return sum_of_bits(bits);
#endif
}

// Offset, scale and bias of the blocks of a set.
inline void load_params(port_t& port, const job_t& job, int32_t blocks, const sum_t column[SET_TILES][OC],
                        params_t& params) {
    const bool corrected = second_operand_is_map(job.c);
    int32_t tile = 0, block = 0, at = 0, i = 0;
    PIPELINED(params_lines) for (int32_t n = 0; n < blocks * PARAMS_LINES; n++) {
#pragma HLS pipeline II = 1
        ITERATION(params_lines);
        const line_t line = port.read();
        offsets_t offset;
        factors_t factors;
        for (int o = 0; o < CHANNELS; o++) {
#pragma HLS unroll
            const uint32_t bits = bits32_of(line, o);
            offset.of[o] = corrected ? corrected_offset(bits, column[tile][block * CHANNELS + o], job.c)
                                     : sum_of_bits(bits);
            factors.of[o] = factor_of_bits(bits);
        }
        if (i == 0) params.offset[at] = offset;
        if (i == 1) params.scale[at] = factors;
        if (i == 2) params.bias[at] = factors;
        if (++i < PARAMS_LINES) continue;
        i = 0;
        at++;
        if (++block < job.c.tile_blocks) continue;
        block = 0;
        tile++;
    }
}

// The table goes to the epilogue once a command, ahead of its first set.
inline void load_table(port_t& port, table_stream& table) {
    PIPELINED(table_lines) for (int n = 0; n < TABLE_LINES; n++) {
#pragma HLS pipeline II = 1
        ITERATION(table_lines);
        table.write(port.read());
    }
}

// Lines of packed weights from one tile to the next.
inline int32_t tile_lines_of(const job_t& job) {
    return job.c.weight_kind == WEIGHT_DIAGONAL ? divide_up(job.p.taps, BEAT)
                                                : job.p.steps * job.c.tile_blocks * BLOCK_LINES;
}

// Asks for the packed weights and the params of a set.
inline void ask_for_set(port_t& port, const job_t& job, int32_t set, int32_t tile_lines) {
#pragma HLS inline
    const mac_command& c = job.c;
    const int32_t first = set * c.set_tiles;
    const bool packed = has_weights(c) && !second_operand_is_map(c);
    if (packed) port.read_request(c.weight + first * tile_lines, tiles_of_set(job, set) * tile_lines);
    port.read_request(c.params + first * c.tile_blocks * PARAMS_LINES, blocks_of_set(job, set) * PARAMS_LINES);
}

inline void load_weights(jobs_t& jobs, uint32_t count, port_t port, line_stream& map, weight_blocks& weights,
                         params_blocks& params, table_stream& table, vector_side& vector) {
    sum_t column[SET_TILES][OC];
#pragma HLS array_partition variable = column dim = 2 complete
weight_commands:
    for (uint32_t i = 0; i < count; i++) {
        const job_t job = jobs.read();
        sim::command(i);
        if (job.vector) load_vector_params(vector, port);
        if (!job.runs) continue;
        const mac_command& c = job.c;
        const int32_t tile_lines = tile_lines_of(job), loads = job.p.heads * job.p.set_loads;
        int32_t set = 0, asked = 0;  // the next to be read, and the next to be asked for
        CYCLES(weight_command);
        if (has_table(c)) port.read_request(c.params + c.out_blocks * PARAMS_LINES, TABLE_LINES);
        ask_for_set(port, job, asked, tile_lines);
        if (has_table(c)) load_table(port, table);
    weight_sets:
        for (int32_t load = 0; load < loads; load++) {
            const int32_t tiles = tiles_of_set(job, set);
            if (++asked == job.p.sets) asked = 0;
            CYCLES(weight_set);
            // The next set is asked for before this one is read, and comes while the array still uses both memories.
            if (load + 1 < loads) ask_for_set(port, job, asked, tile_lines);
            if (has_weights(c)) {
                hls::write_lock<weights_t> lock(weights);
                weights_t& memory = lock;
                if (second_operand_is_map(c))
                    load_map(map, job, tiles, set, memory, column);
                else if (c.weight_kind == WEIGHT_DIAGONAL)
                    load_diagonal(port, job, tiles, memory);
                else
                    load_packed(port, job, tiles * tile_lines, memory);
            }
            {
                hls::write_lock<params_t> lock(params);
                params_t& memory = lock;
                load_params(port, job, blocks_of_set(job, set), column, memory);
            }
            set = asked;
        }
    }
}

}  // namespace engine
