// The arithmetic of record.hpp, once, for the hardware and the CPU schedule.
#pragma once
#include <cmath>

#include "../epilogue.hpp"
#include "plan.hpp"

namespace engine {

// To the nearest integer, ties to even, of |x| <= 2^20: adding 1.5 * 2^23 leaves the integer in the low bits. In hardware that
// is one adder, and no conversion.
inline int32_t round_half_even(float x) {
#pragma HLS inline
    const float shift = 12582912.0f;
    return static_cast<int32_t>(bits_of(x + shift) - bits_of(shift));
}

// Far outside int8; a NaN becomes the lower limit.
inline float limited(float x) {
#pragma HLS inline
    const float most = 1048576.0f;
    const float low = x > -most ? x : -most;
    return low < most ? low : most;
}

// Of a row: the greatest key, or the sums of t and of t^2.
struct row_sums_t {
    int32_t greatest;
    int64_t sum;
    uint64_t squares;
};
// What a row's channels are scaled with, and the sum of t.
struct row_scale_t {
    float scale;
    int64_t center;
};

constexpr int32_t NO_KEY = -129;  // less than any

inline int64_t weighted(int8_t x, int8_t r, const vector_command& c) {
#pragma HLS inline
    return int64_t{c.input_weight} * x + int64_t{c.other_weight} * r;
}

// A word more of a row; `first`: the row begins with it. `channels`: of the word that exist.
inline row_sums_t add_word(const row_sums_t& before, bool first, const word_t& x, const word_t& r, int32_t channels,
                           const vector_command& c) {
#pragma HLS inline
    int32_t greatest = NO_KEY;
    int64_t sum = 0;
    uint64_t squares = 0;
    for (int i = 0; i < CHANNELS; i++) {
#pragma HLS unroll
        if (i >= channels) continue;
        const int64_t t = weighted(x.lane[i], r.lane[i], c);
        if (r.lane[i] == 0) greatest = larger(greatest, x.lane[i]);
        sum += t;
        squares += static_cast<uint64_t>(t * t);
    }
    row_sums_t after;
    after.greatest = first ? greatest : larger(before.greatest, greatest);
    after.sum = (first ? 0 : before.sum) + sum;
    after.squares = (first ? 0 : before.squares) + squares;
    return after;
}

// Distance of a key to the row's greatest one.
inline uint8_t distance(int32_t greatest, int8_t key) { return static_cast<uint8_t>(greatest - key); }

inline float softmax_scale(uint64_t sum, const vector_command& c) {
#pragma HLS inline
    return sum == 0 ? 0.0f : c.input_scale / static_cast<float>(sum);
}
inline float norm_scale(const row_sums_t& row, const vector_command& c) {
#pragma HLS inline
    const uint64_t spread = static_cast<uint64_t>(c.channels) * row.squares -
                            static_cast<uint64_t>(row.sum) * static_cast<uint64_t>(row.sum);
    const float variance = static_cast<float>(spread) + c.epsilon;
    return 1.0f / sqrtf(variance);
}

// Of a channel that exists. `exponential`: of softmax, 0 if masked.
inline int8_t vector_result(int8_t x, int8_t r, uint32_t exponential, const row_scale_t& row, float gamma, float beta,
                            const vector_command& c, const int8_t table[256]) {
#pragma HLS inline
    int64_t integer;
    const int32_t left = x - c.input_zero, right = r - c.other_zero;
    if (c.operation == VECTOR_SOFTMAX)
        integer = exponential;
    else if (c.operation == VECTOR_NORM)
        integer = c.channels * weighted(x, r, c) - row.center;
    else if (c.operation == VECTOR_ADD)
        integer = left;
    else
        integer = int64_t{left} * right;
    float y = static_cast<float>(integer) * (reduces(c) ? row.scale : c.input_scale);
    if (c.operation == VECTOR_NORM) {
        const float product = y * gamma;
        y = product + beta;
    }
    if (c.operation == VECTOR_ADD && has_other(c)) {
        const float other = static_cast<float>(right) * c.other_scale;
        y = y + other;
    }
    const int32_t result = clamped(round_half_even(limited(y)) + c.zero, c.low, c.high);
    return c.flags & VECTOR_TABLE ? table[result + 128] : static_cast<int8_t>(result);
}
// Of a channel that fills the last block.
inline int8_t vector_filling(const vector_command& c, const int8_t table[256]) {
#pragma HLS inline
    const int32_t result = clamped(c.zero, c.low, c.high);
    return c.flags & VECTOR_TABLE ? table[result + 128] : static_cast<int8_t>(result);
}

}  // namespace engine
