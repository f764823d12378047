// What reduce does with one vector of a row: the accumulators of a pass and how they combine.
#pragma once
#include <cstdint>

#include "command.hpp"
#include "math.hpp"
#include "vector.hpp"

namespace fpga {

// Vectors in flight, each with its accumulators: of one row in turn, or each of a row of its own.
constexpr int REDUCE_WAYS = 4;

enum reduce_step : int32_t {
    STEP_SUM,              // sum += x
    STEP_SCALED_SUM,       // sum += x scale
    STEP_SQUARES,          // sum += x^2
    STEP_CENTERED,         // d = x - center; sum += d^2, other += d
    STEP_SCALED_CENTERED,  // d = x scale - center; likewise
    STEP_EXP,              // sum += DECAY_SCALE exp(x - center)
    STEP_MAX,
    STEP_LARGEST,  // as STEP_MAX, but NaN does not count
    STEP_MIN,
    STEP_PROD,
    STEP_ARGMAX,  // best value in sum, its position in where
    STEP_ARGMIN,
};

constexpr int32_t NOWHERE = INT32_MAX;  // no value was better than the start: all are equal to it

struct accumulators {
    vec16 sum[REDUCE_WAYS];
    vec16 other[REDUCE_WAYS];
    ivec16 where[REDUCE_WAYS];
};

// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
FPGA_INLINE vec16 step_start() {
    if (STEP == STEP_MAX || STEP == STEP_LARGEST || STEP == STEP_ARGMAX) return vec16(-FLOAT_INFINITY);
    if (STEP == STEP_MIN || STEP == STEP_ARGMIN) return vec16(FLOAT_INFINITY);
    return vec16(STEP == STEP_PROD ? 1.0f : 0.0f);
}

// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
FPGA_INLINE void start(accumulators& a) {
ways:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        a.sum[j] = step_start<STEP>();
        a.other[j] = vec16(0.0f);
        a.where[j] = ivec16(NOWHERE);
    }
}

// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
constexpr bool step_has_position() {
    return STEP == STEP_ARGMAX || STEP == STEP_ARGMIN;
}

// Steps that gather a second sum.
// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
constexpr bool step_has_other() {
    return STEP == STEP_CENTERED || STEP == STEP_SCALED_CENTERED;
}

// Steps whose rounding errors grow with the number of terms.
// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
constexpr bool step_adds() {
    return STEP == STEP_SUM || STEP == STEP_SCALED_SUM || STEP == STEP_SQUARES || STEP == STEP_EXP ||
           step_has_other<STEP>();
}

// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
FPGA_INLINE void add_sums(accumulators& to, const accumulators& from) {
ways:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        to.sum[j] += from.sum[j];
        if (step_has_other<STEP>()) to.other[j] += from.other[j];
    }
}

// Copies what the step gathers.
// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
FPGA_INLINE void take_over(accumulators& to, const accumulators& from) {
ways:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        to.sum[j] = from.sum[j];
        if (step_has_other<STEP>()) to.other[j] = from.other[j];
        if (step_has_position<STEP>()) to.where[j] = from.where[j];
    }
}

// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
FPGA_INLINE ivec16 is_better(const vec16& x, const vec16& best) {
    return (STEP == STEP_ARGMAX ? vgt(x, best) : vlt(x, best)) | (is_nan(x) & veq(best, best));
}

// Lanes where `valid` is false do not count. x becomes what a later pass can use: the exponential for STEP_EXP.
// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
FPGA_INLINE void take(vec16& sum, vec16& other, ivec16& where, vec16& x, const vec16& center, const vec16& scale,
                      const ivec16& position, const ivec16& valid) {
    const vec16 zero(0.0f);
    switch (STEP) {
        case STEP_SUM: sum += select(valid, x, zero); break;
        case STEP_SCALED_SUM: sum += select(valid, x * scale, zero); break;
        case STEP_SQUARES: {
            const vec16 y = select(valid, x, zero);
            sum += y * y;
            break;
        }
        case STEP_CENTERED: {
            const vec16 d = select(valid, x - center, zero);
            sum += d * d;
            other += d;
            break;
        }
        case STEP_SCALED_CENTERED: {
            const vec16 d = select(valid, x * scale - center, zero);
            sum += d * d;
            other += d;
            break;
        }
        case STEP_EXP:
            x = vexp_decay(x - center);
            sum += select(valid, x, zero);
            break;
        case STEP_MAX: sum = vmax(sum, select(valid, x, step_start<STEP>())); break;
        case STEP_LARGEST: sum = select(valid & vgt(x, sum), x, sum); break;
        case STEP_MIN: sum = vmin(sum, select(valid, x, step_start<STEP>())); break;
        case STEP_PROD: sum *= select(valid, x, step_start<STEP>()); break;
        default: {
            const ivec16 better = is_better<STEP>(x, sum) & valid;
            sum = select(better, x, sum);
            where = select(better, position, where);
            break;
        }
    }
}

// All lanes of a vector, for steps that gather one number a lane.
// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
FPGA_INLINE void take_whole(vec16& gathered, vec16& x, const vec16& center) {
    static_assert(!step_has_position<STEP>() && !step_has_other<STEP>(), "gathers more than one number a lane");
    vec16 other;
    ivec16 where;
    take<STEP>(gathered, other, where, x, center, vec16(1.0f), where, ivec16(-1));
}

// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
FPGA_INLINE vec16 merge(const vec16& a, const vec16& b) {
    if (STEP == STEP_MAX) return vmax(a, b);
    if (STEP == STEP_LARGEST) return select(vgt(a, b), a, b);
    if (STEP == STEP_MIN) return vmin(a, b);
    return STEP == STEP_PROD ? a * b : a + b;
}

// All lanes merged, in every lane; pairs first, as the error of a sum then grows with the logarithm of its length.
// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
FPGA_INLINE vec16 across_lanes(const vec16& x) {
    const vec16 eight = merge<STEP>(x, rotate_lanes<8>(x));
    const vec16 four = merge<STEP>(eight, rotate_lanes<4>(eight));
    const vec16 two = merge<STEP>(four, rotate_lanes<2>(four));
    return merge<STEP>(two, rotate_lanes<1>(two));
}

// Lane by lane the better of two and the smaller position of equals, for STEP_ARGMAX and STEP_ARGMIN.
// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
FPGA_INLINE void merge_position(vec16& best, ivec16& where, const vec16& x, const ivec16& at) {
    const ivec16 same = veq(x, best) | (is_nan(x) & is_nan(best));
    const ivec16 better = is_better<STEP>(x, best) | (same & vlt(at, where));
    best = select(better, x, best);
    where = select(better, at, where);
}

// \tparam STEP Step of the reduction, a STEP_ constant.
// \tparam BY Distance of the merged lanes.
template <int STEP, int BY>
FPGA_INLINE void merge_rotated(vec16& best, ivec16& where) {
    merge_position<STEP>(best, where, rotate_lanes<BY>(best), bits_of(rotate_lanes<BY>(from_bits(where))));
}

// The lanes of a way merged: the result stands in all of them.
// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
FPGA_INLINE void finish_way(accumulators& a, int way) {
    if (step_has_position<STEP>()) {
        merge_rotated<STEP, 8>(a.sum[way], a.where[way]);
        merge_rotated<STEP, 4>(a.sum[way], a.where[way]);
        merge_rotated<STEP, 2>(a.sum[way], a.where[way]);
        merge_rotated<STEP, 1>(a.sum[way], a.where[way]);
        return;
    }
    a.sum[way] = across_lanes<STEP>(a.sum[way]);
    if (step_has_other<STEP>()) a.other[way] = across_lanes<STEP_SUM>(a.other[way]);
}

// The ways merged into the first one.
// \tparam STEP Step of the reduction, a STEP_ constant.
template <int STEP>
FPGA_INLINE void merge_ways(accumulators& a) {
    if (step_has_position<STEP>()) {
    candidates:
        UNROLL for (int j = 1; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
            merge_position<STEP>(a.sum[0], a.where[0], a.sum[j], a.where[j]);
        }
        return;
    }
    a.sum[0] = merge<STEP>(merge<STEP>(a.sum[0], a.sum[1]), merge<STEP>(a.sum[2], a.sum[3]));
    if (step_has_other<STEP>()) a.other[0] = (a.other[0] + a.other[1]) + (a.other[2] + a.other[3]);
}

}  // namespace fpga
