// The array: P x OC sums stay in their registers while IC products a cycle are added to each.
#pragma once
#include "../streams.hpp"

namespace engine {

typedef ap_int<48> dsp_sum_t;
typedef ap_int<27> dsp_pair_t;
typedef ap_uint<18> field_t;
typedef ap_int<20> step_sum_t;

#if ENGINE_ELEMENT == 0
// Two output channels share an activation in a DSP48E2. Its 27-bit port gets weights (w1 << 18) + w0, and its 18-bit port the
// activation. w1 * a and w0 * a then lie side by side in the product, and the lower one borrows its sign from the upper.
// DSPs in a cascade add products of 8 channels, and a constant that keeps both fields from borrowing. Sums of 8 products are
// between -8 * 128 * 127 and 8 * 128 * 128 = 2^17. With BIAS they are 18 bits without a sign. So every operand is allowed,
// and no sign has to be extended. A sum begins with the negative total of the biases of its steps.
constexpr int CASCADE = 8;
constexpr int FIELD = 18;
constexpr int32_t BIAS = (1 << (FIELD - 1)) - 1;

// Bits side by side.
inline dsp_pair_t pair_of(element_t low, upper_weight_t high) {
#pragma HLS inline
    dsp_pair_t pair = 0;
    pair.range(26, FIELD) = high.range(8, 0);
    pair.range(FIELD - 1, 0) = ap_int<FIELD>(low).range(FIELD - 1, 0);
    return pair;
}

inline void dot_pair(const dsp_pair_t pair[IC], const element_t a[IC], step_sum_t& low, step_sum_t& high) {
#pragma HLS inline
    low = 0;
    high = 0;
    for (int from = 0; from < IC; from += CASCADE) {
#pragma HLS unroll
        dsp_sum_t sum = (int64_t{BIAS} << FIELD) + BIAS;
        for (int i = from; i < from + CASCADE; i++) {
#pragma HLS unroll
            sum += static_cast<dsp_sum_t>(pair[i]) * a[i];
        }
        const field_t lower = sum & ((1 << FIELD) - 1), upper = sum >> FIELD & ((1 << FIELD) - 1);
        low += static_cast<step_sum_t>(lower);
        high += static_cast<step_sum_t>(upper);
    }
}
// Of a step.
constexpr int32_t STEP_BIAS = IC / CASCADE * BIAS;
#else
// Products of a step are added in pairs, pairs of pairs and so on.
inline sum_t dot(const element_t w[IC], const element_t a[IC]) {
#pragma HLS inline
    sum_t t[IC];
#pragma HLS array_partition variable = t complete
    for (int i = 0; i < IC; i++) {
#pragma HLS unroll
        t[i] = elements::widen(w[i]) * elements::widen(a[i]);
    }
    for (int width = IC / 2; width > 0; width /= 2) {
#pragma HLS unroll
        for (int i = 0; i < width; i++) t[i] = t[2 * i] + t[2 * i + 1];
    }
    return t[0];
}
#endif

// A step for all pixels and output channels. `first` begins new sums, with `begin`.
inline void multiply_step(const acts_t& acts, const weight_t weights[BLOCKS], bool first, array_sum_t begin,
                          sums_t& sums) {
#pragma HLS inline
    for (int block = 0; block < BLOCKS; block++) {
#pragma HLS unroll
        for (int o = 0; o < CHANNELS; o += 2) {
#pragma HLS unroll
#if ENGINE_ELEMENT == 0
            dsp_pair_t pair[IC];
#pragma HLS array_partition variable = pair complete
            for (int i = 0; i < IC; i++) pair[i] = pair_of(weights[block].low[o / 2][i], weights[block].high[o / 2][i]);
#else
            const element_t* low = weights[block].w[o];
            const element_t* high = weights[block].w[o + 1];
#endif
            for (int l = 0; l < P; l++) {
#pragma HLS unroll
                array_sum_t& even = sums.v[l][block * CHANNELS + o];
                array_sum_t& odd = sums.v[l][block * CHANNELS + o + 1];
#if ENGINE_ELEMENT == 0
                step_sum_t a, b;
                dot_pair(pair, acts.a[l], a, b);
                even = (first ? begin : even) + a;
                odd = (first ? begin : odd) + b;
#else
                (void)begin;
                const sum_t a = dot(low, acts.a[l]), b = dot(high, acts.a[l]);
                even = first ? a : add_sums(even, a);
                odd = first ? b : add_sums(odd, b);
#endif
            }
        }
    }
#if ENGINE_ELEMENT == 0 && ENGINE_ROW_SUMS
    for (int l = 0; l < P; l++) {
#pragma HLS unroll
        step_sum_t row = 0;
        for (int i = 0; i < IC; i++) row += static_cast<step_sum_t>(acts.a[l][i]);
        sums.row[l] = add_sums(first ? sum_t(0) : sums.row[l], static_cast<sum_t>(row));
    }
#endif
}

// A set of tiles over one window: a single loop, without a pause between tiles.
inline void mac_pass(acts_stream& acts, const weights_t& weights, const job_t& job, const pass_t& at, array_sum_t begin,
                     sums_t sums[INTERLEAVE], sums_stream& out) {
#pragma HLS inline
    typedef number<STEP_BITS> step_t;
    typedef number<TILE_BITS> tile_t;
    typedef number<bits_for(WEIGHT_STEPS + 1)> address_t;
    typedef number<bits_for(INTERLEAVE + 1)> turn_t;
    const band_t band = band_of(job, at.band);
    const step_t last_step = steps_of_array(job) - 1, last_group = band.groups / INTERLEAVE - 1;
    const tile_t last_tile = tiles_of_set(job, at.set) - 1;
    const bool weighted = has_weights(job.c);  // else all tiles have the same weights
    step_t step = 0, group = 0;
    tile_t tile = 0;
    turn_t turn = 0;
    address_t address = 0, tile_begin = 0;
    bool more = true;
    PIPELINED(mac_steps) while (more) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = INTERLEAVE max = (WINDOW_ROWS * MOST_SET_STEPS)
#if ENGINE_ELEMENT != 0
// INTERLEAVE turns lie between two additions to a sum.
#pragma HLS dependence variable = sums inter distance = 8 true
#endif
        ITERATION(mac_steps);
        const acts_t a = acts.read();
        weight_t w[BLOCKS];
        for (int block = 0; block < BLOCKS; block++) {
#pragma HLS unroll
            w[block] = step_weights(weights, block, static_cast<int>(address));
        }
        sums_t& of_turn = sums[INTERLEAVE == 1 ? 0 : static_cast<int>(turn)];
        multiply_step(a, w, step == 0, begin, of_turn);
        if (step == last_step) out.write(of_turn);
        const bool turn_ends = turn == INTERLEAVE - 1, step_ends = turn_ends && step == last_step;
        const bool group_ends = step_ends && group == last_group;
        more = !(group_ends && tile == last_tile);
        turn = when<turn_t>(turn_ends, 0, turn + 1);
        step = when<step_t>(step_ends, 0, step + turn_ends);
        const address_t next = address + turn_ends;
        const bool tile_ends = group_ends && weighted;
        address = when<address_t>(step_ends && !tile_ends, tile_begin, next);
        tile_begin = when<address_t>(tile_ends, next, tile_begin);
        group = when<step_t>(group_ends, 0, group + step_ends);
        tile = tile + group_ends;
    }
}

inline void mac_array(job_stream<mac_fields>& jobs, uint32_t count, acts_stream& acts, weight_blocks& weights,
                      sums_stream& out) {
    sums_t sums[INTERLEAVE];
#pragma HLS array_partition variable = sums complete dim = 0
mac_commands:
    for (command_index_t i = 0; i < commands_of(count); i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        const job_t job = jobs.read();
        if (!job.runs) continue;
        sim::command(i);
#if ENGINE_ELEMENT == 0
        const array_sum_t begin = -steps_of_array(job) * STEP_BIAS;
#else
        const array_sum_t begin = 0;
#endif
        for (number<SMALL_BITS> head = 0; head < job.p.heads; head++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
            pass_t at = {0, 0, 0};
        mac_sets:
            for (number<LOAD_BITS> load = 0; load < job.p.set_loads; load++) {
#pragma HLS loop_tripcount min = 1 max = MOST_LOADS
                CYCLES(mac_set);
                hls::read_lock<weights_t> lock(weights);
                const weights_t& memory = lock;
#pragma HLS array_partition variable = memory.part dim = 1 complete
#pragma HLS array_partition variable = memory.part dim = 2 complete
            mac_passes:
                for (number<LOAD_BITS> pass = 0; pass < job.p.set_passes; pass++) {
#pragma HLS loop_tripcount min = 1 max = MOST_LOADS
                    CYCLES(mac_pass);
                    mac_pass(acts, memory, job, at, begin, sums, out);
                    next_pass(at, job);
                }
            }
        }
    }
}

}  // namespace engine
