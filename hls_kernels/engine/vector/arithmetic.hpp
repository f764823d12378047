// The arithmetic of record.hpp, once, for the hardware and the CPU schedule.
#pragma once
#include <cmath>

#include "../epilogue.hpp"
#include "plan.hpp"

namespace engine {

// Of a row: the greatest key, and the sums of x and of x^2; of softmax the sum of its exponentials in place of that.
struct row_sums_t {
    int32_t greatest;
    int32_t sum;
    int64_t squares;
};
// What a row's channels are scaled with, and the sum of x.
struct row_scale_t {
    int32_t scale;
    int32_t center;
};

// Of gamma and beta.
typedef int32_t param_t;
inline param_t param_of_bits(uint32_t bits) { return static_cast<int32_t>(bits); }

constexpr int32_t NO_KEY = -129;  // less than any
constexpr int GAMMA_FRACTION = 17;

// Of one element: its part of the sums, nothing if it does not exist.
inline row_sums_t sums_of(int8_t x, bool masked, bool exists) {
#pragma HLS inline
    const int32_t square = x * x;
    return {exists && !masked ? x : NO_KEY, exists ? x : 0, exists ? square : 0};
}
inline row_sums_t add_sums(const row_sums_t& a, const row_sums_t& b) {
#pragma HLS inline
    // Of rows that idle the sums are anything, and wrap around.
    return {larger(a.greatest, b.greatest),
            static_cast<int32_t>(static_cast<uint32_t>(a.sum) + static_cast<uint32_t>(b.sum)),
            static_cast<int64_t>(static_cast<uint64_t>(a.squares) + static_cast<uint64_t>(b.squares))};
}

// Distance of a key to the row's greatest one.
inline uint8_t distance(int32_t greatest, int8_t key) { return static_cast<uint8_t>(greatest - key); }

// A positive float as a scale of lib/requantize.hpp: 22 to 26 bits, rounded towards 0.
inline int32_t scale_of_float(float x) {
#pragma HLS inline
    const uint32_t bits = bits_of(x);
    const int32_t exponent = static_cast<int32_t>(bits >> 23 & 0xff);  // x = mantissa * 2^(exponent - 150)
    const uint32_t mantissa = exponent ? (bits & 0x7fffff) | 0x800000 : 0;
    if (exponent > 130) return fpga::REQUANTIZE_MOST;
    const int32_t shift = smaller((130 - exponent) >> 2, fpga::REQUANTIZE_SHIFTS - 1);
    const int32_t left = exponent - 128 + 4 * shift;  // 2 to -1; less for what is very small
    const uint32_t placed = left >= 0 ? mantissa << left : left > -32 ? mantissa >> -left : 0;
    return static_cast<int32_t>(placed << 5) | shift;
}

// A row's scale: row_scale / sum of its exponentials, or 1 / sqrt(spread + epsilon). Softmax and norm share the division.
inline int32_t scale_of_row(const row_sums_t& row, const vector_command& c) {
#pragma HLS inline
    const bool softmax = c.operation == VECTOR_SOFTMAX;
    // Rows that are normalised have at most 4,095 channels (check.hpp).
    const ap_uint<12> channels = c.channels;
    const ap_uint<27> squares = row.squares;
    const ap_int<21> sum = row.sum;
    const ap_int<40> spread = channels * squares - sum * sum;
    const ap_int<46> exponentials = row.squares;
    const float measure = static_cast<float>(softmax ? exponentials.to_int64() : spread.to_int64());
    const float root = sqrtf(measure + c.epsilon);
    const int32_t scale = scale_of_float((softmax ? c.row_scale : 1.0f) / (softmax ? measure : root));
    return softmax && exponentials == 0 ? 0 : scale;
}

// y of a channel that exists, and the result. `exponential`: of softmax, 0 if masked. One multiplier for each place: numbers
// of a row, their scale, and what is added.
inline int32_t vector_result(int8_t x, int8_t r, int32_t exponential, const row_scale_t& row, int32_t gamma,
                             int32_t beta, const vector_command& c) {
#pragma HLS inline
    const bool softmax = c.operation == VECTOR_SOFTMAX, norm = c.operation == VECTOR_NORM;
    const bool adds = c.operation == VECTOR_ADD, multiplies = c.operation == VECTOR_MULTIPLY;
    const ap_int<9> input_zero = norm ? 0 : c.input_zero, other_zero = c.other_zero, none = 0;
    const ap_int<10> left = ap_int<8>(x) - input_zero, distance = ap_int<8>(r) - other_zero;
    const ap_int<10> right = has_other(c) ? distance : ap_int<10>(none);
    const ap_int<14> by = norm ? ap_int<14>(c.channels) : multiplies ? ap_int<14>(right) : ap_int<14>(1);
    const ap_int<24> center = norm ? row.center : 0;
    const int32_t number = static_cast<int32_t>(ap_int<25>(ap_int<24>(left * by) - center));
    fpga::requantize_fixed y = fpga::requantize_product<60>(softmax ? exponential : number,
                                                            reduces(c) ? row.scale : c.input_scale);
    // Normalised numbers have 7 bits before the point (check.hpp); by 17 bits and the rest, as DSPs take it.
    const ap_int<30> factor = norm ? ap_int<30>(y.units) : ap_int<30>(right);
    const ap_int<27> other = norm ? ap_int<27>(gamma) : adds ? ap_int<27>(c.other_factor) : ap_int<27>(0);
    const ap_uint<17> low = factor & 0x1ffff;
    const ap_int<13> high = factor >> 17;
    const int64_t lower = low * other;
    const int64_t upper = fpga::requantize_narrow<43>(static_cast<int64_t>(high * other) + (lower >> 17));
    const int64_t product = upper * (1 << 17) | (lower & 0x1ffff);
    if (norm) {
        y.cut = (product & ((1 << GAMMA_FRACTION) - 1)) != 0;
        y.units = (product >> GAMMA_FRACTION) + beta;
    } else {
        y.units += product;
    }
    return fpga::requantize_clamp(fpga::requantize_nearest(y, c.zero), c.low, c.high);
}
// Of a channel that fills the last block.
inline int32_t vector_filling(const vector_command& c) {
#pragma HLS inline
    return fpga::requantize_clamp(c.zero, c.low, c.high);
}

}  // namespace engine
