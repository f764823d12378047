// What scan does with one vector: sixteen running results, one a lane, and how two of them combine.
#pragma once
#include <cmath>
#include <cstdint>

#include "command.hpp"
#include "lib/math.hpp"
#include "lib/vector.hpp"

namespace fpga {

// Running results of 16 scans. Sums and products are kept in double, as in eager mode. Rounded to float they are
// bit-identical to eager mode. A log-sum-exp is largest + log(total), see scan_exponential.
struct scan_state {
    double total[VEC];
    float largest[VEC];
    ivec16 count;  // of SCAN_INT_SUM
};

// A new reference is taken when an element is larger by so much: rarely, since each time rounds what has been summed up,
// and soon enough for the logarithm of the sum to stay small beside the result.
constexpr float SCAN_RISE = 4.0f;

template <int KIND>
FPGA_INLINE vec16 scan_identity() {
    return vec16(KIND == SCAN_PRODUCT ? 1.0f : KIND == SCAN_LOG_SUM_EXP ? -FLOAT_INFINITY : 0.0f);
}

template <int KIND>
FPGA_INLINE void scan_start(scan_state& s) {
    s.count = ivec16(0);
lanes:
    UNROLL for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        s.total[i] = KIND == SCAN_PRODUCT ? 1.0 : 0.0;
        s.largest[i] = -FLOAT_INFINITY;
    }
}

// total e^largest + e^x, where largest is the first element, or one that exceeds the largest before by SCAN_RISE.
// Infinities: e^(x - largest) of two equal ones is 1, and a total without a meaning is multiplied by 0 later.
FPGA_INLINE vec16 scan_exponential(scan_state& s, const vec16& x) {
    const vec16 largest = load(s.largest, 0), one(1.0f), distance = x - largest;
    const ivec16 rises = vgt(distance, vec16(SCAN_RISE)), same = veq(x, largest);
    const vec16 e = select(same, one, vexp(select(rises, vneg(distance), distance)));
    alignas(64) float factor[VEC], term[VEC], sum[VEC];
    store(factor, 0, select(rises, e, one));
    store(term, 0, select(rises, one, e));
    store(s.largest, 0, select(rises, x, largest));
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        s.total[i] = s.total[i] * factor[i] + term[i];
        sum[i] = static_cast<float>(s.total[i]);
    }
    return load(s.largest, 0) + vlog(load(sum, 0));
}

// Takes one element a lane; the result is that of the scan there.
template <int KIND>
FPGA_INLINE vec16 scan_step(scan_state& s, const vec16& x) {
    if (KIND == SCAN_LOG_SUM_EXP) return scan_exponential(s, x);
    if (KIND == SCAN_INT_SUM) {
        s.count += bits_of(x);
        return from_bits(s.count);
    }
    alignas(64) float lane[VEC];
    store(lane, 0, x);
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        if (KIND == SCAN_PRODUCT)
            s.total[i] *= lane[i];
        else
            s.total[i] += lane[i];
        lane[i] = static_cast<float>(s.total[i]);
    }
    return load(lane, 0);
}

// One scan's running result, out of a scan_state's lane.
struct scan_total {
    double total;
    float largest;
    int32_t count;
};

FPGA_INLINE scan_total scan_nothing() {
    const scan_total none = {0.0, -FLOAT_INFINITY, 0};
    return none;
}

// e^(low - high), where infinities of one sign are 0 apart.
FPGA_INLINE double scan_share(float low, float high) {
    return low == high ? 1.0 : static_cast<double>(vexp(vec16(low - high))[0]);
}

// The sum (or log-sum-exp) of two stretches; not for SCAN_PRODUCT, where a stretch alone may leave a double's range
// that all before it would have kept it in.
template <int KIND>
FPGA_INLINE scan_total scan_merged(const scan_total& a, const scan_total& b) {
    scan_total r = {a.total + b.total, a.largest, 0};
    r.count = static_cast<int32_t>(static_cast<uint32_t>(a.count) + static_cast<uint32_t>(b.count));
    if (KIND != SCAN_LOG_SUM_EXP) return r;
    r.largest = a.largest > b.largest ? a.largest : b.largest;
    r.total = a.total * scan_share(a.largest, r.largest) + b.total * scan_share(b.largest, r.largest);
    return r;
}

// Each lane's result becomes that of all lanes before it (behind it, if backward) after `carry`, which becomes that of all.
template <int KIND>
inline void scan_lanes(scan_state& s, scan_total& carry, bool backward) {
    alignas(64) float count[VEC];
    store(count, 0, from_bits(s.count));
lanes:
    for (int i = 0; i < VEC; i++) {
        const int lane = backward ? VEC - 1 - i : i;
        scan_total own = {s.total[lane], s.largest[lane], bits_of(vec16(count[lane]))[0]};
        const scan_total all = scan_merged<KIND>(carry, own);
        s.total[lane] = carry.total;
        s.largest[lane] = carry.largest;
        count[lane] = from_bits(ivec16(carry.count))[0];
        carry = all;
    }
    s.count = bits_of(load(count, 0));
}

}  // namespace fpga
