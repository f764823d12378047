// The array: P x OC sums stay in their registers while IC products a cycle are added to each.
#pragma once
#include "../streams.hpp"
#ifdef __VITIS_HLS__
#include "ap_int.h"
#endif

namespace engine {

#ifdef __VITIS_HLS__
typedef ap_int<48> dsp_sum_t;
typedef ap_int<27> dsp_pair_t;
#else
typedef int64_t dsp_sum_t;  // no product or sum leaves 48 bits
typedef int32_t dsp_pair_t;
#endif

#if ENGINE_ELEMENT == 0
// Two output channels share an activation in a DSP48E2: weights (w1 << 18) + w0 at its 27-bit port, the activation at the
// 18-bit one. w1 * a and w0 * a then lie side by side in the product, the lower one with its sign borrowed from the upper.
// DSPs in a cascade add products of 8 channels. Their sum, from -8 * 128 * 127 to 8 * 128 * 128 = 2^17, has one value too
// many for a signed field of 18 bits; but -2^17 cannot occur, so its pattern stands for 2^17, and no operand is forbidden.
constexpr int CASCADE = 8;
constexpr int FIELD = 18;

inline dsp_pair_t pack_pair(element_t low, element_t high) {
#pragma HLS inline
    return static_cast<dsp_pair_t>(static_cast<int32_t>(high) * (1 << FIELD) + low);
}

inline void dot_pair(const dsp_pair_t pair[IC], const element_t a[IC], sum_t& low, sum_t& high) {
#pragma HLS inline
    low = 0;
    high = 0;
    for (int from = 0; from < IC; from += CASCADE) {
#pragma HLS unroll
        dsp_sum_t sum = 0;
        for (int i = from; i < from + CASCADE; i++) {
#pragma HLS unroll
            sum += static_cast<dsp_sum_t>(pair[i]) * a[i];
        }
        // The lower field, from -2^17 + 1 to 2^17; what it borrowed is given back to the upper one.
        const int32_t field = static_cast<int32_t>(sum & ((1 << FIELD) - 1));
        const int32_t lower = field > 1 << (FIELD - 1) ? field - (1 << FIELD) : field;
        low += lower;
        high += static_cast<int32_t>((sum - lower) >> FIELD);
    }
}
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

// A step for all pixels and output channels; `first` begins new sums.
inline void multiply_step(const acts_t& acts, const weight_t weights[BLOCKS], bool first, sums_t& sums) {
#pragma HLS inline
    for (int block = 0; block < BLOCKS; block++) {
#pragma HLS unroll
        for (int o = 0; o < CHANNELS; o += 2) {
#pragma HLS unroll
            const element_t* low = weights[block].w[o];
            const element_t* high = weights[block].w[o + 1];
#if ENGINE_ELEMENT == 0
            dsp_pair_t pair[IC];  // packed once for all pixels
#pragma HLS array_partition variable = pair complete
            for (int i = 0; i < IC; i++) pair[i] = pack_pair(low[i], high[i]);
#endif
            for (int l = 0; l < P; l++) {
#pragma HLS unroll
                sum_t a, b;
#if ENGINE_ELEMENT == 0
                dot_pair(pair, acts.a[l], a, b);
#else
                a = dot(low, acts.a[l]);
                b = dot(high, acts.a[l]);
#endif
                sum_t& even = sums.v[l][block * CHANNELS + o];
                sum_t& odd = sums.v[l][block * CHANNELS + o + 1];
                even = first ? a : add_sums(even, a);
                odd = first ? b : add_sums(odd, b);
            }
        }
    }
#if ENGINE_ELEMENT == 0
    for (int l = 0; l < P; l++) {
#pragma HLS unroll
        sum_t row = 0;
        for (int i = 0; i < IC; i++) row += acts.a[l][i];
        sums.row[l] = first ? row : add_sums(sums.row[l], row);
    }
#endif
}

// Maximum of each channel instead; IC of a block's channels a step.
inline void maximum_step(const acts_t& acts, int part, bool first, sums_t& sums) {
#pragma HLS inline
    for (int l = 0; l < P; l++) {
#pragma HLS unroll
        for (int i = 0; i < CHANNELS; i++) {
#pragma HLS unroll
            const sum_t x = elements::widen(acts.a[l][i % IC]);
            sum_t& most = sums.v[l][i];
            if (i / IC == part && (first || !(x <= most))) most = x;  // a NaN stays
        }
        sums.row[l] = 0;
    }
}

// A set of tiles over one window: a single loop, without a pause between tiles.
template <bool MAXIMUM>
void mac_pass(acts_stream& acts, const weights_t* weights, const job_t& job, const pass_t& at, sums_t sums[INTERLEAVE],
              sums_stream& out) {
#pragma HLS inline
    const int32_t groups = band_of(job, at.band).groups, steps = job.p.steps;
    const int32_t iterations = tiles_of_set(job, at.set) * groups * steps;
    int32_t step = 0, turn = 0, part = 0, group = 0, tile_begin = 0;
    PIPELINED(mac_steps) for (int32_t n = 0; n < iterations; n++) {
#pragma HLS pipeline II = 1
        ITERATION(mac_steps);
        const acts_t a = acts.read();
        const bool first = MAXIMUM ? step < PARTS : step == 0;
        if (MAXIMUM) {
            maximum_step(a, part, first, sums[turn]);
        } else {
            weight_t w[BLOCKS];
            for (int block = 0; block < BLOCKS; block++) {
#pragma HLS unroll
                w[block] = weights->step[block][tile_begin + step];
            }
            multiply_step(a, w, first, sums[turn]);
        }
        if (step == steps - 1) out.write(sums[turn]);
        if (++turn < INTERLEAVE) continue;
        turn = 0;
        part = part + 1 == PARTS ? 0 : part + 1;
        if (++step < steps) continue;
        step = 0;
        group += INTERLEAVE;
        if (group < groups) continue;
        group = 0;
        tile_begin += steps;
    }
}

inline void mac_array(jobs_t& jobs, uint32_t count, acts_stream& acts, weight_blocks& weights, sums_stream& out) {
    sums_t sums[INTERLEAVE];
#pragma HLS array_partition variable = sums complete dim = 0
mac_commands:
    for (uint32_t i = 0; i < count; i++) {
        const job_t job = jobs.read();
        if (!job.runs) continue;
        sim::command(i);
        for (int32_t head = 0; head < job.p.heads; head++) {
            pass_t at = {0, 0, 0};
        mac_sets:
            for (int32_t load = 0; load < job.p.set_loads; load++) {
                CYCLES(mac_set);
                if (has_weights(job.c)) {
                    hls::read_lock<weights_t> lock(weights);
                    const weights_t& memory = lock;
                mac_passes:
                    for (int32_t pass = 0; pass < job.p.set_passes; pass++) {
                        CYCLES(mac_pass);
                        mac_pass<false>(acts, &memory, job, at, sums, out);
                        next_pass(at, job);
                    }
                } else {
                maximum_passes:
                    for (int32_t pass = 0; pass < job.p.set_passes; pass++) {
                        CYCLES(mac_pass);
                        mac_pass<true>(acts, nullptr, job, at, sums, out);
                        next_pass(at, job);
                    }
                }
            }
        }
    }
}

}  // namespace engine
