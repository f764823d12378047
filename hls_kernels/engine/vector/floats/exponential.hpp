// The exponential exp(v) of a float32 v that is not above 0, in integers. Both schedules give the same result, within 1.1
// units in the last place (floats/tb.cpp).
//
// With -v = k ln 2 + i / 256 + g, exp(-i / 256) is looked up, and k is the exponent. The factor exp(-g) is approximated by
// 1 - (g - g^2 / 2), with an error of at most 2^-26.6, because g is below 2^-8. Results below the smallest normal float are 0.
#pragma once
#include "../../elements.hpp"

namespace engine {

constexpr int DISTANCE_BITS = 28;  // -v is in units of 2^-DISTANCE_BITS, and below 128

// `entry_of` answers entry i of the table, 2^27 exp(-i / 256).
// \tparam LOOKUP Function from an index to a table entry.
template <class LOOKUP>
float exponential(float v, const LOOKUP& entry_of) {
#pragma HLS inline
    const uint32_t bits = bits_of(v);
    const int32_t exponent = static_cast<int32_t>(bits >> 23 & 0xff);
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000, is_far = exponent > 133;
    // Denormal distances count as 0.
    const ap_uint<24> mantissa = exponent ? (bits & 0x7fffff) | 0x800000 : 0;
    const ap_uint<DISTANCE_BITS + 7> nearest = static_cast<uint64_t>(mantissa) << 11;
    const ap_uint<6> by = exponent < 133 - 63 ? 63 : is_far ? 0 : 133 - exponent;
    const ap_uint<DISTANCE_BITS + 7> d = nearest >> static_cast<int>(by);
    // Both factors are rounded down, so the rest is never negative; it is below ln 2 + 2^-8 + 2^-16.
    constexpr uint32_t LOG2_E = 94548;         // 2^16 / ln 2
    constexpr uint64_t LN_2 = 47632711549ull;  // 2^36 ln 2
    const ap_uint<15> top = d >> (DISTANCE_BITS - 8);
    const ap_uint<17> by_log2_e = LOG2_E;
    const ap_uint<8> k = (top * by_log2_e) >> 24;
    const ap_uint<36> by_ln_2 = LN_2;
    const ap_uint<DISTANCE_BITS> rest = d - ((k * by_ln_2) >> 8);
    const ap_uint<8> i = rest >> (DISTANCE_BITS - 8);
    const ap_uint<20> g = rest;
    const ap_uint<17> g_high = g >> 3;
    const ap_uint<12> half_square = (g_high * g_high) >> 23;
    const ap_uint<17> less = (g - half_square + 4) >> 3;  // 1 - exp(-g), in units of 2^-25
    const ap_uint<28> entry = entry_of(static_cast<int>(i));
    const ap_uint<26> of_entry = entry >> 2;
    const ap_uint<28> e = entry - ((of_entry * less + (1 << 22)) >> 23);
    // 1 to 0.498: the first of three bits is the highest one.
    const int place = e[27] ? 0 : e[26] ? 1 : 2;
    const ap_uint<28> left = e << place;
    const int32_t of_result = 127 - static_cast<int32_t>(k) - place;
    const uint32_t rounded = (static_cast<uint32_t>(of_result) << 23) +
                             static_cast<uint32_t>((static_cast<uint32_t>(left) + 8) >> 4) - 0x800000;
    if (is_nan) return v;
    return is_far || of_result <= 0 ? 0.0f : float_of_bits(rounded);
}

}  // namespace engine
