// From sums to elements: the arithmetic of record.hpp, once, for the hardware and the CPU schedule.
//
// Multiplications and additions round each for itself: compilers must not contract them (-ffp-contract=off), or the results
// are others than a card's, which has separate operators.
#pragma once
#include <cstdint>

#include "elements.hpp"
#include "record.hpp"

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

inline int32_t clamped(int32_t x, int32_t low, int32_t high) {
#pragma HLS inline
    return x < low ? low : x > high ? high : x;
}

#if ENGINE_ELEMENT == 0
// `table` is only looked at where the command has one.
inline element_t finish(sum_t sum, float scale, float bias, element_t residual, const mac_command& c,
                        const element_t table[256]) {
#pragma HLS inline
    const float product = static_cast<float>(sum) * scale;
    float y = product + bias;
    if (c.flags & MAC_MIDDLE) {
        const int32_t rounded = round_half_even(limited(y * c.middle_inverse)) + c.middle_zero;
        const int32_t kept = clamped(rounded, -128, 127);
        const int32_t middle = c.flags & MAC_MIDDLE_TABLE ? table[kept + 128] : kept;
        y = static_cast<float>(middle - c.middle_zero) * c.middle_scale;
    }
    if (has_residual(c)) {
        const float other = static_cast<float>(residual - c.residual_zero) * c.residual_scale;
        y = y + other;
    }
    const int32_t result = clamped(round_half_even(limited(y * c.inverse)) + c.zero, c.low, c.high);
    return c.flags & MAC_TABLE ? table[result + 128] : static_cast<element_t>(result);
}
#else
inline element_t finish(sum_t sum, float scale, float bias, element_t residual, const mac_command& c,
                        const element_t[256]) {
#pragma HLS inline
    const float product = sum * scale;
    float y = product + bias;
    if (has_residual(c)) y = y + elements::widen(residual) * c.residual_scale;
    const float low = float_of_bits(static_cast<uint32_t>(c.low)), high = float_of_bits(static_cast<uint32_t>(c.high));
    y = y < low ? low : y;  // in this order a NaN stays
    return elements::narrow(y > high ? high : y);
}
#endif

}  // namespace engine
